//! The protocols under every interleaving and memory order that loom finds within its bounds, and their weakened twins, each of which has to fail.
//!
//! `RUSTFLAGS='--cfg txnkit_model="loom"' cargo test --release -p bufpin --test loom`
//!
//! Every actor runs in a thread of its own; the main thread sets up, joins and compares. The models run the crate's own code with one or two
//! buffers of two words.
#![cfg(txnkit_model = "loom")]

use std::sync::atomic::{AtomicBool, Ordering};

use bufpin::{BufferPool, PageStore, Pin, PinError, PinSession, Pins, StoreError};
use loom::cell::UnsafeCell;
use loom::thread;
use txnkit_sync::model::{Histogram, assert_breaks, check, check_preempting};

const WORDS: usize = 2;

/// Something that is accessed without any synchronisation of its own: loom reports a race when two accesses are not ordered.
struct Plain(UnsafeCell<u64>);

// SAFETY: the point of the models: that the protocol orders the accesses, which loom checks.
unsafe impl Sync for Plain {}
// SAFETY: as above.
unsafe impl Send for Plain {}

impl Plain {
    fn new(value: u64) -> Self {
        Self(UnsafeCell::new(value))
    }
    fn set(&self, value: u64) {
        // SAFETY: loom checks that no other access is concurrent.
        self.0.with_mut(|cell| unsafe { *cell = value });
    }
    fn get(&self) -> u64 {
        // SAFETY: loom checks that no write is concurrent.
        self.0.with(|cell| unsafe { *cell })
    }
}

/// Pages 0 to 5, each with all words equal; their accesses are race-checked. So is that of the pool's only buffer, where there is one only.
struct Disk {
    pages: [Plain; 6],
    buffer: Option<Plain>,
    /// The next read fails. No atomic of loom's, so that it orders nothing.
    fail: AtomicBool,
}

type Pool = BufferPool<Disk, WORDS>;

fn start(page: u64) -> u64 {
    10 * page
}

impl Disk {
    /// Reads the buffer, if it is checked.
    fn look(&self) {
        self.buffer.iter().for_each(|buffer| {
            buffer.get();
        });
    }

    /// Writes the buffer, if it is checked.
    fn change(&self) {
        self.buffer.iter().for_each(|buffer| buffer.set(0));
    }
}

impl PageStore<WORDS> for Disk {
    fn read(&self, page: u64, into: &mut [u64; WORDS]) -> Result<(), StoreError> {
        self.change();
        if self.fail.swap(false, Ordering::Relaxed) {
            return Err(StoreError::new("once", 0));
        }
        into.fill(self.pages[page as usize].get());
        Ok(())
    }

    fn write(&self, page: u64, from: &[u64; WORDS]) -> Result<(), StoreError> {
        self.look();
        assert_eq!(from[0], from[1], "a torn page is written");
        self.pages[page as usize].set(from[0]);
        Ok(())
    }
}

/// A pool that outlives the model's execution, so that sessions can be registered before the actors start: fewer steps to interleave.
fn pool(buffers: usize) -> &'static Pool {
    pool_for(buffers, 4)
}

fn pool_for(buffers: usize, sessions: usize) -> &'static Pool {
    let disk = Disk {
        pages: [0, 1, 2, 3, 4, 5].map(|page| Plain::new(start(page))),
        buffer: (buffers == 1).then(|| Plain::new(0)),
        fail: AtomicBool::new(false),
    };
    Box::leak(Box::new(Pool::with_words(disk, buffers, sessions)))
}

type Session = <Pool as Pins>::Session<'static>;

fn session(pool: &'static Pool) -> Session {
    pool.register().unwrap()
}

/// Brings a page in.
fn touch(session: &Session, page: u64) {
    session.unpin(session.pin(page).unwrap());
}

