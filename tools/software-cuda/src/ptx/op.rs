//! Instructions as they are run.

use super::arithmetic::{Binary, Ternary, Unary};
use super::number::Type;
use std::fmt;

/// An instruction.
pub struct Instruction {
    /// A predicate's register; the instruction is left out where it is not what is told.
    pub guard: Option<(usize, bool)>,
    /// The operation.
    pub op: Op,
    /// With which threads.
    pub with: With,
    /// As it was spelled, for messages.
    pub text: Box<str>,
}

impl fmt::Debug for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Which threads of a warp run an instruction together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// Each runs it alone.
    Alone,
    /// All that are left.
    All,
    /// Those whose bits a register has.
    Mask(usize),
}

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Any, by address.
    Generic,
    /// A block's; addresses are offsets.
    Shared,
    /// A thread's; addresses are offsets.
    Local,
    /// A launch's parameters; addresses are offsets.
    Parameters,
}

/// A register and an offset.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// Which memory.
    pub space: Space,
    /// The register.
    pub base: usize,
    /// Offset that is added.
    pub offset: i64,
}

/// Values in memory, one after another.
#[derive(Clone, Debug)]
pub struct Access {
    /// Where.
    pub address: Address,
    /// Of which type.
    pub ty: Type,
    /// The registers that hold them.
    pub registers: Vec<usize>,
}

/// Computation on registers.
pub enum Compute {
    /// Of one.
    One(Unary, usize),
    /// Of two.
    Two(Binary, [usize; 2]),
    /// Of three.
    Three(Ternary, [usize; 3]),
    /// Bits of one in another, from where, how many.
    Insert(Type, [usize; 4]),
}

/// Operation on a barrier in shared memory (`mbarrier`).
#[derive(Clone, Copy, Debug)]
pub enum GateOp {
    /// So many threads come in every phase.
    Begin(usize),
    /// Threads come: the phase that was, how many, if not one.
    Arrive(Option<usize>, Option<usize>),
    /// Bytes will come, and with the flag a thread does: the phase that was, how many bytes, the flag.
    Expect(Option<usize>, usize, bool),
    /// Whether a phase is over: the answer, and the phase.
    IsOver(usize, usize),
}

/// Whose value a lane is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// A named lane's.
    Index,
    /// A lower one's.
    Up,
    /// A higher one's.
    Down,
    /// The one whose number differs in some bits.
    Butterfly,
}

/// Vote on a predicate over all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// Whether it holds in all.
    All,
    /// Whether it holds in one.
    Any,
    /// Whether it is the same in all.
    Uniform,
    /// In which it holds.
    Ballot,
}

/// How a matrix lies in the registers of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// As nobody may know: `wmma`'s fragments.
    Opaque,
    /// The first factor of `mma`.
    First,
    /// Its second factor.
    Second,
    /// Its sum.
    Sum,
}

/// A matrix in the registers of a warp.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// Each lane's registers.
    pub registers: Vec<usize>,
    /// Its numbers' type.
    pub ty: Type,
    /// Rows and columns.
    pub shape: [usize; 2],
    /// Which lane holds what.
    pub lanes: Lanes,
}

impl Fragment {
    /// Numbers that each lane holds.
    pub fn held(&self) -> usize {
        self.shape[0] * self.shape[1] / 32
    }

    /// Row and column of a number of a lane.
    pub fn place(&self, lane: usize, slot: usize) -> (usize, usize) {
        let (group, within, wide) = (lane / 4, lane % 4, self.ty.bits() == 32);
        match self.lanes {
            Lanes::Opaque => {
                let at = lane * self.held() + slot;
                (at / self.shape[1], at % self.shape[1])
            }
            Lanes::First if wide => (group + 8 * (slot % 2), within + 4 * (slot / 2)),
            Lanes::First => (group + 8 * (slot / 2 % 2), within * 2 + slot % 2 + 8 * (slot / 4)),
            Lanes::Second if wide => (within + 4 * slot, group),
            Lanes::Second => (within * 2 + slot % 2 + 8 * (slot / 2), group),
            Lanes::Sum => (group + 8 * (slot / 2), within * 2 + slot % 2),
        }
    }
}

/// Where a value of an instruction that reads memory comes from.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Of what is read.
    pub from: Address,
    /// Bytes.
    pub bytes: usize,
    /// A register with the bytes that are read; zeros take the place of the rest.
    pub read: Option<usize>,
}

/// Operation of an instruction.
pub enum Op {
    /// Computes a register.
    Compute(usize, Compute),
    /// Compares two registers: into one predicate, and its opposite into another; combined with a third, which may be
    /// asked for its opposite.
    Compare {
        /// The comparison.
        test: Box<dyn Fn(u64, u64) -> bool + Send + Sync>,
        /// Comparison.
        of: [usize; 2],
        /// How it is combined, with what.
        with: Option<(Binary, usize, bool)>,
        /// The result.
        to: Option<usize>,
        /// Its opposite.
        opposite: Option<usize>,
    },
    /// Puts several registers of some bits into one.
    Pack(usize, Vec<usize>, u32),
    /// Takes them apart.
    Unpack(Vec<Option<usize>>, usize, u32),
    /// An address of a kind of memory as one of any.
    ToGeneric(usize, usize, Space),
    /// The other way round.
    FromGeneric(usize, usize, Space),
    /// Whether an address is one of a kind of memory.
    IsOf(usize, usize, Space),
    /// Reads memory.
    Load(Access),
    /// Writes memory.
    Store(Access),
    /// Changes memory at once: what remains, the operands, and where what was there goes.
    Atomic(Access, Ternary, [usize; 2], Option<usize>),
    /// Copies from anywhere to a block's memory.
    Copy(Address, Source),
    /// Something of a barrier in shared memory that copies come to, too.
    Gate(GateOp, Address),
    /// Copies a tile of a tensor: to, the register with the address of its map, the registers with the first
    /// coordinates, the gate.
    CopyTile(Address, usize, Vec<usize>, Address),
    /// Goes elsewhere.
    Branch(usize),
    /// Goes to one of several places.
    BranchTo(usize, Vec<usize>),
    /// Waits for the block's threads at one of its barriers; how many they are, if not all.
    Barrier(usize, Option<usize>),
    /// Ends the thread.
    Exit,
    /// Ends the launch.
    Trap,
    /// Nothing that matters here.
    Nothing,
    /// Hands values to other lanes: result, whether it came from another lane, value, lane, and clamp with mask.
    Shuffle(Shuffle, Option<usize>, Option<usize>, [usize; 3]),
    /// Asks all lanes.
    Vote(Vote, usize, usize, bool),
    /// Which lanes run.
    ActiveMask(usize),
    /// Chooses a lane.
    Elect(Option<usize>, usize),
    /// Combines the values of all lanes.
    Reduce(usize, Binary, usize),
    /// Reads a matrix: where, the register with the stride, whether it lies there by columns.
    LoadFragment(Fragment, Address, usize, bool),
    /// Writes one.
    StoreFragment(Fragment, Address, usize, bool),
    /// `d = a · b + c`.
    Multiply(Box<[Fragment; 4]>),
    /// Reads matrices of eight rows of eight numbers of 16 bits, one into each register; transposed ones if so said.
    LoadRows(Vec<usize>, Address, bool),
    /// Writes them.
    StoreRows(Vec<usize>, Address, bool),
}
