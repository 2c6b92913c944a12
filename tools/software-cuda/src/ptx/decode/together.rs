//! Instructions of several threads together: votes, shuffles, matrices.

use super::Decoder;
use crate::ptx::arithmetic::{self, Name};
use crate::ptx::number::Type;
use crate::ptx::op::{Fragment, Lanes, Op, Shuffle, Vote};

impl Decoder<'_> {
    pub(super) fn across(&mut self, name: Name<'_>, operands: &[&str]) -> Option<Op> {
        let (to, second) = operands.first()?.split_once('|').unwrap_or((operands[0], ""));
        let (to, second) = (self.register(to), self.register(second));
        let of: Option<Vec<usize>> =
            operands[1..].iter().map(|operand| self.register(operand.trim_start_matches('!'))).collect();
        let of = of?;
        Some(match name.0[0] {
            "activemask" => Op::ActiveMask(to?),
            "elect" => Op::Elect(to, second?),
            "redux" => {
                let (f, ty) = (
                    name.0.iter().find(|part| ["add", "min", "max", "and", "or", "xor"].contains(part))?,
                    name.0.last()?,
                );
                Op::Reduce(to?, arithmetic::binary(Name(&[f, ty]))?, *of.first()?)
            }
            "vote" => {
                let kinds = [("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uniform), ("ballot", Vote::Ballot)];
                let kind = kinds.iter().find(|(word, _)| name.has(word))?.1;
                Op::Vote(kind, to?, *of.first()?, operands[1].starts_with('!'))
            }
            _ => {
                let kinds = [
                    ("idx", Shuffle::Index),
                    ("up", Shuffle::Up),
                    ("down", Shuffle::Down),
                    ("bfly", Shuffle::Butterfly),
                ];
                let kind = kinds.iter().find(|(word, _)| name.has(word))?.1;
                Op::Shuffle(kind, to, second, [*of.first()?, *of.get(1)?, *of.get(2)?])
            }
        })
    }

    pub(super) fn matrix(&mut self, name: Name<'_>, operands: &[&str]) -> Option<Op> {
        if ["ldmatrix", "stmatrix"].contains(&name.0[0]) {
            if !(name.has("m8n8") && name.has("b16")) {
                return None;
            }
            let &[first, second] = operands else { return None };
            let transposed = name.has("trans");
            return Some(if name.0[0] == "ldmatrix" {
                Op::LoadRows(self.registers(first)?, self.address(name, second)?, transposed)
            } else {
                Op::StoreRows(self.registers(second)?, self.address(name, first)?, transposed)
            });
        }
        let [m, n, k] = shape(name)?;
        let moves = name.0[0] == "wmma" && !name.has("mma");
        if !moves {
            return self.multiply(name, [m, n, k], operands);
        }
        let by_columns = name.has("col");
        let shape = if name.has("a") {
            [m, k]
        } else if name.has("b") {
            [k, n]
        } else {
            [m, n]
        };
        let &[first, second, stride] = operands else { return None };
        let loads = name.has("load");
        let (registers, address) = if loads { (first, second) } else { (second, first) };
        let fragment = Fragment { registers: self.registers(registers)?, ty: name.ty()?, shape, lanes: Lanes::Opaque };
        let (address, stride) = (self.address(name, address)?, self.register(stride)?);
        let op = if loads { Op::LoadFragment } else { Op::StoreFragment };
        fits(&fragment).then_some(op(fragment, address, stride, by_columns))
    }

    fn multiply(&mut self, name: Name<'_>, [m, n, k]: [usize; 3], operands: &[&str]) -> Option<Op> {
        let types: Vec<Type> = name.0.iter().filter_map(|part| Type::named(part)).collect();
        // Of products of half precision only sums are named.
        let [d, a, b, c] = match types[..] {
            [d, c] => [d, Type::F16, Type::F16, c],
            [d, a, b, c] => [d, a, b, c],
            _ => return None,
        };
        let own = |lanes| if name.0[0] == "wmma" { Lanes::Opaque } else { lanes };
        let kinds =
            [(d, [m, n], Lanes::Sum), (a, [m, k], Lanes::First), (b, [k, n], Lanes::Second), (c, [m, n], Lanes::Sum)];
        let by_lanes = name.0[0] == "mma";
        if operands.len() != 4 || by_lanes && (m, n) != (16, 8) || by_lanes && !(name.has("row") && name.has("col")) {
            return None;
        }
        let mut fragments = vec![];
        for ((ty, shape, lanes), text) in kinds.into_iter().zip(operands) {
            let fragment = Fragment { registers: self.registers(text)?, ty, shape, lanes: own(lanes) };
            if !(ty.is_float() && ty != Type::F64 && fits(&fragment)) {
                return None;
            }
            fragments.push(fragment);
        }
        Some(Op::Multiply(Box::new(fragments.try_into().ok()?)))
    }
}

/// Whether there are registers for all that a lane holds.
fn fits(fragment: &Fragment) -> bool {
    fragment.held() * fragment.ty.bits() as usize <= fragment.registers.len() * 32
}

/// `m16n8k16`.
pub(super) fn shape(name: Name<'_>) -> Option<[usize; 3]> {
    name.0.iter().find_map(|part| {
        let (m, rest) = part.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
    })
}
