//! Traffic sent to this machine: mirrors in datagrams of VXLAN and Geneve and in IP packets of GRE and ERSPAN, and
//! datagrams of sFlow, IPFIX, and NetFlow. They arrive through the machine's own stack, which reassembles fragments, and
//! are delivered with their IP and UDP headers, so that they are decoded like captured packets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::warn;
use wire::{LinkType, Timestamp};

use crate::block::{BLOCK_PACKETS, PacketBlock, PacketRecord};
use crate::ipfix_streams::IpfixStreams;
use crate::live::options::{LiveError, StopSignal, TimestampClock};
use crate::source::{PacketSource, SourceCounters, SourceError};
use crate::sys::datagram_socket::{DatagramBuffer, DatagramSocket, wait};

/// Interval at which the time is reported without packets, and its lag behind the wall clock.
const IDLE: Duration = Duration::from_millis(100);
/// Port of sFlow. Datagrams of other exporters are recognized there, too.
const SFLOW_PORT: u16 = 6343;
/// IP protocol numbers.
const UDP: u8 = 17;
const GRE: u8 = 47;

/// Destination of mirrors: `vxlan://ADDRESS[:PORT]`, `geneve://ADDRESS[:PORT]`, `gre://ADDRESS`, `erspan://ADDRESS`; or
/// of export messages: `sflow://ADDRESS[:PORT]`, `ipfix://ADDRESS[:PORT]`, `netflow://ADDRESS[:PORT]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorListenAddress {
    address: SocketAddr,
    /// Port by which the decoder recognizes the protocol, whatever port it arrives on; `None`: GRE.
    known_by: Option<u16>,
    is_export: bool,
    /// Listens for TCP connections, too.
    has_streams: bool,
}

impl MirrorListenAddress {
    /// Whether export messages arrive there: sFlow, IPFIX, NetFlow.
    #[must_use]
    pub fn is_export(&self) -> bool {
        self.is_export
    }
}

impl FromStr for MirrorListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<MirrorListenAddress, String> {
        let wanted = "vxlan://ADDRESS[:PORT], geneve://ADDRESS[:PORT], gre://ADDRESS, erspan://ADDRESS, sflow://ADDRESS[:PORT], ipfix://ADDRESS[:PORT], or netflow://ADDRESS[:PORT]";
        let (scheme, at) = text
            .split_once("://")
            .ok_or_else(|| format!("it is {wanted}"))?;
        let (known_by, is_export) = match scheme {
            "vxlan" => (Some(wire::vxlan::PORTS[0]), false),
            "geneve" => (Some(wire::geneve::PORT), false),
            "gre" | "erspan" => (None, false),
            "sflow" => (Some(SFLOW_PORT), true),
            "ipfix" => (Some(4739), true),
            "netflow" => (Some(2055), true),
            other => return Err(format!("cannot listen for {other:?}; use {wanted}")),
        };
        let at = at.trim_end_matches('/');
        let bare = at
            .strip_prefix('[')
            .and_then(|at| at.strip_suffix(']'))
            .unwrap_or(at);
        let address = match (bare.parse::<IpAddr>(), at.parse::<SocketAddr>(), known_by) {
            (Ok(ip), _, port) => SocketAddr::new(ip, port.unwrap_or(0)),
            (_, Ok(address), Some(_)) => address,
            (_, Ok(_), None) => return Err(format!("{scheme} has no ports: {scheme}://ADDRESS")),
            _ => {
                return Err(format!(
                    "{at:?} is not an address of this machine; use {wanted}"
                ));
            }
        };
        Ok(MirrorListenAddress {
            address,
            known_by,
            is_export,
            has_streams: scheme == "ipfix",
        })
    }
}

/// Opens a source of everything sent to these addresses, with `buffer_bytes` of socket buffer each.
///
/// # Errors
/// When an address is not this machine's or in use, and without permission for GRE.
pub fn open(
    all: &[MirrorListenAddress],
    buffer_bytes: usize,
    stop: &StopSignal,
) -> Result<Box<dyn PacketSource>, LiveError> {
    Ok(Box::new(open_sockets(all, buffer_bytes, stop)?))
}

