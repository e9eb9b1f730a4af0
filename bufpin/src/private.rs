//! What a session remembers of its pins, in memory nobody else reads.
//!
//! A session holds one shared pin of a buffer at most; how often it has the buffer pinned stands here, so that the second pin and every
//! further one touch nothing shared. The first [`INLINE`] buffers stand in places of one word each, found through a bit mask of used places
//! and scalar compares, the last one used first; further ones in a map (`alloc`), or there is no room for them.

use core::cell::Cell;
use core::fmt;
use core::num::NonZeroU64;

#[cfg(feature = "alloc")]
use alloc::collections::BTreeMap;
#[cfg(feature = "alloc")]
use core::cell::RefCell;

/// Buffers that a session can pin at a time without `alloc`.
pub(crate) const INLINE: usize = 8;

/// The place of an entry that stands in the map.
#[cfg(feature = "alloc")]
const MORE: u32 = PLACE;

/// Where a pin has its place.
const PLACE_SHIFT: u32 = 32;
/// The bits of a place.
const PLACE: u32 = 0xf;
/// Where a pin has its stamp.
const STAMP_SHIFT: u32 = 36;

/// Entry: buffer + 1 in the upper half, notes, and the number of pins in the lower 24 bits. 0: unused.
const COUNT: u64 = (1 << 24) - 1;
/// Note: the shared pin found the usage count below its cap.
pub(crate) const RAISE: u64 = 1 << 24;
/// Note: the session has the page locked beside other readers.
pub(crate) const LOCKED_SHARED: u64 = 1 << 25;
/// Note: the session has the page locked alone.
pub(crate) const LOCKED_EXCLUSIVE: u64 = 1 << 26;
/// Either lock.
pub(crate) const LOCKED: u64 = LOCKED_SHARED | LOCKED_EXCLUSIVE;

/// The right to have a page stay in its buffer. [`PinSession::unpin`](crate::PinSession::unpin) of the session that made it gives it back.
///
/// Dropping it instead leaves the page pinned until the session's `release_all` or its end; `held` counts it. A pin given to another session
/// is refused or ignored there; the pools of the two have to be the same. (Sessions are told apart by 28 bits: a pin kept while 2^28 other
/// sessions were registered could pass for one of the last.)
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the page stays pinned until the pin is given to `unpin`"]
pub struct Pin(
    /// Buffer + 1 in the lower half, then 4 bits of place, then the stamp. One word, so that it is moved as it is: two halves, stored one by one
    /// and loaded as one, would wait for each other.
    NonZeroU64,
);

impl Pin {
    /// The buffer the page is in.
    #[inline]
    pub fn buffer(&self) -> u32 {
        (self.0.get() as u32).wrapping_sub(1)
    }

    #[inline(always)]
    fn place(&self) -> u32 {
        (self.0.get() >> PLACE_SHIFT) as u32 & PLACE
    }

    #[inline(always)]
    fn stamp(&self) -> u64 {
        self.0.get() >> STAMP_SHIFT
    }

    /// The same pin again, not counted.
    #[inline]
    pub(crate) fn duplicate(&self) -> Self {
        Self(self.0)
    }
}

/// A stamp as a pin has it.
const fn shortened(stamp: u64) -> u64 {
    stamp & (u64::MAX >> STAMP_SHIFT)
}

/// A session's pins.
pub(crate) struct Private {
    stamp: Cell<u64>,
    /// A bit for each used place.
    used: Cell<u32>,
    /// The place used last.
    last: Cell<u32>,
    places: [Cell<u64>; INLINE],
    #[cfg(feature = "alloc")]
    more: RefCell<BTreeMap<u32, u64>>,
}

/// What [`Private::lower`] found.
pub(crate) enum Lowered {
    /// The session has the buffer pinned still.
    Held,
    /// That was the last pin; the notes that were on it.
    Last(u64),
    /// No pin of this session.
    Foreign,
}

impl Private {
    pub(crate) const fn new(stamp: u64) -> Self {
        Self {
            stamp: Cell::new(shortened(stamp)),
            used: Cell::new(0),
            last: Cell::new(0),
            places: [const { Cell::new(0) }; INLINE],
            #[cfg(feature = "alloc")]
            more: RefCell::new(BTreeMap::new()),
        }
    }

    #[inline(always)]
    fn key(buffer: u32) -> u64 {
        (u64::from(buffer) + 1) << 32
    }

