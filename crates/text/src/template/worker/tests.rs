//! Tests of `worker`.

use super::*;

fn request(word: &str) -> Request {
    let variables = Map::from_iter([("word".to_owned(), Value::from(word))]);
    Request { variables, now: None }
}

fn workers(source: &str) -> Workers {
    let program = Program { source: source.into(), limits: Limits::default() };
    Workers::start(program).unwrap_or_else(|_| panic!("{source}: no threads"))
}

#[test]
fn a_thread_is_used_again_and_given_up_when_it_fails() {
    let workers = workers("{{ panic_for_a_test() if word == 'bad' else word }}{{ 1 // (word != 'zero') }}");
    let (rendered, idle) = (|word| workers.render(request(word)).ok(), || workers.idle().len());
    for word in ["a", "b"] {
        assert_eq!(rendered(word), Some(format!("{word}1")));
        assert_eq!(idle(), 1);
    }
    assert!(matches!(workers.render(request("bad")), Err(Failed::Thread(_))), "a panic is no text");
    assert_eq!(idle(), 0);
    assert_eq!(rendered("c"), Some("c1".into()));
    assert!(matches!(workers.render(request("zero")), Err(Failed::Template(_))), "nor is a division by zero");
    assert_eq!(idle(), 0);
    assert_eq!(rendered("d"), Some("d1".into()));
}

#[test]
fn no_more_threads_wait_than_there_are_processors() {
    let workers = workers("{{ word }}");
    thread::scope(|scope| {
        for _ in 0..4 * workers.keep {
            scope.spawn(|| (0..50).for_each(|_| drop(workers.render(request("a")))));
        }
    });
    assert!((1..=workers.keep).contains(&workers.idle().len()));
}
