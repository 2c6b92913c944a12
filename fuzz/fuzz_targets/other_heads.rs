#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gorgon_fuzz::read("other_heads", bytes));
