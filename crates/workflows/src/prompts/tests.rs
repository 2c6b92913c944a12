use super::*;

#[test]
fn a_dash_reads_all_of_stdin() {
    let read = |bytes: &[u8]| given("-", bytes);
    assert_eq!(read(b"one\ntwo\n\n").unwrap(), "one\ntwo\n");
    assert_eq!(read(b"one\r\n").unwrap(), "one");
    assert_eq!(read(b" - ").unwrap(), " - ");
    assert_eq!(given("text", &b"unread"[..]).unwrap(), "text");
}

#[test]
fn what_is_no_prompt_is_refused() {
    let refused = |prompt: &str, stdin: &mut dyn Read, word: &str| {
        let failure = given(prompt, stdin).unwrap_err();
        assert!(failure.message().contains(word), "{}", failure.message());
    };
    refused("", &mut std::io::empty(), "empty");
    refused("-", &mut std::io::empty(), "stdin is empty");
    refused("-", &mut &b"\n"[..], "stdin is empty");
    refused("-", &mut &b"ab\xff"[..], "at 2");
    refused("-", &mut std::io::repeat(b'a'), "64 MiB");
}