/// Opens the source of [`open`].
pub(crate) fn open_sockets(
    all: &[MirrorListenAddress],
    buffer_bytes: usize,
    stop: &StopSignal,
) -> Result<MirrorSource, LiveError> {
    let ears = all
        .iter()
        .map(|listen| MirrorSocket::open(*listen, buffer_bytes))
        .collect::<Result<_, _>>()?;
    Ok(source_of(ears, stop))
}

/// Opens a source of the datagrams of exporters at an address, with port 0 at a free port; returns the address, too.
///
/// # Errors
/// As [`open`].
pub fn open_for_exporters(
    address: SocketAddr,
    buffer_bytes: usize,
    stop: &StopSignal,
) -> Result<(Box<dyn PacketSource>, SocketAddr), LiveError> {
    let listen = MirrorListenAddress {
        address,
        known_by: Some(SFLOW_PORT),
        is_export: true,
        has_streams: false,
    };
    let mut ear = MirrorSocket::open(listen, buffer_bytes)?;
    let bound = ear.socket.local_address();
    ear.listen.address = bound.map_err(|error| LiveError::Unsupported(error.to_string()))?;
    let address = ear.listen.address;
    Ok((Box::new(source_of(vec![ear], stop)), address))
}

fn source_of(ears: Vec<MirrorSocket>, stop: &StopSignal) -> MirrorSource {
    let counters = SourceCounters {
        clock: Some(TimestampClock::System),
        ..SourceCounters::default()
    };
    MirrorSource {
        ears,
        room: DatagramBuffer::new(),
        stop: stop.clone(),
        counters,
        errors: Vec::new(),
    }
}

/// One socket.
struct MirrorSocket {
    listen: MirrorListenAddress,
    socket: DatagramSocket,
    streams: Option<IpfixStreams>,
    lost: u32,
}

impl MirrorSocket {
    fn open(listen: MirrorListenAddress, buffer_bytes: usize) -> Result<MirrorSocket, LiveError> {
        let socket = match listen.known_by {
            Some(_) => DatagramSocket::udp(listen.address),
            None => DatagramSocket::ip(listen.address.ip(), GRE.into()),
        };
        let explain = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => LiveError::NoPermission,
            _ => LiveError::Unsupported(format!(
                "cannot listen at {}: {}",
                listen.address,
                why(&error, listen.is_export)
            )),
        };
        let socket = socket.map_err(explain)?;
        let streams = listen
            .has_streams
            .then(|| IpfixStreams::listen(listen.address))
            .transpose()
            .map_err(explain)?;
        match socket.set_buffer(buffer_bytes) {
            Ok(got) if got < buffer_bytes => {
                warn!(
                    "the system limits the socket buffer to {got} bytes; run as root, or raise net.core.rmem_max"
                );
            }
            _ => {}
        }
        Ok(MirrorSocket {
            listen,
            socket,
            streams,
            lost: 0,
        })
    }
}

fn why(error: &io::Error, is_export: bool) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse if is_export => "another program listens there".into(),
        io::ErrorKind::AddrInUse => "already in use (a tunnel device of this machine?)".into(),
        io::ErrorKind::AddrNotAvailable => "it is not an address of this machine".into(),
        _ => error.to_string(),
    }
}

/// All sockets.
pub(crate) struct MirrorSource {
    ears: Vec<MirrorSocket>,
    room: DatagramBuffer,
    stop: StopSignal,
    counters: SourceCounters,
    errors: Vec<SourceError>,
}

impl MirrorSource {
    /// Closes the connections of exporters, which connect again.
    pub fn close_streams(&mut self) {
        let streams = self.ears.iter_mut().filter_map(|ear| ear.streams.as_mut());
        streams.for_each(IpfixStreams::close);
    }

