use super::*;

fn command(text: &str) -> Command {
    match parse(text) {
        Ok(Input::Command(command)) => command,
        other => panic!("{text}: {other:?}"),
    }
}

fn refused(text: &str, words: &[&str]) {
    let message = parse(text).expect_err(text);
    for word in words {
        assert!(message.contains(word), "{text}: no {word:?} in {message:?}");
    }
    assert!(!message.contains('\n'), "{message}");
}

#[test]
fn text_is_a_message() {
    assert_eq!(parse("  \t"), Ok(Input::Empty));
    assert_eq!(parse(" What is 2 / 3? "), Ok(Input::Message("What is 2 / 3?".into())));
    assert_eq!(parse(" /help is a command"), Ok(Input::Message("/help is a command".into())));
    assert_eq!(parse("\"\"\"/help\nme\"\"\""), Ok(Input::Message("/help\nme".into())));
    assert_eq!(parse("\"\"\"\n\"\"\""), Ok(Input::Empty));
    // Pasted source code.
    assert_eq!(parse("/* a */\nint b;"), Ok(Input::Message("/* a */\nint b;".into())));
}

#[test]
fn commands_have_values() {
    assert_eq!(command("/set temperature 0.7"), Command::Set(Setting::Temperature(0.7)));
    assert_eq!(command("/set temperature=0.7"), Command::Set(Setting::Temperature(0.7)));
    assert_eq!(command("/set temperature = 0.7"), Command::Set(Setting::Temperature(0.7)));
    assert_eq!(command("/set top_p none"), Command::Set(Setting::TopP(None)));
    assert_eq!(command("/set top_k 5"), Command::Set(Setting::TopK(Some(5))));
    assert_eq!(command("/set seed 7"), Command::Set(Setting::Seed(7)));
    assert_eq!(command("/set tree chain:4"), Command::Set(Setting::Tree(Some("chain:4".parse().unwrap()))));
    assert_eq!(command("/set"), Command::Settings);
    assert_eq!(command("/drafter none"), Command::Set(Setting::Drafter(DrafterChoice::None)));
    assert_eq!(command("/system Be\nbrief."), Command::System(Some("Be\nbrief.".into())));
    assert_eq!(command("/system"), Command::System(None));
    assert_eq!(command("/save my talk.json"), Command::Save("my talk.json".into()));
    assert_eq!(command("/compare"), Command::Compare(None));
    assert_eq!(command("/compare Say hi."), Command::Compare(Some("Say hi.".into())));
    assert_eq!(command("/clear"), Command::Reset);
    assert_eq!(command("/quit"), command("/exit"));
}

#[test]
fn mistakes_are_named() {
    refused("/hepl", &["/hepl", "did you mean \"/help\"?"]);
    refused("/nonsense", &["/nonsense: no such command", "/help"]);
    refused("/tree chain:2", &["/tree: no such command", "/set tree"]);
    refused("/set temprature 1", &["temprature", "did you mean \"temperature\"?"]);
    refused("/set temperature hot", &["temperature", "hot"]);
    refused("/set temperature", &["needs a value"]);
    refused("/set max_new_tokens 0", &["at least 1"]);
    refused("/set accept gredy", &["gredy"]);
    refused("/set drafter medussa", &["medussa"]);
    refused("/save", &["/save", "file"]);
    refused("/retry now", &["/retry", "now"]);
    refused("/drafter", &["/drafter"]);
}
