//! Where every packet went: `received = parsed + filtered + sampled_out + dropped + undecodable`, each by cause.

use std::collections::BTreeMap;

use flow::Counters as FlowCounters;

use crate::fragments::Counters as FragmentCounters;
use parsers::Counters as ParserCounters;
use wire::{Undecodable, UnreadProtocol};

/// Most protocols of undecodable packets that are counted each for itself; hostile captures may have 65,536.
const PROTOCOLS_MAX: usize = 1024;

/// Counts of one monitor. [`Accounting::adds_up`] holds after every batch, or it is a bug.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accounting {
    /// Packets taken from the source.
    pub received: u64,
    /// Packets that went through the flow table and the parsers.
    pub parsed: u64,
    /// Packets of flows that the query did not ask for.
    pub filtered: Filtered,
    /// Packets of flows that SAMPLE left out.
    pub sampled_out: u64,
    /// Flows that ended here as switches were to copy fewer: of what they said later nothing came.
    pub cut_off: u64,
    /// Packets outside the slice of flows that switches copy; they count as sampled out.
    pub strays: u64,
    /// Packets thrown away because of overload; none with files.
    pub dropped: u64,
    /// Packets that could not be decoded, in the order of [`Undecodable::ALL`].
    pub undecodable: [u64; Undecodable::ALL.len()],
    /// Undecodable packets by the protocol at which decoding ended, where they have one.
    pub undecodable_protocols: BTreeMap<UnreadProtocol, u64>,
    /// Counters of datagram fragments.
    pub fragments: FragmentCounters,
    /// Packets of virtual networks that were not told apart from others for want of room.
    pub networks_overflowed: u64,
    /// The flow table's own counts.
    pub flows: FlowCounters,
    /// The parsers' own counts.
    pub parsers: ParserCounters,
    /// Flows whose payload was looked at, that were over and that no parser has read.
    pub unread: Unread,
    /// Tuples written.
    pub tuples: u64,
}

/// Flows that no parser has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// By what they speak.
    pub named: BTreeMap<&'static str, u64>,
    /// Those that speak something else.
    pub unknown: u64,
    /// Those that say nothing.
    pub silent: u64,
}

impl Unread {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.named.values().sum::<u64>() + self.unknown + self.silent
    }
}

/// Packets that were not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// Neither end matches FROM and TO.
    pub address: u64,
    /// The ends match only the other way round: the client is where TO points.
    pub direction: u64,
    /// Another tap tells of their flow, which is nearer to the end that counts.
    pub tap: u64,
    /// They are from before the query's start.
    pub early: u64,
}

impl Accounting {
    /// Packets that could not be decoded, all causes.
    #[must_use]
    pub fn undecodable_total(&self) -> u64 {
        self.undecodable.iter().sum()
    }

    /// Packets that were not asked for, all causes.
    #[must_use]
    pub fn filtered_total(&self) -> u64 {
        self.filtered.address + self.filtered.direction + self.filtered.tap + self.filtered.early
    }

    /// Counts an undecodable packet's protocol.
    pub fn count_protocol(&mut self, protocol: UnreadProtocol, packets: u64) {
        let is_room = self.undecodable_protocols.len() < PROTOCOLS_MAX;
        let is_counted = is_room || self.undecodable_protocols.contains_key(&protocol);
        let protocol = if is_counted { protocol } else { UnreadProtocol::Other };
        *self.undecodable_protocols.entry(protocol).or_default() += packets;
    }

    /// Adds what another worker, or the gate before it, has counted.
    pub fn add(&mut self, other: &Accounting) {
        self.received += other.received;
        self.parsed += other.parsed;
        self.filtered.address += other.filtered.address;
        self.filtered.direction += other.filtered.direction;
        self.filtered.tap += other.filtered.tap;
        self.filtered.early += other.filtered.early;
        self.sampled_out += other.sampled_out;
        self.cut_off += other.cut_off;
        self.strays += other.strays;
        self.dropped += other.dropped;
        for (mine, theirs) in self.undecodable.iter_mut().zip(other.undecodable) {
            *mine += theirs;
        }
        for (protocol, packets) in &other.undecodable_protocols {
            *self.undecodable_protocols.entry(*protocol).or_default() += packets;
        }
        self.fragments.add(&other.fragments);
        self.networks_overflowed += other.networks_overflowed;
        self.flows.add(&other.flows);
        self.parsers.add(&other.parsers);
        for (name, flows) in &other.unread.named {
            *self.unread.named.entry(name).or_default() += flows;
        }
        self.unread.unknown += other.unread.unknown;
        self.unread.silent += other.unread.silent;
        self.tuples += other.tuples;
    }

    /// Whether every packet is accounted for.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let accounted =
            self.parsed + self.filtered_total() + self.sampled_out + self.dropped + self.undecodable_total();
        self.received == accounted
    }
}
