#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| clematis_fuzz::run("model", data));