    #[inline(always)]
    fn pin(&self, buffer: u32, place: u32) -> Pin {
        let rest = self.stamp.get() << STAMP_SHIFT | u64::from(place) << PLACE_SHIFT;
        // Never 0: no buffer has the number that would make it so.
        let one = NonZeroU64::MIN;
        Pin(one.saturating_add(u64::from(buffer) | rest))
    }

    #[inline(always)]
    fn is_at(&self, place: u32, buffer: u32) -> bool {
        self.places[place as usize].get() >> 32 == u64::from(buffer) + 1
    }

    /// The pin of a buffer that the session holds, not counted.
    #[inline(always)]
    pub(crate) fn find(&self, buffer: u32) -> Option<Pin> {
        let mut used = self.used.get();
        if used == 0 {
            return None;
        }
        let last = self.last.get();
        if self.is_at(last, buffer) {
            return Some(self.pin(buffer, last));
        }
        while used != 0 {
            let place = used.trailing_zeros();
            if self.is_at(place, buffer) {
                self.last.set(place);
                return Some(self.pin(buffer, place));
            }
            used &= used - 1;
        }
        #[cfg(feature = "alloc")]
        if self.more.borrow().contains_key(&buffer) {
            return Some(self.pin(buffer, MORE));
        }
        None
    }

    /// A place for a buffer that the session does not hold, with one pin in it; none where the table is full.
    #[inline(always)]
    pub(crate) fn take(&self, buffer: u32) -> Option<Pin> {
        let used = self.used.get();
        let place = (!used).trailing_zeros();
        if place as usize >= INLINE {
            return self.take_more(buffer);
        }
        self.places[place as usize].set(Self::key(buffer) | 1);
        self.used.set(used | 1 << place);
        self.last.set(place);
        Some(self.pin(buffer, place))
    }

    #[cfg(feature = "alloc")]
    #[cold]
    fn take_more(&self, buffer: u32) -> Option<Pin> {
        self.more.borrow_mut().insert(buffer, Self::key(buffer) | 1);
        Some(self.pin(buffer, MORE))
    }

    #[cfg(not(feature = "alloc"))]
    fn take_more(&self, _buffer: u32) -> Option<Pin> {
        None
    }

    /// Is there no place for another buffer?
    pub(crate) fn is_full(&self) -> bool {
        cfg!(not(feature = "alloc")) && self.used.get() == (1 << INLINE) - 1
    }

    /// Does the session hold this pin?
    #[inline(always)]
    pub(crate) fn holds(&self, pin: &Pin) -> bool {
        self.entry(pin) != 0
    }

    /// The entry of a pin, or 0 when it is not one of this session's.
    #[inline(always)]
    fn entry(&self, pin: &Pin) -> u64 {
        if pin.stamp() != self.stamp.get() {
            return 0;
        }
        let entry = match self.places.get(pin.place() as usize) {
            Some(place) => place.get(),
            #[cfg(feature = "alloc")]
            None => self.more.borrow().get(&pin.buffer()).copied().unwrap_or(0),
            #[cfg(not(feature = "alloc"))]
            None => 0,
        };
        if entry >> 32 == u64::from(pin.buffer()) + 1 {
            entry
        } else {
            0
        }
    }

    /// Stores the entry of a pin that is held.
    #[inline(always)]
    fn store(&self, pin: &Pin, entry: u64) {
        match self.places.get(pin.place() as usize) {
            Some(place) => place.set(entry),
            #[cfg(feature = "alloc")]
            None => drop(self.more.borrow_mut().insert(pin.buffer(), entry)),
            #[cfg(not(feature = "alloc"))]
            None => {}
        }
    }

    /// One more pin of a buffer that is held; says no when the number of pins does not fit.
    #[inline(always)]
    pub(crate) fn raise(&self, pin: &Pin) -> bool {
        let entry = self.entry(pin);
        let fits = entry & COUNT != COUNT;
        if fits {
            self.store(pin, entry + 1);
        }
        fits
    }

    /// One pin less. With the last one the place is free again.
    #[inline(always)]
    pub(crate) fn lower(&self, pin: &Pin) -> Lowered {
        let entry = self.entry(pin);
        match entry & COUNT {
            0 => Lowered::Foreign,
            1 => {
                self.free(pin);
                Lowered::Last(entry & (RAISE | LOCKED))
            }
            _ => {
                self.store(pin, entry - 1);
                Lowered::Held
            }
        }
    }

