#![doc = include_str!("../README.md")]
#![no_std]

#[cfg(any(feature = "alloc", txnkit_model = "loom", txnkit_model = "shuttle"))]
extern crate alloc;
#[cfg(any(feature = "std", txnkit_model = "loom", txnkit_model = "shuttle"))]
extern crate std;

#[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
#[path = "arms/native.rs"]
mod arm;
#[cfg(txnkit_model = "loom")]
#[path = "arms/loom.rs"]
mod arm;
#[cfg(txnkit_model = "shuttle")]
#[path = "arms/shuttle.rs"]
mod arm;

#[cfg(all(txnkit_inject, feature = "std"))]
pub mod inject;
pub mod lock;
#[cfg(any(feature = "std", txnkit_model = "loom", txnkit_model = "shuttle"))]
pub mod model;
mod pad;
pub mod park;
#[cfg(feature = "alloc")]
pub mod published;
#[cfg(feature = "std")]
mod random;

pub use crate::pad::Padded;
#[cfg(feature = "std")]
pub use crate::random::Random;

/// Is this build an arm that explores interleavings?
pub const MODEL: bool = cfg!(any(txnkit_model = "loom", txnkit_model = "shuttle"));

/// Atomic types, orderings and fences.
pub mod atomic {
    pub use crate::arm::atomic::*;
}

/// What to do while another thread is about to change something.
pub mod hint {
    pub use crate::arm::spin_loop;
}

/// A cell whose accesses a model can check.
pub mod cell {
    pub use crate::arm::UnsafeCell;
}

/// Declares a function that is `const` natively; under a model, whose atomics have no const constructor, it is not.
#[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
#[macro_export]
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => { $(#[$meta])* $vis const fn $($rest)* };
}
/// Declares a function that is `const` natively; under a model, whose atomics have no const constructor, it is not.
#[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
#[macro_export]
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => { $(#[$meta])* $vis fn $($rest)* };
}

/// An array filled with an expression evaluated for each place: a constant natively.
#[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
#[macro_export]
macro_rules! array_of {
    ($value:expr) => {
        [const { $value }; _]
    };
    ($value:expr; $len:expr) => {
        [const { $value }; $len]
    };
}
/// An array filled with an expression evaluated for each place: a constant natively.
#[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
#[macro_export]
macro_rules! array_of {
    ($value:expr; $len:expr) => {
        ::core::array::from_fn::<_, { $len }, _>(|_| $value)
    };
}

/// `ord!("name", Release)`: an ordering that a model can weaken to Relaxed by its name.
#[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
#[macro_export]
macro_rules! ord {
    ($name:literal, $ordering:ident) => {
        $crate::atomic::Ordering::$ordering
    };
}
/// `ord!("name", Release)`: an ordering that a model can weaken to Relaxed by its name.
#[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
#[macro_export]
macro_rules! ord {
    ($name:literal, $ordering:ident) => {
        if $crate::model::is_broken($name) {
            $crate::atomic::Ordering::Relaxed
        } else {
            $crate::atomic::Ordering::$ordering
        }
    };
}

/// `broken!("name")`: does a model run with this step left out? Constant `false` natively.
#[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
#[macro_export]
macro_rules! broken {
    ($name:literal) => {
        false
    };
}
/// `broken!("name")`: does a model run with this step left out? Constant `false` natively.
#[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
#[macro_export]
macro_rules! broken {
    ($name:literal) => {
        $crate::model::is_broken($name)
    };
}

/// `fence_at!("name", SeqCst)`: a fence that a model can leave out by its name.
#[macro_export]
macro_rules! fence_at {
    ($name:literal, $ordering:ident) => {
        if !$crate::broken!($name) {
            $crate::atomic::fence($crate::atomic::Ordering::$ordering)
        }
    };
}

/// `inject!("name")`: a place where a test makes a thread wait or counts; nothing without `--cfg txnkit_inject` and `std`.
#[cfg(not(all(txnkit_inject, feature = "std")))]
#[macro_export]
macro_rules! inject {
    ($name:literal) => {};
}
/// `inject!("name")`: a place where a test makes a thread wait or counts; nothing without `--cfg txnkit_inject` and `std`.
#[cfg(all(txnkit_inject, feature = "std"))]
#[macro_export]
macro_rules! inject {
    ($name:literal) => {
        $crate::inject::reach($name)
    };
}

/// A new parking place of type `$park`: const natively.
#[cfg(not(any(txnkit_model = "loom", txnkit_model = "shuttle")))]
#[macro_export]
macro_rules! new_park {
    ($park:ty) => {
        <$park as $crate::park::Park>::NEW
    };
}
/// A new parking place of type `$park`: const natively.
#[cfg(any(txnkit_model = "loom", txnkit_model = "shuttle"))]
#[macro_export]
macro_rules! new_park {
    ($park:ty) => {
        <$park as $crate::park::Park>::new()
    };
}
