//! Data sets that arrived before their template, held for a bounded time within a bound of bytes.

use std::collections::{HashMap, VecDeque};

use wire::Timestamp;

use crate::ExportDomain;
use crate::templated::MessageHeader;

/// A set and what its records need of their message.
#[derive(Debug)]
pub(crate) struct PendingSet {
    pub header: MessageHeader,
    pub received: Timestamp,
    pub bytes: Box<[u8]>,
    number: u64,
}

type TemplateKey = (ExportDomain, u16);

#[derive(Debug, Default)]
pub(crate) struct PendingSets {
    sets: HashMap<TemplateKey, VecDeque<PendingSet>>,
    /// Keys in order of arrival; those of sets that were taken stay until they are first or too many.
    arrivals: VecDeque<(u64, TemplateKey)>,
    held: usize,
    bytes: usize,
    next_number: u64,
}

/// Memory that a set needs in addition to its bytes, if it is the only one of its template.
const OVERHEAD: usize = size_of::<PendingSet>()
    + size_of::<(u64, TemplateKey)>()
    + size_of::<(TemplateKey, VecDeque<PendingSet>)>();

impl PendingSets {
    /// Holds a set; returns the number of older ones that it displaces within `max_bytes`, or 1 if it is too large
    /// itself.
    pub fn hold(
        &mut self,
        key: TemplateKey,
        header: MessageHeader,
        received: Timestamp,
        bytes: &[u8],
        max_bytes: usize,
    ) -> u64 {
        let needed = bytes.len() + OVERHEAD;
        if needed > max_bytes {
            return 1;
        }
        let mut displaced = 0;
        while self.bytes + needed > max_bytes && self.discard_oldest() {
            displaced += 1;
        }
        let number = self.next_number;
        self.next_number += 1;
        let set = PendingSet {
            header,
            received,
            bytes: bytes.into(),
            number,
        };
        let sets = self.sets.entry(key);
        sets.or_insert_with(|| VecDeque::with_capacity(1))
            .push_back(set);
        self.arrivals.push_back((number, key));
        self.held += 1;
        self.bytes += needed;
        displaced
    }

    /// Removes the sets of a template, in order of arrival.
    pub fn take(&mut self, key: TemplateKey) -> VecDeque<PendingSet> {
        let taken = self.sets.remove(&key).unwrap_or_default();
        self.held -= taken.len();
        self.bytes -= taken
            .iter()
            .map(|set| set.bytes.len() + OVERHEAD)
            .sum::<usize>();
        if self.arrivals.len() > 2 * self.held + 1024 {
            self.arrivals.retain(|(number, key)| {
                self.sets
                    .get(key)
                    .and_then(VecDeque::front)
                    .is_some_and(|first| first.number <= *number)
            });
        }
        taken
    }

    /// Discards the sets received before `deadline`; returns their number.
    pub fn expire(&mut self, deadline: Timestamp) -> u64 {
        let mut expired = 0;
        while self.oldest().is_some_and(|received| received < deadline) && self.discard_oldest() {
            expired += 1;
        }
        expired
    }

    fn oldest(&mut self) -> Option<Timestamp> {
        while let Some((number, key)) = self.arrivals.front() {
            match self.sets.get(key).and_then(VecDeque::front) {
                Some(set) if set.number == *number => return Some(set.received),
                _ => self.arrivals.pop_front(),
            };
        }
        None
    }

    fn discard_oldest(&mut self) -> bool {
        if self.oldest().is_none() {
            return false;
        }
        let Some((_, key)) = self.arrivals.pop_front() else {
            return false;
        };
        let Some(sets) = self.sets.get_mut(&key) else {
            return false;
        };
        if let Some(set) = sets.pop_front() {
            self.held -= 1;
            self.bytes -= set.bytes.len() + OVERHEAD;
        }
        if sets.is_empty() {
            self.sets.remove(&key);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::ExportProtocol;

    fn key(template: u16) -> TemplateKey {
        let exporter = IpAddr::V4(Ipv4Addr::LOCALHOST);
        (
            ExportDomain {
                exporter,
                port: 1,
                protocol: ExportProtocol::Ipfix,
                id: 1,
            },
            template,
        )
    }

    fn hold(sets: &mut PendingSets, template: u16, at: i64, max: usize) -> u64 {
        sets.hold(
            key(template),
            MessageHeader::default(),
            Timestamp(at),
            &[template as u8; 10],
            max,
        )
    }

    #[test]
    fn the_oldest_sets_are_displaced() {
        let mut sets = PendingSets::default();
        let max = 3 * (10 + OVERHEAD);
        assert_eq!(
            [1, 2, 1, 3].map(|template| hold(&mut sets, template, 0, max)),
            [0, 0, 0, 1]
        );
        assert_eq!(
            (
                sets.take(key(1)).len(),
                sets.take(key(2)).len(),
                sets.take(key(3)).len()
            ),
            (1, 1, 1)
        );
        assert_eq!((sets.held, sets.bytes), (0, 0));
        assert_eq!(hold(&mut sets, 1, 0, OVERHEAD), 1);
    }

    #[test]
    fn old_sets_expire() {
        let mut sets = PendingSets::default();
        (0..10).for_each(|at| assert_eq!(hold(&mut sets, 256 + at as u16 % 2, at, usize::MAX), 0));
        assert_eq!(sets.take(key(256)).len(), 5);
        assert_eq!(
            (sets.expire(Timestamp(4)), sets.expire(Timestamp(4))),
            (2, 0)
        );
        assert_eq!(sets.take(key(257)).len(), 3);
    }

    #[test]
    fn arrivals_of_taken_sets_do_not_accumulate() {
        let mut sets = PendingSets::default();
        hold(&mut sets, 1, 0, usize::MAX);
        for at in 0..10_000 {
            hold(&mut sets, 2, at, usize::MAX);
            assert_eq!(sets.take(key(2)).len(), 1);
        }
        assert!(sets.arrivals.len() < 2048, "{}", sets.arrivals.len());
        assert_eq!(sets.take(key(1)).len(), 1);
    }
}
