//! Tests of `outbox`.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

fn piece(bytes: usize) -> Event {
    Event::Piece(Piece { text: "x".repeat(bytes), ..Piece::default() })
}

#[test]
fn a_client_that_left_ends_the_answer() {
    let (sender, receiver) = outbox();
    assert!(sender.send(piece(3)) && !sender.is_closed());
    drop(receiver);
    assert!(sender.is_closed() && !sender.send(piece(3)));
}

#[test]
fn what_a_slow_client_holds_is_bounded() {
    let (sender, mut receiver) = outbox();
    let sent = (0..1000).take_while(|_| sender.send(piece(1 << 20))).count();
    assert_eq!(sent, 7);
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(receiver.poll(&mut context), Poll::Ready(Event::Failed(_))));
    assert!(receiver.poll(&mut context).is_pending());
}

#[test]
fn what_is_taken_makes_room() {
    let (sender, mut receiver) = outbox();
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100 {
        assert!(sender.send(piece(1 << 20)));
        assert!(receiver.poll(&mut context).is_ready());
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_client_that_takes_the_whole_answer_is_woken_at_its_end_and_when_much_waits() {
    let (sender, receiver) = outbox();
    let mut receiver = receiver.whole();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut wakes = |event| {
        assert!(sender.send(event));
        let count = woken.0.swap(0, Ordering::Relaxed);
        while receiver.poll(&mut Context::from_waker(&waker)).is_ready() {}
        count
    };
    let end = Event::End(End { index: 0, reason: Reason::Stop, stats: Stats::default() });
    assert_eq!(wakes(piece(1)), 0);
    assert_eq!([wakes(piece(10)), wakes(end), wakes(piece(10)), wakes(piece(5 << 20))], [0, 1, 0, 1]);
}