/// Reads a page if a buffer can be had; says whether. Pin and lock are two steps.
fn looked(session: &Session, pool: &Pool, page: u64) -> bool {
    match session.pin(page) {
        Ok(pin) => {
            let words = session.lock_shared(&pin).unwrap();
            pool.store().look();
            assert_eq!((words.read(0), words.read(1)), (start(page), start(page)));
            drop(words);
            session.unpin(pin);
            true
        }
        Err(PinError::AllPinned { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// As `looked`, in one step.
fn looked_joined(session: &Session, pool: &Pool, page: u64) -> bool {
    match session.pin_shared(page) {
        Ok(words) => {
            pool.store().look();
            assert_eq!((words.read(0), words.read(1)), (start(page), start(page)));
            true
        }
        Err(PinError::AllPinned { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Adds 1 to a page if a buffer can be had; says whether.
fn added(session: &Session, pool: &Pool, page: u64) -> bool {
    match session.pin_exclusive(page) {
        Ok(mut words) => {
            pool.store().change();
            let value = words.read(0) + 1;
            (0..WORDS).for_each(|word| words.write(word, value));
            true
        }
        Err(PinError::AllPinned { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// What the page table and the pins have to be when nobody is at work.
fn assert_quiet(pool: &Pool) {
    assert!(pool.is_consistent(), "page table and buffers disagree");
    for buffer in 0..pool.buffers() as u32 {
        assert_eq!(pool.buffer(buffer).unwrap().pins, 0);
    }
}

/// How a session looks at a page.
type Look = fn(&Session, &Pool, u64) -> bool;

/// One buffer with page 1 in it, unless both want that; one session looks for page 1, another wants `other` there.
fn pin_model(look: Look, other: u64, seen: &'static Histogram) {
    check(move || {
        let pool = pool(1);
        let (one, two) = (session(pool), session(pool));
        if other != 1 {
            touch(&two, 1);
        }
        let actors = [(one, 1), (two, other)]
            .map(|(session, page)| thread::spawn(move || (look(&session, pool, page), session)));
        let [(a, _one), (b, _two)] = actors.map(|actor| actor.join().unwrap());
        seen.count(format!("{a} {b}"));
        assert_quiet(pool);
    });
}

#[test]
fn a_pinned_page_is_the_page_asked_for() {
    static SEEN: Histogram = Histogram::new();
    pin_model(looked, 2, &SEEN);
    SEEN.assert_seen(&["true true", "true false", "false true"]);
}

#[test]
fn a_page_pinned_and_locked_is_the_page_asked_for() {
    static SEEN: Histogram = Histogram::new();
    pin_model(looked_joined, 2, &SEEN);
    SEEN.assert_seen(&["true true", "true false", "false true"]);
}

#[test]
fn a_page_that_somebody_reads_in_is_seen_as_read() {
    static SEEN: Histogram = Histogram::new();
    pin_model(looked_joined, 1, &SEEN);
    SEEN.assert_seen(&["true true"]);
}

/// As above, page 1 looked for by its buffer's number.
#[test]
fn a_recent_page_is_the_page_asked_for() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let pool = pool(1);
        let (one, two) = (session(pool), session(pool));
        touch(&two, 1);
        let recent = thread::spawn(move || {
            let pinned = one.pin_recent(0, 1);
            if let Ok(pin) = pinned {
                // No lock: the pin alone keeps the page in its place.
                pool.store().look();
                one.unpin(pin);
            }
            one
        });
        let other = thread::spawn(move || (looked(&two, pool, 2), two));
        let (_one, (looked, _two)) = (recent.join().unwrap(), other.join().unwrap());
        SEEN.count(looked);
        assert_quiet(pool);
    });
    SEEN.assert_seen(&["true", "false"]);
}

#[test]
fn a_weakened_pin_fails() {
    assert_breaks(
        "a_pinned_page_is_the_page_asked_for",
        &[
            "bufpin.session.pin",
            "bufpin.session.unpin",
            "bufpin.session.page-unchecked",
            "bufpin.session.untagged-accepted",
            "bufpin.evict.retire",
            "bufpin.evict.tag",
            "bufpin.evict.claim",
        ],
    );
    assert_breaks(
        "a_page_pinned_and_locked_is_the_page_asked_for",
        &[
            "bufpin.session.pin",
            "bufpin.session.unpin",
            "bufpin.session.page-unchecked",
        ],
    );
    assert_breaks(
        "a_page_that_somebody_reads_in_is_seen_as_read",
        &["bufpin.session.pin", "bufpin.evict.valid"],
    );
    assert_breaks(
        "a_recent_page_is_the_page_asked_for",
        &["bufpin.evict.pins-unchecked", "bufpin.session.unpin"],
    );
}

/// Two sessions miss one page at a time.
#[test]
fn two_misses_bring_a_page_in_once() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let pool = pool(2);
        let actors = [session(pool), session(pool)].map(|session| {
            thread::spawn(move || {
                assert!(added(&session, pool, 1));
                session
            })
        });
        let sessions = actors.map(|actor| actor.join().unwrap());
        let page = sessions[0].pin_shared(1).unwrap();
        assert_eq!(page.read(0), start(1) + 2, "an addition was lost");
        drop(page);
        let misses = sessions.map(|session| session.take_stats().misses);
        SEEN.count(format!("{misses:?}"));
        assert_quiet(pool);
    });
    SEEN.assert_seen(&["[1, 0]", "[0, 1]"]);
}

/// Page 1 leaves and comes back, maybe to another buffer, while another session looks for it.
#[test]
fn a_page_that_moves_is_found() {
    static SEEN: Histogram = Histogram::new();
    check_preempting(1, || {
        let pool = pool(2);
        let (one, two) = (session(pool), session(pool));
        touch(&one, 1);
        let looker = thread::spawn(move || (added(&one, pool, 1), one));
        let mover = thread::spawn(move || {
            for page in [2, 3] {
                looked(&two, pool, page);
            }
            (added(&two, pool, 1), two)
        });
        let ((a, one), (b, two)) = (looker.join().unwrap(), mover.join().unwrap());
        assert_eq!(
            one.pin_shared(1).unwrap().read(0),
            start(1) + u64::from(a) + u64::from(b)
        );
        let misses = one.take_stats().misses + two.take_stats().misses;
        SEEN.count(misses);
        assert_quiet(pool);
    });
    SEEN.assert_seen(&["3", "4"]);
}

#[test]
fn a_weakened_page_table_fails() {
    assert_breaks(
        "two_misses_bring_a_page_in_once",
        &["bufpin.mapping.no-second-search"],
    );
    assert_breaks(
        "a_page_that_moves_is_found",
        &["bufpin.mapping.no-second-search"],
    );
    assert_breaks("two_pages_come_in_at_a_time", &["bufpin.mapping.unclaimed"]);
}

/// Two pages of different partitions with one home cell.
#[test]
fn two_pages_come_in_at_a_time() {
    check(|| {
        let pool = pool(2);
        let actors = [1, 5].map(|page| {
            let session = session(pool);
            thread::spawn(move || {
                assert!(looked(&session, pool, page));
                session
            })
        });
        let _sessions = actors.map(|actor| actor.join().unwrap());
        assert_quiet(pool);
    });
}

/// The first read of the page fails.
#[test]
fn who_waits_for_a_read_that_fails_tries_itself() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let pool = pool(2);
        pool.store().fail.store(true, Ordering::Relaxed);
        let actors = [session(pool), session(pool)].map(|session| {
            thread::spawn(move || {
                let outcome = match session.pin_shared(1) {
                    Ok(page) => {
                        assert_eq!(page.read(0), start(1));
                        "read"
                    }
                    Err(PinError::Read { .. }) => "failed",
                    Err(error) => panic!("{error}"),
                };
                (outcome, session)
            })
        });
        let [(a, _one), (b, _two)] = actors.map(|actor| actor.join().unwrap());
        assert_ne!(a, b, "one fails, one reads");
        SEEN.count(a);
        assert_quiet(pool);
    });
    SEEN.assert_seen(&["read", "failed"]);
}

#[test]
fn a_weakened_read_fails() {
    assert_breaks(
        "who_waits_for_a_read_that_fails_tries_itself",
        &[
            "bufpin.evict.failed-left-in",
            "bufpin.evict.failed-left-locked",
            "bufpin.lock.no-wake",
            "bufpin.session.invalid-accepted",
        ],
    );
}

/// A pinned page, and as many sessions with a pin of it.
fn pinned<const N: usize>(pool: &'static Pool) -> [(Session, Pin); N] {
    [(); N].map(|()| {
        let session = session(pool);
        let pin = session.pin(1).unwrap();
        (session, pin)
    })
}

/// One session reads under its pin and unpins; another waits to be the only one, then writes. With a third one, which takes the buffer for
/// another page's for a moment.
fn cleanup_model(stray: bool, seen: &'static Histogram) {
    check(move || {
        let pool = pool(1);
        let [(reader, read_pin), (cleaner, pin)] = pinned(pool);
        let stray = stray.then(|| {
            let session = session(pool);
            thread::spawn(move || {
                if let Ok(pin) = session.pin_recent(0, 2) {
                    session.unpin(pin);
                }
                session
            })
        });
        let reader = thread::spawn(move || {
            pool.store().look();
            reader.unpin(read_pin);
            reader
        });
        let cleaner = thread::spawn(move || {
            let at_once = cleaner.try_lock_cleanup(&pin).is_ok();
            let mut page = cleaner.lock_cleanup(&pin).unwrap();
            pool.store().change();
            (0..WORDS).for_each(|word| page.write(word, 5));
            drop(page);
            cleaner.unpin(pin);
            (at_once, cleaner)
        });
        let (_reader, (at_once, _cleaner)) = (reader.join().unwrap(), cleaner.join().unwrap());
        let _stray = stray.map(|stray| stray.join().unwrap());
        seen.count(at_once);
        assert!(!pool.buffer(0).unwrap().cleanup, "the bit was left");
        assert_quiet(pool);
    });
    seen.assert_seen(&["false", "true"]);
}

#[test]
fn a_cleaner_is_woken_by_the_last_unpin() {
    static SEEN: Histogram = Histogram::new();
    cleanup_model(false, &SEEN);
}

#[test]
fn a_cleaner_is_woken_by_a_stray() {
    static SEEN: Histogram = Histogram::new();
    cleanup_model(true, &SEEN);
}

#[test]
fn a_weakened_cleanup_fails() {
    assert_breaks(
        "a_cleaner_is_woken_by_the_last_unpin",
        &[
            "bufpin.cleanup.announce",
            "bufpin.cleanup.look",
            "bufpin.cleanup.no-wake",
            "bufpin.cleanup.bit-by-store",
            "bufpin.cleanup.wake-fence",
            "bufpin.session.unpin",
        ],
    );
    assert_breaks(
        "a_cleaner_is_woken_by_a_stray",
        &["bufpin.session.silent-stray"],
    );
}

/// Writers, who add 1 each, and readers of one page that all have pinned.
fn lock_model<const WRITERS: usize, const READERS: usize>(seen: &'static Histogram) {
    check(move || {
        let pool = pool(1);
        let writers = pinned::<WRITERS>(pool).map(|(session, pin)| {
            thread::spawn(move || {
                let mut page = session.lock_exclusive(&pin).unwrap();
                pool.store().change();
                let value = page.read(0) + 1;
                (0..WORDS).for_each(|word| page.write(word, value));
                drop(page);
                session.unpin(pin);
                session
            })
        });
        let readers = pinned::<READERS>(pool).map(|(session, pin)| {
            thread::spawn(move || {
                let page = session.lock_shared(&pin).unwrap();
                pool.store().look();
                let value = page.read(0);
                assert_eq!(page.read(1), value, "torn");
                drop(page);
                session.unpin(pin);
                (value - start(1), session)
            })
        });
        let _writers = writers.map(|writer| writer.join().unwrap());
        let readers = readers.map(|reader| reader.join().unwrap());
        seen.count(format!("{:?}", readers.map(|(value, _)| value)));
        let session = session(pool);
        let page = session.pin_shared(1).unwrap();
        assert_eq!(page.read(0), start(1) + WRITERS as u64);
        drop(page);
        assert_quiet(pool);
    });
}

#[test]
fn two_readers_and_a_writer_exclude_each_other() {
    static SEEN: Histogram = Histogram::new();
    lock_model::<1, 2>(&SEEN);
    SEEN.assert_seen(&["[0, 0]", "[0, 1]", "[1, 0]", "[1, 1]"]);
}

#[test]
fn two_writers_exclude_each_other() {
    static SEEN: Histogram = Histogram::new();
    lock_model::<2, 0>(&SEEN);
}

#[test]
fn two_writers_and_a_reader_exclude_each_other() {
    static SEEN: Histogram = Histogram::new();
    lock_model::<2, 1>(&SEEN);
    SEEN.assert_seen(&["[0]", "[1]", "[2]"]);
}

#[test]
fn a_weakened_lock_fails() {
    assert_breaks(
        "two_readers_and_a_writer_exclude_each_other",
        &[
            "bufpin.lock.shared",
            "bufpin.lock.exclusive",
            "bufpin.lock.unlock-exclusive",
            "bufpin.lock.no-wake",
            "bufpin.lock.queued-by-store",
            "bufpin.session.unpin",
        ],
    );
    assert_breaks(
        "two_writers_exclude_each_other",
        &[
            "bufpin.lock.exclusive",
            "bufpin.lock.unlock-exclusive",
            "bufpin.lock.no-wake",
        ],
    );
}

/// One buffer: one session changes page 1, another one needs its buffer for page 2.
#[test]
fn a_change_survives_eviction() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let pool = pool(1);
        let (one, two) = (session(pool), session(pool));
        touch(&two, 1);
        let changer = thread::spawn(move || (added(&one, pool, 1), one));
        let evictor = thread::spawn(move || (looked(&two, pool, 2), two));
        let ((a, one), (b, _two)) = (changer.join().unwrap(), evictor.join().unwrap());
        SEEN.count(format!("{a} {b}"));
        let page = one.pin_shared(1).unwrap();
        assert_eq!(page.read(0), start(1) + u64::from(a), "a change was lost");
        drop(page);
        assert_quiet(pool);
    });
    SEEN.assert_seen(&["true true", "false true", "true false"]);
}

