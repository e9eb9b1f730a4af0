//! Sets made of late, so that an equal one is found instead of made again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use txnkit_ids::MultiXactId;
use txnkit_sync::Padded;
use txnkit_sync::lock::Mutex;

use crate::mode::Member;

/// Shards by the set's hash; each has a lock of its own, held while a few sets are compared.
const SHARDS: usize = 16;

/// Sets in a shard.
const ENTRIES: usize = 16;

/// The longest set that is kept: comparing longer ones costs more than it saves.
const LONGEST: usize = 16;

pub(crate) struct Cache {
    shards: [Padded<Mutex<Shard>>; SHARDS],
}

#[derive(Default)]
struct Shard {
    sets: Vec<(MultiXactId, Box<[Member]>)>,
    /// Which one goes next.
    hand: usize,
}

impl Cache {
    pub(crate) fn new() -> Self {
        Self {
            shards: core::array::from_fn(|_| Padded::new(Mutex::new(Shard::default()))),
        }
    }

    /// A set with exactly these sorted members, from `oldest` on.
    pub(crate) fn find(&self, members: &[Member], oldest: MultiXactId) -> Option<MultiXactId> {
        let shard = self.shard(members)?.lock();
        let equal = |(id, set): &&(MultiXactId, Box<[Member]>)| *id >= oldest && **set == *members;
        shard.sets.iter().find(equal).map(|(id, _)| *id)
    }

    pub(crate) fn add(&self, id: MultiXactId, members: &[Member]) {
        let Some(shard) = self.shard(members) else {
            return;
        };
        let entry = (id, Box::from(members));
        let mut shard = shard.lock();
        let hand = shard.hand;
        if shard.sets.len() < ENTRIES {
            shard.sets.push(entry);
        } else {
            shard.sets[hand] = entry;
            shard.hand = (hand + 1) % ENTRIES;
        }
    }

    fn shard(&self, members: &[Member]) -> Option<&Mutex<Shard>> {
        if members.len() > LONGEST {
            return None;
        }
        // Ids in a row fall into different shards.
        let mix = |hash: u64, member: &Member| {
            (hash ^ member.xid.get() ^ (member.mode as u64) << 60)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        };
        let hash = members.iter().fold(0, mix);
        Some(&self.shards[(hash >> 32) as usize % SHARDS])
    }
}
