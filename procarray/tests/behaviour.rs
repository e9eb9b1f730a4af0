//! The behaviours of `common`, of the front in its forms and, with the feature `baselines`, of every baseline under either lock.

use procarray::{FixedProcArray, ProcArray};

#[macro_use]
mod common;

suite!(front, ProcArray::new);
// A window of 64 ids: it slides in nearly every test, and what lasts becomes an old id.
suite!(front_with_tiny_window, ProcArray::<1>::with_window);
suite!(front_of_const_capacity, |_, first| FixedProcArray::<
    48,
    96,
    4,
>::new(first));

#[cfg(feature = "baselines")]
mod baselines {
    use procarray::baseline::{FullStructs, HotArray, LazyHorizon};
    use txnkit_sync::lock::{LockOf2011, LockOfToday};

    use super::common;

    suite!(full_structs_lock_of_2011, FullStructs::<LockOf2011>::new);
    suite!(full_structs_lock_of_today, FullStructs::<LockOfToday>::new);
    suite!(hot_array_lock_of_2011, HotArray::<LockOf2011>::new);
    suite!(hot_array_lock_of_today, HotArray::<LockOfToday>::new);
    suite!(lazy_horizon_lock_of_2011, LazyHorizon::<LockOf2011>::new);
    suite!(lazy_horizon_lock_of_today, LazyHorizon::<LockOfToday>::new);
}
