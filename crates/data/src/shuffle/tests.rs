//! Tests of `shuffle`.

use super::*;
use std::collections::BTreeSet;

const STEPS: u64 = 13;

fn positions() -> Vec<usize> {
    (0..60).map(|i| i * 7 % 23).collect()
}

fn shuffled(buffer: usize) -> Shuffle {
    Shuffle::new(&positions(), buffer, 3, STEPS, 9)
}

fn draws(shuffle: &Shuffle, step: u64) -> Vec<Draw> {
    shuffle.step(step).into_iter().flatten().flat_map(|drawn| drawn.draws).collect()
}

fn epoch(shuffle: &Shuffle, epoch: u64) -> Vec<Draw> {
    (epoch * STEPS..(epoch + 1) * STEPS).flat_map(|step| draws(shuffle, step)).collect()
}

#[test]
fn an_epoch_has_every_position_once() {
    let all: Vec<(usize, usize)> =
        positions().into_iter().enumerate().flat_map(|(i, n)| (0..n).map(move |position| (i, position))).collect();
    for buffer in [1, 30, 90, 200, 10_000] {
        let shuffle = shuffled(buffer);
        for number in [0, 1, 5] {
            let mut seen: Vec<_> = epoch(&shuffle, number).iter().map(|d| (d.conversation, d.position)).collect();
            seen.sort_unstable();
            assert_eq!(seen, all, "buffer {buffer}, epoch {number}");
        }
        assert_ne!(epoch(&shuffle, 0), epoch(&shuffle, 1));
    }
}

#[test]
fn a_step_is_the_same_in_any_order() {
    for buffer in [30, 10_000] {
        let forwards: Vec<_> = (0..40).map(|step| shuffled(buffer).step(step)).collect();
        let one = shuffled(buffer);
        for step in (0..40).rev() {
            assert_eq!(one.step(step), forwards[step as usize]);
        }
    }
    assert_ne!(Shuffle::new(&positions(), 90, 3, STEPS, 8).step(0), shuffled(90).step(0));
}

/// Steps have as many positions each as can be, and a buffer never more than its part unless one conversation has.
#[test]
fn steps_are_even_and_buffers_bounded() {
    for buffer in [30, 90, 200, 10_000] {
        let shuffle = shuffled(buffer);
        for step in 0..3 * STEPS {
            for drawn in shuffle.step(step) {
                let all = shuffle.streams[drawn[0].buffer.stream].positions;
                let drawn: usize = drawn.iter().map(|part| part.draws.len()).sum();
                assert!(drawn.abs_diff(all / STEPS as usize) <= 1, "{drawn} of {all}");
            }
            for part in shuffle.step(step).into_iter().flatten() {
                let conversations = shuffle.conversations(part.buffer);
                let rows: usize = conversations.iter().map(|i| positions()[*i]).sum();
                assert!(rows <= buffer.div_ceil(3).max(22) && rows <= shuffle.largest_buffer());
                // A row of the buffer is where its conversations' positions put it.
                let expected: Vec<_> =
                    conversations.iter().flat_map(|&i| (0..positions()[i]).map(move |p| (i, p))).collect();
                part.draws.iter().for_each(|d| assert_eq!(expected[d.row], (d.conversation, d.position)));
            }
        }
    }
}

/// With a buffer for everything, a step draws from nearly as many conversations as it has positions, and no buffer is
/// ever left.
#[test]
fn a_buffer_for_everything_stays() {
    let whole = shuffled(10_000);
    assert!(whole.is_whole() && !shuffled(90).is_whole());
    let ids: BTreeSet<(usize, u64, usize)> = (0..4 * STEPS)
        .flat_map(|step| whole.step(step).into_iter().flatten())
        .map(|part| (part.buffer.stream, part.buffer.epoch, part.buffer.number))
        .collect();
    assert_eq!(ids, BTreeSet::from([(0, 0, 0), (1, 0, 0), (2, 0, 0)]));
    let conversations: BTreeSet<usize> = draws(&whole, 0).iter().map(|draw| draw.conversation).collect();
    assert!(conversations.len() > 25, "{conversations:?}");
}

/// Each buffer is left for good before the next is read, so one of them is in memory.
#[test]
fn buffers_come_one_after_another() {
    let shuffle = shuffled(90);
    for stream in 0..3 {
        let ids: Vec<(u64, usize)> = (0..3 * STEPS)
            .flat_map(|step| shuffle.step(step).remove(stream))
            .map(|part| (part.buffer.epoch, part.buffer.number))
            .collect();
        assert!(ids.is_sorted(), "{ids:?}");
        assert!(ids.iter().collect::<BTreeSet<_>>().len() > 9);
    }
}

#[test]
fn nothing_to_draw_is_nothing() {
    let nothing = Shuffle::new(&[0, 0], 8, 2, 0, 1);
    assert_eq!((nothing.step(5), nothing.largest_buffer()), (vec![vec![], vec![]], 0));
}
