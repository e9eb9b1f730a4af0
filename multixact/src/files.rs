//! Sets in the files of a PostgreSQL directory.

use std::path::Path;

use slru::{FileStore, Layout, PoolError, StoreError};
use txnkit_ids::{MultiXactId, MultiXactOffset, Xid};

use crate::error::MultiXactError;
use crate::layout::{MEMBERS_PER_PAGE, OFFSETS_PER_PAGE};
use crate::next::Next;
use crate::sets::{Kept, Sets};

/// `offsets`: files `0000` to `FFFF`.
const OFFSETS: Layout = Layout::of_entries(OFFSETS_PER_PAGE);

/// `members`: files `0000` to `14078`.
const MEMBERS: Layout = Layout::of_entries(MEMBERS_PER_PAGE).using_whole_epoch();

impl<N: Next> Sets<FileStore, N> {
    /// Opens `pg_multixact`, the directory `dir` with `offsets` and `members` in it, of a PostgreSQL server that was stopped: `kept` is in its control file. Nothing
    /// is changed before a set is made.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`MultiXactError::Pool`] when a directory cannot be read.
    pub fn open_dir(
        dir: impl AsRef<Path>,
        pages: [usize; 2],
        sessions: usize,
        kept: Kept,
    ) -> Result<Self, MultiXactError> {
        let dir = dir.as_ref();
        // The files count both as ids are counted.
        let offset_pages =
            OFFSETS.pages(Xid::new(kept.ids.start.get()), Xid::new(kept.ids.end.get()));
        let offsets = FileStore::open(dir.join("offsets"), OFFSETS, offset_pages)
            .map_err(PoolError::Store)?;
        let open_members = |positions: core::ops::Range<MultiXactOffset>| {
            let pages = MEMBERS.pages(
                Xid::new(positions.start.get()),
                Xid::new(positions.end.get()),
            );
            FileStore::open(dir.join("members"), MEMBERS, pages)
        };
        Self::open(offsets, open_members, pages, sessions, kept)
    }

    /// Begins `offsets` and `members` in the directory `dir`, which is created if it is not there.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] when there are files already; [`StoreError::Io`].
    pub fn create_dir(
        dir: impl AsRef<Path>,
        pages: [usize; 2],
        sessions: usize,
    ) -> Result<Self, StoreError> {
        let create = |name, layout| FileStore::create(dir.as_ref().join(name), layout, 0);
        let (offsets, members) = (create("offsets", OFFSETS)?, create("members", MEMBERS)?);
        let first = (MultiXactId::FIRST, MultiXactOffset::FIRST);
        Ok(Self::starting_at(
            offsets, members, pages, sessions, first.0, first.1,
        ))
    }
}
