//! Vectors whose memory serves again: a decode step makes the same short lists over and over.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Vectors of one kind that a thread keeps at most: more than a decode step has in use at once.
const KEPT: usize = 32;

/// Bytes of the largest vector that is kept: logits of 32 nodes over 128 Ki tokens. States of long prompts are larger,
/// and take so long to compute that fresh memory is little beside it.
const LARGEST: usize = 16 << 20;

/// Bytes that a thread keeps of one kind at most.
const ALL: usize = 32 << 20;

/// A vector whose memory goes back to the thread that drops it, and from there to the next one that is begun.
pub struct PooledVec<T: Recycle>(Vec<T>);

/// Vectors that a thread keeps for those it begins next.
pub struct Pool<T> {
    kept: Vec<Vec<T>>,
    /// Bytes of all kept vectors.
    bytes: usize,
}

impl<T> Pool<T> {
    /// An empty pool.
    pub const fn new() -> Self {
        Self { kept: Vec::new(), bytes: 0 }
    }

    /// The kept vector that came back last and has room for `length` values, with any contents.
    #[inline]
    fn take(&mut self, length: usize) -> Option<Vec<T>> {
        let at = self.kept.iter().rposition(|memory| memory.capacity() >= length)?;
        let memory = self.kept.swap_remove(at);
        self.bytes -= bytes(&memory);
        Some(memory)
    }

    /// Keeps a vector. Where as many are kept as may be, it takes the place of the smallest one, if that is smaller.
    #[inline]
    fn give(&mut self, memory: Vec<T>) {
        if self.kept.len() == KEPT {
            self.drop_smaller(&memory);
        }
        let bytes = bytes(&memory);
        if self.kept.len() < KEPT && self.bytes + bytes <= ALL {
            self.bytes += bytes;
            self.kept.push(memory);
        }
    }

    /// Drops the smallest kept vector, if it is smaller than `memory`.
    #[cold]
    fn drop_smaller(&mut self, memory: &Vec<T>) {
        let smallest = self.kept.iter().map(Vec::capacity).enumerate().min_by_key(|&(_, capacity)| capacity);
        if let Some((at, capacity)) = smallest
            && capacity < memory.capacity()
        {
            self.bytes -= bytes(&self.kept.swap_remove(at));
        }
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The memory of a vector in bytes.
fn bytes<T>(memory: &Vec<T>) -> usize {
    memory.capacity() * size_of::<T>()
}

/// Element types of a [`PooledVec`]: those for which `recycle!` makes a pool.
pub trait Recycle: Copy + 'static {
    /// Does something with this thread's pool; `None` where it is gone, or in use by a caller further up.
    fn with_pool<R>(work: impl FnOnce(&mut Pool<Self>) -> R) -> Option<R>;
}

/// Implements [`Recycle`] for types: each gets a pool per thread.
macro_rules! recycle {
    ($($kind:ty),* $(,)?) => {$(
        impl $crate::pooled_vec::Recycle for $kind {
            #[inline]
            fn with_pool<R>(work: impl FnOnce(&mut $crate::pooled_vec::Pool<Self>) -> R) -> Option<R> {
                use std::cell::RefCell;
                use $crate::pooled_vec::Pool;
                thread_local! {
                    static POOL: RefCell<Pool<$kind>> = const { RefCell::new(Pool::new()) };
                }
                POOL.try_with(|pool| pool.try_borrow_mut().ok().map(|mut pool| work(&mut pool))).ok().flatten()
            }
        }
    )*};
}

pub(crate) use recycle;

recycle!(bool, u32, u64, usize, f32, f64, Option<usize>, Option<f64>, Option<(usize, usize)>, (u32, f32));

impl<T: Recycle> PooledVec<T> {
    /// An empty vector.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// A vector of `length` copies of `value`.
    pub fn of(value: T, length: usize) -> Self {
        let mut new = Self::with_capacity(length);
        new.resize(length, value);
        new
    }

    /// An empty vector with room for `length` values.
    pub fn with_capacity(length: usize) -> Self {
        let mut memory = T::with_pool(|pool| pool.take(length)).flatten().unwrap_or_else(|| Vec::with_capacity(length));
        memory.clear();
        Self(memory)
    }

    /// A vector of `length` values, whatever they are: for a large one that will be written as a whole.
    pub fn unset(length: usize) -> Self
    where
        T: Default,
    {
        let Some(mut memory) = T::with_pool(|pool| pool.take(length)).flatten() else {
            // Zeros that the system need not write.
            return Self(vec![T::default(); length]);
        };
        if memory.len() < length {
            memory.resize(length, T::default());
        }
        memory.truncate(length);
        Self(memory)
    }

    /// The vector, for good.
    pub fn into_vec(mut self) -> Vec<T> {
        std::mem::take(&mut self.0)
    }
}

impl<T: Recycle> Drop for PooledVec<T> {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.0);
        if (1..=LARGEST).contains(&bytes(&memory)) {
            T::with_pool(|pool| pool.give(memory));
        }
    }
}

impl<T: Recycle> Default for PooledVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Recycle> Clone for PooledVec<T> {
    fn clone(&self) -> Self {
        self.as_slice().into()
    }
}

impl<T: Recycle> Deref for PooledVec<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T: Recycle> DerefMut for PooledVec<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T: Recycle> AsRef<[T]> for PooledVec<T> {
    fn as_ref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Recycle> From<&[T]> for PooledVec<T> {
    fn from(values: &[T]) -> Self {
        let mut new = Self::with_capacity(values.len());
        new.extend_from_slice(values);
        new
    }
}

impl<T: Recycle> From<Vec<T>> for PooledVec<T> {
    fn from(values: Vec<T>) -> Self {
        Self(values)
    }
}

impl<T: Recycle> FromIterator<T> for PooledVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let values = values.into_iter();
        let mut new = Self::with_capacity(values.size_hint().0);
        new.extend(values);
        new
    }
}

impl<'a, T: Recycle> IntoIterator for &'a PooledVec<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Recycle + PartialEq, S: AsRef<[T]> + ?Sized> PartialEq<S> for PooledVec<T> {
    fn eq(&self, other: &S) -> bool {
        self.0 == other.as_ref()
    }
}

impl<T: Recycle + Eq> Eq for PooledVec<T> {}

impl<T: Recycle + fmt::Debug> fmt::Debug for PooledVec<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests;
