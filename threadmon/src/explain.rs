//! What a recording says about why threads did not run, in sentences.
