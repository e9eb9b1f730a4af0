//! A log in segment files.
//!
//! A file's name is the position of its first byte, 16 hexadecimal digits and `.redo`; a file ends where the next one starts. So the names
//! say whether a file is missing, and the segment size may change from one opening to the next. A new file is durable, its name included,
//! before a sync returns. The file `lock` keeps a second process out.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::store::{LogStore, StoreError};

/// A log's bytes in the files of a folder.
pub struct FileStore {
    folder: PathBuf,
    segment_bytes: u64,
    /// Sorted, without gaps; the last one is appended to.
    segments: Vec<Segment>,
    /// How many of the last segments have bytes that no sync has made durable.
    unsynced: usize,
    /// Were files made since the last sync?
    new_names: bool,
    _lock: File,
}

struct Segment {
    start: u64,
    len: u64,
    file: File,
}

fn error(what: &str, path: &Path, source: &io::Error) -> StoreError {
    StoreError::new(format!("cannot {what} {}: {source}", path.display()))
}

impl FileStore {
    /// A usual size of a segment.
    pub const SEGMENT_BYTES: u64 = 16 << 20;

    /// Opens the files in `folder`, which is made if it is missing. New files are begun every `segment_bytes` bytes.
    ///
    /// # Errors
    /// [`StoreError`] when the folder or a file cannot be read or made, another process has it open, or a file is missing between others.
    pub fn open(folder: impl AsRef<Path>, segment_bytes: u64) -> Result<Self, StoreError> {
        let folder = folder.as_ref().to_path_buf();
        if segment_bytes == 0 {
            return Err(StoreError::new(
                "a segment of 0 bytes holds nothing; ask for FileStore::SEGMENT_BYTES",
            ));
        }
        fs::create_dir_all(&folder).map_err(|e| error("make the folder", &folder, &e))?;
        let lock = lock(&folder)?;
        let mut store = Self {
            segments: Vec::new(),
            folder,
            segment_bytes,
            unsynced: 0,
            new_names: false,
            _lock: lock,
        };
        store.find_segments()?;
        Ok(store)
    }

    fn find_segments(&mut self) -> Result<(), StoreError> {
        let entries = fs::read_dir(&self.folder).map_err(|e| error("list", &self.folder, &e))?;
        let mut starts = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| error("list", &self.folder, &e))?;
            starts.extend(start_of(&entry.file_name().to_string_lossy()));
        }
        starts.sort_unstable();
        for &start in &starts {
            let segment = self.open_segment(start, false)?;
            if let Some(before) = self.segments.last()
                && before.start + before.len != start
            {
                let path = self.path(before.start + before.len);
                return Err(StoreError::new(format!(
                    "the redo log's file {} is missing or the one before it is short; restore it from a copy",
                    path.display()
                )));
            }
            self.segments.push(segment);
        }
        Ok(())
    }

    fn path(&self, start: u64) -> PathBuf {
        self.folder.join(format!("{start:016x}.redo"))
    }

    fn open_segment(&self, start: u64, new: bool) -> Result<Segment, StoreError> {
        let path = self.path(start);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(new).open(&path);
        let file = file.map_err(|e| error(if new { "make" } else { "open" }, &path, &e))?;
        let len = file
            .metadata()
            .map_err(|e| error("ask the length of", &path, &e))?
            .len();
        Ok(Segment { start, len, file })
    }

    /// The segment that takes the next byte, a new one where the last is full.
    fn last(&mut self) -> Result<&mut Segment, StoreError> {
        let full = |last: &Segment| last.len >= self.segment_bytes;
        if self.segments.last().is_none_or(full) {
            let segment = self.open_segment(self.end(), true)?;
            self.segments.push(segment);
            self.new_names = true;
            self.unsynced += 1;
        } else if self.unsynced == 0 {
            self.unsynced = 1;
        }
        let at = self.segments.len() - 1;
        Ok(&mut self.segments[at])
    }

    fn sync_folder(&self) -> Result<(), StoreError> {
        // Elsewhere a folder cannot be opened, and its entries are durable with the file.
        #[cfg(unix)]
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|e| error("make durable the folder", &self.folder, &e))?;
        Ok(())
    }
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|e| error("make", &path, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::new(format!(
            "the redo log in {} is open already; close it there first",
            folder.display()
        ))),
        Err(TryLockError::Error(e)) => Err(error("lock", &path, &e)),
    }
}

/// The position that a segment's name says; `None` for other files.
fn start_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".redo")?;
    let well_formed = digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| well_formed)
}

impl LogStore for FileStore {
    fn start(&self) -> u64 {
        self.segments.first().map_or(0, |first| first.start)
    }

    fn end(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.start + last.len)
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        let mut read = 0;
        let mut index = self
            .segments
            .partition_point(|segment| segment.start + segment.len <= at);
        while read < into.len() && index < self.segments.len() {
            let path = self.path(self.segments[index].start);
            let segment = &mut self.segments[index];
            let from = at + read as u64 - segment.start;
            let len = (into.len() - read).min((segment.len - from) as usize);
            segment
                .file
                .seek(SeekFrom::Start(from))
                .and_then(|_| segment.file.read_exact(&mut into[read..read + len]))
                .map_err(|e| error("read", &path, &e))?;
            read += len;
            index += 1;
        }
        Ok(read)
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        while !bytes.is_empty() {
            let (segment_bytes, end) = (self.segment_bytes, self.end());
            let last = self.last()?;
            let room = segment_bytes - last.len;
            let (now, later) = bytes.split_at(bytes.len().min(room as usize));
            let written = last
                .file
                .seek(SeekFrom::Start(last.len))
                .and_then(|_| last.file.write_all(now));
            let start = last.start;
            last.len += now.len() as u64;
            written.map_err(|e| {
                let what = String::from("append at ") + &format!("{end:#x} to");
                error(&what, &self.path(start), &e)
            })?;
            bytes = later;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let from = self.segments.len() - self.unsynced;
        for segment in &self.segments[from..] {
            segment
                .file
                .sync_data()
                .map_err(|e| error("make durable", &self.path(segment.start), &e))?;
        }
        self.unsynced = 0;
        if self.new_names {
            self.sync_folder()?;
            self.new_names = false;
        }
        Ok(())
    }

    fn cut(&mut self, end: u64) -> Result<(), StoreError> {
        let mut left = self.segments.len();
        while let Some(last) = self.segments.last_mut() {
            let path = self.folder.join(format!("{:016x}.redo", last.start));
            // One stays: its name says where the log goes on.
            if last.start >= end && left > 1 {
                left -= 1;
                fs::remove_file(&path).map_err(|e| error("remove", &path, &e))?;
                self.segments.pop();
                self.new_names = true;
                continue;
            }
            let len = end - last.start;
            let cut = last.file.set_len(len).and_then(|()| last.file.sync_all());
            cut.map_err(|e| error("cut", &path, &e))?;
            last.len = len;
            break;
        }
        self.unsynced = self.unsynced.min(self.segments.len());
        self.sync()
    }

    fn remove_before(&mut self, start: u64) -> Result<(), StoreError> {
        // The last one stays: its name says where the log goes on.
        while self.segments.len() > 1 && self.segments[1].start <= start {
            let path = self.path(self.segments[0].start);
            fs::remove_file(&path).map_err(|e| error("remove", &path, &e))?;
            self.segments.remove(0);
            self.unsynced = self.unsynced.min(self.segments.len());
        }
        Ok(())
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore")
            .field("folder", &self.folder)
            .field("start", &self.start())
            .field("end", &self.end())
            .finish_non_exhaustive()
    }
}
