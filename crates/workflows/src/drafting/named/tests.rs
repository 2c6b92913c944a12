//! Tests of `named`.

use super::*;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::store::StoreFile;
use gorgon_draft::training_free::TrainingFree;

/// Drafters that read live stores read one, of the larger size, and an answer joins it once.
#[test]
fn live_stores_of_one_drafter_are_one() {
    for (name, mib) in [("suffix:live,else=rest:live", 16), ("suffix:live:1,else=suffix:live:4,else=rest:live:2", 4)] {
        let choice = named(&name.parse().unwrap(), None).unwrap();
        assert_eq!(choice.to_string(), name);
        let files: Vec<&StoreFile> = choice.methods().filter_map(TrainingFree::store).collect();
        choice.methods().for_each(|method| method.drafter().finished(&[1, 2, 3]));
        let sizes: Vec<_> = files.iter().map(|file| file.live().unwrap().size()).collect();
        assert_eq!(sizes, vec![(1, 3); files.len()], "{name}");
        let bytes: u128 = files.iter().map(|file| file.bytes()).sum();
        assert!(bytes > (mib << 20) - 64 && bytes <= mib << 20, "{name}: {bytes}");
    }
}
