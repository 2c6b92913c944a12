//! Instructions from their text.

mod together;

use super::arithmetic::{self, Name};
use super::number::Type;
use super::op::{Access, Address, Compute, GateOp, Instruction, Op, Source, Space, With};
use super::statements::Statement;
use super::symbols::{SPECIAL, Symbol, Unsupported};
use std::collections::HashMap;

/// A number as it is spelled: an integer, or the bits of a float.
pub fn constant(text: &str) -> Option<u64> {
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    if let Some(digits) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        return hex(digits).filter(|_| digits.len() == 8);
    }
    if let Some(digits) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0D")) {
        return hex(digits).filter(|_| digits.len() == 16);
    }
    let text = text.trim_end_matches('U');
    if let Some(digits) = text.strip_prefix("0x") {
        return hex(digits);
    }
    text.parse().ok().or_else(|| text.parse::<i64>().ok().map(|number| number as u64))
}

/// All instructions of a body, and a thread's registers at first; `own` are the bytes of shared memory in front of a
/// launch's.
pub fn all(
    statements: &[Statement],
    symbols: &HashMap<String, Symbol>,
    own: u64,
) -> Result<(Vec<Instruction>, Vec<u64>), Unsupported> {
    let mut labels = HashMap::new();
    let mut at = 0;
    for statement in statements {
        match statement {
            Statement::Label(name) => drop(labels.insert(name.as_str(), at)),
            Statement::Instruction(_) => at += 1,
            _ => {}
        }
    }
    let mut decoder = Decoder { symbols, own, labels, tables: HashMap::new(), scopes: vec![], values: vec![] };
    decoder.scopes.push(SPECIAL.iter().enumerate().map(|(i, name)| ((*name).to_owned(), i)).collect());
    decoder.values.resize(SPECIAL.len(), 0);
    for statement in statements {
        if let Statement::Targets(name, places) = statement {
            let places: Option<Vec<usize>> = split(places).iter().map(|place| decoder.place(place)).collect();
            decoder.tables.insert(name, places.ok_or_else(|| Unsupported(name.clone()))?);
        }
    }
    let mut code = vec![];
    for statement in statements {
        match statement {
            Statement::Registers(text) => decoder.declare(text),
            Statement::Open => decoder.scopes.push(HashMap::new()),
            Statement::Close => drop(decoder.scopes.pop()),
            Statement::Instruction(text) => code.push(decoder.instruction(text)?),
            Statement::Declaration(_) | Statement::Label(_) | Statement::Targets(..) => {}
        }
    }
    Ok((code, decoder.values))
}

struct Decoder<'a> {
    symbols: &'a HashMap<String, Symbol>,
    own: u64,
    labels: HashMap<&'a str, usize>,
    tables: HashMap<&'a str, Vec<usize>>,
    /// Registers by name, the innermost block last.
    scopes: Vec<HashMap<String, usize>>,
    values: Vec<u64>,
}

/// Operands, apart at commas outside brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (vec![], 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

