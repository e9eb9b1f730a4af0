//! Where PostgreSQL 13 to 18 keep sets: two stores of pages of 8192 bytes, counted in words of 64 bits, little-endian.
//!
//! *Offsets*: 4 bytes a set, the low half of the position of its first member. *Members*: groups of 4 members in 20 bytes, first a byte a member with
//! its [mode](crate::Mode), then 4 bytes a member with the low half of its id; 409 groups a page, whose last 12 bytes are unused.
//!
//! Positions are 64 bits wide here. In the files they are counted modulo 2^32, which is no multiple of a page's 1636 members: the last page before has
//! only 1036. So member pages are numbered by the round and the place in it.

use txnkit_ids::{MultiXactId, MultiXactOffset};

/// Is this build a model checker's, for which real pages are too large? Its pages have two words.
const MODEL: bool = cfg!(any(txnkit_model = "loom", txnkit_model = "shuttle"));

/// Sets whose positions are on one page: 2048 (fewer in a model).
pub const OFFSETS_PER_PAGE: u64 = if MODEL { 4 } else { 2048 };

/// Members on a page: 1636 (fewer in a model).
pub const MEMBERS_PER_PAGE: u64 = if MODEL { 2 } else { 1636 };

/// Members in a group.
const GROUP: u64 = if MODEL { 1 } else { 4 };

/// Where the ids of a group begin, after the modes, in bytes.
const XIDS_AT: u64 = 4;

/// Bytes of a group.
const GROUP_BYTES: u64 = if MODEL { 8 } else { 20 };

/// Pages of members in one round of 2^32.
pub const MEMBER_PAGES: u64 = (1u64 << 32).div_ceil(MEMBERS_PER_PAGE);

/// Some bits of a word on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The page.
    pub page: u64,
    /// The word on it.
    pub word: usize,
    /// By how many bits the entry is shifted in the word.
    pub shift: u32,
}

impl Place {
    const fn of_byte(page: u64, byte: u64) -> Self {
        Self {
            page,
            word: (byte / 8) as usize,
            shift: (byte % 8 * 8) as u32,
        }
    }
}

/// Where a set's first member's position is: 32 bits.
pub const fn offset_place(id: MultiXactId) -> Place {
    let page = id.get() / OFFSETS_PER_PAGE;
    Place::of_byte(page, id.get() % OFFSETS_PER_PAGE * 4)
}

/// Where the mode (8 bits) and the id (32 bits) of the member at a position are.
pub const fn member_places(offset: MultiXactOffset) -> (Place, Place) {
    let (round, low) = (offset.get() >> 32, offset.get() & 0xFFFF_FFFF);
    let page = round * MEMBER_PAGES + low / MEMBERS_PER_PAGE;
    let at = low % MEMBERS_PER_PAGE;
    let group = at / GROUP * GROUP_BYTES;
    let (mode, xid) = (group + at % GROUP, group + XIDS_AT + at % GROUP * 4);
    (Place::of_byte(page, mode), Place::of_byte(page, xid))
}

#[cfg(all(test, not(any(txnkit_model = "loom", txnkit_model = "shuttle"))))]
mod tests {
    use super::*;

    fn byte(place: Place) -> u64 {
        place.word as u64 * 8 + u64::from(place.shift) / 8
    }

    #[test]
    fn positions_are_where_postgresql_keeps_them() {
        for (id, page, at) in [
            (1, 0, 4),
            (2047, 0, 8188),
            (2048, 1, 0),
            (4_294_967_295, 2_097_151, 8188),
            (4_294_967_297, 2_097_152, 4),
        ] {
            let place = offset_place(MultiXactId::new(id));
            assert_eq!((place.page, byte(place)), (page, at), "{id}");
        }
    }

    #[test]
    fn members_are_where_postgresql_keeps_them() {
        for (offset, page, mode, xid) in [
            (0, 0, 0, 4),
            (1, 0, 1, 8),
            (4, 0, 20, 24),
            (1635, 0, 8163, 8176),
            (1636, 1, 0, 4),
            (52_352, 32, 0, 4),
            (4_294_967_295, 2_625_285, 5163, 5176),
            (4_294_967_296, 2_625_286, 0, 4),
        ] {
            let (mode_place, xid_place) = member_places(MultiXactOffset::new(offset));
            assert_eq!((mode_place.page, xid_place.page), (page, page), "{offset}");
            assert_eq!((byte(mode_place), byte(xid_place)), (mode, xid), "{offset}");
            // Whole in one word.
            assert!(xid_place.shift % 32 == 0 && mode_place.shift % 8 == 0);
        }
    }
}
