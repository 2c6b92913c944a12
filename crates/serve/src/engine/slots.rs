//! Which slot a request gets: the one whose cache knows most of its prompt, else an empty one, else the one that was
//! used longest ago.

use gorgon_core::Token;

/// Rows that the loop makes ready for a short prompt's answer.
const AHEAD: usize = 256;

/// A slot as the feed knows it.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// Text that its cache holds, as far as it is known here.
    text: Vec<Token>,
    /// Rows that it may come to need, or that it has.
    rows: usize,
    /// Rows that its cache has memory for before the answer outgrows them.
    held: usize,
    /// When it was used last.
    used: u64,
    busy: bool,
    /// Whether its memory is to be freed.
    forgotten: bool,
    /// Whether it is to be forgotten as soon as it is free.
    outdated: bool,
}

/// The slots, and the rows that their caches may have together.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    rows: usize,
    clock: u64,
}

impl Slots {
    /// Empty slots, whose caches may have `rows` rows together.
    pub fn new(slots: usize, rows: usize) -> Self {
        Self { slots: vec![Slot::default(); slots], rows, clock: 0 }
    }

    /// Slots in use.
    pub fn busy(&self) -> usize {
        self.slots.iter().filter(|slot| slot.busy).count()
    }

    /// Slots whose cache holds something.
    pub fn kept(&self) -> usize {
        self.slots.iter().filter(|slot| slot.busy || !slot.text.is_empty()).count()
    }

    /// Rows of all caches, those that busy slots may come to need included.
    pub fn rows_used(&self) -> usize {
        self.slots.iter().map(|slot| slot.rows).sum()
    }

    /// A slot for a prompt that may come to need so many rows; it is busy from here on. Caches that nobody uses are
    /// given up for it, those that were used longest ago first. `None` where there is no free slot, or the busy ones
    /// leave too few rows.
    pub fn take(&mut self, prompt: &[Token], rows: usize) -> Option<usize> {
        let busy: usize = self.slots.iter().filter(|slot| slot.busy).map(|slot| slot.rows).sum();
        if busy + rows > self.rows {
            return None;
        }
        let chosen = self.choose(prompt)?;
        self.clock += 1;
        let slot = &mut self.slots[chosen];
        (slot.busy, slot.used, slot.rows) = (true, self.clock, rows.max(slot.held));
        slot.held = slot.held.max(rows.min(prompt.len() + prompt.len().max(AHEAD)));
        while self.rows_used() > self.rows {
            let parked = self.slots.iter_mut().filter(|slot| !slot.busy && slot.rows > 0);
            let Some(oldest) = parked.min_by_key(|slot| slot.used) else { break };
            oldest.forget();
        }
        Some(chosen)
    }

    fn choose(&self, prompt: &[Token]) -> Option<usize> {
        let free = || self.slots.iter().enumerate().filter(|(_, slot)| !slot.busy);
        let known = |slot: &Slot| slot.text.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        // Where little of a text would be used, it is left for its own next turn.
        let (best, shared) =
            free().map(|(at, slot)| (at, known(slot))).max_by_key(|&(at, known)| (known, usize::MAX - at))?;
        if 2 * shared > self.slots[best].text.len() {
            return Some(best);
        }
        let empty = free().find(|(_, slot)| slot.text.is_empty());
        empty.or_else(|| free().min_by_key(|(_, slot)| slot.used)).map(|(at, _)| at)
    }

    /// A request has ended in a slot, whose cache holds this text now.
    pub fn release(&mut self, at: usize, text: Vec<Token>) {
        self.clock += 1;
        let used = self.clock;
        if let Some(slot) = self.slots.get_mut(at) {
            // Memory that was once used is kept, and caches double.
            let mut held = slot.held.max(1);
            while held < text.len() {
                held *= 2;
            }
            let outdated = slot.outdated;
            *slot = Slot { rows: held, held, text, used, ..Slot::default() };
            if outdated {
                slot.forget();
            }
        }
    }

    /// All slots are to begin anew: free ones now, busy ones when they are free.
    pub fn outdate(&mut self) {
        for slot in &mut self.slots {
            match slot.busy {
                true => slot.outdated = true,
                false => slot.forget(),
            }
        }
    }

    /// Whether a slot's memory is to be freed; asked once.
    pub fn forgets(&mut self, at: usize) -> bool {
        self.slots.get_mut(at).is_some_and(|slot| std::mem::take(&mut slot.forgotten))
    }

    /// All caches are new.
    pub fn clear(&mut self) {
        self.slots.iter_mut().for_each(|slot| *slot = Slot::default());
    }
}

impl Slot {
    fn forget(&mut self) {
        self.text = vec![];
        (self.rows, self.held, self.forgotten) = (0, 0, true);
    }
}

#[cfg(test)]
mod tests;
