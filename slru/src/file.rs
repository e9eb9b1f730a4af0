//! Pages in files, laid out as PostgreSQL does.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use txnkit_ids::Lsn;
use txnkit_sync::lock::Mutex;

use crate::{Found, Layout, PAGE_BYTES, PageBuf, PageStore, StoreError};

/// Files kept open.
const OPEN_FILES: usize = 256;

/// Pages in a directory of segment files as PostgreSQL has them: 32 pages of 8192 bytes a file, names of four or more upper-case hexadecimal digits.
/// `pg_xact`, `pg_subtrans` and `pg_commit_ts` are such; which one, the [`Layout`] says.
///
/// The files count pages from 0 in every epoch of 2^32 ids, while page numbers here are 64-bit. So the pages in use must lie within half an
/// epoch (2^31 ids) of each other; writing further is [`StoreError::TooFar`]. The store keeps up to 256 files open.
///
/// Every page from the first one on is in the files once a later one is: gaps are filled with holes that read as zeros. So a
/// missing or short file is always an error, never taken for "nothing happened yet". What the files hold after the last page, from a life that
/// is over, is cut off before the next page is written, so that it never comes back.
///
/// Reads and writes go to the file without a lock held; opening, removing and creating files blocks on one lock. A page is
/// written in place: what a crash makes of it is for the caller's log to repair.
pub struct FileStore {
    dir: PathBuf,
    layout: Layout,
    state: Mutex<State>,
}

struct State {
    /// The pages that are in the files.
    pages: Range<u64>,
    /// Segments from this one on may hold something of another life.
    foreign: u64,
    /// Every segment before this one is removed.
    removed: Option<u64>,
    open: BTreeMap<u64, Arc<File>>,
    /// Segments written since they were last made durable.
    unsynced: BTreeSet<u64>,
    /// Files came or went since the directory was last made durable.
    directory_unsynced: bool,
}

