//! sFlow version 5 (sflow.org, "sFlow Version 5", July 2004, and its extensions): datagrams of samples.

use std::net::IpAddr;

use wire::Timestamp;

use crate::cursor::Cursor;
use crate::sample_context::{SampleContext, SampleInterface, address};
use crate::{ExportCounters, ExportDomain, ExportEvent, ExportProtocol};

/// First header of a sampled packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderProtocol {
    /// Ethernet (1).
    Ethernet,
    /// IPv4 (11).
    Ipv4,
    /// IPv6 (12).
    Ipv6,
    /// A stack of MPLS labels (13).
    Mpls,
    /// Another number of the enumeration `header_protocol`.
    Other(u32),
}

/// A sampled packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketSample<'a> {
    /// Data that the agent adds to the packet.
    pub context: SampleContext<'a>,
    /// Number of the sample at its source.
    pub sequence: u32,
    /// One of this many packets is sampled; 0 is unknown.
    pub rate: u32,
    /// Packets that could have been sampled so far, modulo 2^32.
    pub pool: u32,
    /// Samples that the agent dropped so far, modulo 2^32.
    pub drops: u32,
    /// First header.
    pub protocol: HeaderProtocol,
    /// Length of the packet on the network, in bytes.
    pub frame_len: u32,
    /// Bytes that were removed from the packet's end before sampling, such as the frame check sequence.
    pub stripped: u32,
    /// Beginning of the packet.
    pub header: &'a [u8],
}

/// A packet that a switch discarded (sFlow "Dropped Packet Notification").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiscardedPacket<'a> {
    /// Data that the agent adds to the packet.
    pub context: SampleContext<'a>,
    /// Number of the notification at its source.
    pub sequence: u32,
    /// Number of notifications that the agent has omitted, modulo 2^32.
    pub drops: u32,
    /// Reason of the enumeration `drop_reason`.
    pub reason: u32,
    /// First header.
    pub protocol: HeaderProtocol,
    /// Length of the packet on the network, in bytes; 0 without a header.
    pub frame_len: u32,
    /// Beginning of the packet; empty if the notification has none.
    pub header: &'a [u8],
}

/// Generic counters of an interface (record 0:1), since the agent's start; all bits are set in one that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterfaceCounters {
    /// Exporting domain.
    pub domain: ExportDomain,
    /// Time of the datagram by the receiver's clock.
    pub received: Timestamp,
    /// Time since the agent's start, in milliseconds modulo 2^32.
    pub uptime_ms: u32,
    /// SNMP `ifIndex`.
    pub index: u32,
    /// Bits per second.
    pub speed: u64,
    /// Bytes received.
    pub in_bytes: u64,
    /// Received unicast, multicast, and broadcast packets.
    pub in_packets: [u32; 3],
    /// Received packets that were discarded although they had no error.
    pub in_discards: u32,
    /// Received packets with an error.
    pub in_errors: u32,
    /// Bytes sent.
    pub out_bytes: u64,
    /// Sent unicast, multicast, and broadcast packets.
    pub out_packets: [u32; 3],
    /// Packets that were discarded instead of sent.
    pub out_discards: u32,
    /// Packets that could not be sent because of a fault.
    pub out_errors: u32,
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SflowDatagram {
    pub domain: ExportDomain,
    pub received: Timestamp,
    pub sequence: u32,
    pub uptime_ms: u32,
    samples: u32,
}

impl SflowDatagram {
    /// Reads the header after the upper half of the version.
    pub fn read(
        sender: IpAddr,
        received: Timestamp,
        cursor: &mut Cursor<'_>,
    ) -> Option<SflowDatagram> {
        if cursor.u16()? != 5 {
            return None;
        }
        // An agent without an address of its own is its sender.
        let exporter = address(cursor)?
            .filter(|address| !address.is_unspecified())
            .unwrap_or(sender);
        let id = cursor.u32()?;
        Some(SflowDatagram {
            domain: ExportDomain {
                exporter,
                port: 0,
                protocol: ExportProtocol::Sflow5,
                id,
            },
            received,
            sequence: cursor.u32()?,
            uptime_ms: cursor.u32()?,
            samples: cursor.u32()?,
        })
    }
}

