//! Tests of `console`.

use super::*;
use std::sync::Mutex;

/// Notes what it receives.
#[derive(Default)]
struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
}

/// Notes what happens to it.
struct RecordedBar {
    lines: Arc<Mutex<Vec<String>>>,
}

impl ProgressBar for RecordedBar {
    fn set_position(&self, position: u64) {
        self.lines.lock().unwrap().push(format!("at {position}"));
    }

    fn advance(&self, by: u64) {
        self.lines.lock().unwrap().push(format!("{by} further"));
    }

    fn set_message(&self, message: String) {
        self.lines.lock().unwrap().push(message);
    }

    fn clear(&self) {
        self.lines.lock().unwrap().push("cleared".into());
    }
}

impl Observer for Recorder {
    fn event(&self, event: Event<'_>) {
        self.lines.lock().unwrap().push(format!("{event:?}"));
    }

    fn bar(&self, style: BarStyle, label: &str, done: u64, total: u64) -> Option<Box<dyn ProgressBar>> {
        self.lines.lock().unwrap().push(format!("{style:?} {label} {done}/{total}"));
        Some(Box::new(RecordedBar { lines: self.lines.clone() }))
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::new(AtomicBool::new(true))
    }

    fn abort(&self, failure: &Failure) {
        self.lines.lock().unwrap().push(failure.message().into());
    }
}

#[test]
fn everything_is_reported_in_order() {
    let recorder = Recorder::default();
    let lines = recorder.lines.clone();
    let console = Console::new(Arc::new(recorder));
    console.say(1);
    console.say_all(["a", "b"]);
    {
        let bar = console.bar_from(BarStyle::Count, "things", 2, 5);
        assert!(bar.is_shown());
        bar.set_position(3);
        bar.inc(2);
        bar.set_message("d");
    }
    console.result("e");
    console.abort(&Failure::run("f"));
    let expected = [
        "Message(\"1\")",
        "Message(\"a\")",
        "Message(\"b\")",
        "Count things 2/5",
        "at 3",
        "2 further",
        "d",
        "cleared",
        "Result(\"e\")",
        "f",
    ];
    assert_eq!(*lines.lock().unwrap(), expected);
    assert!(console.stop_flag().load(std::sync::atomic::Ordering::Relaxed));
}

#[test]
fn a_silent_console_goes_on() {
    let console = Console::silent();
    console.say("nobody reads this");
    let bar = console.bar(BarStyle::Spinner, "", 0);
    assert!(!bar.is_shown());
    bar.inc(1);
    console.abort(&Failure::run("nobody reads this"));
    assert!(!console.stop_flag().load(std::sync::atomic::Ordering::Relaxed));
}
