//! Payloads of ThreadMon's frames, on both sides: any bytes are a message or none. A message survives the way
//! to bytes and back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvedge::threadmon::wire::{Request, Response};

fuzz_target!(|payload: &[u8]| {
    if let Some(request) = Request::from_payload(payload) {
        assert_eq!(Request::from_payload(&request.to_frame()[4..]), Some(request));
    }
    if let Some(response) = Response::from_payload(payload) {
        assert_eq!(Response::from_payload(&response.to_frame()[4..]), Some(response));
    }
});