    #[inline(always)]
    fn free(&self, pin: &Pin) {
        match self.places.get(pin.place() as usize) {
            Some(place) => {
                place.set(0);
                self.used.set(self.used.get() & !(1 << pin.place()));
            }
            #[cfg(feature = "alloc")]
            None => drop(self.more.borrow_mut().remove(&pin.buffer())),
            #[cfg(not(feature = "alloc"))]
            None => {}
        }
    }

    /// The notes on the buffer of a pin that is held.
    #[inline(always)]
    pub(crate) fn notes(&self, pin: &Pin) -> u64 {
        self.entry(pin) & (RAISE | LOCKED)
    }

    /// Adds notes to the buffer of a pin that is held.
    #[inline(always)]
    pub(crate) fn note(&self, pin: &Pin, notes: u64) {
        self.store(pin, self.entry(pin) | notes);
    }

    /// Takes notes off the buffer of a pin that is held.
    #[inline(always)]
    pub(crate) fn forget(&self, pin: &Pin, notes: u64) {
        self.store(pin, self.entry(pin) & !notes);
    }

    /// How often the session has the buffer of this pin pinned.
    pub(crate) fn pins(&self, pin: &Pin) -> usize {
        (self.entry(pin) & COUNT) as usize
    }

    /// Calls `f` with every entry.
    fn each(&self, mut f: impl FnMut(u64)) {
        self.places
            .iter()
            .map(Cell::get)
            .filter(|&entry| entry != 0)
            .for_each(&mut f);
        #[cfg(feature = "alloc")]
        self.more.borrow().values().copied().for_each(f);
    }

    /// All pins, of one buffer counted each.
    pub(crate) fn held(&self) -> usize {
        let mut held = 0;
        self.each(|entry| held += (entry & COUNT) as usize);
        held
    }

    /// Is any page locked?
    pub(crate) fn any_locked(&self) -> bool {
        let mut locked = false;
        self.each(|entry| locked |= entry & LOCKED != 0);
        locked
    }

    /// The pin of some buffer that is held.
    pub(crate) fn any(&self) -> Option<Pin> {
        let used = self.used.get();
        if used != 0 {
            let place = used.trailing_zeros();
            let buffer = (self.places[place as usize].get() >> 32) as u32 - 1;
            return Some(self.pin(buffer, place));
        }
        #[cfg(feature = "alloc")]
        if let Some(&buffer) = self.more.borrow().keys().next() {
            return Some(self.pin(buffer, MORE));
        }
        None
    }

    /// From now on pins made before are foreign.
    pub(crate) fn restamp(&self, stamp: u64) {
        self.stamp.set(shortened(stamp));
    }
}

impl fmt::Debug for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_map();
        self.each(|entry| {
            set.entry(&((entry >> 32) - 1), &(entry & COUNT));
        });
        set.finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn many_buffers_are_found_whatever_place_they_stand_in() {
        let private = Private::new(1);
        let count = if cfg!(feature = "alloc") {
            20
        } else {
            INLINE as u32
        };
        let pins: Vec<Pin> = (0..count).map(|at| private.take(at).unwrap()).collect();
        assert_eq!(private.is_full(), cfg!(not(feature = "alloc")));
        for (at, pin) in pins.iter().enumerate().rev() {
            assert_eq!(private.find(at as u32).as_ref(), Some(pin));
            assert!(private.raise(pin));
            private.note(pin, LOCKED_SHARED);
            assert_eq!(private.pins(pin), 2);
        }
        assert_eq!(private.held(), 2 * count as usize);
        for pin in &pins {
            assert!(matches!(private.lower(pin), Lowered::Held));
            assert!(matches!(private.lower(pin), Lowered::Last(LOCKED_SHARED)));
            assert!(matches!(private.lower(pin), Lowered::Foreign));
            assert_eq!(private.find(pin.buffer()), None);
        }
        assert!(private.any().is_none() && private.held() == 0);
    }

    #[test]
    fn a_pin_counts_where_it_was_made_only() {
        let (here, there) = (Private::new(1), Private::new(2));
        let pin = here.take(3).unwrap();
        let _other = there.take(3).unwrap();
        assert!(!there.holds(&pin) && here.holds(&pin));
        here.restamp(3);
        assert!(!here.holds(&pin));
    }

    #[test]
    fn pins_of_one_buffer_are_not_counted_beyond_what_fits() {
        let private = Private::new(1);
        let pin = private.take(0).unwrap();
        private.store(&pin, Private::key(0) | (COUNT - 1));
        assert!(private.raise(&pin));
        assert!(!private.raise(&pin));
        assert_eq!(private.pins(&pin), COUNT as usize);
    }
}