impl FileStore {
    /// Begins a store in `dir` whose first page will be `first`. The directory is created if it is not there.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] when `dir` holds segment files already; [`StoreError::Io`].
    pub fn create(dir: impl Into<PathBuf>, layout: Layout, first: u64) -> Result<Self, StoreError> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(|e| refused("create", &dir, &e))?;
        match segments_in(&dir)?.into_iter().next() {
            Some((_, file)) => Err(StoreError::NotEmpty { file }),
            None => Ok(Self::with_pages(dir, layout, first..first, true)),
        }
    }

    /// As [`create`](Self::create), but removes the segment files that are there: for what means nothing after a restart, as parents do, or is
    /// switched off and on again, as timestamps may be.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn create_anew(
        dir: impl Into<PathBuf>,
        layout: Layout,
        first: u64,
    ) -> Result<Self, StoreError> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(|e| refused("create", &dir, &e))?;
        for (_, file) in segments_in(&dir)? {
            fs::remove_file(&file).map_err(|e| refused("remove", &file, &e))?;
        }
        Ok(Self::with_pages(dir, layout, first..first, true))
    }

    /// Opens the store in `dir` that holds `pages`: one that is missing there is an error when it is read, one after them is
    /// new, whatever the files hold there. [`Layout::pages`] says which pages hold given ids. Nothing is changed before the first write.
    ///
    /// # Errors
    /// [`StoreError::Io`] when `dir` is not a directory that can be read; [`StoreError::TooFar`] when `pages` are more than fit.
    pub fn open(
        dir: impl Into<PathBuf>,
        layout: Layout,
        pages: Range<u64>,
    ) -> Result<Self, StoreError> {
        let dir = dir.into();
        fs::read_dir(&dir).map_err(|e| refused("open", &dir, &e))?;
        if pages.end.saturating_sub(pages.start) > layout.limit() {
            return Err(StoreError::TooFar {
                page: pages.end - 1,
                first: pages.start,
                limit: layout.limit(),
            });
        }
        Ok(Self::with_pages(dir, layout, pages, false))
    }

    fn with_pages(
        dir: PathBuf,
        layout: Layout,
        pages: Range<u64>,
        directory_unsynced: bool,
    ) -> Self {
        // A range that ends before it begins holds nothing.
        let pages = pages.start..pages.end.max(pages.start);
        let state = State {
            foreign: layout.position(pages.end).0,
            removed: None,
            pages,
            open: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            directory_unsynced,
        };
        Self {
            dir,
            layout,
            state: Mutex::new(state),
        }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.dir
            .join(format!("{:04X}", self.layout.name_of(segment)))
    }

    /// The open file of a segment. Without `create` a file that is not there is an error of kind `NotFound`.
    fn segment(&self, state: &mut State, segment: u64, create: bool) -> Result<Arc<File>, Error> {
        if let Some(file) = state.open.get(&segment) {
            return Ok(Arc::clone(file));
        }
        let path = self.path(segment);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound && create => {
                state.directory_unsynced = true;
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(&path)?
            }
            // Files that may only be read can be read.
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                File::open(&path)?
            }
            opened => opened?,
        };
        let file = Arc::new(file);
        if state.open.len() >= OPEN_FILES {
            state.open.pop_first();
        }
        state.open.insert(segment, Arc::clone(&file));
        Ok(file)
    }

    /// Before a page beyond the last one is written: makes every page between them read as zeros, whole files by their length, the rest
    /// of `page`'s own file by the hole that writing behind its end leaves.
    fn extend_to(&self, state: &mut State, page: u64) -> Result<(), StoreError> {
        if page < state.pages.end {
            return Ok(());
        }
        if !state.pages.is_empty() {
            self.check_last(state)?;
        }
        let (last, _) = self.layout.position(page);
        for segment in self.layout.position(state.pages.end).0..=last {
            if segment < last || segment >= state.foreign {
                self.extend_segment(state, segment, segment < last)
                    .map_err(|e| refused("extend", &self.path(segment), &e))?;
            }
        }
        Ok(())
    }

    /// Cuts off what a segment holds of another life, then fills it up if it is to be `whole`.
    fn extend_segment(&self, state: &mut State, segment: u64, whole: bool) -> Result<(), Error> {
        let file = self.segment(state, segment, true)?;
        let (first, next) = (
            self.layout.first_page(segment),
            self.layout.first_page(segment + 1),
        );
        state.unsynced.insert(segment);
        // Once only, before anything beyond the last page is written by this life: a write under way must not be cut off.
        if segment >= state.foreign {
            let kept = state.pages.end.max(first) - first;
            if file.metadata()?.len() > kept * PAGE_BYTES as u64 {
                file.set_len(kept * PAGE_BYTES as u64)?;
            }
            state.foreign = segment + 1;
        }
        if whole {
            file.set_len((next - first) * PAGE_BYTES as u64)?;
            state.pages.end = next;
        }
        Ok(())
    }

    /// Is the file of this name older than `segment`? All of its pages are, then. Those in use reach half an epoch ahead, and one segment more where
    /// neither end is a segment's; what lies less than half an epoch behind is none of them.
    fn precedes(&self, name: u64, segment: u64) -> bool {
        let all = self.layout.epoch_segments();
        if name >= all {
            return false;
        }
        let behind = (self.layout.name_of(segment) + all - name) % all;
        behind != 0 && behind + 1 < all / 2
    }

    /// The last page has to be there whole before its file grows: a hole would hide that it was lost.
    fn check_last(&self, state: &mut State) -> Result<(), StoreError> {
        let (segment, offset) = self.layout.position(state.pages.end - 1);
        let file = self.path(segment);
        let length = match self
            .segment(state, segment, false)
            .and_then(|f| f.metadata())
        {
            Ok(metadata) => metadata.len(),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return Err(StoreError::Missing {
                    file,
                    offset,
                    wanted: PAGE_BYTES,
                });
            }
            Err(e) => return Err(refused("open", &file, &e)),
        };
        match length.saturating_sub(offset) as usize {
            found if found < PAGE_BYTES => Err(StoreError::Short {
                file,
                offset,
                wanted: PAGE_BYTES,
                found,
            }),
            _ => Ok(()),
        }
    }
}

impl PageStore for FileStore {
    fn read(&self, page: u64, into: &mut PageBuf) -> Result<Found, StoreError> {
        let (segment, offset) = self.layout.position(page);
        let file = {
            let mut state = self.state.lock();
            if page < state.pages.start {
                return Err(StoreError::Truncated {
                    page,
                    first: state.pages.start,
                });
            }
            if page >= state.pages.end {
                return Ok(Found::NeverWritten);
            }
            self.segment(&mut state, segment, false)
        };
        let file = file.map_err(|e| match e.kind() {
            ErrorKind::NotFound => StoreError::Missing {
                file: self.path(segment),
                offset,
                wanted: PAGE_BYTES,
            },
            _ => refused("open", &self.path(segment), &e),
        })?;
        match read_at(&file, into.bytes_mut(), offset) {
            Ok(PAGE_BYTES) => Ok(Found::Page),
            Ok(found) => Err(StoreError::Short {
                file: self.path(segment),
                offset,
                wanted: PAGE_BYTES,
                found,
            }),
            Err(e) => Err(refused("read", &self.path(segment), &e)),
        }
    }

