//! Tests of `vocabulary`.

use super::*;

#[test]
fn the_most_frequent_tokens_are_chosen_and_mapped_there_and_back() {
    let chosen = DraftVocabulary::most_frequent(&[3, 0, 7, 3, 0, 9], 4);
    assert_eq!(chosen.tokens(), [0, 2, 3, 5]);
    assert_eq!(chosen.offsets(), [0, 1, 1, 2]);
    assert_eq!(chosen.mask(), [true, false, true, true, false, true]);
    assert_eq!(DraftVocabulary::from_offsets(&chosen.offsets(), 6), Ok(chosen.clone()));
    assert_eq!(chosen.check_mask(&chosen.mask()), Ok(()));
    assert!(!chosen.is_whole());
    assert_eq!(DraftVocabulary::most_frequent(&[0; 5], 9), DraftVocabulary::whole(5));
    assert!(DraftVocabulary::whole(5).is_whole());
    assert_eq!(DraftVocabulary::most_frequent(&[0, 0, 1], 2).tokens(), [0, 2], "unseen tokens fill it up");
}

#[test]
fn maps_that_lead_nowhere_or_contradict_each_other_are_refused() {
    let refused = |offsets: &[i64]| DraftVocabulary::from_offsets(offsets, 4).unwrap_err();
    assert!(refused(&[0, 3]).contains("d2t[1] is 3"));
    assert!(refused(&[-1]).contains("d2t[0] is -1"));
    assert!(refused(&[i64::MAX, i64::MAX]).contains("outside"));
    assert!(refused(&[2, 1]).contains("both lead to token 2"));
    let some = DraftVocabulary::from_offsets(&[1, 1], 4).unwrap();
    assert!(some.check_mask(&[false, true, true]).unwrap_err().contains("3 entries"));
    let said = some.check_mask(&[true, true, true, false]).unwrap_err();
    assert!(said.contains("token 0") && said.contains("according to t2d"), "{said}");
}
