//! Which page an entry is on, and which file a page is in.

use core::ops::Range;

use txnkit_ids::Xid;

use crate::page::PAGE_BYTES;

#[cfg(feature = "std")]
/// Pages in one file, but that the last one of an epoch may have fewer.
pub(crate) const SEGMENT_PAGES: u64 = 32;

/// Numbers in an epoch: what the files can tell apart.
const EPOCH: u64 = 1 << 32;

/// How entries lie on pages, and pages in files, one entry for every id.
///
/// The files know the low 32 bits of an id only, so they count pages from 0 in every epoch, and 32 pages make a file. Page numbers here are 64-bit:
/// those of an epoch follow on those of the one before. Where the entries of a page do not divide 2^32, an epoch's last page is not full, and its last file
/// may hold fewer pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    entries: u64,
    whole_epoch: bool,
}

impl Layout {
    /// Two bits an id, 32 768 a page, files `0000` to `0FFF`: PostgreSQL's `pg_xact`.
    pub const STATUS: Self = Self::of_entries(PAGE_BYTES as u64 * 4);
    /// Four bytes an id, 2048 a page, files `0000` to `FFFF`: PostgreSQL's `pg_subtrans`.
    pub const PARENTS: Self = Self::of_entries(PAGE_BYTES as u64 / 4);
    /// Ten bytes an id, 819 a page and two bytes left over, files `0000` to `28028`: PostgreSQL's `pg_commit_ts`.
    pub const TIMESTAMPS: Self = Self::of_entries(PAGE_BYTES as u64 / 10);

    /// So many entries a page; 0 is taken as 1, more than 2^32 as 2^32.
    pub const fn of_entries(per_page: u64) -> Self {
        let entries = if per_page == 0 {
            1
        } else if per_page > EPOCH {
            EPOCH
        } else {
            per_page
        };
        Self {
            entries,
            whole_epoch: false,
        }
    }

    /// The same, but for a store that never asks which of two numbers is older, so that all of an epoch may be in use but one file: the members of
    /// PostgreSQL's lock sets.
    #[must_use]
    pub const fn using_whole_epoch(self) -> Self {
        Self {
            whole_epoch: true,
            ..self
        }
    }

    /// The page of an id's entry.
    #[inline]
    pub const fn page_of(self, xid: Xid) -> u64 {
        if EPOCH.is_multiple_of(self.entries) {
            // The same, and one instruction for a layout that is known when compiled.
            return xid.get() / self.entries;
        }
        xid.epoch() as u64 * self.epoch_pages() + xid.low32().get() as u64 / self.entries
    }

    /// Where on its page an id's entry is, counted in entries.
    #[inline]
    pub const fn place_of(self, xid: Xid) -> u64 {
        xid.low32().get() as u64 % self.entries
    }

    /// The first id on a page; [`Xid::MAX`] when there is no such page.
    pub const fn first_of(self, page: u64) -> Xid {
        let (epoch, page) = (page / self.epoch_pages(), page % self.epoch_pages());
        if epoch < EPOCH {
            Xid::new(epoch * EPOCH + page * self.entries)
        } else {
            Xid::MAX
        }
    }

    /// The pages that hold the entries of `oldest` and all later ids before `next`: what [`FileStore::open`](crate::FileStore::open) wants to know of
    /// a PostgreSQL directory, whose control file has both ids.
    pub const fn pages(self, oldest: Xid, next: Xid) -> Range<u64> {
        let first = self.page_of(oldest);
        match next.checked_sub(1) {
            Some(last) if next.get() > oldest.get() => first..self.page_of(last) + 1,
            _ => first..first,
        }
    }

    /// Pages of an epoch.
    #[inline]
    pub(crate) const fn epoch_pages(self) -> u64 {
        EPOCH.div_ceil(self.entries)
    }
}

/// What only the files need.
#[cfg(feature = "std")]
impl Layout {
    /// Pages that may be in use at a time, so that PostgreSQL can tell which is older: half an epoch. Or so that the first and the last page are not in
    /// one file.
    pub(crate) const fn limit(self) -> u64 {
        if self.whole_epoch {
            self.epoch_pages().saturating_sub(SEGMENT_PAGES)
        } else {
            self.epoch_pages() / 2
        }
    }

    /// Files of an epoch.
    pub(crate) const fn epoch_segments(self) -> u64 {
        self.epoch_pages().div_ceil(SEGMENT_PAGES)
    }

