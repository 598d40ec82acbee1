//! Packets to an sFlow collector: flow samples with raw headers, one per packet. sFlow has no times of packets and no
//! acknowledgments; packets count as written when the system has sent them, unless it reports that the port is closed.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::thread;

use capture::{PacketFileCounts, PacketSink};
use telemetry::{HeaderProtocol, SflowEncoder, SflowEncoderConfig};
use wire::{CapturedPacket, LinkType, Timestamp};

use crate::address::{OutletAddress, OutletScheme};
use crate::datagrams::{DATAGRAMS_PER_SECOND, DatagramPacer, LAST_REPORT, connected, now};

/// Maximum bytes of a datagram.
const DATAGRAM_BYTES: usize = 1400;
/// Default maximum bytes of a packet.
const HEADER_BYTES: u64 = 128;
/// Maximum time of the packets in a datagram (sFlow version 5, section 5).
const DELAY_NS: i64 = 1_000_000_000;

/// See the module documentation.
#[derive(Debug)]
pub struct SflowWriter {
    encoder: SflowEncoder,
    sender: SampleSender,
    /// Time of the first packet that waits.
    first: Option<Timestamp>,
    /// Packets so far.
    pool: u32,
}

#[derive(Debug)]
struct SampleSender {
    socket: UdpSocket,
    pacer: DatagramPacer,
    counts: PacketFileCounts,
    /// Packets of the next datagram.
    waiting: u64,
    /// Packets and bytes of the datagram before.
    before: (u64, u64),
    error: Option<io::Error>,
}

impl SflowWriter {
    /// Opens a socket to the collector at `sflow://HOST[:PORT]`; the options are `agent`, `header`, and `rate`.
    ///
    /// # Errors
    /// A message.
    pub fn open(address: &OutletAddress) -> Result<SflowWriter, String> {
        if address.scheme != OutletScheme::Sflow {
            return Err(format!("{address} is not an sFlow collector"));
        }
        let header_len = address.number("header", HEADER_BYTES)?;
        if header_len > 1300 {
            return Err(format!("header={header_len} is more than 1300 bytes"));
        }
        let rate = address.number("rate", DATAGRAMS_PER_SECOND)?;
        let socket = connected(&address.host, address.port).map_err(|error| error.to_string())?;
        let agent = match address.text("agent", "") {
            "" => socket.local_addr().map_err(|error| error.to_string())?.ip(),
            text => text
                .parse::<IpAddr>()
                .map_err(|_| format!("agent={text} is not an address"))?,
        };
        Ok(SflowWriter {
            encoder: SflowEncoder::new(SflowEncoderConfig {
                agent,
                sub_agent: 0,
                rate: 1,
                header_len: header_len as usize,
                max_len: DATAGRAM_BYTES,
                started: now(),
            }),
            sender: SampleSender {
                socket,
                pacer: DatagramPacer::new(rate),
                counts: PacketFileCounts {
                    files: 1,
                    ..PacketFileCounts::default()
                },
                waiting: 0,
                before: (0, 0),
                error: None,
            },
            first: None,
            pool: 0,
        })
    }
}

impl PacketSink for SflowWriter {
    fn take(&mut self, packet: &CapturedPacket<'_>) {
        let protocol = match (packet.link_type, packet.bytes.first()) {
            (LinkType::Ethernet, _) => HeaderProtocol::Ethernet,
            (LinkType::Ipv4, _) => HeaderProtocol::Ipv4,
            (LinkType::Ipv6, _) => HeaderProtocol::Ipv6,
            (LinkType::MPLS, _) => HeaderProtocol::Mpls,
            (LinkType::Raw, Some(first)) if first >> 4 == 4 => HeaderProtocol::Ipv4,
            (LinkType::Raw, Some(first)) if first >> 4 == 6 => HeaderProtocol::Ipv6,
            (link_type, _) => {
                let why = format!("sFlow has no packets of link type {}", u16::from(link_type));
                self.sender.counts.packets_lost += 1;
                self.sender
                    .error
                    .get_or_insert_with(|| io::Error::other(why));
                return;
            }
        };
        if self
            .first
            .is_some_and(|first| packet.ts.since(first) >= DELAY_NS)
        {
            self.flush();
        }
        let now = now();
        let sender = &mut self.sender;
        self.first.get_or_insert(packet.ts);
        self.pool = self.pool.wrapping_add(1);
        self.encoder.push(
            protocol,
            packet.original_len,
            packet.bytes,
            self.pool,
            now,
            &mut |datagram: &[u8]| sender.send(datagram),
        );
        self.sender.waiting += 1;
    }

    fn flush(&mut self) {
        let sender = &mut self.sender;
        self.encoder
            .flush(now(), &mut |datagram: &[u8]| sender.send(datagram));
        self.first = None;
    }

    fn finish(&mut self) -> (PacketFileCounts, Option<io::Error>) {
        self.flush();
        let sender = &mut self.sender;
        if sender.counts.packets > 0 {
            thread::sleep(LAST_REPORT);
        }
        if let Ok(Some(error)) = sender.socket.take_error() {
            sender.take_back(error);
        }
        (sender.counts, sender.error.take())
    }
}

impl SampleSender {
    /// Sends the packets that wait. An error may be the report about the datagram before.
    fn send(&mut self, datagram: &[u8]) {
        let packets = std::mem::take(&mut self.waiting);
        self.pacer.wait();
        let mut sent = self.socket.send(datagram);
        if let Err(error) = sent {
            self.take_back(error);
            sent = self.socket.send(datagram);
        }
        match sent {
            Ok(bytes) => {
                self.counts.packets += packets;
                self.counts.bytes += bytes as u64;
                self.before = (packets, bytes as u64);
            }
            Err(error) => {
                self.counts.packets_lost += packets;
                self.error.get_or_insert(error);
            }
        }
    }

    /// Counts the packets of the datagram before as lost.
    fn take_back(&mut self, error: io::Error) {
        let (packets, bytes) = std::mem::take(&mut self.before);
        self.counts.packets -= packets;
        self.counts.bytes -= bytes;
        self.counts.packets_lost += packets;
        self.error.get_or_insert(error);
    }
}
