//! Reading records back, and what an interrupted write has left.
//!
//! # Rules
//!
//! 1. A record counts if it is whole: it names its own position and its checksum is right. The log ends where there is no such record.
//! 2. Bytes after that end are the remains of appends that were never durable, in any order. They are cut when the log is opened.
//! 3. But if among them a whole record says that the log was durable beyond that end, the end was no end: something durable has
//!    been damaged, and the log is not opened. Later records say so as soon as one of them was appended after a flush.

use alloc::vec;
use alloc::vec::Vec;

use txnkit_ids::Lsn;

use crate::error::RedoError;
use crate::log::RedoLog;
use crate::record::{ALIGN, HEADER, Header, Record, size};
use crate::store::LogStore;

/// What was found when a log was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// How many whole records there are.
    pub records: u64,
    /// Where the first of them starts.
    pub start: Lsn,
    /// Where the last of them ends, and the log goes on.
    pub end: Lsn,
    /// How many bytes of a torn tail were cut.
    pub cut_bytes: u64,
}

/// The whole record at `at`, if there is one.
pub(crate) fn record_at(store: &mut impl LogStore, at: u64) -> Result<Option<Record>, RedoError> {
    Ok(read(store, at)?.map(|(record, _)| record))
}

fn read(store: &mut impl LogStore, at: u64) -> Result<Option<(Record, Header)>, RedoError> {
    let mut header = [0; HEADER];
    if !fill(store, at, &mut header)? {
        return Ok(None);
    }
    let header = Header::decode(&header);
    let end = at + size(header.len) as u64;
    if header.position != at || end > store.end() {
        return Ok(None);
    }
    let mut payload = vec![0; header.len];
    if !fill(store, at + HEADER as u64, &mut payload)? || !header.fits(&payload) {
        return Ok(None);
    }
    let record = Record {
        start: Lsn::new(at),
        end: Lsn::new(end),
        kind: header.kind,
        payload,
    };
    Ok(Some((record, header)))
}

/// Fills `into` from position `at` on, if there are as many bytes.
fn fill(store: &mut impl LogStore, at: u64, into: &mut [u8]) -> Result<bool, RedoError> {
    let len = store.read(at, into).map_err(RedoError::Unreadable)?;
    Ok(len == into.len())
}

/// Finds the log in what the store holds, and cuts a torn tail.
pub(crate) fn recover(store: &mut impl LogStore) -> Result<Recovered, RedoError> {
    let mut found = Recovered {
        records: 0,
        start: Lsn::new(first_record(store)?),
        end: Lsn::INVALID,
        cut_bytes: 0,
    };
    let mut end = found.start.get();
    while let Some(record) = record_at(store, end)? {
        found.records += 1;
        end = record.end.get();
    }
    found.end = Lsn::new(end);
    found.cut_bytes = store.end() - end;
    if found.cut_bytes > 0 {
        check_tail(store, end)?;
        store.cut(end).map_err(RedoError::Unreadable)?;
    }
    Ok(found)
}

/// Where the log starts: at the store's first byte, or, where a part was removed, at the first record after it.
fn first_record(store: &mut impl LogStore) -> Result<u64, RedoError> {
    let start = store.start();
    if start == 0 {
        return Ok(0);
    }
    let found = find(store, start, |_| true)?;
    Ok(found.map_or(start, |(record, _)| record.start.get()))
}

/// Rule 3.
fn check_tail(store: &mut impl LogStore, end: u64) -> Result<(), RedoError> {
    match find(store, end, |header| header.durable > end)? {
        Some((_, header)) => Err(RedoError::Damaged {
            at: Lsn::new(end),
            durable: Lsn::new(header.durable),
        }),
        None => Ok(()),
    }
}

/// The first whole record from `from` on for which `wanted` holds, wherever the one before it ends.
fn find(
    store: &mut impl LogStore,
    from: u64,
    wanted: impl Fn(&Header) -> bool,
) -> Result<Option<(Record, Header)>, RedoError> {
    const PART: usize = 1 << 16;
    let mut part: Vec<u8> = vec![0; PART];
    let mut base = from.next_multiple_of(ALIGN as u64);
    while base < store.end() {
        let len = store.read(base, &mut part).map_err(RedoError::Unreadable)?;
        let mut at = 0;
        while at + HEADER <= len {
            let header = part[at..at + HEADER].first_chunk().map(Header::decode);
            let header = header.filter(|header| header.position == base + at as u64);
            if header.is_some_and(|header| wanted(&header))
                && let Some(found) = read(store, base + at as u64)?
            {
                return Ok(Some(found));
            }
            at += ALIGN;
        }
        if len < PART {
            break;
        }
        // A header may lie across the end of the part.
        base += at as u64;
    }
    Ok(None)
}

/// The records of a log from some position on, up to where it was durable when each was asked for.
#[derive(Debug)]
pub struct Records<'a, S> {
    pub(crate) log: &'a RedoLog<S>,
    pub(crate) next: Lsn,
}

impl<S: LogStore> Iterator for Records<'_, S> {
    type Item = Result<Record, RedoError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.log.flushed() {
            return None;
        }
        let record = self.log.read(self.next);
        match &record {
            Ok(record) => self.next = record.end,
            Err(_) => self.next = Lsn::new(u64::MAX),
        }
        Some(record)
    }
}