/// Reads the samples of a datagram. Samples and records are skipped by their length, so that a fault ends no more than
/// the innermost one.
pub(crate) fn read_samples(
    datagram: &SflowDatagram,
    cursor: &mut Cursor<'_>,
    counters: &mut ExportCounters,
    on_event: &mut impl FnMut(ExportEvent<'_>),
) {
    for _ in 0..datagram.samples {
        let format = cursor.u32();
        let Some((format, bytes)) = format.zip(cursor.opaque()) else {
            counters.malformed += 1;
            return;
        };
        let mut sample = Cursor::new(bytes);
        let read = match format {
            1 => read_flow_sample(datagram, &mut sample, false, counters, on_event),
            3 => read_flow_sample(datagram, &mut sample, true, counters, on_event),
            2 => read_counter_sample(datagram, &mut sample, false, counters, on_event),
            4 => read_counter_sample(datagram, &mut sample, true, counters, on_event),
            5 => read_discarded(datagram, &mut sample, counters, on_event),
            _ => {
                counters.skipped_formats += 1;
                Some(())
            }
        };
        counters.malformed += u64::from(read.is_none());
    }
}

fn read_flow_sample(
    datagram: &SflowDatagram,
    cursor: &mut Cursor<'_>,
    is_expanded: bool,
    counters: &mut ExportCounters,
    on_event: &mut impl FnMut(ExportEvent<'_>),
) -> Option<()> {
    let sequence = cursor.u32()?;
    let mut context = SampleContext::new(datagram.domain, datagram.received);
    context.read_source(cursor, is_expanded)?;
    let rate = cursor.u32()?;
    let pool = cursor.u32()?;
    let drops = cursor.u32()?;
    context.input = SampleInterface::read(cursor, is_expanded)?;
    context.output = SampleInterface::read(cursor, is_expanded)?;
    let header = read_records(cursor, &mut context, counters);
    if let Some(header) = header.packet {
        counters.samples += 1;
        on_event(ExportEvent::Sample(&PacketSample {
            context,
            sequence,
            rate,
            pool,
            drops,
            protocol: header.protocol,
            frame_len: header.frame_len,
            stripped: header.stripped,
            header: header.bytes,
        }));
    } else if !header.is_malformed {
        // Samples without a raw header have addresses at most.
        counters.skipped_formats += 1;
    }
    (!header.is_malformed).then_some(())
}

fn read_discarded(
    datagram: &SflowDatagram,
    cursor: &mut Cursor<'_>,
    counters: &mut ExportCounters,
    on_event: &mut impl FnMut(ExportEvent<'_>),
) -> Option<()> {
    let sequence = cursor.u32()?;
    let mut context = SampleContext::new(datagram.domain, datagram.received);
    context.read_source(cursor, true)?;
    let drops = cursor.u32()?;
    context.input = SampleInterface::from_index(cursor.u32()?);
    context.output = SampleInterface::from_index(cursor.u32()?);
    let reason = cursor.u32()?;
    let header = read_records(cursor, &mut context, counters);
    let packet = header.packet.unwrap_or_default();
    counters.discarded += 1;
    on_event(ExportEvent::Discarded(&DiscardedPacket {
        context,
        sequence,
        drops,
        reason,
        protocol: packet.protocol,
        frame_len: packet.frame_len,
        header: packet.bytes,
    }));
    (!header.is_malformed).then_some(())
}

#[derive(Clone, Copy, Debug)]
struct RawHeader<'a> {
    protocol: HeaderProtocol,
    frame_len: u32,
    stripped: u32,
    bytes: &'a [u8],
}

impl Default for RawHeader<'_> {
    fn default() -> Self {
        RawHeader {
            protocol: HeaderProtocol::Other(0),
            frame_len: 0,
            stripped: 0,
            bytes: &[],
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct SampleRecords<'a> {
    packet: Option<RawHeader<'a>>,
    is_malformed: bool,
}

fn read_records<'a>(
    cursor: &mut Cursor<'a>,
    context: &mut SampleContext<'a>,
    counters: &mut ExportCounters,
) -> SampleRecords<'a> {
    let mut found = SampleRecords::default();
    let Some(count) = cursor.u32() else {
        found.is_malformed = true;
        return found;
    };
    for _ in 0..count {
        let format = cursor.u32();
        let Some((format, bytes)) = format.zip(cursor.opaque()) else {
            found.is_malformed = true;
            return found;
        };
        match format {
            1 => match raw_header(bytes) {
                Some(header) => found.packet = Some(header),
                None => found.is_malformed = true,
            },
            _ => match context.take(format, bytes) {
                Some(true) => {}
                Some(false) => counters.skipped_formats += 1,
                None => found.is_malformed = true,
            },
        }
    }
    found
}

fn raw_header(bytes: &[u8]) -> Option<RawHeader<'_>> {
    let mut cursor = Cursor::new(bytes);
    let protocol = match cursor.u32()? {
        1 => HeaderProtocol::Ethernet,
        11 => HeaderProtocol::Ipv4,
        12 => HeaderProtocol::Ipv6,
        13 => HeaderProtocol::Mpls,
        other => HeaderProtocol::Other(other),
    };
    let frame_len = cursor.u32()?;
    let stripped = cursor.u32()?;
    Some(RawHeader {
        protocol,
        frame_len,
        stripped,
        bytes: cursor.opaque()?,
    })
}

fn read_counter_sample(
    datagram: &SflowDatagram,
    cursor: &mut Cursor<'_>,
    is_expanded: bool,
    counters: &mut ExportCounters,
    on_event: &mut impl FnMut(ExportEvent<'_>),
) -> Option<()> {
    cursor.u32()?;
    SampleContext::new(datagram.domain, datagram.received).read_source(cursor, is_expanded)?;
    for _ in 0..cursor.u32()? {
        let format = cursor.u32()?;
        let bytes = cursor.opaque()?;
        if format == 1 {
            let found = interface_counters(datagram, bytes)?;
            counters.interface_counters += 1;
            on_event(ExportEvent::Counters(&found));
        } else {
            counters.skipped_formats += 1;
        }
    }
    Some(())
}

fn interface_counters(datagram: &SflowDatagram, bytes: &[u8]) -> Option<InterfaceCounters> {
    let mut cursor = Cursor::new(bytes);
    let index = cursor.u32()?;
    // Interface type.
    cursor.u32()?;
    let speed = cursor.u64()?;
    // Direction and status.
    cursor.u64()?;
    let in_bytes = cursor.u64()?;
    let in_packets = [cursor.u32()?, cursor.u32()?, cursor.u32()?];
    let in_discards = cursor.u32()?;
    let in_errors = cursor.u32()?;
    // Unknown protocols.
    cursor.u32()?;
    Some(InterfaceCounters {
        domain: datagram.domain,
        received: datagram.received,
        uptime_ms: datagram.uptime_ms,
        index,
        speed,
        in_bytes,
        in_packets,
        in_discards,
        in_errors,
        out_bytes: cursor.u64()?,
        out_packets: [cursor.u32()?, cursor.u32()?, cursor.u32()?],
        out_discards: cursor.u32()?,
        out_errors: cursor.u32()?,
    })
}
