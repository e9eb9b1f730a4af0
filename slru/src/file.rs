//! Pages in files, laid out as PostgreSQL does.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use core::ops::Range;
use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use txnkit_ids::Lsn;
use txnkit_sync::lock::Mutex;

use crate::{Found, PAGE_BYTES, PageBuf, PageStore, StoreError};

/// Pages in one file.
const SEGMENT_PAGES: u64 = 32;
/// Pages in the files' own, 32-bit counting: 2^32 ids of 2 bits.
const CIRCLE_PAGES: u64 = 1 << 17;
/// Pages that may be in use at a time: half the circle, so 2^31 ids.
const LIMIT_PAGES: u64 = CIRCLE_PAGES / 2;
/// Files kept open.
const OPEN_FILES: usize = 256;

/// Pages in a directory of segment files: 32 pages of 8192 bytes a file, names `0000` to `0FFF` in upper-case hexadecimal.
/// PostgreSQL's `pg_xact` is one.
///
/// The files count pages modulo 131 072 (2^32 ids), while page numbers here are 64-bit. So the pages in use must lie within
/// 65 536 of each other (2^31 ids); writing further is [`StoreError::TooFar`]. The store keeps up to 256 files open.
///
/// Every page from the first one on is in the files once a later one is: gaps are filled with holes that read as zeros. So a
/// missing or short file is always an error, never taken for "nothing happened yet".
///
/// Reads and writes go to the file without a lock held; opening, removing and creating files blocks on one lock. A page is
/// written in place: what a crash makes of it is for the caller's log to repair.
pub struct FileStore {
    dir: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// The pages that are in the files.
    pages: Range<u64>,
    /// Every segment before this one is removed.
    removed: u64,
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
    pub fn create(dir: impl Into<PathBuf>, first: u64) -> Result<Self, StoreError> {
        let dir = dir.into();
        fs::create_dir_all(&dir).map_err(|e| refused("create", &dir, &e))?;
        for entry in fs::read_dir(&dir).map_err(|e| refused("read", &dir, &e))? {
            let entry = entry.map_err(|e| refused("read", &dir, &e))?;
            if entry.file_name().to_str().is_some_and(is_segment_name) {
                return Err(StoreError::NotEmpty { file: entry.path() });
            }
        }
        Ok(Self::with_pages(dir, first..first, true))
    }

    /// Opens the store in `dir` that holds `pages`: one that is missing there is an error when it is read, one after them is
    /// new. [`status_pages`](crate::status_pages) says which pages hold given ids.
    ///
    /// # Errors
    /// [`StoreError::Io`] when `dir` is not a directory that can be read; [`StoreError::TooFar`] when `pages` are more than fit.
    pub fn open(dir: impl Into<PathBuf>, pages: Range<u64>) -> Result<Self, StoreError> {
        let dir = dir.into();
        fs::read_dir(&dir).map_err(|e| refused("open", &dir, &e))?;
        if pages.end.saturating_sub(pages.start) > LIMIT_PAGES {
            return Err(StoreError::TooFar {
                page: pages.end - 1,
                first: pages.start,
                limit: LIMIT_PAGES,
            });
        }
        Ok(Self::with_pages(dir, pages, false))
    }

    fn with_pages(dir: PathBuf, pages: Range<u64>, directory_unsynced: bool) -> Self {
        let state = State {
            removed: pages.start / SEGMENT_PAGES,
            pages,
            open: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            directory_unsynced,
        };
        Self {
            dir,
            state: Mutex::new(state),
        }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.dir
            .join(format!("{:04X}", segment % (CIRCLE_PAGES / SEGMENT_PAGES)))
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

    /// Makes every page between the last one in the files and `page` read as zeros: whole files by their length, the rest
    /// of `page`'s own file by the hole that writing behind its end leaves.
    fn fill_gap(&self, state: &mut State, page: u64) -> Result<(), StoreError> {
        if page >= state.pages.end && !state.pages.is_empty() {
            self.check_last(state)?;
        }
        let last = page / SEGMENT_PAGES;
        for segment in state.pages.end / SEGMENT_PAGES..last {
            let file = self
                .segment(state, segment, true)
                .map_err(|e| refused("create", &self.path(segment), &e))?;
            file.set_len(SEGMENT_PAGES * PAGE_BYTES as u64)
                .map_err(|e| refused("extend", &self.path(segment), &e))?;
            state.unsynced.insert(segment);
            state.pages.end = (segment + 1) * SEGMENT_PAGES;
        }
        Ok(())
    }

    /// The last page has to be there whole before its file grows: a hole would hide that it was lost.
    fn check_last(&self, state: &mut State) -> Result<(), StoreError> {
        let (segment, offset) = position(state.pages.end - 1);
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
        let (segment, offset) = position(page);
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
        let (segment, offset) = position(page);
        let file = {
            let mut state = self.state.lock();
            let first = state.pages.start;
            if page < first {
                return Err(StoreError::Truncated { page, first });
            }
            if page - first >= LIMIT_PAGES {
                return Err(StoreError::TooFar {
                    page,
                    first,
                    limit: LIMIT_PAGES,
                });
            }
            self.fill_gap(&mut state, page)?;
            self.segment(&mut state, segment, true)
                .map_err(|e| refused("open", &self.path(segment), &e))?
        };
        write_at(&file, from.bytes(), offset)
            .map_err(|e| refused("write", &self.path(segment), &e))?;
        // Only now: a sync that runs meanwhile must not take the segment off the list before the page is in it.
        let mut state = self.state.lock();
        state.unsynced.insert(segment);
        state.pages.end = state.pages.end.max(page + 1);
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
        while state.removed < state.pages.start / SEGMENT_PAGES {
            let segment = state.removed;
            state.open.remove(&segment);
            match fs::remove_file(self.path(segment)) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(refused("remove", &self.path(segment), &e));
                }
                _ => {}
            }
            state.unsynced.remove(&segment);
            state.directory_unsynced = true;
            state.removed += 1;
        }
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

/// The segment of a page, and where the page begins in its file.
const fn position(page: u64) -> (u64, u64) {
    (
        page / SEGMENT_PAGES,
        page % SEGMENT_PAGES * PAGE_BYTES as u64,
    )
}

/// Four to six characters, all upper-case hexadecimal: what PostgreSQL takes for a segment.
fn is_segment_name(name: &str) -> bool {
    matches!(name.len(), 4..=6) && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'))
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
