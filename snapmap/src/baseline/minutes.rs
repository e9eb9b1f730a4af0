//! The ring with a place for every minute.

use alloc::boxed::Box;
use alloc::vec;

use txnkit_ids::Xid;

/// Places beyond the threshold's minutes.
const SPARE: u64 = 10;

/// The xmins of consecutive minutes. Minutes are numbered.
#[derive(Debug)]
pub(crate) struct MinuteRing {
    xmins: Box<[Xid]>,
    /// The oldest minute, and its place.
    head: u64,
    head_at: usize,
    used: usize,
}

impl MinuteRing {
    pub(crate) fn new(threshold_minutes: u64) -> Self {
        Self {
            xmins: vec![Xid::INVALID; (threshold_minutes + SPARE) as usize].into_boxed_slice(),
            head: 0,
            head_at: 0,
            used: 0,
        }
    }

    fn place(&self, from_head: u64) -> usize {
        (self.head_at + from_head as usize) % self.xmins.len()
    }

    /// A snapshot with this xmin was taken in `minute`.
    pub(crate) fn note(&mut self, minute: u64, xmin: Xid) {
        if self.used == 0 {
            return self.restart(minute, xmin);
        }
        let Some(from_head) = minute.checked_sub(self.head) else {
            return;
        };
        let newest = self.used as u64 - 1;
        if from_head <= newest {
            let place = self.place(from_head);
            self.xmins[place] = self.xmins[place].max(xmin);
        } else if from_head - newest >= self.xmins.len() as u64 {
            self.restart(minute, xmin);
        } else {
            (newest..from_head).for_each(|_| self.append(xmin));
        }
    }

    fn restart(&mut self, minute: u64, xmin: Xid) {
        (self.head, self.head_at, self.used) = (minute, 0, 1);
        self.xmins[0] = xmin;
    }

    fn append(&mut self, xmin: Xid) {
        let place = self.place(self.used as u64);
        self.xmins[place] = xmin;
        if self.used < self.xmins.len() {
            self.used += 1;
        } else {
            self.head_at = self.place(1);
            self.head += 1;
        }
    }

    /// The xmin of `minute`, of the newest minute if that is earlier; none before the oldest.
    pub(crate) fn xmin_of(&self, minute: u64) -> Option<Xid> {
        let newest = (self.used as u64).checked_sub(1)?;
        let from_head = minute.checked_sub(self.head)?;
        Some(self.xmins[self.place(from_head.min(newest))])
    }

    /// The minutes and their xmins, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Xid)> + '_ {
        (0..self.used as u64).map(|at| (self.head + at, self.xmins[self.place(at)]))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use txnkit_ids::Xid;

    use super::MinuteRing;

    fn rows(ring: &MinuteRing) -> Vec<(u64, u64)> {
        ring.iter()
            .map(|(minute, xmin)| (minute, xmin.get()))
            .collect()
    }

    fn note(ring: &mut MinuteRing, minute: u64, xmin: u64) {
        ring.note(minute, Xid::new(xmin));
    }

    fn lookup(ring: &MinuteRing, minute: u64) -> Option<u64> {
        ring.xmin_of(minute).map(Xid::get)
    }

    /// A threshold of 10 minutes, so 20 places; minutes 5, 6 and 7 noted.
    fn filled() -> MinuteRing {
        let mut ring = MinuteRing::new(10);
        assert_eq!(lookup(&ring, 5), None);
        for (minute, xmin) in [(5, 100), (6, 101), (7, 102)] {
            note(&mut ring, minute, xmin);
        }
        ring
    }

    #[test]
    fn a_minute_between_has_its_row_a_later_one_the_newest() {
        let ring = filled();
        assert_eq!(rows(&ring), [(5, 100), (6, 101), (7, 102)]);
        assert_eq!(lookup(&ring, 4), None);
        assert_eq!(lookup(&ring, 6), Some(101));
        assert_eq!(lookup(&ring, 10), Some(102));
    }

    #[test]
    fn the_heads_time_is_the_oldest_minutes() {
        let mut ring = filled();
        // 19 minutes on: 17 new places, then two over the oldest.
        note(&mut ring, 26, 200);
        let expected = (7..=26).map(|minute| (minute, if minute == 7 { 102 } else { 200 }));
        assert!(rows(&ring).into_iter().eq(expected));
        assert_eq!(lookup(&ring, 6), None);
        assert_eq!(lookup(&ring, 7), Some(102));
        assert_eq!(lookup(&ring, 8), Some(200));
    }

    #[test]
    fn a_gap_as_long_as_the_ring_starts_it_over() {
        let mut ring = filled();
        note(&mut ring, 27, 200);
        assert_eq!(rows(&ring), [(27, 200)]);
    }

    #[test]
    fn a_used_minute_is_only_raised_one_before_the_head_ignored() {
        let mut ring = filled();
        note(&mut ring, 6, 90);
        note(&mut ring, 4, 500);
        assert_eq!(rows(&ring), [(5, 100), (6, 101), (7, 102)]);
        note(&mut ring, 6, 110);
        assert_eq!(rows(&ring), [(5, 100), (6, 110), (7, 102)]);
    }
}
