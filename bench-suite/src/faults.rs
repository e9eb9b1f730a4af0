//! Faults on request, so that the tools around a run can be tested against a run that goes wrong.

use core::time::Duration;
use std::env;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::cell::{CellSpec, FRONT};

/// Set to `1`: the first client panics after its first transaction.
pub const CRASH_ENV: &str = "TXNKIT_TEST_CRASH";
/// `full_structs=2000`: transactions of the array `full_structs` take 2000 ns longer.
pub const SLOW_ENV: &str = "TXNKIT_TEST_SLOW";

/// What is to go wrong in this run; as a rule nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    crash: bool,
    slow: Option<Duration>,
}

impl Faults {
    pub(crate) fn from_env(spec: &CellSpec) -> Result<Self> {
        let crash = env::var(CRASH_ENV).is_ok_and(|value| value == "1");
        let array = spec.variants.get("procarray").map_or(FRONT, String::as_str);
        let slow = match env::var(SLOW_ENV) {
            Ok(value) => {
                let (variant, ns) = value.split_once('=').with_context(|| usage(&value))?;
                let ns = ns.parse().with_context(|| usage(&value))?;
                (variant == array).then_some(Duration::from_nanos(ns))
            }
            Err(_) => None,
        };
        Ok(Self { crash, slow })
    }

    /// Called after each transaction.
    pub(crate) fn strike(&self, client: usize) {
        if let Some(slow) = self.slow {
            let since = Instant::now();
            while since.elapsed() < slow {
                core::hint::spin_loop();
            }
        }
        assert!(!self.crash || client != 0, "crash asked for by {CRASH_ENV}");
    }
}

fn usage(value: &str) -> String {
    format!(
        "{SLOW_ENV} is {value:?}; set it to an array's name, an equals sign and nanoseconds, or not at all"
    )
}
