//! A record's bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 3 | payload length, and in the highest byte the kind |
//! | 4 to 7 | CRC-32C of the payload, then of bytes 0 to 3 and 8 to 23 |
//! | 8 to 15 | the record's own position |
//! | 16 to 23 | up to where the log was durable when the record was appended |
//! | 24 on | payload, then zeros up to a multiple of 8 |
//!
//! All numbers are little-endian. A record's position is a multiple of 8. That it names its own position makes old bytes in a reused place no
//! record; that it names the durable position tells a torn tail from damage: who finds a record that says "what is before me up to
//! here is durable", behind a place that cannot be read, before that position, knows that the place was whole once.

use alloc::vec::Vec;

use crc::{CRC_32_ISCSI, Crc, Digest, Table};

/// Bytes before the payload.
pub(crate) const HEADER: usize = 24;

/// Records start at multiples of this.
pub(crate) const ALIGN: usize = 8;

/// The longest payload, in bytes.
pub const MAX_PAYLOAD: usize = (1 << 24) - 1;

static CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// A record read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it starts.
    pub start: txnkit_ids::Lsn,
    /// Where it ends and the next one starts: what [`append`](crate::RedoLog::append) returned.
    pub end: txnkit_ids::Lsn,
    /// What the caller called it.
    pub kind: u8,
    /// What the caller put in.
    pub payload: Vec<u8>,
}

/// What stands before a payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) len: usize,
    crc: u32,
    pub(crate) position: u64,
    pub(crate) durable: u64,
}

/// Bytes that a record with so long a payload takes.
pub(crate) const fn size(payload: usize) -> usize {
    (HEADER + payload).next_multiple_of(ALIGN)
}

/// The checksum's first part: of the payload, which can be had before the position is known.
pub(crate) fn payload_digest(parts: &[&[u8]]) -> Digest<'static, u32, Table<16>> {
    let mut digest = CRC.digest();
    for part in parts {
        digest.update(part);
    }
    digest
}

/// Appends a record at `position` to `buffer`; `digest` is that of `parts`.
pub(crate) fn encode(
    buffer: &mut Vec<u8>,
    position: u64,
    durable: u64,
    kind: u8,
    parts: &[&[u8]],
    mut digest: Digest<'_, u32, Table<16>>,
) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let first = (len as u32 | u32::from(kind) << 24).to_le_bytes();
    let (position, durable) = (position.to_le_bytes(), durable.to_le_bytes());
    for bytes in [&first[..], &position, &durable] {
        digest.update(bytes);
    }
    let start = buffer.len();
    buffer.extend_from_slice(&first);
    buffer.extend_from_slice(&digest.finalize().to_le_bytes());
    buffer.extend_from_slice(&position);
    buffer.extend_from_slice(&durable);
    for part in parts {
        buffer.extend_from_slice(part);
    }
    buffer.resize(start + size(len), 0);
}

impl Header {
    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let u64_at =
            |at: usize| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| bytes[at + i]));
        Self {
            kind: (u32_at(0) >> 24) as u8,
            len: (u32_at(0) as usize) & MAX_PAYLOAD,
            crc: u32_at(4),
            position: u64_at(8),
            durable: u64_at(16),
        }
    }

    /// Does `payload` belong to this header?
    pub(crate) fn fits(&self, payload: &[u8]) -> bool {
        let mut digest = payload_digest(&[payload]);
        digest.update(&(self.len as u32 | u32::from(self.kind) << 24).to_le_bytes());
        digest.update(&self.position.to_le_bytes());
        digest.update(&self.durable.to_le_bytes());
        digest.finalize() == self.crc
    }
}
