use super::*;

#[test]
fn arguments_are_two_numbers() {
    assert_eq!(Pipelined::parse("3,4"), Ok(Pipelined { layers: 3, guesses: 4 }));
    for wrong in ["", "3", "0,4", "3,0", "3,4,5", "a,b", "3,99999999"] {
        let error = Pipelined::parse(wrong).unwrap_err();
        assert!(error.starts_with(&format!("pipelined:{wrong}: expected")), "{error}");
    }
}

#[test]
fn its_tree_has_one_level() {
    let method = Pipelined { layers: 1, guesses: 4 };
    assert_eq!(method.default_tree(), TreeChoice::Trellis(Some((5, 1))));
    let chain = TreeKind::Chain(4);
    assert_eq!(method.check_tree(&chain).unwrap_err(), "pipelined:1,4: its tree has one level: leave --tree out");
}
