//! What can go wrong, one type an operation.

use core::fmt;

use txnkit_ids::Xid;

/// No session could be registered: every slot is taken.
///
/// Drop a session that is no longer needed, or build the array with more slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterError {
    /// How many sessions the array was built for, all of them registered.
    pub sessions: usize,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot register another session: all {} slots are in use; drop a session or build the array with more",
            self.sessions
        )
    }
}

impl core::error::Error for RegisterError {}

/// No id could be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssignError {
    /// The next id has reached the limit set by `set_stop`. Nothing was handed out; reads go on.
    ///
    /// Raise the limit once older ids are out of use, or once more ids are reserved.
    Stopped {
        /// The id that would have been next.
        next: Xid,
        /// The first id that may not be handed out.
        stop: Xid,
    },
    /// The session cannot remember more runs of sub-transaction ids (const-capacity form only).
    ///
    /// Nothing was handed out; end the transaction.
    TooManyChildren {
        /// How many separate runs of consecutive child ids a session can hold.
        runs: usize,
    },
}

impl fmt::Display for AssignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped { next, stop } => write!(
                f,
                "cannot hand out id {next}: the limit is {stop}; freeze or reserve ids and raise the limit"
            ),
            Self::TooManyChildren { runs } => write!(
                f,
                "cannot hand out another child id: this transaction holds {runs} runs of child ids, as many as fit; end it first"
            ),
        }
    }
}

impl core::error::Error for AssignError {}

/// Another session is at work and this build has no way to wait for it (no `std`, no parking given).
///
/// Nothing was changed; call again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WouldBlock;

impl fmt::Display for WouldBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another session is at work and waiting is not possible here; call again")
    }
}

impl core::error::Error for WouldBlock {}

/// A transaction could not be ended; its ids are still running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndError<E> {
    /// The caller's `record` failed with this error.
    NotRecorded(E),
    /// The status is recorded, but another session is at work and this build cannot wait.
    ///
    /// Call `end` again: `record` is not called a second time.
    WouldBlock,
}

impl<E: fmt::Display> fmt::Display for EndError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRecorded(e) => write!(
                f,
                "the transaction's status could not be recorded, it is still running: {e}"
            ),
            Self::WouldBlock => WouldBlock.fmt(f),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for EndError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NotRecorded(e) => Some(e),
            Self::WouldBlock => None,
        }
    }
}
