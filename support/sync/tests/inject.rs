//! Injection points, built in and not.

use txnkit_sync::inject;

/// Without the cfg an injection point is nothing, not even in a constant.
#[cfg(not(txnkit_inject))]
#[test]
fn nothing_is_left_without_the_cfg() {
    const fn reaches() -> u8 {
        inject!("test.nothing");
        7
    }
    const { assert!(reaches() == 7) };
}

#[cfg(txnkit_inject)]
mod built_in {
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;
    use std::thread;

    use txnkit_sync::inject::{Counter, Gate, on};

    use super::inject;

    #[test]
    fn a_hook_runs_until_its_guard_is_dropped() {
        let counter = Counter::at("test.counted");
        inject!("test.counted");
        inject!("test.other");
        inject!("test.counted");
        assert_eq!(counter.get(), 2);
        let guard = on("test.counted", || ());
        inject!("test.counted");
        assert_eq!(counter.get(), 2, "a later hook replaces it");
        drop(counter);
        drop(guard);
        inject!("test.counted");
    }

    #[test]
    fn an_earlier_guard_does_not_remove_a_later_hook() {
        let earlier = Counter::at("test.replaced");
        let later = Counter::at("test.replaced");
        drop(earlier);
        inject!("test.replaced");
        assert_eq!(later.get(), 1);
    }

    #[test]
    fn a_gate_holds_the_next_thread_and_no_other() {
        let gate = Gate::at("test.gate");
        assert!(!gate.is_reached());
        thread::scope(|scope| {
            let held = scope.spawn(|| inject!("test.gate"));
            gate.wait_until_reached();
            inject!("test.gate");
            assert!(!held.is_finished());
            gate.open();
        });
        inject!("test.gate");
    }

    #[test]
    fn a_dropped_gate_is_open() {
        let gate = Gate::at("test.dropped");
        thread::scope(|scope| {
            scope.spawn(|| inject!("test.dropped"));
            gate.wait_until_reached();
            drop(gate);
        });
    }

    #[test]
    fn a_hook_may_panic_and_install_others() {
        let _outer = on("test.panics", || panic!("as if it failed here"));
        assert!(catch_unwind(AssertUnwindSafe(|| inject!("test.panics"))).is_err());
        let _nested = on("test.nested", || drop(Counter::at("test.inner")));
        inject!("test.nested");
    }
}
