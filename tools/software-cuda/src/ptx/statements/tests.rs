//! Tests of `statements`.

use super::*;

#[test]
fn bodies_are_cut_into_statements() {
    let code = ".local .b8 l[4];\n.reg .b32 %r<2>;\n$L1:\n{ .reg .b16 low;\nmov.b32 {low,high}, %r1;}\n@%p bra $L1;\nfence.a.shared::cta;";
    let expected = [
        Statement::Declaration(".local .b8 l[4]".into()),
        Statement::Registers(".reg .b32 %r<2>".into()),
        Statement::Label("$L1".into()),
        Statement::Open,
        Statement::Registers(".reg .b16 low".into()),
        Statement::Instruction("mov.b32 {low,high}, %r1".into()),
        Statement::Close,
        Statement::Instruction("@%p bra $L1".into()),
        Statement::Instruction("fence.a.shared::cta".into()),
    ];
    assert_eq!(body(code), expected);
}

#[test]
fn modules_are_cut_into_kernels() {
    let text = ".version 9.2\n.loc 1 2 3\n.global .align 4 .b8 t[4] = {1, 2, 3, 4};\n.visible .entry f(\n.param .u64 p\n)\n\
                .maxntid 64, 1, 1\n{ // begins\n{ret;}\n}\n.section .debug\n{ .entry g }";
    let found = top_level(text);
    assert_eq!(found.arrays.len(), 1);
    assert_eq!(found.kernels.len(), 1);
    let (name, params, code) = &found.kernels[0];
    assert_eq!((name.as_str(), params.trim(), code.trim()), ("f", ".param .u64 p", "{ret;}"));
}
