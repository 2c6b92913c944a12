//! Tests of `shuffle_buffer`.

use super::*;
use std::sync::Mutex;

const STEPS: u64 = 11;
const WIDTH: usize = 2;

/// Forty conversations of up to six positions; position `t` of conversation `i` has the state `[i, t]`.
fn positions() -> Vec<Vec<usize>> {
    (0..40).map(|i| (3..3 + i % 7).collect()).collect()
}

/// Draws all states of some epochs and returns how often each conversation was read.
fn reads(buffer: &ShuffleBuffer, epochs: u64) -> Vec<usize> {
    let reads = Mutex::new(vec![0; 40]);
    let read = |index: usize, states: &mut Vec<f32>| {
        reads.lock().unwrap()[index] += 1;
        positions()[index].iter().for_each(|t| states.extend([index as f32, *t as f32]));
        Ok(())
    };
    for rows in (0..epochs * STEPS).flat_map(|step| buffer.batches(step)) {
        let expected: Vec<f32> =
            buffer.places(&rows).into_iter().flat_map(|(index, t)| [index as f32, t as f32]).collect();
        assert_eq!(buffer.states(&rows, WIDTH, read).unwrap(), expected);
        // A half that is tried again gets its part.
        if let Some((first, other)) = rows.halves() {
            let parts = [first, other].map(|part| buffer.states(&part, WIDTH, read).unwrap());
            assert_eq!(parts.concat(), expected);
        }
        let loaded = buffer.loaded[rows.stream].lock().unwrap();
        let states = &loaded.buffer.as_ref().unwrap().1;
        assert!(4 * states.capacity() as u64 <= buffer.bytes(WIDTH), "{} values", states.capacity());
    }
    reads.into_inner().unwrap()
}

#[test]
fn every_conversation_is_read_once_in_an_epoch() {
    let once: Vec<usize> = positions().iter().map(|positions| usize::from(!positions.is_empty())).collect();
    for (capacity, times) in [(6, 3), (40, 3), (1000, 1)] {
        let buffer = ShuffleBuffer::new(positions(), capacity, 2, STEPS, 5);
        assert_eq!(buffer.is_whole(), times == 1);
        let expected: Vec<usize> = once.iter().map(|n| n * times).collect();
        assert_eq!(reads(&buffer, 3), expected, "{capacity} positions");
    }
}

#[test]
fn a_failed_read_is_no_state() {
    let buffer = ShuffleBuffer::new(positions(), 40, 1, STEPS, 5);
    let rows = buffer.batches(0).remove(0);
    let failed = |_: usize, _: &mut Vec<f32>| Err(TrainError::Data("planned".into()));
    assert!(buffer.states(&rows, WIDTH, failed).is_err());
    let fine = |_: usize, states: &mut Vec<f32>| {
        states.resize(states.len() + 6 * WIDTH, 1.0);
        Ok(())
    };
    assert_eq!(buffer.states(&rows, WIDTH, fine).unwrap().len(), rows.len() * WIDTH);
}
