//! What each operation costs: one function a row, each running `calls` calls a thread and returning the time they took.
//!
//! What is measured escapes (`black_box`) between a pin and its unpin: else the compiler joins the two and the row tells of something else.

use core::hint::black_box;
use core::time::Duration;
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::Instant;

use bufpin::{BufferPool, MemoryStore, PinSession, Pins};

/// One row: what is measured, and how.
pub(crate) struct Row {
    /// `operation/variation/threads`.
    pub(crate) name: &'static str,
    /// Runs so many calls a thread and returns the time they took.
    pub(crate) run: fn(calls: u64) -> Duration,
}

/// Every row of this crate.
pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "pin/first/1",
        run: |calls| first(calls, 1, 0),
    },
    Row {
        name: "pin/first/held-4",
        run: |calls| first(calls, 1, 4),
    },
    Row {
        name: "pin/first/2",
        run: |calls| first(calls, 2, 0),
    },
    Row {
        name: "pin/nested",
        run: nested,
    },
    Row {
        name: "pin/lookup/one/1",
        run: |calls| lookup(calls, 1, 1),
    },
    Row {
        name: "pin/lookup/64MB/1",
        run: |calls| lookup(calls, 1, POOL_OF_64_MB),
    },
    Row {
        name: "pin/lookup/one/2",
        run: |calls| lookup(calls, 2, 1),
    },
    Row {
        name: "pin/lookup/64MB/2",
        run: |calls| lookup(calls, 2, POOL_OF_64_MB),
    },
    Row {
        name: "pin/locked/1",
        run: |calls| locked(calls, 1),
    },
    Row {
        name: "pin/locked/2",
        run: |calls| locked(calls, 2),
    },
    Row {
        name: "pin/optimistic/1",
        run: |calls| optimistic(calls, 1),
    },
    Row {
        name: "pin/optimistic/2",
        run: |calls| optimistic(calls, 2),
    },
    Row {
        name: "lock/shared/1",
        run: |calls| shared(calls, 1),
    },
    Row {
        name: "lock/shared/2",
        run: |calls| shared(calls, 2),
    },
    Row {
        name: "miss/clean/1",
        run: miss,
    },
];

/// Pages, and buffers, of 8192 bytes.
const POOL_OF_64_MB: u64 = 8192;

type Pool = BufferPool<MemoryStore>;
type Session<'a> = <Pool as Pins>::Session<'a>;

fn session(pool: &Pool) -> Session<'_> {
    pool.register()
        .expect("the pool was built with a slot for it")
}

/// A pool with pages 0 to `pages` - 1 in it, each used often.
fn warm(pages: u64) -> Pool {
    let pool = Pool::new(MemoryStore::new(), pages as usize + 16, 3);
    let session = session(&pool);
    for _ in 0..6 {
        (0..pages).for_each(|page| touch(&session, page));
    }
    drop(session);
    pool
}

fn touch(session: &Session<'_>, page: u64) {
    session.unpin(session.pin(page).expect("there is a buffer for it"));
}

/// Runs `call` so many times in each of `threads` sessions at once, and returns the time until the last was done.
fn time(
    pool: &Pool,
    calls: u64,
    threads: usize,
    call: impl Fn(&Session<'_>, u64) + Sync,
) -> Duration {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let runners: Vec<_> = (0..threads)
            .map(|at| {
                let (session, start, call) = (session(pool), &start, &call);
                scope.spawn(move || {
                    // A stream of numbers for each thread (xorshift).
                    let mut random = 0x9e37_79b9_7f4a_7c15 ^ (at as u64 + 1);
                    start.wait();
                    let began = Instant::now();
                    for _ in 0..calls {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        call(&session, random);
                    }
                    began.elapsed()
                })
            })
            .collect();
        let took = runners
            .into_iter()
            .map(|runner| runner.join().expect("a runner does not panic"));
        took.max().unwrap_or_default()
    })
}