/// One session changes a dirty page while another one writes it to the store.
#[test]
fn a_page_is_written_whole_and_no_change_is_lost() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let pool = pool(1);
        let (one, two) = (session(pool), session(pool));
        assert!(added(&two, pool, 1));
        let changer = thread::spawn(move || {
            assert!(added(&one, pool, 1));
            one
        });
        let flusher = thread::spawn(move || {
            assert_eq!(two.flush_all(), Ok(1));
            two
        });
        let (one, _two) = (changer.join().unwrap(), flusher.join().unwrap());
        let left = one.flush_all().unwrap();
        assert_eq!(pool.store().pages[1].get(), start(1) + 2);
        SEEN.count(left);
        assert_quiet(pool);
    });
    SEEN.assert_seen(&["0", "1"]);
}

/// Two flushes at a time: when either returns, the page is in the store.
#[test]
fn a_flush_waits_for_another_ones_write() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let pool = pool(1);
        let actors = [session(pool), session(pool)];
        assert!(added(&actors[0], pool, 1));
        let actors = actors.map(|session| {
            thread::spawn(move || {
                let written = session.flush_all().unwrap();
                assert_eq!(pool.store().pages[1].get(), start(1) + 1);
                (written, session)
            })
        });
        let [(a, _one), (b, _two)] = actors.map(|actor| actor.join().unwrap());
        assert_eq!(a + b, 1, "written once");
        SEEN.count(a);
    });
    SEEN.assert_seen(&["0", "1"]);
}

