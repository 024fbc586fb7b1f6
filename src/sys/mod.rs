pub(crate) mod tcb;
