//! Tests of `outbox`.

use super::*;

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