#[test]
fn a_weakened_write_back_fails() {
    assert_breaks(
        "a_change_survives_eviction",
        &[
            "bufpin.evict.dirty-unchecked",
            "bufpin.evict.pins-unchecked",
        ],
    );
    assert_breaks(
        "a_page_is_written_whole_and_no_change_is_lost",
        &[
            "bufpin.lock.writing-beside-writers",
            "bufpin.lock.unlock-writing",
            "bufpin.lock.unlock-exclusive",
            "bufpin.lock.exclusive",
        ],
    );
    assert_breaks(
        "a_flush_waits_for_another_ones_write",
        &[
            "bufpin.lock.writing-beside-writers",
            "bufpin.lock.unlock-writing",
            "bufpin.session.flush-look",
        ],
    );
}

/// A reader without a pin, while the page is changed, or makes room for another one.
fn unpinned_model(evict: bool, seen: &'static Histogram) {
    check(move || {
        let pool = pool(1);
        let (writer, reader) = (session(pool), session(pool));
        touch(&writer, 1);
        let writer = thread::spawn(move || {
            if evict {
                assert!(looked(&writer, pool, 2));
            } else {
                assert!(added(&writer, pool, 1));
            }
            writer
        });
        let reader = thread::spawn(move || {
            let words = reader.read_unpinned(1, |page| [0, 1].map(|word| page.get(word).unwrap()));
            if let Some([first, second]) = words {
                assert_eq!(first, second, "torn");
                assert!(first == start(1) || !evict, "another page");
            }
            (words.map(|[first, _]| first), reader)
        });
        let _writer = writer.join().unwrap();
        let (read, _reader) = reader.join().unwrap();
        seen.count(format!("{read:?}"));
    });
}

