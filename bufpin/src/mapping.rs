//! Which buffer a page is in: a table whose readers take no lock.
//!
//! # Words
//!
//! A *cell* holds 32 hash bits and a buffer number plus 1, or 0. A page's *window* are the [`WINDOW`] cells from its home cell on. Its
//! *partition*, also decided by the hash alone, has a lock and a list of the buffers that found no room in their window.
//!
//! # Rules
//!
//! 1. A cell is a hint. Who finds one without the lock pins the buffer and then compares the page (rule 2 of `session`), so the accesses are
//!    relaxed: an old cell costs a detour, nothing else.
//! 2. A page is put in and taken out under its partition's lock, together with the tagged bit of its buffer. So under that lock a cell with
//!    the page's hash bits tells the truth, since equal hash bits mean one partition.
//! 3. "Not found" without the lock is a hint as well: the page may have come since, and it may stand in the list. The search is repeated under
//!    the lock before the page counts as missing.
//! 4. Windows cross partitions, so a free cell is claimed by compare-and-swap. A cell is freed by storing 0: windows are always searched
//!    to the end, so nothing has to mark where one used to be.
//! 5. A full window never fails: the buffer goes into the partition's list, and is found there under the lock.

use txnkit_sync::atomic::{AtomicU64, Ordering::Relaxed};
use txnkit_sync::broken;
use txnkit_sync::lock::MutexGuard;

use crate::form::{Memory, Padded};
use crate::pool::Pool;
use crate::state::{Descriptor, TAGGED};

/// Cells that are searched for a page: two lines of a cache.
const WINDOW: usize = 16;

/// The buffers of a partition that have no cell: a list through [`Descriptor::next`], which starts with this one less 1, unless it is 0.
#[derive(Debug)]
pub struct Overflow {
    first: u32,
}

impl Overflow {
    pub(crate) const fn new() -> Self {
        Self { first: 0 }
    }
}

/// A page's hash, which decides its home cell (by the upper bits) and its partition (by the lower ones).
#[inline]
pub(crate) fn hash(page: u64) -> u32 {
    let mixed = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

#[inline]
fn cell_of(hash: u32, buffer: u32) -> u64 {
    u64::from(hash) << 32 | (u64::from(buffer) + 1)
}

/// The cells of a page's window, home first.
#[inline]
fn window(cells: &[AtomicU64], hash: u32) -> impl Iterator<Item = &AtomicU64> {
    let home = ((u64::from(hash) * cells.len() as u64) >> 32) as usize;
    (0..WINDOW.min(cells.len())).map(move |step| {
        let at = home + step;
        &cells[if at < cells.len() {
            at
        } else {
            at - cells.len()
        }]
    })
}

/// The buffers in a partition's list.
fn listed(descriptors: &[Padded<Descriptor>], overflow: &Overflow) -> impl Iterator<Item = u32> {
    let mut next = overflow.first;
    core::iter::from_fn(move || {
        let buffer = next.checked_sub(1)?;
        next = descriptors[buffer as usize].next.load(Relaxed);
        Some(buffer)
    })
}

/// A partition, locked.
pub(crate) struct Partition<'p> {
    overflow: MutexGuard<'p, Overflow>,
    cells: &'p [AtomicU64],
    descriptors: &'p [Padded<Descriptor>],
    hash: u32,
}

impl<S, M: Memory<W>, const W: usize> Pool<S, M, W> {
    /// Buffers that may hold the page with this hash. Wait-free.
    #[inline]
    pub(crate) fn candidates(&self, hash: u32) -> impl Iterator<Item = u32> {
        window(self.memory.cells(), hash).filter_map(move |cell| {
            let cell = cell.load(Relaxed);
            // A free cell has no buffer, whatever the hash.
            ((cell >> 32) as u32 == hash && cell as u32 != 0).then(|| cell as u32 - 1)
        })
    }

    /// Do the page table and the buffers say the same? For tests, while nobody is at work: each tagged buffer is in the table once, and nothing
    /// else is.
    pub fn is_consistent(&self) -> bool {
        let buffers = self.memory.descriptors();
        let tagged = |state: &Descriptor| state.state.load(Relaxed) & TAGGED != 0;
        let in_table = |&(buffer, descriptor): &(usize, &Padded<Descriptor>)| {
            let page = descriptor.page.load(Relaxed);
            self.partition(hash(page)).find(page) == Some(buffer as u32)
        };
        let cells = self
            .memory
            .cells()
            .iter()
            .filter(|cell| cell.load(Relaxed) != 0);
        let listed = self.memory.partitions().iter().map(|partition| {
            let overflow = partition.lock();
            listed(buffers, &overflow).count()
        });
        let mut pages = buffers.iter().enumerate().filter(|(_, it)| tagged(it));
        let entries = cells.count() + listed.sum::<usize>();
        entries == pages.clone().count() && pages.all(|page| in_table(&page))
    }