    /// The file of a page, numbered on from epoch to epoch, and where the page begins in it, in bytes.
    pub(crate) const fn position(self, page: u64) -> (u64, u64) {
        let (epoch, page) = (page / self.epoch_pages(), page % self.epoch_pages());
        let segment = epoch * self.epoch_segments() + page / SEGMENT_PAGES;
        (segment, page % SEGMENT_PAGES * PAGE_BYTES as u64)
    }

    /// The first page of a file.
    pub(crate) const fn first_page(self, segment: u64) -> u64 {
        let (epoch, segment) = (
            segment / self.epoch_segments(),
            segment % self.epoch_segments(),
        );
        epoch * self.epoch_pages() + segment * SEGMENT_PAGES
    }

    /// The number in a file's name.
    pub(crate) const fn name_of(self, segment: u64) -> u64 {
        segment % self.epoch_segments()
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    const ALL: [Layout; 4] = [
        Layout::STATUS,
        Layout::PARENTS,
        Layout::TIMESTAMPS,
        Layout::of_entries(1636),
    ];

    #[test]
    fn entries_are_where_postgresql_keeps_them() {
        // Layout, id, page, number in the file's name, byte of the page.
        let places = [
            (Layout::STATUS, 1_000_000, 30, 0, 30 * 8192),
            (Layout::STATUS, u32::MAX, 131_071, 0x0FFF, 31 * 8192),
            (Layout::PARENTS, 2047, 0, 0, 0),
            (Layout::PARENTS, 2048, 1, 0, 8192),
            (Layout::PARENTS, 65_536, 32, 1, 0),
            (Layout::PARENTS, u32::MAX, 2_097_151, 0xFFFF, 31 * 8192),
            (Layout::TIMESTAMPS, 818, 0, 0, 0),
            (Layout::TIMESTAMPS, 819, 1, 0, 8192),
            (Layout::TIMESTAMPS, 26_208, 32, 1, 0),
            (Layout::TIMESTAMPS, u32::MAX, 5_244_160, 0x2_8028, 0),
        ];
        for (layout, low, page, name, byte) in places {
            for epoch in [0, 1, 7, u32::MAX] {
                let xid = Xid::from_epoch(epoch, txnkit_ids::Xid32::new(low));
                let found = layout.page_of(xid);
                assert_eq!(found % layout.epoch_pages(), page, "{xid}");
                let (segment, offset) = layout.position(found);
                assert_eq!((layout.name_of(segment), offset), (name, byte), "{xid}");
            }
        }
    }

    /// Around every place where something begins anew, ids, pages and files go up one by one and back again.
    #[test]
    fn pages_and_files_follow_one_another_across_epochs() {
        for layout in ALL {
            for epoch in [1, 2, 1 << 31] {
                let middle = epoch * EPOCH;
                for number in middle - 3 * layout.entries..middle + 3 * layout.entries {
                    let xid = Xid::new(number);
                    let page = layout.page_of(xid);
                    let next = layout.page_of(Xid::new(number + 1));
                    assert!(next == page || next == page + 1);
                    assert_eq!(
                        layout.first_of(page).get() + layout.place_of(xid),
                        number,
                        "{layout:?}"
                    );
                }
                let middle = layout.page_of(Xid::new(middle));
                for page in middle - 70..middle + 70 {
                    let (segment, offset) = layout.position(page);
                    assert_eq!(
                        layout.first_page(segment) + offset / PAGE_BYTES as u64,
                        page,
                        "{layout:?}"
                    );
                    let next = layout.position(page + 1);
                    let expected = if next.0 == segment {
                        (segment, offset + PAGE_BYTES as u64)
                    } else {
                        (segment + 1, 0)
                    };
                    assert_eq!(next, expected, "{layout:?}");
                }
            }
        }
    }

    #[test]
    fn the_pages_of_a_range_are_those_of_its_ends() {
        let x = Xid::new;
        assert_eq!(Layout::STATUS.pages(x(3), x(3)), 0..0);
        assert_eq!(Layout::STATUS.pages(x(3), x(32_768)), 0..1);
        assert_eq!(Layout::STATUS.pages(x(3), x(32_769)), 0..2);
        assert_eq!(
            Layout::TIMESTAMPS.pages(x(819), x((1 << 32) + 3)),
            1..5_244_162
        );
        assert_eq!(Layout::TIMESTAMPS.first_of(u64::MAX), Xid::MAX);
    }
}
