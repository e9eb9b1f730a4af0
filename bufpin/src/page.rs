//! What a page is made of, and the guards through which it is read and written.

use core::fmt;

use txnkit_sync::atomic::{AtomicU64, Ordering};

use crate::private::Pin;
use crate::traits::PinSession;

/// The words of a page of 8192 bytes.
pub const PAGE_WORDS: usize = 1024;

/// Eight bytes of a page in the pool: an atomic, because readers without a pin may look while it changes.
///
/// All accesses are relaxed: the content lock, or the version of a read without a pin, orders them.
#[derive(Debug)]
pub struct Word(AtomicU64);

impl Word {
    txnkit_sync::const_fn! {
        pub(crate) fn zero() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// The words of one buffer.
#[derive(Debug)]
pub struct Frame<const W: usize>(pub(crate) [Word; W]);

impl<const W: usize> Frame<W> {
    txnkit_sync::const_fn! {
        pub(crate) fn zero() -> Self {
            Self(txnkit_sync::array_of!(Word::zero(); W))
        }
    }

    /// Stores a whole page.
    pub(crate) fn fill(&self, from: &[u64; W]) {
        for (word, &value) in self.0.iter().zip(from) {
            word.set(value);
        }
    }

    /// A copy of the whole page.
    pub(crate) fn copy(&self) -> [u64; W] {
        core::array::from_fn(|at| self.0[at].get())
    }
}

/// The right to read a page: nobody writes it meanwhile.
///
/// Dropped, it gives the lock back, and the pin too if it came with it ([`PinSession::pin_shared`]).
#[must_use = "the page is unlocked as soon as the guard is dropped"]
pub struct Shared<'s, S: PinSession> {
    hold: Hold<'s, S>,
}

/// The right to read and write a page: nobody else does either.
///
/// Dropped, it gives the lock back, and the pin too if it came with it ([`PinSession::pin_exclusive`]).
#[must_use = "the page is unlocked as soon as the guard is dropped"]
pub struct Exclusive<'s, S: PinSession> {
    hold: Hold<'s, S>,
}

/// A lock held through a pin.
struct Hold<'s, S: PinSession> {
    session: &'s S,
    words: &'s [Word],
    /// The same pin as the caller's, whose borrow outlives this, or the only one if `joined`.
    pin: Pin,
    /// Is the pin given back together with the lock?
    joined: bool,
    /// Was a word written?
    changed: bool,
}

impl<S: PinSession> Drop for Hold<'_, S> {
    #[inline]
    fn drop(&mut self) {
        if self.joined {
            self.session
                .unlock_and_unpin(self.pin.duplicate(), self.changed);
        } else {
            self.session.unlock(&self.pin, self.changed);
        }
    }
}

impl<'s, S: PinSession> Shared<'s, S> {
    #[inline]
    pub(crate) fn new(session: &'s S, words: &'s [Word], pin: Pin, joined: bool) -> Self {
        let hold = Hold {
            session,
            words,
            pin,
            joined,
            changed: false,
        };
        Self { hold }
    }
}

impl<'s, S: PinSession> Exclusive<'s, S> {
    #[inline]
    pub(crate) fn new(session: &'s S, words: &'s [Word], pin: Pin, joined: bool) -> Self {
        let hold = Hold {
            session,
            words,
            pin,
            joined,
            changed: false,
        };
        Self { hold }
    }

    /// Writes a word. The page counts as changed from then on. Wait-free.
    ///
    /// # Panics
    /// As indexing a slice does: when the page has no such word.
    #[inline]
    pub fn write(&mut self, word: usize, value: u64) {
        self.hold.words[word].set(value);
        self.hold.changed = true;
    }

    /// Says that the page has to be written to the store, whether or not a word was written here.
    #[inline]
    pub fn mark_dirty(&mut self) {
        self.hold.changed = true;
    }
}

macro_rules! reading {
    ($guard:ident) => {
        impl<S: PinSession> $guard<'_, S> {
            /// Reads a word. Wait-free.
            ///
            /// # Panics
            /// As indexing a slice does: when the page has no such word. [`get`](Self::get) does not.
            #[inline]
            pub fn read(&self, word: usize) -> u64 {
                self.hold.words[word].get()
            }

            /// Reads a word, if the page has it. Wait-free.
            #[inline]
            pub fn get(&self, word: usize) -> Option<u64> {
                self.hold.words.get(word).map(Word::get)
            }

            /// All words in order. Wait-free.
            #[inline]
            pub fn words(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
                self.hold.words.iter().map(Word::get)
            }

            /// The buffer the page is in, which it leaves at the earliest when the pin is given back.
            #[inline]
            pub fn buffer(&self) -> u32 {
                self.hold.pin.buffer()
            }
        }

        impl<S: PinSession> fmt::Debug for $guard<'_, S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($guard))
                    .field("buffer", &self.buffer())
                    .field("changed", &self.hold.changed)
                    .finish_non_exhaustive()
            }
        }
    };
}

reading!(Shared);
reading!(Exclusive);