    /// Locks the partition of the page with this hash.
    pub(crate) fn partition(&self, hash: u32) -> Partition<'_> {
        let partitions = self.memory.partitions();
        Partition {
            overflow: partitions[hash as usize % partitions.len()].lock(),
            cells: self.memory.cells(),
            descriptors: self.memory.descriptors(),
            hash,
        }
    }
}

impl Partition<'_> {
    /// The buffer that holds `page`, whose hash is the one this was locked for.
    pub(crate) fn find(&self, page: u64) -> Option<u32> {
        if broken!("bufpin.mapping.no-second-search") {
            return None;
        }
        let is_page = |buffer: &u32| self.descriptors[*buffer as usize].page.load(Relaxed) == page;
        let celled = window(self.cells, self.hash)
            .map(|cell| cell.load(Relaxed))
            .filter(|&cell| (cell >> 32) as u32 == self.hash && cell as u32 != 0)
            .map(|cell| cell as u32 - 1)
            .find(is_page);
        celled.or_else(|| listed(self.descriptors, &self.overflow).find(is_page))
    }

    /// Puts in the buffer of a page that is not in.
    pub(crate) fn insert(&mut self, buffer: u32) {
        let cell = cell_of(self.hash, buffer);
        let claimed = window(self.cells, self.hash).any(|free| {
            free.load(Relaxed) == 0
                && (broken!("bufpin.mapping.unclaimed") && {
                    free.store(cell, Relaxed);
                    true
                } || free.compare_exchange(0, cell, Relaxed, Relaxed).is_ok())
        });
        if !claimed {
            let next = &self.descriptors[buffer as usize].next;
            next.store(self.overflow.first, Relaxed);
            self.overflow.first = buffer + 1;
        }
    }

    /// Takes out a buffer that is in.
    pub(crate) fn remove(&mut self, buffer: u32) {
        let cell = cell_of(self.hash, buffer);
        match window(self.cells, self.hash).find(|held| held.load(Relaxed) == cell) {
            Some(held) => held.store(0, Relaxed),
            None => self.unlist(buffer),
        }
    }

    fn unlist(&mut self, buffer: u32) {
        let next = self.descriptors[buffer as usize].next.load(Relaxed);
        let before = listed(self.descriptors, &self.overflow)
            .find(|&at| self.descriptors[at as usize].next.load(Relaxed) == buffer + 1);
        match before {
            Some(before) => self.descriptors[before as usize].next.store(next, Relaxed),
            None => self.overflow.first = next,
        }
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::{BufferPool, MemoryStore, PinSession, Pins};

    /// Thirty pages with one home cell: sixteen find a cell, the rest stand in lists, and are found, taken out and put back like the others.
    #[test]
    fn full_windows_lose_nothing() {
        const BUFFERS: usize = 40;
        let pool = BufferPool::<MemoryStore<1>, 1>::with_words(MemoryStore::default(), BUFFERS, 2);
        let home = |page: u64| (u64::from(hash(page)) * 2 * BUFFERS as u64) >> 32;
        let pages: Vec<u64> = (0..).filter(|&page| home(page) == 7).take(60).collect();
        let (one, two) = (pool.register().unwrap(), pool.register().unwrap());
        for some in [&pages[..30], &pages[20..50], &pages[30..], &pages[..30]] {
            let pins: Vec<_> = some.iter().map(|&page| one.pin(page).unwrap()).collect();
            assert!(pool.is_consistent());
            let entries = pool
                .memory
                .partitions()
                .iter()
                .map(|partition| listed(pool.memory.descriptors(), &partition.lock()).count());
            assert!(entries.sum::<usize>() >= 30 - WINDOW, "no window was full");
            for (&page, pin) in some.iter().zip(&pins) {
                let found = two.pin(page).unwrap();
                assert_eq!(found.buffer(), pin.buffer());
                two.unpin(found);
            }
            pins.into_iter().for_each(|pin| one.unpin(pin));
        }
        assert_eq!(two.take_stats().misses, 0);
    }
}
