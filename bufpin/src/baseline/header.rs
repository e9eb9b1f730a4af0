//! A buffer's header: pins, usage, flags.

use txnkit_sync::atomic::{AtomicU32, Ordering};
use txnkit_sync::hint;
use txnkit_sync::lock::Mutex;

/// Where usage stops rising.
const MAX_USAGE: u32 = 5;

/// The page differs from the store's.
pub(super) const DIRTY: u32 = 1 << 23;
/// The page is there.
pub(super) const VALID: u32 = 1 << 24;
/// The buffer is some page's.
pub(super) const TAGGED: u32 = 1 << 25;

/// What the sweep did to a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Nothing, it is pinned.
    Passed,
    /// Lowered its usage.
    Lowered,
    /// Pinned it; the flags.
    Claimed(u32),
}

/// Pins, usage and flags of one buffer.
///
/// What happened before an `unpin`, a `set` or a `clear` happens before every later operation on the header.
pub trait Header: Send + Sync {
    /// Of a buffer without a page.
    fn new() -> Self;
    /// One pin more, usage raised if it is below 5. Returns the flags.
    fn pin(&self) -> u32;
    /// One pin less.
    fn unpin(&self);
    /// The sweep's look: pins it if it is neither pinned nor used of late.
    fn look(&self) -> Look;
    /// If there is one pin and the page is not dirty: takes flags and usage away.
    fn retire(&self) -> bool;
    /// The flags.
    fn flags(&self) -> u32;
    /// Sets some flags and clears others.
    fn change(&self, set: u32, clear: u32);
}

/// Plain fields under a spinlock.
#[derive(Debug)]
pub struct SpinHeader(Mutex<Fields>);

#[derive(Debug, Clone, Copy)]
struct Fields {
    pins: u32,
    usage: u32,
    flags: u32,
}

impl Header for SpinHeader {
    fn new() -> Self {
        Self(Mutex::new(Fields {
            pins: 0,
            usage: 0,
            flags: 0,
        }))
    }

    #[inline]
    fn pin(&self) -> u32 {
        let mut fields = self.0.lock();
        fields.pins += 1;
        if fields.usage < MAX_USAGE {
            fields.usage += 1;
        }
        fields.flags
    }

    #[inline]
    fn unpin(&self) {
        self.0.lock().pins -= 1;
    }

    fn look(&self) -> Look {
        let mut fields = self.0.lock();
        if fields.pins != 0 {
            Look::Passed
        } else if fields.usage != 0 {
            fields.usage -= 1;
            Look::Lowered
        } else {
            fields.pins = 1;
            Look::Claimed(fields.flags)
        }
    }

    fn retire(&self) -> bool {
        let mut fields = self.0.lock();
        let alone = fields.pins == 1 && fields.flags & DIRTY == 0;
        if alone {
            (fields.usage, fields.flags) = (0, 0);
        }
        alone
    }

    fn flags(&self) -> u32 {
        self.0.lock().flags
    }

    fn change(&self, set: u32, clear: u32) {
        let mut fields = self.0.lock();
        fields.flags = fields.flags & !clear | set;
    }
}

/// One word: pins in bits 0 to 17, usage in 18 to 21, the lock bit 22, flags from 23.
#[derive(Debug)]
pub struct CasHeader(AtomicU32);

const PINS: u32 = (1 << 18) - 1;
const USAGE: u32 = 1 << 18;
const USAGES: u32 = 0xf << 18;
const LOCKED: u32 = 1 << 22;
const FLAGS: u32 = !(PINS | USAGES | LOCKED);

impl CasHeader {
    /// Changes the word by compare-and-swap, as soon as nobody has its lock bit, unless `change` says no. Returns what it was.
    #[inline]
    fn update(&self, change: impl Fn(u32) -> Option<u32>) -> (u32, bool) {
        let mut found = self.0.load(Ordering::Relaxed);
        loop {
            if found & LOCKED != 0 {
                hint::spin_loop();
                found = self.0.load(Ordering::Relaxed);
                continue;
            }
            let Some(changed) = change(found) else {
                return (found, false);
            };
            // Each operation of this word pairs with all others of it.
            match self
                .0
                .compare_exchange_weak(found, changed, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return (found, true),
                Err(other) => found = other,
            }
        }
    }

    /// Takes the lock bit, and returns the word without it. Pairs with the Release of `unlock`.
    fn lock(&self) -> u32 {
        loop {
            let found = self.0.fetch_or(LOCKED, Ordering::Acquire);
            if found & LOCKED == 0 {
                return found;
            }
            hint::spin_loop();
        }
    }

    /// Stores the word that `lock` returned, changed. Nobody else changes it meanwhile.
    fn unlock(&self, word: u32) {
        self.0.store(word, Ordering::Release);
    }
}

impl Header for CasHeader {
    fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    fn pin(&self) -> u32 {
        let (found, _) = self.update(|found| {
            let raise = if found & USAGES < MAX_USAGE * USAGE {
                USAGE
            } else {
                0
            };
            Some(found + 1 + raise)
        });
        found & FLAGS
    }

    #[inline]
    fn unpin(&self) {
        self.update(|found| Some(found - 1));
    }

    fn look(&self) -> Look {
        let (found, changed) = self.update(|found| {
            if found & PINS != 0 {
                None
            } else if found & USAGES != 0 {
                Some(found - USAGE)
            } else {
                Some(found + 1)
            }
        });
        match (changed, found & USAGES) {
            (false, _) => Look::Passed,
            (true, 0) => Look::Claimed(found & FLAGS),
            (true, _) => Look::Lowered,
        }
    }

    fn retire(&self) -> bool {
        let found = self.lock();
        let alone = found & PINS == 1 && found & DIRTY == 0;
        self.unlock(if alone { 1 } else { found });
        alone
    }

    fn flags(&self) -> u32 {
        // Pairs with the Release of `unlock`.
        self.0.load(Ordering::Acquire) & FLAGS
    }

    fn change(&self, set: u32, clear: u32) {
        let found = self.lock();
        self.unlock(found & !clear | set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life<H: Header>() {
        let header = H::new();
        assert_eq!(header.look(), Look::Claimed(0));
        assert_eq!(header.look(), Look::Passed);
        header.change(TAGGED | VALID | DIRTY, 0);
        assert!(!header.retire(), "dirty");
        header.change(0, DIRTY);
        for _ in 0..9 {
            assert_eq!(header.pin(), TAGGED | VALID);
        }
        assert!(!header.retire(), "pinned by others");
        (0..10).for_each(|_| header.unpin());
        for _ in 0..MAX_USAGE {
            assert_eq!(header.look(), Look::Lowered);
        }
        assert_eq!(header.look(), Look::Claimed(TAGGED | VALID));
        assert!(header.retire());
        assert_eq!(header.flags(), 0);
        header.unpin();
        assert_eq!(header.look(), Look::Claimed(0));
    }

    #[test]
    fn a_header_lives() {
        life::<SpinHeader>();
        life::<CasHeader>();
    }
}
