//! What can go wrong, one type an operation.

use core::fmt;

/// No session could be registered: every slot is taken.
///
/// Drop a session that is no longer needed, or build the pool for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterError {
    /// How many sessions the pool was built for, all of them registered.
    pub sessions: usize,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot register another session: all {} slots are in use; drop a session or build the pool for more",
            self.sessions
        )
    }
}

impl core::error::Error for RegisterError {}

/// What a store says of a read or a write that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreError {
    /// What happened, in words.
    pub what: &'static str,
    /// A number that says more: the operating system's where there is one, else the store's own.
    pub code: i32,
}

impl StoreError {
    /// A failure described by `what` and `code`.
    pub const fn new(what: &'static str, code: i32) -> Self {
        Self { what, code }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.what, self.code)
    }
}

impl core::error::Error for StoreError {}

/// A page could not be pinned. Nothing is held that was not held before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinError {
    /// The number asked for is [`NO_PAGE`](crate::NO_PAGE), which means "no page".
    Reserved,
    /// Every buffer is pinned, so none could be taken for the page.
    ///
    /// Unpin what is no longer needed, or build the pool with more buffers.
    AllPinned {
        /// The page asked for.
        page: u64,
        /// How many buffers there are.
        buffers: usize,
    },
    /// The session's own table of pins is full: of buffers (without `alloc`), or of pins of one buffer.
    TooManyPins {
        /// The page asked for.
        page: u64,
        /// How many pins the session holds.
        held: usize,
    },
    /// The page could not be read.
    Read {
        /// The page asked for.
        page: u64,
        /// What the store said.
        error: StoreError,
    },
    /// Another page had to be written to make room, and could not be. It stays in the pool, changed as it was.
    WriteBack {
        /// The page that could not be written.
        page: u64,
        /// What the store said.
        error: StoreError,
    },
    /// Another session is reading the page in or changing it, and this build has no way to wait (no `std`, no parking given).
    WouldBlock {
        /// The page asked for.
        page: u64,
    },
    /// This session has the page locked exclusively, by an earlier guard; the shared lock asked for beside the pin would wait for itself.
    AlreadyLocked {
        /// The page asked for.
        page: u64,
    },
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved => write!(
                f,
                "cannot pin page {}: that number means \"no page\"; use a smaller one",
                crate::NO_PAGE
            ),
            Self::AllPinned { page, buffers } => write!(
                f,
                "cannot pin page {page}: no unpinned buffer among {buffers}; unpin some or build the pool with more"
            ),
            Self::TooManyPins { page, held } => write!(
                f,
                "cannot pin page {page}: this session holds {held} pins, as many as it can remember; unpin some"
            ),
            Self::Read { page, error } => {
                write!(
                    f,
                    "cannot read page {page}: {error}; pin it again to try again"
                )
            }
            Self::WriteBack { page, error } => write!(
                f,
                "cannot write page {page}, which has to make room: {error}; it is kept, mend the store and try again"
            ),
            Self::WouldBlock { page } => write!(
                f,
                "cannot pin page {page}: another session is at work on it and waiting is not possible here; call again"
            ),
            Self::AlreadyLocked { page } => write!(
                f,
                "cannot lock page {page}: this session has it locked already; drop that guard first"
            ),
        }
    }
}

impl core::error::Error for PinError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read { error, .. } | Self::WriteBack { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// A page could not be locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// The pin is not one of this session's: another session made it, or it was released by `release_all`.
    NotHeld,
    /// This session has the page locked, through this pin or another one of it; a second lock would wait for the first.
    AlreadyLocked,
    /// Another session has the page locked, and this build has no way to wait (no `std`, no parking given).
    WouldBlock,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHeld => "cannot lock the page: the pin is not held by this session; pin the page with it",
            Self::AlreadyLocked => {
                "cannot lock the page: this session has it locked already; drop that guard first"
            }
            Self::WouldBlock => {
                "cannot lock the page: another session has it locked and waiting is not possible here; call again"
            }
        })
    }
}

impl core::error::Error for LockError {}

/// A page could not be locked for cleanup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CleanupError {
    /// The exclusive lock could not be had.
    Lock(LockError),
    /// This session itself holds the page more than once, so it would wait for itself.
    OwnPins {
        /// How many pins of the page the session holds.
        pins: usize,
    },
    /// Another session waits for the same; there can be one only.
    AnotherWaits,
    /// Somebody else has the page pinned, and waiting was not asked for or is not possible here.
    Pinned,
}

impl fmt::Display for CleanupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::OwnPins { pins } => write!(
                f,
                "cannot lock the page for cleanup: incorrect local pin count: {pins}; unpin all but one"
            ),
            Self::AnotherWaits => f.write_str(
                "cannot lock the page for cleanup: another session waits for its pins already; try again later",
            ),
            Self::Pinned => f.write_str("cannot lock the page for cleanup now: others have it pinned; try again later"),
        }
    }
}

impl core::error::Error for CleanupError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Lock(error) => Some(error),
            _ => None,
        }
    }
}

/// Not all changed pages were written. Those that were are clean; the others stay as they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushError {
    /// This session has a page locked; waiting for others with it could go round in a circle. Nothing was written.
    Locked,
    /// The session's table of pins is full.
    TooManyPins {
        /// How many pins the session holds.
        held: usize,
    },
    /// A page could not be written. The pages after it were not tried.
    Write {
        /// The page.
        page: u64,
        /// What the store said.
        error: StoreError,
    },
    /// Another session has a page locked, and this build has no way to wait.
    WouldBlock {
        /// The page.
        page: u64,
    },
}

impl fmt::Display for FlushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => {
                f.write_str("cannot flush: this session has a page locked; drop its guards first")
            }
            Self::TooManyPins { held } => write!(
                f,
                "cannot flush: this session holds {held} pins, as many as it can remember; unpin some"
            ),
            Self::Write { page, error } => write!(
                f,
                "cannot write page {page}: {error}; it is kept, mend the store and flush again"
            ),
            Self::WouldBlock { page } => write!(
                f,
                "cannot flush page {page}: another session has it locked and waiting is not possible here; call again"
            ),
        }
    }
}

impl core::error::Error for FlushError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Write { error, .. } => Some(error),
            _ => None,
        }
    }
}
