//! What a page is.

/// Is this build a model checker's, for which real pages are too large?
const MODEL: bool = cfg!(any(
    txnkit_model = "loom",
    txnkit_model = "shuttle",
    txnkit_model = "coherence"
));

/// Words in a page: 1024 (fewer in a model).
pub const PAGE_WORDS: usize = if MODEL { 2 } else { 1024 };

/// Places in a bank.
pub(crate) const BANK_PLACES: usize = if MODEL { 2 } else { 16 };

/// Bytes in a page, as on disk: 8192.
pub const PAGE_BYTES: usize = PAGE_WORDS * 8;

/// A private copy of one page, in the byte order it has on disk.
///
/// Stores read into one and write from one, so that no byte of a page that others may be reading atomically is ever lent out.
#[derive(Clone, PartialEq, Eq)]
pub struct PageBuf {
    bytes: [u8; PAGE_BYTES],
}

impl PageBuf {
    /// A page of zeros.
    pub const fn zeroed() -> Self {
        Self {
            bytes: [0; PAGE_BYTES],
        }
    }

    /// The bytes as they are on disk.
    pub const fn bytes(&self) -> &[u8; PAGE_BYTES] {
        &self.bytes
    }

    /// The bytes, to be filled.
    pub const fn bytes_mut(&mut self) -> &mut [u8; PAGE_BYTES] {
        &mut self.bytes
    }

    /// The page as words, each of 8 bytes with the least significant first.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.bytes
            .as_chunks()
            .0
            .iter()
            .map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// Fills the page from as many words as it has.
    pub(crate) fn fill(&mut self, words: impl Iterator<Item = u64>) {
        for (bytes, word) in self.bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
}

impl core::fmt::Debug for PageBuf {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let used = self
            .bytes
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        f.debug_struct("PageBuf")
            .field("bytes_before_trailing_zeros", &&self.bytes[..used])
            .finish()
    }
}
