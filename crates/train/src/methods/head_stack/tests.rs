//! Tests of `stack`.

use super::*;
use gorgon_draft::hydra::HydraHeads;
use gorgon_draft::medusa::Heads;
use gorgon_draft::mtp::MtpHeads;

#[test]
fn evaluations_decode_with_the_tree_that_decoding_takes() {
    let nodes = [Heads::tree(), HydraHeads::tree(), MtpHeads::tree()].map(|tree| tree.unwrap().max_nodes());
    assert_eq!(nodes, [64, 64, 60]);
}
