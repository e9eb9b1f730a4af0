//! Random numbers that can be had again.

/// A stream of random numbers (the SplitMix64 generator).
pub(crate) struct Random(u64);

impl Random {
    /// The stream of `TXNKIT_SEED`, or of a fixed seed; says which on standard output, which a failing test shows.
    pub(crate) fn seeded() -> Self {
        let seed = match std::env::var("TXNKIT_SEED") {
            Ok(text) => text.parse().expect("TXNKIT_SEED is a number"),
            Err(_) => 0x51c7_9d3a,
        };
        println!("TXNKIT_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Another stream, for another thread or history.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.next())
    }
}
