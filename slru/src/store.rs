//! Where pages live when they are not in the pool.

use core::fmt;

use txnkit_ids::Lsn;

use crate::PageBuf;

/// What a store has of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The page was read.
    Page,
    /// The page was never written: it is all zeros. The buffer is left as it was.
    NeverWritten,
}

/// A place for pages. Called without any lock of the pool held, and for one page by one thread at a time.
///
/// A store must know which pages were ever written: [`Found::NeverWritten`] means "all zeros" and nothing else. A page that
/// should be there and is not is an error.
pub trait PageStore: Send + Sync {
    /// Reads page `page` into `into`, whole or not at all.
    ///
    /// # Errors
    /// [`StoreError`]; the pool keeps nothing of the page, and the next one who asks for it tries again.
    fn read(&self, page: u64, into: &mut PageBuf) -> Result<Found, StoreError>;

    /// Writes page `page`. Every log record up to `log` must be durable before a byte of the page is; [`LogFirst`] sees to that.
    ///
    /// # Errors
    /// [`StoreError`]; the page stays dirty in the pool and is written again later.
    fn write(&self, page: u64, from: &PageBuf, log: Lsn) -> Result<(), StoreError>;

    /// Makes durable every page whose `write` had returned. Called by one thread at a time.
    ///
    /// # Errors
    /// [`StoreError`]; the pool uses the store no more, since nobody can tell what is durable.
    fn sync(&self) -> Result<(), StoreError>;

    /// Pages before `first` are not needed any more. The store may keep some of them.
    ///
    /// # Errors
    /// [`StoreError`]; calling again tries again.
    fn truncate(&self, first: u64) -> Result<(), StoreError>;
}

macro_rules! through_pointer {
    ($pointer:ty) => {
        impl<S: PageStore + ?Sized> PageStore for $pointer {
            fn read(&self, page: u64, into: &mut PageBuf) -> Result<Found, StoreError> {
                (**self).read(page, into)
            }

            fn write(&self, page: u64, from: &PageBuf, log: Lsn) -> Result<(), StoreError> {
                (**self).write(page, from, log)
            }

            fn sync(&self) -> Result<(), StoreError> {
                (**self).sync()
            }

            fn truncate(&self, first: u64) -> Result<(), StoreError> {
                (**self).truncate(first)
            }
        }
    };
}

through_pointer!(&S);
#[cfg(feature = "alloc")]
through_pointer!(alloc::sync::Arc<S>);

