//! The hot array, and a snapshot that leaves the others' xmin alone.
//!
//! An xmin changes with every snapshot of its owner, so reading it drags the line over from the owner's core each time. Nobody needs the
//! horizon as often as that: here it is derived when something asks.

use super::hot_array::HotLayout;
use super::layout::{Fields, Layout};

/// The memory of [`HotLayout`], read less.
#[derive(Debug)]
pub struct LazyLayout(HotLayout);

impl Layout for LazyLayout {
    const GLOBAL_XMIN: bool = false;

    fn new(sessions: usize) -> Self {
        Self(HotLayout::new(sessions))
    }

    #[inline]
    fn fields(&self, slot: u32) -> Fields<'_> {
        self.0.fields(slot)
    }
}