    /// Fills a block with available datagrams; returns false if there are none.
    fn receive(&mut self, block: &mut PacketBlock) -> bool {
        let mut bytes = Vec::new();
        let mut records = Vec::new();
        for ear in &mut self.ears {
            let MirrorSocket {
                listen,
                socket,
                streams,
                lost,
            } = ear;
            let mut push = |from: SocketAddr, ts: Option<Timestamp>, payload: &[u8]| {
                let start = bytes.len();
                headers(listen, from, payload.len(), &mut bytes);
                bytes.extend_from_slice(payload);
                let len = (bytes.len() - start) as u32;
                records.push(PacketRecord {
                    ts: ts.unwrap_or_else(now),
                    link_type: LinkType::Raw,
                    original_len: len,
                    len,
                    start: start as u32,
                    buffer: 0,
                });
            };
            let taken = socket.receive(&mut self.room, |room, datagram| {
                *lost = datagram.lost.unwrap_or(*lost);
                push(datagram.from, datagram.ts, room.bytes(datagram));
            });
            if let Some(streams) = streams {
                streams.receive(|from, message| push(from, None, message));
            }
            if let Err(error) = taken {
                let after_packets = self.counters.packets;
                let message = format!("cannot be received from: {error}");
                let path = PathBuf::from(listen.address.to_string());
                self.errors.push(SourceError {
                    path,
                    offset: None,
                    message,
                    after_packets,
                });
                self.stop.stop();
            }
            if records.len() >= BLOCK_PACKETS {
                break;
            }
        }
        let buffer = block.add_buffer(Arc::new(bytes));
        // Sockets are read one after the other.
        records.sort_by_key(|record| record.ts);
        records
            .iter()
            .for_each(|record| block.push(PacketRecord { buffer, ..*record }));
        self.counters.count(block);
        !block.is_empty()
    }
}

impl PacketSource for MirrorSource {
    fn next_block(&mut self, block: &mut PacketBlock) -> bool {
        block.clear();
        let ends = self.stop.is_asked();
        if self.receive(block) {
            return true;
        }
        if ends {
            return false;
        }
        let datagrams = self.ears.iter().map(|ear| ear.socket.descriptor());
        let streams = self.ears.iter().filter_map(|ear| ear.streams.as_ref());
        wait(
            datagrams.chain(streams.flat_map(IpfixStreams::descriptors)),
            IDLE,
        );
        block.clear();
        if !self.receive(block) {
            block.set_clock(Timestamp(now().0 - IDLE.as_nanos() as i64));
        }
        true
    }

    fn errors(&self) -> &[SourceError] {
        &self.errors
    }

    fn counters(&self) -> SourceCounters {
        let lost = self.ears.iter().map(|ear| u64::from(ear.lost)).sum();
        SourceCounters {
            lost_before_us: Some(lost),
            ..self.counters
        }
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.counters.captured_bytes, None)
    }
}

/// Headers that the kernel removed from a datagram, as far as known.
fn headers(
    listen: &MirrorListenAddress,
    sender: SocketAddr,
    payload_len: usize,
    out: &mut Vec<u8>,
) {
    let from = sender.ip().to_canonical();
    let to = listen.address.ip().to_canonical();
    let is_udp = listen.known_by.is_some();
    // GRE over IPv4 arrives with its IP header.
    if !is_udp && from.is_ipv4() {
        return;
    }
    let udp_len = if is_udp { 8 } else { 0 };
    // A length that does not fit is 0, which means unlimited.
    let length = |n: usize| u16::try_from(n).unwrap_or(0).to_be_bytes();
    let protocol = if is_udp { UDP } else { GRE };
    match (from, to) {
        (IpAddr::V4(from), to) => {
            let to = if let IpAddr::V4(to) = to {
                to
            } else {
                Ipv4Addr::UNSPECIFIED
            };
            out.extend([0x45, 0]);
            out.extend(length(20 + udp_len + payload_len));
            out.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            out.extend(from.octets().into_iter().chain(to.octets()));
        }
        (IpAddr::V6(from), to) => {
            out.extend([0x60, 0, 0, 0]);
            out.extend(length(udp_len + payload_len));
            out.extend([protocol, 64]);
            out.extend(from.octets());
            out.extend(wire::Addr::from(to).0);
        }
    }
    if let Some(port) = listen.known_by {
        out.extend(sender.port().to_be_bytes());
        out.extend(port.to_be_bytes());
        out.extend(length(udp_len + payload_len));
        out.extend([0, 0]);
    }
}