impl Decoder<'_> {
    fn declare(&mut self, text: &str) {
        let names = text.split_whitespace().skip(2).flat_map(|word| word.split(',')).filter(|word| !word.is_empty());
        for name in names {
            let (prefix, count) = name
                .split_once('<')
                .map_or((name, None), |(prefix, count)| (prefix, count.trim_end_matches('>').parse::<usize>().ok()));
            let Some(scope) = self.scopes.last_mut() else { return };
            match count {
                None => drop(scope.insert(prefix.to_owned(), self.values.len())),
                Some(count) => {
                    scope.extend((0..count).map(|i| (format!("{prefix}{i}"), self.values.len() + i)));
                }
            }
            self.values.resize(self.values.len() + count.unwrap_or(1), 0);
        }
    }

    /// The register of an operand; a constant's is one of its own.
    fn register(&mut self, text: &str) -> Option<usize> {
        let text = text.trim();
        if let Some(register) = self.scopes.iter().rev().find_map(|scope| scope.get(text)) {
            return Some(*register);
        }
        let value = match self.symbols.get(text) {
            Some(Symbol::At(value)) => *value,
            Some(Symbol::AfterShared) => self.own,
            None if text == "WARP_SZ" => 32,
            None => constant(text)?,
        };
        self.values.push(value);
        Some(self.values.len() - 1)
    }

    /// The registers of `{a, b}`, or the one of `a`.
    fn registers(&mut self, text: &str) -> Option<Vec<usize>> {
        split(text.trim_matches(['{', '}'])).into_iter().map(|part| self.register(part)).collect()
    }

    fn address(&mut self, name: Name<'_>, text: &str) -> Option<Address> {
        let inside = text.strip_prefix('[')?.strip_suffix(']')?;
        let (base, offset) = inside.split_once('+').unwrap_or((inside, "0"));
        let space = [("shared", Space::Shared), ("local", Space::Local), ("param", Space::Parameters)];
        let space = space.iter().find(|(word, _)| name.0[1..].iter().any(|part| part.split("::").next() == Some(word)));
        Some(Address {
            space: space.map_or(Space::Generic, |(_, space)| *space),
            base: self.register(base)?,
            offset: constant(offset.trim())? as i64,
        })
    }

    fn place(&self, label: &str) -> Option<usize> {
        self.labels.get(label).copied()
    }

    fn instruction(&mut self, text: &str) -> Result<Instruction, Unsupported> {
        let unsupported = || Unsupported(text.to_owned());
        let (guard, rest) = match text.strip_prefix('@') {
            None => (None, text),
            Some(guarded) => {
                let (guard, rest) = guarded.split_once(char::is_whitespace).ok_or_else(unsupported)?;
                let register = self.register(guard.trim_start_matches('!')).ok_or_else(unsupported)?;
                (Some((register, !guard.starts_with('!'))), rest.trim())
            }
        };
        let (name, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let parts: Vec<&str> = name.split('.').collect();
        let operands = split(operands);
        let op = self.op(Name(&parts), &operands).ok_or_else(unsupported)?;
        let with = self.with(Name(&parts), &operands);
        Ok(Instruction { guard, op, with, text: text.into() })
    }

    fn with(&mut self, name: Name<'_>, operands: &[&str]) -> With {
        match name.0[0] {
            "bar" | "barrier" if !name.has("warp") => With::All,
            "wmma" | "mma" | "ldmatrix" | "stmatrix" => With::All,
            // Their masks come last.
            "bar" | "shfl" | "vote" | "redux" | "elect" if name.has("sync") => {
                operands.last().and_then(|mask| self.register(mask)).map_or(With::All, With::Mask)
            }
            _ => With::Alone,
        }
    }

    fn op(&mut self, name: Name<'_>, operands: &[&str]) -> Option<Op> {
        match name.0[0] {
            "bra" => self.place(operands.first()?).map(Op::Branch),
            "brx" => {
                let index = self.register(operands.first()?)?;
                self.tables.get(*operands.get(1)?).cloned().map(|places| Op::BranchTo(index, places))
            }
            "ret" | "exit" => Some(Op::Exit),
            "trap" => Some(Op::Trap),
            // One warp runs after the other, so that all they write is seen.
            "membar" | "fence" | "prefetch" | "prefetchu" | "griddepcontrol" | "nanosleep" | "discard"
            | "applypriority" => Some(Op::Nothing),
            "bar" | "barrier" => self.barrier(name, operands),
            "ld" | "ldu" | "st" => self.access(name, operands),
            "atom" | "red" => self.atomic(name, operands),
            "cp" => self.copy(name, operands),
            "mbarrier" => self.gate(name, operands),
            "wmma" | "mma" | "ldmatrix" | "stmatrix" => self.matrix(name, operands),
            "shfl" | "vote" | "activemask" | "elect" | "redux" => self.across(name, operands),
            "setp" => self.compare(name, operands),
            "cvta" | "isspacep" => self.space(name, operands),
            "mov" if operands.iter().any(|operand| operand.starts_with('{')) => self.moved(name, operands),
            _ => self.compute(name, operands),
        }
    }

    fn compute(&mut self, name: Name<'_>, operands: &[&str]) -> Option<Op> {
        let to = self.register(operands.first()?)?;
        let from: Option<Vec<usize>> = operands[1..].iter().map(|operand| self.register(operand)).collect();
        let compute = match *from?.as_slice() {
            [a] => Compute::One(arithmetic::unary(name)?, a),
            [a, b] => Compute::Two(arithmetic::binary(name)?, [a, b]),
            [a, b, c] => Compute::Three(arithmetic::ternary(name)?, [a, b, c]),
            [a, b, c, d] if name.0[0] == "bfi" => Compute::Insert(name.ty()?, [a, b, c, d]),
            [a, b, c, table] if name.0[0] == "lop3" => {
                let table = self.values[table];
                let looked_up = move |a: u64, b: u64, c: u64| {
                    (0..8).filter(|row| table >> row & 1 == 1).fold(0, |found, row: u32| {
                        let of = |value: u64, bit: u32| if row >> bit & 1 == 1 { value } else { !value };
                        found | (of(a, 2) & of(b, 1) & of(c, 0))
                    })
                };
                Compute::Three(Box::new(looked_up), [a, b, c])
            }
            _ => return None,
        };
        Some(Op::Compute(to, compute))
    }

    fn compare(&mut self, name: Name<'_>, operands: &[&str]) -> Option<Op> {
        let [to, a, b, rest @ ..] = operands else { return None };
        if name.ty()?.pair_of().is_some() {
            return None;
        }
        let with = match rest {
            [] => None,
            [other] => {
                let combine = name.0.iter().find(|part| ["and", "or", "xor"].contains(part))?;
                let combine = arithmetic::binary(Name(&[combine, "pred"]))?;
                Some((combine, self.register(other.trim_start_matches('!'))?, other.starts_with('!')))
            }
            _ => return None,
        };
        let (to, opposite) = to.split_once('|').map_or((*to, None), |(to, opposite)| (to, Some(opposite)));
        Some(Op::Compare {
            test: arithmetic::comparison(name)?,
            of: [self.register(a)?, self.register(b)?],
            with,
            to: self.register(to),
            opposite: opposite.and_then(|opposite| self.register(opposite)),
        })
    }

    /// `mov` of several registers into one, or the other way round.
    fn moved(&mut self, name: Name<'_>, operands: &[&str]) -> Option<Op> {
        let &[to, from] = operands else { return None };
        let bits = name.ty()?.bits();
        if from.starts_with('{') {
            let parts = self.registers(from)?;
            let each = bits / parts.len() as u32;
            return Some(Op::Pack(self.register(to)?, parts, each));
        }
        let parts: Vec<&str> = split(to.trim_matches(['{', '}']));
        let each = bits / parts.len() as u32;
        let parts = parts.into_iter().map(|part| self.register(part)).collect();
        Some(Op::Unpack(parts, self.register(from)?, each))
    }

    fn space(&mut self, name: Name<'_>, operands: &[&str]) -> Option<Op> {
        let &[to, from] = operands else { return None };
        let (to, from) = (self.register(to)?, self.register(from)?);
        let space = match () {
            () if name.0.iter().any(|part| part.starts_with("shared")) => Space::Shared,
            () if name.has("local") => Space::Local,
            () if name.has("param") => Space::Parameters,
            () => Space::Generic,
        };
        Some(match name.0[0] {
            "isspacep" => Op::IsOf(to, from, space),
            _ if name.has("to") => Op::FromGeneric(to, from, space),
            _ => Op::ToGeneric(to, from, space),
        })
    }

    fn access(&mut self, name: Name<'_>, operands: &[&str]) -> Option<Op> {
        let (stores, ty) = (name.0[0] == "st", name.ty()?);
        let &[first, second] = operands else { return None };
        let (address, values) = if stores { (first, second) } else { (second, first) };
        let access = Access { address: self.address(name, address)?, ty, registers: self.registers(values)? };
        Some(if stores { Op::Store(access) } else { Op::Load(access) })
    }

    fn atomic(&mut self, name: Name<'_>, operands: &[&str]) -> Option<Op> {
        let returns = name.0[0] == "atom";
        let (to, operands) =
            if returns { operands.split_first().map(|(to, rest)| (Some(*to), rest))? } else { (None, operands) };
        let [address, values @ ..] = operands else { return None };
        let f = arithmetic::atomic(name)?;
        let ty = name.0.iter().rev().find_map(|part| Type::named(part))?;
        let values: Option<Vec<usize>> = values.iter().map(|value| self.register(value)).collect();
        let values = values?;
        let access = Access { address: self.address(name, address)?, ty, registers: vec![] };
        let to = to.and_then(|to| self.register(to));
        Some(Op::Atomic(access, f, [*values.first()?, *values.get(1).unwrap_or(&values[0])], to))
    }

    fn barrier(&mut self, name: Name<'_>, operands: &[&str]) -> Option<Op> {
        if name.has("warp") {
            return Some(Op::Nothing);
        }
        let supported = name.0[1..].iter().all(|part| ["sync", "aligned", "cta"].contains(part));
        let id = self.register(operands.first()?)?;
        let threads = match operands.get(1) {
            Some(threads) => Some(self.register(threads)?),
            None => None,
        };
        supported.then_some(Op::Barrier(id, threads))
    }

    /// Copies that need not be waited for are made at once.
    fn copy(&mut self, name: Name<'_>, operands: &[&str]) -> Option<Op> {
        match name.0 {
            ["cp", "async", "commit_group" | "wait_group" | "wait_all", ..] => Some(Op::Nothing),
            // It would come once for the copies and is not counted for them beforehand.
            ["cp", "async", "mbarrier", "arrive", kind, ..] if *kind != "noinc" => Some(Op::Nothing),
            ["cp", "async", "bulk", "tensor", _, "shared::cluster", "global", "tile", ..] => {
                let &[to, map, gate] = operands else { return None };
                let (map, places) = map.strip_prefix('[')?.strip_suffix(']')?.split_once(',')?;
                let shared = Name(&["cp", "shared"]);
                let (map, places) = (self.register(map)?, self.registers(places.trim())?);
                Some(Op::CopyTile(self.address(shared, to)?, map, places, self.address(shared, gate)?))
            }
            ["cp", "async", "ca" | "cg", ..] => {
                let [to, from, bytes, rest @ ..] = operands else { return None };
                let read = match rest {
                    [] => None,
                    [read] => Some(self.register(read)?),
                    _ => return None,
                };
                let to = self.address(Name(&["cp", "shared"]), to)?;
                let from = self.address(Name(&["cp", "global"]), from)?;
                Some(Op::Copy(to, Source { from, bytes: constant(bytes)? as usize, read }))
            }
            _ => None,
        }
    }

    /// `mbarrier`.
    fn gate(&mut self, name: Name<'_>, operands: &[&str]) -> Option<Op> {
        let at = operands.iter().position(|operand| operand.starts_with('['))?;
        let address = self.address(Name(&["mbarrier", "shared"]), operands[at])?;
        let before = operands[..at].first().and_then(|state| self.register(state));
        let after = operands.get(at + 1).and_then(|operand| self.register(operand));
        let op = match *name.0.get(1)? {
            "inval" => return Some(Op::Nothing),
            "init" => GateOp::Begin(after?),
            "arrive" if name.has("expect_tx") => GateOp::Expect(before, after?, true),
            "arrive" if !name.has("noComplete") => GateOp::Arrive(before, after),
            "expect_tx" => GateOp::Expect(None, after?, false),
            "try_wait" | "test_wait" => GateOp::IsOver(before?, after?),
            _ => return None,
        };
        Some(Op::Gate(op, address))
    }
}

#[cfg(test)]
mod tests;
