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

/// Element types of a [`PooledVec`]: those for which `recycle!` makes a pool.
pub trait Recycle: Copy + 'static {
    /// Does something with the vectors that this thread keeps; `None` where they are gone, or in use by a caller
    /// further up.
    fn with_kept<R>(work: impl FnOnce(&mut Vec<Vec<Self>>) -> R) -> Option<R>;
}

/// Implements [`Recycle`] for types: each gets a pool per thread.
macro_rules! recycle {
    ($($kind:ty),* $(,)?) => {$(
        impl $crate::pooled_vec::Recycle for $kind {
            fn with_kept<R>(work: impl FnOnce(&mut Vec<Vec<Self>>) -> R) -> Option<R> {
                use std::cell::RefCell;
                thread_local! {
                    static VECTORS: RefCell<Vec<Vec<$kind>>> = const { RefCell::new(vec![]) };
                }
                let borrowed = |kept: &RefCell<Vec<Vec<$kind>>>| kept.try_borrow_mut().ok().map(|mut kept| work(&mut kept));
                VECTORS.try_with(borrowed).ok().flatten()
            }
        }
    )*};
}

pub(crate) use recycle;

recycle!(bool, u32, u64, usize, f32, f64, Option<usize>, Option<f64>, Option<(usize, usize)>, (u32, f32));

impl<T: Recycle> PooledVec<T> {
    /// An empty vector.
    pub fn new() -> Self {
        let mut memory = T::with_kept(Vec::pop).flatten().unwrap_or_default();
        memory.clear();
        Self(memory)
    }

    /// A vector of `length` copies of `value`.
    pub fn of(value: T, length: usize) -> Self {
        let mut new = Self::new();
        new.resize(length, value);
        new
    }

    /// An empty vector with room for `length` values.
    pub fn with_capacity(length: usize) -> Self {
        let mut memory = Self::fitting(length).unwrap_or_else(|| Vec::with_capacity(length));
        memory.clear();
        Self(memory)
    }

    /// A vector of `length` values, whatever they are: for a large one that will be written as a whole.
    pub fn unset(length: usize) -> Self
    where
        T: Default,
    {
        let Some(mut memory) = Self::fitting(length) else {
            // Zeros that the system need not write.
            return Self(vec![T::default(); length]);
        };
        memory.resize(length, T::default());
        Self(memory)
    }

    /// A kept vector with room for `length` values, with any contents.
    fn fitting(length: usize) -> Option<Vec<T>> {
        let fits = |kept: &mut Vec<Vec<T>>| {
            let at = kept.iter().rposition(|memory| memory.capacity() >= length)?;
            Some(kept.remove(at))
        };
        T::with_kept(fits).flatten()
    }

    /// The vector, for good.
    pub fn into_vec(mut self) -> Vec<T> {
        std::mem::take(&mut self.0)
    }
}

impl<T: Recycle> Drop for PooledVec<T> {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.0);
        let size = |memory: &Vec<T>| memory.capacity() * size_of::<T>();
        if (1..=LARGEST).contains(&size(&memory)) {
            T::with_kept(|kept| {
                if kept.len() < KEPT && kept.iter().map(size).sum::<usize>() + size(&memory) <= ALL {
                    kept.push(memory);
                }
            });
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
        let mut new = Self::new();
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
