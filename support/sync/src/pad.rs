//! Padding to cache lines.

#[expect(
    deprecated,
    reason = "the crate points to crossbeam-utils; this is the one place that names it"
)]
use cache_padded::CachePadded;

/// A value on cache lines of its own.
#[derive(Debug, Default)]
#[expect(deprecated, reason = "see the import")]
pub struct Padded<T>(CachePadded<T>);

#[expect(deprecated, reason = "see the import")]
impl<T> Padded<T> {
    /// Pads `value`.
    pub const fn new(value: T) -> Self {
        Self(CachePadded::new(value))
    }

    /// The value without its padding.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T> core::ops::Deref for Padded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> core::ops::DerefMut for Padded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
