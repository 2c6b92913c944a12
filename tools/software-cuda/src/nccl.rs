//! The functions of NCCL that this project's programs call: devices of one process add up what they hold, and send it
//! to each other.
//!
//! The library is found as `libnccl.so`. A sum waits for all of its group, and a receiver for its sender, as long as
//! [`PATIENCE`]; NCCL itself would wait for ever.

#![allow(non_snake_case, reason = "the names of another library")]

use crate::memory::Memory;
use crate::ptx::number::{Rounding, Type, float, rounded};
use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

type Status = c_int;

const SUCCESS: Status = 0;
const SYSTEM_ERROR: Status = 2;
const INVALID_ARGUMENT: Status = 4;
/// How long a member waits for the others.
const PATIENCE: Duration = Duration::from_secs(60);

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Id([u64; 16]);

/// Contribution of a member to a sum.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: u64,
    to: u64,
    count: usize,
    ty: Type,
}

#[derive(Debug, Default)]
struct State {
    joined: usize,
    parts: HashMap<usize, Part>,
    /// Sums that were made.
    sums: u64,
    /// Bytes that were sent and not yet received, by the ranks of sender and receiver.
    sent: HashMap<(usize, usize), VecDeque<Vec<u8>>>,
}

/// Devices that add up together.
#[derive(Debug, Default)]
struct Group {
    state: Mutex<State>,
    changed: Condvar,
}

/// A member of a group.
#[derive(Debug)]
pub struct Member {
    group: Arc<Group>,
    ranks: usize,
    rank: usize,
}

fn group(id: u64) -> Arc<Group> {
    static GROUPS: Mutex<Option<HashMap<u64, Arc<Group>>>> = Mutex::new(None);
    let mut groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
    groups.get_or_insert_default().entry(id).or_default().clone()
}

impl Group {
    /// Changes the state and waits until it is as it should be; false if it is not in time.
    fn meet(&self, change: impl FnOnce(&mut State), done: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| !done(state));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Member {
    /// Adds a part; the last one that comes makes the sum. `mean` divides it by the number of members.
    fn add(&self, part: Part, mean: bool) -> bool {
        let before = self.group.state.lock().unwrap_or_else(PoisonError::into_inner).sums;
        let bring = |state: &mut State| {
            state.parts.insert(self.rank, part);
            if state.parts.len() == self.ranks {
                let parts: Vec<Part> = (0..self.ranks).filter_map(|rank| state.parts.remove(&rank)).collect();
                add_up(&parts, mean);
                state.sums += 1;
            }
        };
        self.group.meet(bring, |state| state.sums > before)
    }

    /// Leaves a copy of some memory for another member.
    fn send(&self, from: u64, bytes: usize, to: usize) -> bool {
        // SAFETY: the caller found the bytes in memory that was allocated.
        let values = unsafe { std::slice::from_raw_parts(from as *const u8, bytes) }.to_vec();
        let bring = |state: &mut State| state.sent.entry((self.rank, to)).or_default().push_back(values);
        self.group.meet(bring, |_| true)
    }

    /// Writes what another member sent first of all that is not received.
    fn receive(&self, to: u64, bytes: usize, from: usize) -> bool {
        let at = (from, self.rank);
        let is_there = |state: &State| state.sent.get(&at).is_some_and(|waiting| !waiting.is_empty());
        if !self.group.meet(|_| {}, is_there) {
            return false;
        }
        let mut state = self.group.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(values) = state.sent.get_mut(&at).and_then(VecDeque::pop_front) else { return false };
        if values.len() == bytes {
            // SAFETY: the caller found as many bytes in memory that was allocated.
            unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to as *mut u8, bytes) };
        }
        values.len() == bytes
    }
}

/// Bytes of a number of `ncclDataType_t`.
fn width(ty: c_int) -> Option<usize> {
    match ty {
        0 | 1 | 10 | 11 => Some(1),
        6 | 9 => Some(2),
        2 | 3 | 7 => Some(4),
        4 | 5 | 8 => Some(8),
        _ => None,
    }
}

/// The member and the number of bytes of a message, if they are valid.
///
/// # Safety
/// Members are those of [`ncclCommInitRank`].
unsafe fn message<'a>(
    member: *const Member,
    at: u64,
    count: usize,
    ty: c_int,
    peer: c_int,
) -> Option<(&'a Member, usize)> {
    // SAFETY: as the caller says.
    let member = unsafe { member.as_ref() }?;
    let bytes = count.checked_mul(width(ty)?)?;
    let valid = (0..member.ranks as c_int).contains(&peer) && Memory::lock().holds(at, bytes as u64);
    valid.then_some((member, bytes))
}