/// Pin and unpin of a buffer whose number is known, `held` others pinned.
fn first(calls: u64, threads: usize, held: u64) -> Duration {
    let pool = warm(1 + held);
    if threads > 1 {
        return time(&pool, calls, threads, |session, _| {
            let pin = session
                .pin_recent(black_box(0), 0)
                .expect("the page is there");
            black_box(session);
            session.unpin(pin);
        });
    }
    let session = session(&pool);
    let _held: Vec<_> = (1..=held).map(|page| session.pin(page)).collect();
    let start = Instant::now();
    for _ in 0..calls {
        let pin = session
            .pin_recent(black_box(0), 0)
            .expect("the page is there");
        black_box(&session);
        session.unpin(pin);
    }
    start.elapsed()
}

/// Pin and unpin of a buffer that the session has pinned already.
fn nested(calls: u64) -> Duration {
    let pool = warm(1);
    let session = session(&pool);
    let _outer = session.pin(0);
    let start = Instant::now();
    for _ in 0..calls {
        let pin = session
            .pin_recent(black_box(0), 0)
            .expect("the page is there");
        black_box(&session);
        session.unpin(pin);
    }
    start.elapsed()
}

/// The warm pool of so many pages; the large one is built once.
fn with_warm<R>(pages: u64, f: impl FnOnce(&Pool) -> R) -> R {
    static LARGE: OnceLock<Pool> = OnceLock::new();
    if pages == POOL_OF_64_MB {
        f(LARGE.get_or_init(|| warm(pages)))
    } else {
        f(&warm(pages))
    }
}

/// Look-up, pin and unpin of one page of so many.
fn lookup(calls: u64, threads: usize, pages: u64) -> Duration {
    with_warm(pages, |pool| lookup_in(pool, calls, threads, pages))
}

fn lookup_in(pool: &Pool, calls: u64, threads: usize, pages: u64) -> Duration {
    time(pool, calls, threads, |session, random| {
        let page = black_box(random % pages);
        let pin = session.pin(page).expect("there is a buffer for it");
        black_box(session);
        session.unpin(pin);
    })
}

/// Pin and shared lock in one step, and both given back in one.
fn locked(calls: u64, threads: usize) -> Duration {
    let pool = warm(1);
    time(&pool, calls, threads, |session, _| {
        let page = session.pin_shared(black_box(0)).expect("the page is there");
        black_box(&page);
    })
}

/// Eight bytes of a page, read without a pin.
fn optimistic(calls: u64, threads: usize) -> Duration {
    let pool = warm(1);
    time(&pool, calls, threads, |session, random| {
        let word = (random % 1024) as usize;
        black_box(session.read_unpinned(black_box(0), |page| page.get(word)));
    })
}

/// The content lock of a pinned page, shared, and its end.
fn shared(calls: u64, threads: usize) -> Duration {
    let pool = warm(1);
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let runners: Vec<_> = (0..threads)
            .map(|_| {
                let (session, start) = (session(&pool), &start);
                scope.spawn(move || {
                    let pin = session.pin(0).expect("the page is there");
                    start.wait();
                    let began = Instant::now();
                    for _ in 0..calls {
                        let page = session
                            .lock_shared(black_box(&pin))
                            .expect("nobody locks it alone");
                        black_box(&page);
                    }
                    let took = began.elapsed();
                    session.unpin(pin);
                    took
                })
            })
            .collect();
        let took = runners
            .into_iter()
            .map(|runner| runner.join().expect("a runner does not panic"));
        took.max().unwrap_or_default()
    })
}

/// A page that is not there, from a store that does nothing, in a clean pool of pages of one word: a victim, and two changes of the page table.
fn miss(calls: u64) -> Duration {
    let pool = BufferPool::<MemoryStore<1>, 1>::with_words(MemoryStore::default(), 4096, 1);
    let session = pool
        .register()
        .expect("the pool was built with a slot for it");
    let mut page = 0;
    let mut next = || {
        page += 1;
        let pin = session.pin(page).expect("there is a buffer for it");
        black_box(&session);
        session.unpin(pin);
    };
    (0..8192).for_each(|_| next());
    let start = Instant::now();
    (0..calls).for_each(|_| next());
    start.elapsed()
}
