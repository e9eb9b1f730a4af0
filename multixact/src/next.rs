//! How a reader learns where a set ends: at the next one's first member. The designs differ in who writes that down, and when.

use txnkit_ids::MultiXactId;

use crate::error::MultiXactError;

/// One design.
pub trait Next: Send + Sync + 'static {
    /// Does a creator write the next set's position together with its own?
    const WRITES_NEXT: bool;

    /// Nothing made yet.
    fn new() -> Self;

    /// Asks until there is a position: `ask` answers `None` as long as the next set's creator has not written it.
    ///
    /// # Errors
    /// What `ask` found, or that waiting was in vain.
    fn wait(
        &self,
        id: MultiXactId,
        ask: impl FnMut() -> Result<Option<u32>, MultiXactError>,
    ) -> Result<u32, MultiXactError>;

    /// A creator has written its position.
    fn written(&self);
}

/// The front's: position N and position N + 1 are written together before anybody learns of N, so that there is nothing to wait for.
#[derive(Debug)]
pub struct WrittenTogether;

impl Next for WrittenTogether {
    const WRITES_NEXT: bool = true;

    fn new() -> Self {
        Self
    }

    fn wait(
        &self,
        id: MultiXactId,
        mut ask: impl FnMut() -> Result<Option<u32>, MultiXactError>,
    ) -> Result<u32, MultiXactError> {
        ask()?.ok_or(MultiXactError::NotWritten { id })
    }

    fn written(&self) {}
}
