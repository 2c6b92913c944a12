//! A term of attention scores that depends on how far a key is from its query (T5, Raffel et al., 2020,
//! <https://arxiv.org/abs/1910.10683>, section 2.1).

/// The terms of every head by distance.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionBias {
    /// `[rows, heads]`.
    terms: Vec<f32>,
    heads: usize,
    /// The row of each distance: `0..before` of keys at and before the query, then `1, 2, …` of keys after it. Keys that
    /// are farther count as the farthest.
    rows: Vec<u32>,
    before: usize,
}

impl PositionBias {
    /// Terms `[rows, heads]`, of which `row(distance)` holds those of a distance: the query's position less the key's,
    /// from `-after` to `before - 1`.
    ///
    /// # Panics
    /// If `before` is 0, or a row is none of these.
    pub fn new(terms: Vec<f32>, heads: usize, (before, after): (usize, usize), row: impl Fn(isize) -> usize) -> Self {
        assert!(before > 0, "a query sees itself");
        let distances = (0..before as isize).chain((1..=after as isize).map(|distance| -distance));
        let rows: Vec<u32> = distances.map(|distance| row(distance) as u32).collect();
        assert!(rows.iter().all(|&row| (row as usize + 1) * heads <= terms.len()), "a row for every distance");
        Self { terms, heads, rows, before }
    }

    /// The term of one head, of a query and a key at these positions.
    #[inline(always)]
    pub fn at(&self, head: usize, query: usize, key: usize) -> f32 {
        let after = self.rows.len() - self.before;
        let distance = match query.checked_sub(key) {
            Some(distance) => distance.min(self.before - 1),
            // Where no key comes after its query, one would count as the query's own.
            None if after == 0 => 0,
            None => self.before + (key - query - 1).min(after - 1),
        };
        self.terms[self.rows[distance] as usize * self.heads + head]
    }
}