    fn write(&self, page: u64, from: &PageBuf, log: Lsn) -> Result<(), StoreError> {
        if log.is_valid() {
            return Err(StoreError::NoLog { log });
        }
        let (segment, offset) = self.layout.position(page);
        let file = {
            let mut state = self.state.lock();
            let first = state.pages.start;
            if page < first {
                return Err(StoreError::Truncated { page, first });
            }
            let limit = self.layout.limit();
            if page - first >= limit {
                return Err(StoreError::TooFar { page, first, limit });
            }
            self.extend_to(&mut state, page)?;
            self.segment(&mut state, segment, true)
                .map_err(|e| refused("open", &self.path(segment), &e))?
        };
        write_at(&file, from.bytes(), offset)
            .map_err(|e| refused("write", &self.path(segment), &e))?;
        // Only now: a sync that runs meanwhile must not take the segment off the list before the page is in it.
        let mut state = self.state.lock();
        if page >= state.pages.start {
            state.unsynced.insert(segment);
            state.pages.end = state.pages.end.max(page + 1);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        let (segments, directory) = {
            let mut state = self.state.lock();
            (
                core::mem::take(&mut state.unsynced),
                core::mem::take(&mut state.directory_unsynced),
            )
        };
        for segment in segments {
            let path = self.path(segment);
            let file = self
                .segment(&mut self.state.lock(), segment, false)
                .map_err(|e| refused("open", &path, &e));
            file?.sync_all().map_err(|e| refused("fsync", &path, &e))?;
        }
        if directory {
            sync_directory(&self.dir)?;
        }
        Ok(())
    }

    fn truncate(&self, first: u64) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        // First no page before `first` is to be read or written, then files go: the other order would let a reader meet a
        // missing file.
        state.pages.start = state.pages.start.max(first);
        state.pages.end = state.pages.end.max(state.pages.start);
        let (segment, _) = self.layout.position(state.pages.start);
        if state.removed == Some(segment) {
            return Ok(());
        }
        state.open.retain(|&open, _| open >= segment);
        state.unsynced.retain(|&written| written >= segment);
        // By the directory, not by what was written: a crash may have come between raising the first page and removing its files.
        for (name, file) in segments_in(&self.dir)? {
            if self.precedes(name, segment) {
                state.directory_unsynced = true;
                match fs::remove_file(&file) {
                    Err(e) if e.kind() != ErrorKind::NotFound => {
                        return Err(refused("remove", &file, &e));
                    }
                    _ => {}
                }
            }
        }
        state.removed = Some(segment);
        Ok(())
    }
}

impl core::fmt::Debug for FileStore {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FileStore")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// Four to six characters, all upper-case hexadecimal: what PostgreSQL takes for a segment.
fn is_segment_name(name: &str) -> bool {
    matches!(name.len(), 4..=6) && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'))
}

/// The segment files in a directory, by the number in their name.
fn segments_in(dir: &Path) -> Result<Vec<(u64, PathBuf)>, StoreError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| refused("read", dir, &e))? {
        let entry = entry.map_err(|e| refused("read", dir, &e))?;
        let name = entry.file_name();
        let number = name
            .to_str()
            .filter(|name| is_segment_name(name))
            .and_then(|name| u64::from_str_radix(name, 16).ok());
        found.extend(number.map(|number| (number, entry.path())));
    }
    Ok(found)
}

fn refused(tried: &'static str, file: &Path, error: &Error) -> StoreError {
    StoreError::Io {
        tried,
        file: file.to_path_buf(),
        kind: error.kind(),
        os_error: error.raw_os_error(),
    }
}

/// Reads until `into` is full or the file ends; says how much was read.
fn read_at(file: &File, into: &mut [u8], offset: u64) -> Result<usize, Error> {
    let mut done = 0;
    while done < into.len() {
        match read_some(file, &mut into[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Writes all of `from`.
fn write_at(file: &File, from: &[u8], offset: u64) -> Result<(), Error> {
    let mut done = 0;
    while done < from.len() {
        match write_some(file, &from[done..], offset + done as u64) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(unix)]
use std::os::unix::fs::FileExt;
#[cfg(windows)]
use std::os::windows::fs::FileExt;

fn read_some(file: &File, into: &mut [u8], offset: u64) -> Result<usize, Error> {
    #[cfg(unix)]
    return file.read_at(into, offset);
    #[cfg(windows)]
    return file.seek_read(into, offset);
}

fn write_some(file: &File, from: &[u8], offset: u64) -> Result<usize, Error> {
    #[cfg(unix)]
    return file.write_at(from, offset);
    #[cfg(windows)]
    return file.seek_write(from, offset);
}

/// Makes the names in a directory durable, where the system can.
fn sync_directory(dir: &Path) -> Result<(), StoreError> {
    if cfg!(unix) {
        File::open(dir)
            .and_then(|d| d.sync_all())
            .map_err(|e| refused("fsync", dir, &e))?;
    }
    Ok(())
}
