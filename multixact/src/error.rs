//! What can go wrong with a set.

use core::fmt;

use slru::PoolError;
use txnkit_ids::{MultiXactId, Xid};

use crate::sets::Kept;

/// A set could not be made, found or read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MultiXactError {
    /// The number is never given to a set.
    Invalid {
        /// The number.
        id: MultiXactId,
    },
    /// The set was truncated away: nobody may ask for it any more. Look where the number came from.
    TooOld {
        /// The number.
        id: MultiXactId,
        /// The oldest set that is kept.
        oldest: MultiXactId,
    },
    /// No set has this number yet. Look where it came from.
    NotCreated {
        /// The number.
        id: MultiXactId,
        /// The next number that will be given.
        next: MultiXactId,
    },
    /// The set's creator failed before it was written; nobody can have stored its number.
    NotWritten {
        /// The number.
        id: MultiXactId,
    },
    /// What is stored for the set makes no sense: restore the files.
    Corrupt {
        /// The number.
        id: MultiXactId,
        /// What is wrong.
        what: &'static str,
    },
    /// A set has at least one member.
    Empty,
    /// A set has at most one member that changes the row. The caller's order of events is wrong.
    TwoUpdaters,
    /// A member's id is special: no transaction has it.
    BadMember {
        /// The member's id.
        xid: Xid,
    },
    /// A member's id is 2^31 or more away from another one in a set that is kept, or in the same set: 32 bits, which are stored of each, could not tell
    /// which it is. Truncate old sets, or check where the id came from. Nothing was made.
    MemberTooFar {
        /// The member's id.
        xid: Xid,
        /// The oldest id of kept sets' members, or an older one.
        oldest: Xid,
        /// The newest one.
        newest: Xid,
    },
    /// What was said to be kept ends before it begins.
    Backwards {
        /// What was said.
        kept: Kept,
    },
    /// So many members would not fit into what is left of member space: truncate old sets. Nothing was made.
    MembersExhausted {
        /// How many were asked for.
        asked: u64,
        /// How many would fit.
        left: u64,
    },
    /// No number is left for another set: truncate old ones. Nothing was made.
    IdsExhausted {
        /// The next number.
        next: MultiXactId,
        /// The first one that may not be given.
        stop: MultiXactId,
    },
    /// The pages could not be had.
    Pool(PoolError),
}

impl fmt::Display for MultiXactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { id } => write!(
                f,
                "{id} is the number of no lock set; check where it came from"
            ),
            Self::TooOld { id, oldest } => write!(
                f,
                "lock set {id} is not kept any more, the oldest one is {oldest}; check where its number came from"
            ),
            Self::NotCreated { id, next } => write!(
                f,
                "lock set {id} has not been made yet, the next one will be {next}; check where its number came from"
            ),
            Self::NotWritten { id } => write!(
                f,
                "lock set {id} was never written: its creator failed; no row can hold its number"
            ),
            Self::Corrupt { id, what } => {
                write!(f, "lock set {id} is damaged: {what}; restore the files")
            }
            Self::Empty => f.write_str("a lock set needs at least one member"),
            Self::TwoUpdaters => {
                f.write_str("a lock set can have one member that changes the row, not two")
            }
            Self::BadMember { xid } => {
                write!(f, "transaction {xid} cannot be a member of a lock set")
            }
            Self::MemberTooFar {
                xid,
                oldest,
                newest,
            } => write!(
                f,
                "transaction {xid} cannot be a member of a lock set: the sets that are kept have members from {oldest} to {newest}, and all must be less than 2^31 apart; truncate old sets, or check where the id came from"
            ),
            Self::Backwards { kept } => write!(
                f,
                "lock sets {} to {} with members from {} to {} end before they begin; check what the control file says",
                kept.ids.start, kept.ids.end, kept.xids.start, kept.xids.end
            ),
            Self::MembersExhausted { asked, left } => write!(
                f,
                "a lock set with {asked} members cannot be made: only {left} more members fit; truncate old sets"
            ),
            Self::IdsExhausted { next, stop } => write!(
                f,
                "lock set {next} cannot be made: the limit is {stop}; truncate old sets"
            ),
            Self::Pool(error) => write!(f, "a page of lock sets could not be had: {error}"),
        }
    }
}

impl core::error::Error for MultiXactError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Pool(error) => Some(error),
            _ => None,
        }
    }
}

impl From<PoolError> for MultiXactError {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

/// No session could be registered: every place is taken. Drop one, or build the table with more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterError {
    /// How many sessions the table was built for.
    pub sessions: usize,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot register another session: all {} places are in use; drop a session or build the table with more",
            self.sessions
        )
    }
}

impl core::error::Error for RegisterError {}
