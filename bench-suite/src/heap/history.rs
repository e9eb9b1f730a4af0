//! A table that is only ever added to.

use alloc::collections::VecDeque;

use anyhow::Result;
use bufpin::{PAGE_WORDS, PinSession, Pins};
use txn_manager::{Mechanisms, Status, StatusStore, Xid};
use txnkit_sync::Padded;
use txnkit_sync::lock::Mutex;

use super::{Client, Heap};

/// One line of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Who wrote it.
    pub xid: Xid,
    /// Account.
    pub aid: u32,
    /// Teller.
    pub tid: u32,
    /// Branch.
    pub bid: u32,
    /// By how much all three rose.
    pub delta: i32,
}

/// Words of a line.
const LINE: usize = 3;
/// Lines on a page.
const LINES: usize = PAGE_WORDS / LINE;

impl Entry {
    fn words(&self) -> [u64; LINE] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            self.xid.get(),
            pair(self.aid, self.tid),
            pair(self.bid, self.delta as u32),
        ]
    }

    fn from_words(words: [u64; LINE]) -> Self {
        Self {
            xid: Xid::new(words[0]),
            aid: words[1] as u32,
            tid: (words[1] >> 32) as u32,
            bid: words[2] as u32,
            delta: (words[2] >> 32) as u32 as i32,
        }
    }
}

/// What a history comes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// Lines.
    pub lines: u64,
    /// The sum of their deltas.
    pub delta: i64,
}

impl Total {
    fn add(&mut self, entry: &Entry) {
        self.lines += 1;
        self.delta += i64::from(entry.delta);
    }
}

/// Lines on pages of its own.
///
/// Lines that everybody sees are folded into a total after a while, a page at a time, and the page is used again, so that neither memory nor the
/// pool grows with the run.
#[derive(Debug)]
pub struct History {
    shards: Vec<Padded<Mutex<Shard>>>,
}

#[derive(Debug)]
struct Shard {
    folded: Total,
    /// Pages with lines, the oldest first. All but the last are full.
    pages: VecDeque<u64>,
    /// Lines on the last page.
    lines: usize,
    /// Pages that are empty again.
    free: Vec<u64>,
    /// The next page that was never used.
    next: u64,
}

impl History {
    const SHARDS: usize = 16;
    /// Full pages that a shard keeps before it folds the oldest.
    const KEPT: usize = 48;
    /// Page numbers of one shard.
    const SHARD_PAGES: u64 = 1 << 32;
    /// Pages of a history at its usual length.
    pub const PAGES: u64 = (Self::SHARDS * (Self::KEPT + 2)) as u64;

    /// An empty history on pages from `first_page` on, 2^36 of them.
    pub fn new(first_page: u64) -> Self {
        let shard = |at: usize| Shard {
            folded: Total::default(),
            pages: VecDeque::new(),
            lines: LINES,
            free: Vec::new(),
            next: first_page + at as u64 * Self::SHARD_PAGES,
        };
        Self {
            shards: (0..Self::SHARDS)
                .map(|at| Padded::new(Mutex::new(shard(at))))
                .collect(),
        }
    }

    /// Adds a line; clients of different numbers seldom meet.
    ///
    /// # Errors
    /// When a page cannot be had, or the status of an old line cannot be told.
    pub fn insert<M: Mechanisms, P: Pins>(
        &self,
        heap: &Heap<M, P>,
        client: &Client<'_, M, P>,
        number: usize,
        entry: Entry,
    ) -> Result<()> {
        let mut shard = self.shards[number % Self::SHARDS].lock();
        if shard.lines == LINES {
            if shard.pages.len() > Self::KEPT {
                shard.fold_oldest(heap, client, heap.horizon.fresh(&heap.core, entry.xid))?;
            }
            shard.begin_page();
        }
        let (page, at) = (shard.pages[shard.pages.len() - 1], shard.lines * LINE);
        let mut page = client.pins.pin_exclusive(page)?;
        for (word, value) in entry.words().into_iter().enumerate() {
            page.write(at + word, value);
        }
        drop(page);
        shard.lines += 1;
        Ok(())
    }

    /// How many lines are kept one by one, not folded.
    pub fn kept_lines(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| {
                let shard = shard.lock();
                shard.pages.len().saturating_sub(1) * LINES + shard.lines % LINES
            })
            .sum()
    }

    /// What the lines come to that the client's statement sees.
    ///
    /// # Errors
    /// When a page cannot be had or a visibility cannot be told.
    pub fn total<M: Mechanisms, P: Pins>(&self, client: &Client<'_, M, P>) -> Result<Total> {
        let mut total = Total::default();
        for shard in &self.shards {
            let shard = shard.lock();
            total.lines += shard.folded.lines;
            total.delta += shard.folded.delta;
            for (at, &page) in shard.pages.iter().enumerate() {
                let last = at + 1 == shard.pages.len();
                for entry in lines(&client.pins, page, if last { shard.lines } else { LINES })? {
                    if client.session.visible(entry.xid, Xid::INVALID)? {
                        total.add(&entry);
                    }
                }
            }
        }
        Ok(total)
    }
}

/// The first lines of a page.
fn lines<S: PinSession>(pins: &S, page: u64, count: usize) -> Result<Vec<Entry>> {
    let page = pins.pin_shared(page)?;
    let line = |at: usize| Entry::from_words([0, 1, 2].map(|word| page.read(at * LINE + word)));
    Ok((0..count).map(line).collect())
}

impl Shard {
    fn begin_page(&mut self) {
        let page = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.pages.push_back(page);
        self.lines = 0;
    }

    /// Folds the oldest page if all of its writers have ended for everybody.
    fn fold_oldest<M: Mechanisms, P: Pins>(
        &mut self,
        heap: &Heap<M, P>,
        client: &Client<'_, M, P>,
        horizon: Xid,
    ) -> Result<()> {
        let Some(&page) = self.pages.front() else {
            return Ok(());
        };
        let entries = lines(&client.pins, page, LINES)?;
        if entries.iter().any(|entry| entry.xid >= horizon) {
            return Ok(());
        }
        for entry in &entries {
            if heap.core.status().get(entry.xid)? == Status::Committed {
                self.folded.add(entry);
            }
        }
        self.pages.pop_front();
        self.free.push(page);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_as_it_was_written() {
        let entry = Entry {
            xid: Xid::new(1 << 40),
            aid: u32::MAX,
            tid: 7,
            bid: 1 << 31,
            delta: -5000,
        };
        assert_eq!(Entry::from_words(entry.words()), entry);
    }
}
