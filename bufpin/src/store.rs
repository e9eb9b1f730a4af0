//! Where pages live when they are not in the pool.

use crate::StoreError;
use crate::page::PAGE_WORDS;

/// A place for pages of `W` words. Called without a lock of the crate's held, except for the page's own content lock.
///
/// A store that keeps bytes decides on the byte order of a word; little-endian is what PostgreSQL's platforms mostly have.
pub trait PageStore<const W: usize = PAGE_WORDS>: Send + Sync {
    /// Reads page `page` into `into`, which is all zeros: a page that was never written is left so.
    ///
    /// By one session at a time for one page, and never while the page is written.
    ///
    /// # Errors
    /// [`StoreError`]; the pool keeps nothing of the page, and whoever asks for it next tries again.
    fn read(&self, page: u64, into: &mut [u64; W]) -> Result<(), StoreError>;

    /// Writes page `page`: by one session at a time for one page.
    ///
    /// # Errors
    /// [`StoreError`]; the page stays changed in the pool and is written again later.
    fn write(&self, page: u64, from: &[u64; W]) -> Result<(), StoreError>;
}

macro_rules! through_pointer {
    ($pointer:ty) => {
        impl<S: PageStore<W> + ?Sized, const W: usize> PageStore<W> for $pointer {
            fn read(&self, page: u64, into: &mut [u64; W]) -> Result<(), StoreError> {
                (**self).read(page, into)
            }

            fn write(&self, page: u64, from: &[u64; W]) -> Result<(), StoreError> {
                (**self).write(page, from)
            }
        }
    };
}

through_pointer!(&S);
#[cfg(feature = "alloc")]
through_pointer!(alloc::boxed::Box<S>);
#[cfg(feature = "alloc")]
through_pointer!(alloc::sync::Arc<S>);

#[cfg(feature = "alloc")]
pub use memory::MemoryStore;

#[cfg(feature = "alloc")]
mod memory {
    use alloc::boxed::Box;
    use alloc::collections::BTreeMap;

    use txnkit_sync::lock::Mutex;

    use super::*;

    /// Pages on the heap, as many as were ever written. Nothing of it is durable.
    ///
    /// Both methods block on one lock, held while a page is copied.
    pub struct MemoryStore<const W: usize = PAGE_WORDS> {
        pages: Mutex<BTreeMap<u64, Box<[u64; W]>>>,
    }

    impl MemoryStore {
        /// An empty store for pages of [`PAGE_WORDS`] words; [`Default`] makes one for any number.
        pub fn new() -> Self {
            Self::default()
        }
    }

    impl<const W: usize> MemoryStore<W> {
        /// How many pages were ever written.
        pub fn pages(&self) -> usize {
            self.pages.lock().len()
        }
    }

    impl<const W: usize> Default for MemoryStore<W> {
        fn default() -> Self {
            Self {
                pages: Mutex::new(BTreeMap::new()),
            }
        }
    }

    impl<const W: usize> core::fmt::Debug for MemoryStore<W> {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.debug_struct("MemoryStore")
                .field("pages", &self.pages())
                .finish()
        }
    }

    impl<const W: usize> PageStore<W> for MemoryStore<W> {
        fn read(&self, page: u64, into: &mut [u64; W]) -> Result<(), StoreError> {
            if let Some(held) = self.pages.lock().get(&page) {
                into.copy_from_slice(&held[..]);
            }
            Ok(())
        }

        fn write(&self, page: u64, from: &[u64; W]) -> Result<(), StoreError> {
            self.pages.lock().insert(page, Box::new(*from));
            Ok(())
        }
    }
}
