//! Outcome of every packet: `received = parsed + filtered + sampled_out + dropped + undecodable`, each by cause.

use std::collections::BTreeMap;

use flow::FlowTableCounters as FlowCounters;

use crate::exports::ExportAccounting;
use crate::fragments::FragmentCounters;
use parsers::ParserCounters;
use wire::{DecodeError, UnreadProtocol};

/// Maximum number of undecodable protocols counted separately; a hostile capture may contain 65,536.
const PROTOCOLS_MAX: usize = 1024;

/// Packet counts of one monitor. Invariant: [`PacketAccounting::adds_up`] holds after every batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PacketAccounting {
    /// Packets taken from the source.
    pub received: u64,
    /// Packets that went through the flow table and the parsers.
    pub parsed: u64,
    /// Packets excluded by the query.
    pub filtered: FilterCounts,
    /// Packets of flows excluded by SAMPLE.
    pub sampled_out: u64,
    /// Flows ended because the switches reduced the slice they copy. Transactions in progress are not
    /// reported.
    pub cut_off: u64,
    /// Packets outside the slice of flows that the switches copy; also counted in `sampled_out`.
    pub strays: u64,
    /// Packets dropped because of overload; 0 for files.
    pub dropped: u64,
    /// Packets that could not be decoded, in the order of [`DecodeError::ALL`].
    pub undecodable: [u64; DecodeError::ALL.len()],
    /// Undecodable packets by the protocol at which decoding stopped, if known.
    pub undecodable_protocols: BTreeMap<UnreadProtocol, u64>,
    /// Counters of datagram fragments.
    pub fragments: FragmentCounters,
    /// Packets in virtual networks assigned to the first network because the network table was full.
    pub networks_overflowed: u64,
    /// Counters of the flow table.
    pub flows: FlowCounters,
    /// Counters of the parsers.
    pub parsers: ParserCounters,
    /// Ended flows whose payload was examined but not parsed.
    pub unread: UnreadFlows,
    /// TLS connections to decrypt.
    pub tls: TlsAccounting,
    /// Export messages in the packets.
    pub exports: ExportAccounting,
    /// Tuples written.
    pub tuples: u64,
}

/// TLS connections of a run with keys. A connection counts once, except `decrypted`, which includes those that became
/// unreadable later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsAccounting {
    /// Connections whose keys were found.
    pub decrypted: u64,
    /// Connections without keys.
    pub keys_missing: u64,
    /// Connections by cipher suite, or version, that is not supported.
    pub unsupported: BTreeMap<&'static str, u64>,
    /// Connections that could not be read although they may have keys: bytes of their hellos are missing, or the keys do
    /// not fit.
    pub unreadable: u64,
    /// Records found again after a gap.
    pub resyncs: u64,
    /// Records with data that no key fits.
    pub sealed_records: u64,
    /// Connections whose keys were evicted from the store.
    pub keys_evicted: u64,
}

impl TlsAccounting {
    fn add(&mut self, other: &TlsAccounting) {
        self.decrypted += other.decrypted;
        self.keys_missing += other.keys_missing;
        for (name, flows) in &other.unsupported {
            *self.unsupported.entry(name).or_default() += flows;
        }
        self.unreadable += other.unreadable;
        self.resyncs += other.resyncs;
        self.sealed_records += other.sealed_records;
        // All workers share the store.
        self.keys_evicted = self.keys_evicted.max(other.keys_evicted);
    }
}

/// Flows that no parser read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnreadFlows {
    /// By recognized protocol.
    pub named: BTreeMap<&'static str, u64>,
    /// Flows with payload of no known protocol.
    pub unknown: u64,
    /// Flows without payload.
    pub silent: u64,
}

impl UnreadFlows {
    /// Sum of all three.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.named.values().sum::<u64>() + self.unknown + self.silent
    }
}

/// Packets excluded by the query, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCounts {
    /// Neither endpoint matches FROM and TO.
    pub address: u64,
    /// The endpoints match only in the reverse direction: the client matches TO.
    pub direction: u64,
    /// Another tap, closer to the selected end, reports the flow.
    pub tap: u64,
    /// Packets from before the start of the query.
    pub early: u64,
}

impl PacketAccounting {
    /// Packets that could not be decoded, all causes.
    #[must_use]
    pub fn undecodable_total(&self) -> u64 {
        self.undecodable.iter().sum()
    }

    /// Packets excluded by the query, all reasons.
    #[must_use]
    pub fn filtered_total(&self) -> u64 {
        self.filtered.address + self.filtered.direction + self.filtered.tap + self.filtered.early
    }

    /// Counts packets of an undecodable protocol; beyond `PROTOCOLS_MAX` protocols as `Other`.
    pub fn count_protocol(&mut self, protocol: UnreadProtocol, packets: u64) {
        let is_room = self.undecodable_protocols.len() < PROTOCOLS_MAX;
        let is_counted = is_room || self.undecodable_protocols.contains_key(&protocol);
        let protocol = if is_counted {
            protocol
        } else {
            UnreadProtocol::Other
        };
        *self.undecodable_protocols.entry(protocol).or_default() += packets;
    }

    /// Adds the counts of another worker or of the gate.
    pub fn add(&mut self, other: &PacketAccounting) {
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
        self.tls.add(&other.tls);
        self.exports.add(&other.exports);
        self.tuples += other.tuples;
    }

    /// Whether every packet is accounted for.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let accounted = self.parsed
            + self.filtered_total()
            + self.sampled_out
            + self.dropped
            + self.undecodable_total();
        self.received == accounted
    }
}
