//! Injection points: places in the mechanisms where a test makes a thread wait, or counts. Built only with `--cfg txnkit_inject`
//! and `std`, and for real threads: a model explores the places by itself, and a hook that waits would stop it.
//!
//! A mechanism says `inject!("procarray.done.odd")` there; a test installs what is to happen with [`on`], [`Gate::at`] or [`Counter::at`].
//! The names are shared by the whole process, so tests that use the same name have to run one after another. A hook runs without a lock
//! of this module, and may wait, install or remove hooks, or panic (to look like a failure at that place).

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

type Hook = Arc<dyn Fn() + Send + Sync>;

static HOOKS: Mutex<BTreeMap<&'static str, Hook>> = Mutex::new(BTreeMap::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the hook of `name`, if there is one. What [`inject!`](crate::inject!) expands to.
pub fn reach(name: &'static str) {
    let hook = locked(&HOOKS).get(name).cloned();
    if let Some(hook) = hook {
        hook();
    }
}

/// From now on, until the guard is dropped, every thread that reaches `name` runs `hook`. It replaces an earlier hook of that name.
pub fn on(name: &'static str, hook: impl Fn() + Send + Sync + 'static) -> Guard {
    let hook: Hook = Arc::new(hook);
    let replaced = locked(&HOOKS).insert(name, Arc::clone(&hook));
    // Foreign code, so not under the lock.
    drop(replaced);
    Guard { name, hook }
}

/// Removes its hook when dropped, unless a later one has replaced it. A thread in the hook stays there.
#[must_use = "the hook is removed as soon as the guard is dropped"]
pub struct Guard {
    name: &'static str,
    hook: Hook,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut hooks = locked(&HOOKS);
        if hooks
            .get(self.name)
            .is_some_and(|hook| Arc::ptr_eq(hook, &self.hook))
        {
            hooks.remove(self.name);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Makes the next thread that reaches a name wait there; later ones pass.
///
/// Dropping the gate opens it, so that a failed test does not hang in its threads.
#[derive(Debug)]
pub struct Gate {
    inner: Arc<GateInner>,
    _hook: Guard,
}

#[derive(Debug, Default)]
struct GateInner {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    reached: bool,
    open: bool,
}

impl Gate {
    /// A closed gate at `name`.
    pub fn at(name: &'static str) -> Self {
        let inner = Arc::new(GateInner::default());
        let hook = on(name, {
            let inner = Arc::clone(&inner);
            move || inner.pass()
        });
        Self { inner, _hook: hook }
    }

    /// Blocks until a thread waits at the gate, or has gone through.
    pub fn wait_until_reached(&self) {
        let state = locked(&self.inner.state);
        drop(
            self.inner
                .changed
                .wait_while(state, |state| !state.reached)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Has a thread come to the gate?
    pub fn is_reached(&self) -> bool {
        locked(&self.inner.state).reached
    }

    /// Lets the thread go on that waits, or is still to come.
    pub fn open(&self) {
        self.inner.open();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.inner.open();
    }
}

impl GateInner {
    fn pass(&self) {
        let mut state = locked(&self.state);
        if core::mem::replace(&mut state.reached, true) {
            return;
        }
        self.changed.notify_all();
        drop(
            self.changed
                .wait_while(state, |state| !state.open)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    fn open(&self) {
        locked(&self.state).open = true;
        self.changed.notify_all();
    }
}

/// Counts how often a name is reached.
#[derive(Debug)]
pub struct Counter {
    count: Arc<Mutex<u64>>,
    _hook: Guard,
}

impl Counter {
    /// Counts at `name` from now on.
    pub fn at(name: &'static str) -> Self {
        let count = Arc::new(Mutex::new(0));
        let hook = on(name, {
            let count = Arc::clone(&count);
            move || *locked(&count) += 1
        });
        Self { count, _hook: hook }
    }

    /// How often the name was reached since.
    pub fn get(&self) -> u64 {
        *locked(&self.count)
    }
}
