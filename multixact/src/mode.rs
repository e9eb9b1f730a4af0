//! How a row is locked, and by whom.

use txnkit_ids::Xid;

/// The six ways to lock a row. The numbers are those of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mode {
    /// `FOR KEY SHARE`: the key stays, other columns may change. What a foreign key's check takes.
    ForKeyShare = 0,
    /// `FOR SHARE`: the row stays.
    ForShare = 1,
    /// `FOR NO KEY UPDATE`: as an update that leaves the key alone.
    ForNoKeyUpdate = 2,
    /// `FOR UPDATE`: as a deletion or an update of the key.
    ForUpdate = 3,
    /// An update that leaves the key alone.
    NoKeyUpdate = 4,
    /// A deletion, or an update of the key.
    Update = 5,
}

impl Mode {
    /// All of them, from the weakest lock to the strongest update.
    pub const ALL: [Self; 6] = [
        Self::ForKeyShare,
        Self::ForShare,
        Self::ForNoKeyUpdate,
        Self::ForUpdate,
        Self::NoKeyUpdate,
        Self::Update,
    ];

    /// The mode with this number.
    #[inline]
    pub const fn from_number(number: u8) -> Option<Self> {
        if (number as usize) < Self::ALL.len() {
            Some(Self::ALL[number as usize])
        } else {
            None
        }
    }

    /// Does it change the row, rather than only lock it? A set has at most one such member.
    #[inline]
    pub const fn is_update(self) -> bool {
        self as u8 >= Self::NoKeyUpdate as u8
    }

    /// How much it excludes: 0 the key share, 1 the share, 2 the no-key update, 3 the update, each as lock and as change.
    const fn strength(self) -> u8 {
        match self {
            Self::ForKeyShare => 0,
            Self::ForShare => 1,
            Self::ForNoKeyUpdate | Self::NoKeyUpdate => 2,
            Self::ForUpdate | Self::Update => 3,
        }
    }

    /// Can two transactions not hold these two at a time?
    ///
    /// | | key share | share | no-key update | update |
    /// |---|---|---|---|---|
    /// | key share | | | | x |
    /// | share | | | x | x |
    /// | no-key update | | x | x | x |
    /// | update | x | x | x | x |
    #[inline]
    pub const fn conflicts(self, other: Self) -> bool {
        self.strength() + other.strength() >= 3
    }
}

/// One locker of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Its transaction, or the part of it that took the lock.
    pub xid: Xid,
    /// How it locks the row.
    pub mode: Mode,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_conflict_as_the_table_says() {
        let table = ["...x", "..xx", ".xxx", "xxxx"];
        let row = |mode: Mode| usize::from(mode.strength());
        for a in Mode::ALL {
            for b in Mode::ALL {
                let expected = table[row(a)].as_bytes()[row(b)] == b'x';
                assert_eq!(a.conflicts(b), expected, "{a:?} and {b:?}");
            }
            assert_eq!(Mode::from_number(a as u8), Some(a));
        }
        assert_eq!(Mode::from_number(6), None);
        let updates: [bool; 6] = Mode::ALL.map(Mode::is_update);
        assert_eq!(updates, [false, false, false, false, true, true]);
    }
}