/// Current time of the machine.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use testkit::packet::{SentPacket, tcp_info};
    use wire::packet::TcpFlags;
    use wire::{Endpoint, Packet};

    use super::*;

    fn listen(text: &str) -> MirrorListenAddress {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn listener_addresses_are_parsed() {
        for (text, address, known_by) in [
            ("vxlan://127.0.0.1:4789", "127.0.0.1:4789", Some(4789)),
            ("vxlan://0.0.0.0:9999", "0.0.0.0:9999", Some(4789)),
            ("sflow://0.0.0.0", "0.0.0.0:6343", Some(6343)),
            ("ipfix://127.0.0.1:9", "127.0.0.1:9", Some(4739)),
            ("netflow://[::1]", "[::1]:2055", Some(2055)),
            ("geneve://[::]", "[::]:6081", Some(6081)),
            ("geneve://::1", "[::1]:6081", Some(6081)),
            ("gre://10.0.0.1", "10.0.0.1:0", None),
            ("erspan://[fd00::1]", "[fd00::1]:0", None),
        ] {
            let address = address.parse().expect("an address");
            let is_export = matches!(known_by, Some(6343 | 4739 | 2055));
            assert_eq!(
                listen(text),
                MirrorListenAddress {
                    address,
                    known_by,
                    is_export,
                    has_streams: known_by == Some(4739),
                },
                "{text}"
            );
        }
        for (text, word) in [
            ("127.0.0.1:4789", "vxlan://"),
            ("http://1.2.3.4", "\"http\""),
            ("gre://1.2.3.4:5", "no ports"),
            ("vxlan://host", "\"host\""),
        ] {
            let error = text
                .parse::<MirrorListenAddress>()
                .expect_err("nothing to listen at");
            assert!(error.contains(word), "{error}");
        }
    }

    /// A datagram sent to loopback arrives unchanged, with both addresses.
    fn check(scheme: &str, loopback: &str, header: &[u8]) {
        let stop = StopSignal::default();
        let free = UdpSocket::bind(format!("{loopback}:0")).expect("a port");
        let to = free.local_addr().expect("an address");
        drop(free);
        let mut source =
            open(&[listen(&format!("{scheme}://{to}"))], 1 << 20, &stop).expect("a source");
        let sender = UdpSocket::bind(format!("{loopback}:0")).expect("a port");
        let ends = (
            "10.0.0.1:40000".parse().expect("an end"),
            "10.0.0.2:80".parse().expect("an end"),
        );
        let inner = SentPacket::tcp(Timestamp(0), ends, tcp_info(1, 0, TcpFlags::SYN), b"hello");
        for _ in 0..100 {
            sender
                .send_to(&[header, &inner.to_bytes()].concat(), to)
                .expect("room to send");
        }
        stop.stop();
        let mut block = PacketBlock::default();
        let mut seen = 0;
        while source.next_block(&mut block) {
            for captured in block.packets() {
                let packet = Packet::decode(&captured).expect("a packet in a tunnel");
                assert_eq!(
                    (packet.payload, packet.tunnel.to_string().as_str()),
                    (&b"hello"[..], scheme)
                );
                assert_eq!(
                    packet.five_tuple.dst,
                    Endpoint {
                        addr: ends.1.ip().into(),
                        port: 80
                    }
                );
                assert_eq!(
                    (packet.tunnel.id, packet.tunnel.ends),
                    (Some(7), Some((to.ip().into(), to.ip().into())))
                );
                assert!(captured.ts.0 > 0);
                seen += 1;
            }
        }
        assert_eq!(
            (
                seen,
                source.counters().packets,
                source.counters().lost_before_us
            ),
            (100, 100, Some(0))
        );
    }

    #[test]
    fn datagrams_of_mirrors() {
        check("vxlan", "127.0.0.1", &[8, 0, 0, 0, 0, 0, 7, 0]);
        check("vxlan", "[::1]", &[8, 0, 0, 0, 0, 0, 7, 0]);
        check(
            "geneve",
            "127.0.0.1",
            &[1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 0],
        );
    }
}
