//! Tests of `live`.

use super::*;

fn tokens(bytes: Vec<u8>) -> usize {
    let store = Store::of_bytes(bytes, Path::new("x")).unwrap();
    store.verify().unwrap();
    store.tokens()
}

#[test]
fn answers_are_found_soon_and_the_oldest_leave() {
    let store = LiveStore::new(1);
    let most = (1 << 20) / TOKEN_BYTES;
    assert!(store.snapshot().is_none() && matches!(store.bytes(), Err(StoreError::Empty)));
    assert!(store.bind(&"ab".repeat(32)) && store.bind(&"ab".repeat(32)) && !store.bind(&"cd".repeat(32)));
    store.add(&[]);
    store.add(&[0xFF_FFFF]);
    assert_eq!(store.size(), (0, 0));
    for number in 0..400 {
        let answer: Vec<Token> = (0..100).map(|i| number * 100 + i).collect();
        store.add(&answer);
        let (answers, held) = store.size();
        let room = most / (100 + ANSWER);
        assert!(held == 100 * answers && held <= most && answers == room.min(number as usize + 1));
        let snapshot = store.snapshot().unwrap();
        assert!(snapshot.tokens() <= most && 8 * snapshot.tokens() >= 7 * held);
        assert_eq!(snapshot.tokenizer(), "ab".repeat(32));
        assert_eq!(tokens(store.bytes().unwrap()), held);
    }
    let snapshot = store.snapshot().unwrap();
    assert_eq!((snapshot.longest(&[5, 6]).length, snapshot.longest(&[30_005, 30_006]).length), (0, 2));
    store.add(&vec![7; most + 50]);
    assert_eq!(store.size(), (1, most - ANSWER));
}

/// Answers that end at a time are all there, and a snapshot is whole whenever it is taken.
#[test]
fn many_threads_share_it() {
    let store = LiveStore::new(4);
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let store = &store;
            scope.spawn(move || (0..50).for_each(|i| store.add(&[thread, 100 + i, thread])));
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..20 {
                    store.snapshot().into_iter().for_each(|snapshot| snapshot.verify().unwrap());
                    let _ = store.bytes().map(tokens);
                }
            });
        }
    });
    assert_eq!(store.size(), (400, 1200));
    assert_eq!(tokens(store.bytes().unwrap()), 1200);
}
