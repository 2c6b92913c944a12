//! Tests of `learn`.

use super::*;
use gorgon_core::Token;
use std::collections::BTreeSet;

fn log(dir: &Path, most_bytes: u64) -> CorrectionLog {
    let metadata = BTreeMap::from([(MARK.0.to_owned(), MARK.1.to_owned())]);
    let learning = Learning { dir: dir.into(), most_bytes };
    CorrectionLog { learning, metadata, gathered: Mutex::default() }
}

/// Text number `i`: a prompt of three tokens, and an answer of which the second token was corrected.
fn take(log: &CorrectionLog, i: usize) {
    let ids: Vec<Token> = (0..9).map(|t| ((i * 31 + t * 7) % 251) as Token).collect();
    let own: Vec<bool> = (0..9).map(|t| t >= 3).collect();
    log.take(CorrectedText { ids: &ids, own: &own, corrected: &[4] });
}

#[test]
fn texts_are_written_in_files_of_sixteen_and_the_rest_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path(), u64::MAX);
    (0..BUFFER + 3).for_each(|i| take(&log, i));
    assert_eq!(shard::files(dir.path()).unwrap().len(), 1);
    drop(log);
    let files = shard::files(dir.path()).unwrap();
    let rows: Vec<Row> = files.iter().flat_map(|file| shard::read(file, 251).unwrap().0).collect();
    assert_eq!(rows.iter().map(|row| row.row).collect::<Vec<_>>(), (0..19).collect::<Vec<_>>());
    for row in rows {
        assert_eq!((row.example.labels(), row.example.corrected.unwrap()), (6, (0..9).map(|t| t == 4).collect()));
    }
}

/// Logs of several processes in one folder: no text is lost, and all have a number of their own.
#[test]
fn several_logs_share_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let texts = 5 * BUFFER + 3;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let log = log(dir.path(), u64::MAX);
                (0..texts).for_each(|i| take(&log, i));
            });
        }
    });
    let files = shard::files(dir.path()).unwrap();
    let rows: Vec<Row> = files.iter().flat_map(|file| shard::read(file, 251).unwrap().0).collect();
    let numbers: BTreeSet<u64> = rows.iter().map(|row| row.row).collect();
    assert_eq!((rows.len(), numbers.len(), files.len()), (4 * texts, 4 * texts, 4 * 6));
}

/// A log that has not written for a while goes on behind the texts of another one, which has removed the oldest files.
#[test]
fn late_texts_are_not_taken_for_the_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let late = log(dir.path(), 0);
    let other = log(dir.path(), 0);
    (0..3 * BUFFER).for_each(|i| take(&other, i));
    take(&late, 9);
    drop(late);
    let files = shard::files(dir.path()).unwrap();
    assert_eq!(files, [dir.path().join(shard::file_name(3))]);
    assert_eq!(shard::read(&files[0], 251).unwrap().0.len(), 1);
}

/// The oldest files of the log go first. The newest stays, and so does what somebody else put there.
#[test]
fn the_log_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let unbounded = log(dir.path(), u64::MAX);
    (0..BUFFER).for_each(|i| take(&unbounded, i));
    let size = shard::files(dir.path()).unwrap()[0].metadata().unwrap().len();
    drop(unbounded);
    // Sizes differ by a few bytes.
    let bounded = log(dir.path(), 3 * size + size / 2);
    (0..6 * BUFFER).for_each(|i| take(&bounded, i));
    let names = |dir: &Path| -> Vec<String> {
        shard::files(dir).unwrap().iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(names(dir.path()), [4, 5, 6].map(shard::file_name));
    drop(bounded);
    let nothing = log(dir.path(), 0);
    (0..BUFFER).for_each(|i| take(&nothing, i));
    assert_eq!(names(dir.path()).len(), 1, "the newest stays");
    let foreign = dir.path().join(shard::file_name(0));
    shard::write(&foreign, &[], &BTreeMap::new()).unwrap();
    let later = log(dir.path(), 0);
    (0..BUFFER).for_each(|i| take(&later, i));
    assert!(foreign.exists() && !is_log(&foreign));
}

/// A conversation and its longer version are held out together.
#[test]
fn the_first_prompt_decides_what_is_held_out() {
    let ids: Vec<Token> = (0..9).collect();
    let of = |length: usize, prompt: usize| {
        let own: Vec<bool> = (0..length).map(|t| t >= prompt && t != 6).collect();
        key(CorrectedText { ids: &ids[..length], own: &own, corrected: &[4] })
    };
    assert_eq!(of(5, 3), of(9, 3));
    assert_ne!(of(9, 3), of(9, 2));
}
