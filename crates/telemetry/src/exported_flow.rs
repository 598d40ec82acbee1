//! A flow record in the terms of a `flow` tuple.

use std::net::IpAddr;

use wire::Timestamp;

use crate::{ExportDomain, SamplingRate};

/// Direction of a flow at its observation point (element 61).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowDirection {
    /// Entering the observation point.
    Ingress,
    /// Leaving it.
    Egress,
}

/// First header of a [`PacketSection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionStart {
    /// Elements 104, 315: Ethernet.
    DataLink,
    /// Element 313: IPv4 or IPv6.
    Network,
}

/// The beginning of a packet in a record (PSAMP, RFC 5477).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSection<'a> {
    /// First header.
    pub start: SectionStart,
    /// Bytes of the packet; the exporter cuts them.
    pub bytes: &'a [u8],
}

/// A flow record; `None` where the record has no such field, or an impossible value.
///
/// Numbers of packets and bytes are those of the record: measured packets, not scaled by [`ExportedFlow::rate`]. Bytes
/// begin with the IP header, unless the exporter counts otherwise (Open vSwitch counts Ethernet bytes in NetFlow v5).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExportedFlow<'a> {
    /// Exporting domain.
    pub domain: ExportDomain,
    /// Time of the export by the exporter's clock.
    pub exported: Timestamp,
    /// First packet by the exporter's clock.
    pub start: Option<Timestamp>,
    /// Last packet.
    pub end: Option<Timestamp>,
    /// Address of the sender.
    pub source: Option<IpAddr>,
    /// Address of the receiver.
    pub destination: Option<IpAddr>,
    /// Port of the sender, TCP, UDP, or SCTP.
    pub source_port: Option<u16>,
    /// Port of the receiver.
    pub destination_port: Option<u16>,
    /// IP protocol.
    pub protocol: Option<u8>,
    /// Type in the upper byte, code in the lower one.
    pub icmp: Option<u16>,
    /// Flags of all packets.
    pub tcp_flags: Option<u16>,
    /// DSCP and ECN.
    pub traffic_class: Option<u8>,
    /// Packets measured.
    pub packets: Option<u64>,
    /// Bytes of these packets.
    pub bytes: Option<u64>,
    /// Ethernet bytes.
    pub layer2_bytes: Option<u64>,
    /// Packets from destination to source (biflow, RFC 5103).
    pub reverse_packets: Option<u64>,
    /// Bytes from destination to source.
    pub reverse_bytes: Option<u64>,
    /// Packets and bytes are totals since the start of the flow; [`ExportDecoder`](crate::ExportDecoder) passes on
    /// differences.
    pub(crate) totals: Option<FlowTotals>,
    /// Interface that the packets enter by, in the exporter's numbering.
    pub input: Option<u32>,
    /// Interface that the packets leave by.
    pub output: Option<u32>,
    /// Direction at the observation point.
    pub direction: Option<FlowDirection>,
    /// Ethernet address of the sender.
    pub source_mac: Option<[u8; 6]>,
    /// Ethernet address of the receiver.
    pub destination_mac: Option<[u8; 6]>,
    /// VLAN identifier.
    pub vlan: Option<u16>,
    /// Address of the next router.
    pub next_hop: Option<IpAddr>,
    /// Autonomous system of the sender, or its neighbor (a setting of the exporter).
    pub source_as: Option<u32>,
    /// Autonomous system of the receiver, or its neighbor.
    pub destination_as: Option<u32>,
    /// Reason of the end (element 136): 1 idle, 2 active timeout, 3 end detected, 4 forced, 5 lack of resources.
    pub end_reason: Option<u8>,
    /// Mean one-way delay from the entry into the measured path, in nanoseconds (RFC 9951).
    pub path_delay_mean_ns: Option<u64>,
    /// Smallest delay.
    pub path_delay_min_ns: Option<u64>,
    /// Largest delay.
    pub path_delay_max_ns: Option<u64>,
    /// Beginning of a packet (PSAMP).
    pub section: Option<PacketSection<'a>>,
    /// `None` if neither the record nor its exporter reports a rate.
    pub rate: Option<SamplingRate>,
}

/// Total counters of a flow (elements 85 and 86).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowTotals {
    pub packets: Option<u64>,
    pub bytes: Option<u64>,
}

impl<'a> ExportedFlow<'a> {
    /// A record without fields.
    #[inline]
    #[must_use]
    pub fn new(domain: ExportDomain, exported: Timestamp) -> ExportedFlow<'a> {
        ExportedFlow {
            domain,
            exported,
            start: None,
            end: None,
            source: None,
            destination: None,
            source_port: None,
            destination_port: None,
            protocol: None,
            icmp: None,
            tcp_flags: None,
            traffic_class: None,
            packets: None,
            bytes: None,
            layer2_bytes: None,
            reverse_packets: None,
            reverse_bytes: None,
            totals: None,
            input: None,
            output: None,
            direction: None,
            source_mac: None,
            destination_mac: None,
            vlan: None,
            next_hop: None,
            source_as: None,
            destination_as: None,
            end_reason: None,
            path_delay_mean_ns: None,
            path_delay_min_ns: None,
            path_delay_max_ns: None,
            section: None,
            rate: None,
        }
    }
}