/// Writes the sum of all parts, in the order of their ranks, to where each wants it.
fn add_up(parts: &[Part], mean: bool) {
    let Some(Part { count, ty, .. }) = parts.first().copied() else { return };
    let scale = if mean { 1.0 / parts.len() as f64 } else { 1.0 };
    let at = |base: u64, i: usize| base + (i * ty.bytes()) as u64;
    for i in 0..count {
        let values = parts.iter().map(|part| float(ty, crate::warp::read(at(part.from, i), ty)));
        // In the numbers' own format, one after another.
        let sum = values.reduce(|sum, value| float(ty, rounded(ty, sum + value, Rounding::Nearest)));
        let sum = rounded(ty, sum.unwrap_or(0.0) * scale, Rounding::Nearest);
        parts.iter().for_each(|part| crate::warp::write(at(part.to, i), ty, sum));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> Status {
    if version.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: as NVIDIA's.
    unsafe { version.write(22_700) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetUniqueId(id: *mut Id) -> Status {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if id.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: as NVIDIA's.
    unsafe { id.write(Id([NEXT.fetch_add(1, Ordering::Relaxed); 16])) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommInitRank(member: *mut *mut Member, ranks: c_int, id: Id, rank: c_int) -> Status {
    if member.is_null() || !(0..ranks).contains(&rank) {
        return INVALID_ARGUMENT;
    }
    let (group, ranks) = (group(id.0[0]), ranks as usize);
    if !group.meet(|state| state.joined += 1, |state| state.joined >= ranks) {
        return SYSTEM_ERROR;
    }
    // SAFETY: as NVIDIA's.
    unsafe { member.write(Box::into_raw(Box::new(Member { group, ranks, rank: rank as usize }))) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclAllReduce(
    from: u64,
    to: u64,
    count: usize,
    ty: c_int,
    operation: c_int,
    member: *const Member,
    _stream: u64,
) -> Status {
    const MEAN: c_int = 4;
    let ty = match ty {
        6 => Type::F16,
        7 => Type::F32,
        8 => Type::F64,
        9 => Type::Bf16,
        _ => return INVALID_ARGUMENT,
    };
    // SAFETY: members are those of ncclCommInitRank.
    let Some(member) = (unsafe { member.as_ref() }) else { return INVALID_ARGUMENT };
    let bytes = (count * ty.bytes()) as u64;
    let held = [from, to].iter().all(|first| Memory::lock().holds(*first, bytes));
    if !held || ![0, MEAN].contains(&operation) {
        return INVALID_ARGUMENT;
    }
    if member.add(Part { from, to, count, ty }, operation == MEAN) { SUCCESS } else { SYSTEM_ERROR }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclSend(
    from: u64,
    count: usize,
    ty: c_int,
    peer: c_int,
    member: *const Member,
    _stream: u64,
) -> Status {
    // SAFETY: members are those of ncclCommInitRank.
    match unsafe { message(member, from, count, ty, peer) } {
        Some((member, bytes)) if member.send(from, bytes, peer as usize) => SUCCESS,
        Some(_) => SYSTEM_ERROR,
        None => INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclRecv(
    to: u64,
    count: usize,
    ty: c_int,
    peer: c_int,
    member: *const Member,
    _stream: u64,
) -> Status {
    // SAFETY: members are those of ncclCommInitRank.
    match unsafe { message(member, to, count, ty, peer) } {
        Some((member, bytes)) if member.receive(to, bytes, peer as usize) => SUCCESS,
        Some(_) => SYSTEM_ERROR,
        None => INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommDestroy(member: *mut Member) -> Status {
    if !member.is_null() {
        // SAFETY: it is one of ncclCommInitRank's, and nobody uses it any more.
        drop(unsafe { Box::from_raw(member) });
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommAbort(member: *mut Member) -> Status {
    // SAFETY: as NVIDIA's.
    unsafe { ncclCommDestroy(member) }
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupStart() -> Status {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupEnd() -> Status {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(status: Status) -> *const c_char {
    let text: &CStr = match status {
        SUCCESS => c"no error",
        SYSTEM_ERROR => c"a member did not come in time",
        _ => c"invalid argument",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests;