#[test]
fn what_is_read_without_a_pin_is_whole() {
    static SEEN: Histogram = Histogram::new();
    unpinned_model(false, &SEEN);
    SEEN.assert_seen(&["None", "Some(10)", "Some(11)"]);
}

#[test]
fn what_is_read_without_a_pin_is_the_page() {
    static SEEN: Histogram = Histogram::new();
    unpinned_model(true, &SEEN);
    SEEN.assert_seen(&["None", "Some(10)"]);
}

#[test]
fn a_weakened_version_fails() {
    assert_breaks(
        "what_is_read_without_a_pin_is_whole",
        &[
            "bufpin.version.odd-fence",
            "bufpin.version.even",
            "bufpin.unpinned.version",
            "bufpin.unpinned.fence",
            "bufpin.unpinned.odd-accepted",
            "bufpin.unpinned.version-unchecked",
        ],
    );
    assert_breaks(
        "what_is_read_without_a_pin_is_the_page",
        &[
            "bufpin.unpinned.page-unchecked",
            "bufpin.unpinned.version-unchecked",
        ],
    );
}

/// One slot: its next session comes after all that the last one did.
#[test]
fn a_slot_is_handed_on_in_order() {
    static SEEN: Histogram = Histogram::new();
    check(|| {
        let pool = pool_for(1, 1);
        let first = session(pool);
        let first = thread::spawn(move || {
            pool.store().change();
            drop(first);
        });
        let second = thread::spawn(move || {
            let second = pool.register();
            second.iter().for_each(|_| pool.store().change());
            second.is_ok()
        });
        first.join().unwrap();
        SEEN.count(second.join().unwrap());
    });
    SEEN.assert_seen(&["true", "false"]);
}

#[test]
fn a_weakened_slot_fails() {
    assert_breaks(
        "a_slot_is_handed_on_in_order",
        &["bufpin.pool.register", "bufpin.session.leave"],
    );
}
