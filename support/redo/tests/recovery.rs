//! What is left after a crash.

use txnkit_redo::{LogStore, Lsn, MemoryStore, Record, RedoError, RedoLog, StoreError};

/// Some records, a flush after each of those in `flushed`, and the bytes that a store then holds.
fn written(lens: &[usize], flushed: &[usize]) -> (Vec<u8>, Vec<u64>) {
    let mut store = MemoryStore::new();
    let (log, _) = RedoLog::open(Shared(&mut store)).unwrap();
    let mut ends = vec![0];
    for (at, &len) in lens.iter().enumerate() {
        let payload: Vec<u8> = (0..len).map(|i| (at * 31 + i) as u8).collect();
        ends.push(log.append(at as u8, &[&payload]).unwrap().get());
        if flushed.contains(&at) {
            log.flush_all().unwrap();
        }
    }
    log.flush_all().unwrap();
    drop(log);
    (store.as_bytes().to_vec(), ends)
}

/// A store that outlives its log.
struct Shared<'a>(&'a mut MemoryStore);

impl LogStore for Shared<'_> {
    fn start(&self) -> u64 {
        self.0.start()
    }
    fn end(&self) -> u64 {
        self.0.end()
    }
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        self.0.read(at, into)
    }
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.0.append(bytes)
    }
    fn sync(&mut self) -> Result<(), StoreError> {
        self.0.sync()
    }
    fn cut(&mut self, end: u64) -> Result<(), StoreError> {
        self.0.cut(end)
    }
    fn remove_before(&mut self, start: u64) -> Result<(), StoreError> {
        self.0.remove_before(start)
    }
}

fn records<S: LogStore>(log: &RedoLog<S>, from: Lsn) -> Vec<Record> {
    log.records(from).map(Result::unwrap).collect()
}

const LENS: [usize; 6] = [0, 5, 100, 8, 40, 3];

/// The log is cut off at every single byte: what was whole before is there, and the log goes on.
#[test]
fn a_log_cut_off_anywhere_keeps_what_is_whole() {
    let (bytes, ends) = written(&LENS, &[]);
    let whole = records(
        &RedoLog::open(MemoryStore::from_bytes(bytes.clone()))
            .unwrap()
            .0,
        Lsn::new(0),
    );
    assert_eq!(whole.len(), LENS.len());
    for len in 0..=bytes.len() {
        let store = MemoryStore::from_bytes(bytes[..len].to_vec());
        let (log, recovered) = RedoLog::open(store).unwrap();
        let kept = ends.iter().filter(|&&end| end <= len as u64).count() - 1;
        assert_eq!(recovered.records, kept as u64);
        assert_eq!(recovered.end, Lsn::new(ends[kept]));
        assert_eq!(recovered.cut_bytes, len as u64 - ends[kept]);
        assert_eq!(records(&log, Lsn::new(0)), whole[..kept]);
        let start = log.end();
        log.append(9, &[b"goes on"]).unwrap();
        log.flush_all().unwrap();
        assert_eq!(records(&log, start)[0].payload, b"goes on");
    }
}

/// One bit is turned, every one in turn, in a log that was made durable at once: nothing wrong is ever given out.
#[test]
fn a_turned_bit_is_never_given_out() {
    let (bytes, ends) = written(&LENS, &[]);
    let whole = records(
        &RedoLog::open(MemoryStore::from_bytes(bytes.clone()))
            .unwrap()
            .0,
        Lsn::new(0),
    );
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (log, recovered) = RedoLog::open(MemoryStore::from_bytes(damaged)).unwrap();
        let hit = ends.iter().filter(|&&end| end <= bit as u64 / 8).count() - 1;
        // In the zeros after a payload it does no harm.
        let kept = recovered.records as usize;
        assert!(kept == hit || kept == whole.len());
        assert_eq!(records(&log, Lsn::new(0)), whole[..kept]);
    }
}

/// The same, but each record was made durable before the next was appended: the damage is told, wherever a later record stands behind it.
#[test]
fn what_was_durable_is_damage_and_not_a_torn_tail() {
    let all: Vec<usize> = (0..LENS.len()).collect();
    let (bytes, ends) = written(&LENS, &all);
    let last = ends[LENS.len() - 1];
    for bit in 0..last as usize * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let before = damaged.clone();
        let hit = ends.iter().filter(|&&end| end <= bit as u64 / 8).count() - 1;
        let mut store = MemoryStore::from_bytes(damaged);
        match RedoLog::open(Shared(&mut store)) {
            Err(RedoError::Damaged { at, durable }) => {
                assert_eq!(at, Lsn::new(ends[hit]));
                assert!(durable > at && durable <= Lsn::new(last));
            }
            Ok((_, recovered)) => assert_eq!(recovered.records as usize, LENS.len(), "bit {bit}"),
            Err(other) => panic!("{other}"),
        }
        assert_eq!(store.as_bytes(), before, "nothing is changed");
    }
}

/// Whole records may follow a hole that a crash left in what was never durable: the hole is the end.
#[test]
fn a_hole_in_what_was_never_durable_is_the_end() {
    let (mut bytes, ends) = written(&LENS, &[1]);
    let (from, to) = (ends[3] as usize, ends[4] as usize);
    bytes[from..to].fill(0);
    let (log, recovered) = RedoLog::open(MemoryStore::from_bytes(bytes)).unwrap();
    assert_eq!((recovered.records, recovered.end), (3, Lsn::new(ends[3])));
    assert_eq!(log.end(), Lsn::new(ends[3]));
}

/// Bytes of an older log in a reused place are no records of this one.
#[test]
fn records_of_another_place_do_not_count() {
    let (bytes, ends) = written(&LENS, &[]);
    let mut moved = bytes[..ends[2] as usize].to_vec();
    moved.extend_from_slice(&bytes[ends[3] as usize..]);
    let (_, recovered) = RedoLog::open(MemoryStore::from_bytes(moved)).unwrap();
    assert_eq!(recovered.records, 2);
}

#[test]
fn noise_is_an_empty_log() {
    let mut noise = Vec::new();
    let mut state = 1_u64;
    for _ in 0..20_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        noise.push((state >> 56) as u8);
    }
    let len = noise.len() as u64;
    let (log, recovered) = RedoLog::open(MemoryStore::from_bytes(noise)).unwrap();
    assert_eq!((recovered.records, recovered.cut_bytes), (0, len));
    assert_eq!(log.end(), Lsn::new(0));
}
