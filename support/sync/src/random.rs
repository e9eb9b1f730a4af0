//! Random numbers that can be had again, for tests.

use std::env;

/// A stream of random numbers for a test (the SplitMix64 generator).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of the environment variable `TXNKIT_SEED`, or of a fixed seed; says which on standard output, which a failing test shows.
    ///
    /// # Panics
    /// When `TXNKIT_SEED` is no number.
    pub fn seeded() -> Self {
        Self::seeded_with(0x9d3a_51c7)
    }

    /// As [`seeded`](Self::seeded), with the fixed seed `otherwise`.
    ///
    /// # Panics
    /// When `TXNKIT_SEED` is no number.
    pub fn seeded_with(otherwise: u64) -> Self {
        let seed = env::var("TXNKIT_SEED").map_or(otherwise, |text| {
            text.parse().expect("TXNKIT_SEED is a number")
        });
        std::println!("TXNKIT_SEED={seed}");
        Self(seed)
    }

    /// The next number. Any 64 bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "a stream that never ends is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    ///
    /// # Panics
    /// When `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Another stream, for another thread or history.
    pub fn split(&mut self) -> Self {
        Self(self.next())
    }
}