/// A store could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// A file that should be there is not.
    #[cfg(feature = "std")]
    Missing {
        /// The file.
        file: std::path::PathBuf,
        /// Where the page begins in it, in bytes.
        offset: u64,
        /// How many bytes were wanted from there.
        wanted: usize,
    },
    /// A file ends before the page does. A page of which a part is there is as bad as none.
    #[cfg(feature = "std")]
    Short {
        /// The file.
        file: std::path::PathBuf,
        /// Where the page begins in it, in bytes.
        offset: u64,
        /// How many bytes were wanted from there.
        wanted: usize,
        /// How many there were.
        found: usize,
    },
    /// The operating system refused.
    #[cfg(feature = "std")]
    Io {
        /// What was tried, as a verb: "open", "read", "write", "fsync", "remove".
        tried: &'static str,
        /// On which file or directory.
        file: std::path::PathBuf,
        /// What kind of refusal.
        kind: std::io::ErrorKind,
        /// The operating system's number for it.
        os_error: Option<i32>,
    },
    /// A directory that was to be begun holds status files already. Open it with the pages it holds instead.
    #[cfg(feature = "std")]
    NotEmpty {
        /// The first such file.
        file: std::path::PathBuf,
    },
    /// The page is gone: it was truncated away, and writing it would bring a dead file back.
    Truncated {
        /// The page asked for.
        page: u64,
        /// The first page that is kept.
        first: u64,
    },
    /// The page lies too far after the first one that is kept: its place in the files would be that of an older page's.
    ///
    /// Truncate first.
    TooFar {
        /// The page asked for.
        page: u64,
        /// The first page that is kept.
        first: u64,
        /// How many pages there can be at a time.
        limit: u64,
    },
    /// There is no room for the page. Truncate, or use a larger store or pool.
    Full {
        /// The page that was to be written.
        page: u64,
    },
    /// The page must not be written before the log up to here is durable, and this store knows of no log: wrap it in [`LogFirst`].
    NoLog {
        /// The position asked for.
        log: Lsn,
    },
    /// The caller's own store or log failed, with a number of its own.
    Other {
        /// The number.
        code: i32,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "std")]
            Self::Missing {
                file,
                offset,
                wanted,
            } => write!(
                f,
                "could not read {wanted} bytes at offset {offset} of file \"{}\": there is no such file",
                file.display()
            ),
            #[cfg(feature = "std")]
            Self::Short {
                file,
                offset,
                wanted,
                found,
            } => write!(
                f,
                "could not read from file \"{}\" at offset {offset}: wanted {wanted} bytes, found {found}",
                file.display()
            ),
            #[cfg(feature = "std")]
            Self::Io {
                tried,
                file,
                kind,
                os_error,
            } => {
                write!(f, "could not {tried} \"{}\": ", file.display())?;
                match os_error {
                    Some(code) => std::io::Error::from_raw_os_error(*code).fmt(f),
                    None => kind.fmt(f),
                }
            }
            #[cfg(feature = "std")]
            Self::NotEmpty { file } => write!(
                f,
                "\"{}\" is there already; open the directory with the pages it holds, or begin in an empty one",
                file.display()
            ),
            Self::Truncated { page, first } => {
                write!(
                    f,
                    "page {page} was truncated away; the first page kept is {first}"
                )
            }
            Self::TooFar { page, first, limit } => write!(
                f,
                "page {page} is more than {limit} pages after the first one kept, {first}; truncate first"
            ),
            Self::Full { page } => {
                write!(
                    f,
                    "no room for page {page}; truncate, or use a larger store or pool"
                )
            }
            Self::NoLog { log } => write!(
                f,
                "the log must be durable up to {log} before this page is written, and the store knows of no log; wrap it in LogFirst"
            ),
            Self::Other { code } => write!(f, "the store failed with its own code {code}"),
        }
    }
}

impl core::error::Error for StoreError {}

/// A store behind a log: no page is written before the log records that its changes depend on are durable.
#[derive(Debug, Clone)]
pub struct LogFirst<S, L> {
    store: S,
    flush: L,
}

impl<S: PageStore, L: Fn(Lsn) -> Result<(), StoreError> + Send + Sync> LogFirst<S, L> {
    /// `store` behind a log that `flush` makes durable up to a position. If `flush` fails, the page is not written.
    pub const fn new(store: S, flush: L) -> Self {
        Self { store, flush }
    }
}

impl<S: PageStore, L: Fn(Lsn) -> Result<(), StoreError> + Send + Sync> PageStore
    for LogFirst<S, L>
{
    fn read(&self, page: u64, into: &mut PageBuf) -> Result<Found, StoreError> {
        self.store.read(page, into)
    }

    fn write(&self, page: u64, from: &PageBuf, log: Lsn) -> Result<(), StoreError> {
        if log.is_valid() {
            (self.flush)(log)?;
        }
        self.store.write(page, from, Lsn::INVALID)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()
    }

    fn truncate(&self, first: u64) -> Result<(), StoreError> {
        self.store.truncate(first)
    }
}

/// No store: the pool is all there is. A page that does not fit is [`StoreError::Full`] until older ones are truncated.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStore;

impl PageStore for NoStore {
    fn read(&self, _page: u64, _into: &mut PageBuf) -> Result<Found, StoreError> {
        // A changed page never leaves the pool, so one that is not there was never changed.
        Ok(Found::NeverWritten)
    }

    fn write(&self, page: u64, _from: &PageBuf, _log: Lsn) -> Result<(), StoreError> {
        Err(StoreError::Full { page })
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn truncate(&self, _first: u64) -> Result<(), StoreError> {
        Ok(())
    }
}
