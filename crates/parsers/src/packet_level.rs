//! Parsers without a byte stream: one tuple per packet (`tcp_pkt_size`, `packet`) or per first packet of a
//! flow (`tcp_flow_key`). They read headers only.

use std::ops::Range;

use tuple::{FieldId, Schema, TupleWriter};
use wire::{FiveTuple, Packet, TransportHeader};

use crate::output::{write_common, write_path};
use crate::{FlowContext, TupleQuality};

/// Writes the tuple of one packet.
pub type PacketParser = fn(&Packet<'_>, &FlowContext, &mut TupleWriter);

/// `tcp_flow_key`: the TCP flow at its first packet.
pub mod tcp_flow_key {
    use super::{FlowContext, Packet, Schema, TupleWriter, begin, write_five_tuple};

    tuple::fields! {
        SRC_IP: Ip, None, "src_ip", "source of the flow's first packet";
        SRC_PORT: U64, None, "src_port", "its port";
        DST_IP: Ip, None, "dst_ip", "destination of the flow's first packet";
        DST_PORT: U64, None, "dst_port", "its port";
    }

    /// The schema.
    #[must_use]
    pub fn schema() -> Schema {
        let doc = "TCP flow, at its first packet";
        let facts = &tuple::SchemaFacts {
            first: &["ts", "src_ip", "src_port", "dst_ip", "dst_port"],
            ..tuple::SchemaFacts::NONE
        };
        Schema {
            facts,
            ..Schema::of_parser("tcp_flow_key", 1, doc, FIELDS, None, None)
        }
    }

    /// Writes the tuple.
    pub fn on_first_packet(packet: &Packet<'_>, flow: &FlowContext, w: &mut TupleWriter) {
        begin(packet, flow, w);
        write_five_tuple(w, &packet.five_tuple, [SRC_IP, SRC_PORT, DST_IP, DST_PORT]);
        w.end_row();
    }
}

/// `tcp_pkt_size`: TCP packets and their sizes.
pub mod tcp_pkt_size {
    use super::{FlowContext, Packet, Schema, TransportHeader, TupleWriter, begin};

    tuple::fields! {
        SRC_IP: Ip, None, "src_ip", "sender of the packet";
        DST_IP: Ip, None, "dst_ip", "receiver of the packet";
        PACKET_BYTES: U64, Bytes, "packet_bytes", "length on the wire, including link header and tunnels";
        PAYLOAD_BYTES: U64, Bytes, "payload_bytes", "TCP payload on the wire";
    }

    /// The schema.
    #[must_use]
    pub fn schema() -> Schema {
        let measure = Some(PACKET_BYTES);
        let facts = &tuple::SchemaFacts {
            first: &["ts", "src_ip", "dst_ip", "packet_bytes", "payload_bytes"],
            ..tuple::SchemaFacts::NONE
        };
        Schema {
            facts,
            ..Schema::of_parser(
                "tcp_pkt_size",
                1,
                "TCP packet",
                FIELDS,
                measure,
                Some(DST_IP),
            )
        }
    }

    /// Writes the tuple; nothing for packets that are not TCP.
    pub fn on_packet(packet: &Packet<'_>, flow: &FlowContext, w: &mut TupleWriter) {
        if !matches!(packet.transport, TransportHeader::Tcp(_)) {
            return;
        }
        begin(packet, flow, w);
        w.ip(SRC_IP, &packet.five_tuple.src.addr.0);
        w.ip(DST_IP, &packet.five_tuple.dst.addr.0);
        w.u64(PACKET_BYTES, u64::from(packet.original_len));
        w.u64(PAYLOAD_BYTES, u64::from(packet.payload_original_len));
        w.end_row();
    }
}

/// `packet`: any packet, as a record of fixed size.
pub mod packet {
    use super::{
        FlowContext, Packet, Schema, TransportHeader, TupleWriter, begin, write_five_tuple,
    };

    tuple::fields! {
        SRC_IP: Ip, None, "src_ip", "sender of the packet";
        SRC_PORT: U64, None, "src_port", "port of the sender; 0 if the protocol has no ports";
        DST_IP: Ip, None, "dst_ip", "receiver of the packet";
        DST_PORT: U64, None, "dst_port", "port of the receiver; 0 if the protocol has no ports";
        PACKET_BYTES: U64, Bytes, "packet_bytes", "length on the wire, including link header and tunnels";
        TTL: U64, None, "ttl", "IPv4 time to live or IPv6 hop limit";
        TCP_FLAGS: U64, None, "tcp_flags", "TCP flag byte: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32";
        SEQ: U64, None, "seq", "TCP sequence number";
        ACK: U64, None, "ack", "TCP acknowledgment number";
        WINDOW: U64, None, "window", "TCP window as in the header, unscaled";
        EXPORTER: Ip, None, "exporter", "switch or router that sampled the packet; null for captured packets, as the fields below";
        OBSERVATION_DOMAIN: U64, None, "observation_domain", "sFlow sub-agent, IPFIX observation domain, or NetFlow source of the exporter";
        RATE_FROM: Text, None, "rate_from", "origin of the sampling rate: record, options, query (which has configured the exporter), or assumed (none was reported: 1)";
        INPUT_INTERFACE: U64, None, "input_interface", "interface that received the packet, in the exporter's numbering";
        OUTPUT_INTERFACE: U64, None, "output_interface", "interface that sends the packet";
        TRANSIT_DELAY_NS: I64, Nanoseconds, "transit_delay_ns", "time of the packet in the switch";
        QUEUE_BYTES: U64, Bytes, "queue_bytes", "bytes in the egress queue when the packet arrived";
        DISCARD_REASON: U64, None, "discard_reason", "reason for which the switch discarded the packet, a number of sFlow's drop_reason";
        INPUT_VLAN: U64, None, "input_vlan", "VLAN in which the switch received the packet";
        OUTPUT_VLAN: U64, None, "output_vlan", "VLAN in which it sends the packet";
        VLAN_STACK: Text, None, "vlan_stack", "VLANs of the tags that the switch removed, the outermost first: 100,5";
        NEXT_HOP: Ip, None, "next_hop", "next router on the way to the receiver";
        SRC_PREFIX_LENGTH: U64, None, "src_prefix_length", "bits of the route's prefix that matches the sender";
        DST_PREFIX_LENGTH: U64, None, "dst_prefix_length", "bits of the route's prefix that matches the receiver";
        BGP_NEXT_HOP: Ip, None, "bgp_next_hop", "border router on the way to the receiver";
        SRC_AS: U64, None, "src_as", "autonomous system of the sender; 0 for the exporter's own";
        SRC_PEER_AS: U64, None, "src_peer_as", "neighboring autonomous system toward the sender";
        DST_AS: U64, None, "dst_as", "autonomous system of the receiver, the last of as_path; null for the exporter's own";
        DST_PEER_AS: U64, None, "dst_peer_as", "neighboring autonomous system toward the receiver, the first of as_path";
        AS_PATH: Text, None, "as_path", "autonomous systems on the way to the receiver, sets in braces: 64500 64501 {64502,64503}";
        INPUT_TUNNEL_SRC_IP: Ip, None, "input_tunnel_src_ip", "sender of the tunnel from which the packet came; the columns of the packet are those of the inner one";
        INPUT_TUNNEL_DST_IP: Ip, None, "input_tunnel_dst_ip", "receiver of that tunnel";
        INPUT_VNI: U64, None, "input_vni", "virtual network identifier of that tunnel";
        OUTPUT_TUNNEL_SRC_IP: Ip, None, "output_tunnel_src_ip", "sender of the tunnel into which the packet goes";
        OUTPUT_TUNNEL_DST_IP: Ip, None, "output_tunnel_dst_ip", "receiver of that tunnel";
        OUTPUT_VNI: U64, None, "output_vni", "virtual network identifier of that tunnel";
    }

    /// The schema.
    #[must_use]
    pub fn schema() -> Schema {
        let facts = &tuple::SchemaFacts {
            first: &[
                "ts",
                "src_ip",
                "src_port",
                "dst_ip",
                "dst_port",
                "packet_bytes",
            ],
            added: &[
                "exporter",
                "observation_domain",
                "rate_from",
                "input_interface",
                "output_interface",
                "transit_delay_ns",
                "queue_bytes",
                "discard_reason",
                "input_vlan",
                "output_vlan",
                "vlan_stack",
                "next_hop",
                "src_prefix_length",
                "dst_prefix_length",
                "bgp_next_hop",
                "src_as",
                "src_peer_as",
                "dst_as",
                "dst_peer_as",
                "as_path",
                "input_tunnel_src_ip",
                "input_tunnel_dst_ip",
                "input_vni",
                "output_tunnel_src_ip",
                "output_tunnel_dst_ip",
                "output_vni",
            ],
            ..tuple::SchemaFacts::NONE
        };
        Schema {
            facts,
            ..Schema::of_parser(
                "packet",
                1,
                "any packet",
                FIELDS,
                Some(PACKET_BYTES),
                Some(SRC_IP),
            )
        }
    }

    /// Writes the tuple.
    pub fn on_packet(packet: &Packet<'_>, flow: &FlowContext, w: &mut TupleWriter) {
        begin(packet, flow, w);
        write_five_tuple(w, &packet.five_tuple, [SRC_IP, SRC_PORT, DST_IP, DST_PORT]);
        w.u64(PACKET_BYTES, u64::from(packet.original_len));
        w.u64(TTL, u64::from(packet.ttl));
        if let TransportHeader::Tcp(tcp) = &packet.transport {
            w.u64(TCP_FLAGS, u64::from(tcp.flags.0));
            w.u64(SEQ, u64::from(tcp.seq.0));
            w.u64(ACK, u64::from(tcp.ack.0));
            w.u64(WINDOW, u64::from(tcp.window));
        }
        w.end_row();
    }
}

/// Header columns of `packet` and `tcp_pkt_size`, which need no flow. [`HeaderColumns`] writes them for many
/// packets at a time, much faster than one tuple at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderField {
    Ts,
    SrcIp,
    SrcPort,
    DstIp,
    DstPort,
    PacketBytes,
    PayloadBytes,
    Ttl,
}

/// Capacity in packets; fits in the L1 cache.
const HEADERS: usize = 64;

/// Header fields of several packets in columns: source before destination.
#[derive(Clone, Debug)]
pub struct HeaderBatch {
    len: usize,
    ts: [i64; HEADERS],
    addrs: [[[u8; 16]; HEADERS]; 2],
    ports: [[u16; HEADERS]; 2],
    packet_bytes: [u32; HEADERS],
    payload_bytes: [u32; HEADERS],
    ttl: [u8; HEADERS],
    is_tcp: [bool; HEADERS],
}

/// Columns of a parser that uses only header fields every packet has.
#[derive(Debug)]
pub struct HeaderColumns {
    tcp_only: bool,
    columns: Vec<(FieldId, HeaderField)>,
}

impl HeaderColumns {
    /// The columns that `writer` needs; `None` if they are not all header fields or belong to another parser.
    #[must_use]
    pub fn of(writer: &TupleWriter) -> Option<HeaderColumns> {
        let tcp_only = match &*writer.schema().name {
            "packet" => false,
            "tcp_pkt_size" => true,
            _ => return None,
        };
        let header = |id: FieldId| match &*writer.schema().field(id).name {
            "ts" | "ts_end" => Some((id, HeaderField::Ts)),
            "src_ip" => Some((id, HeaderField::SrcIp)),
            "src_port" => Some((id, HeaderField::SrcPort)),
            "dst_ip" => Some((id, HeaderField::DstIp)),
            "dst_port" => Some((id, HeaderField::DstPort)),
            "packet_bytes" => Some((id, HeaderField::PacketBytes)),
            "payload_bytes" => Some((id, HeaderField::PayloadBytes)),
            "ttl" => Some((id, HeaderField::Ttl)),
            _ => None,
        };
        let wanted = writer.schema().ids().filter(|id| writer.wants(*id));
        Some(HeaderColumns {
            tcp_only,
            columns: wanted.map(header).collect::<Option<_>>()?,
        })
    }

    /// Writes the packets' rows by column, with the same result as the parser.
    pub fn on_packets(&self, packets: &HeaderBatch, w: &mut TupleWriter) {
        if !self.tcp_only {
            return self.write(packets, 0..packets.len, w);
        }
        let mut start = 0;
        for run in packets.is_tcp[..packets.len].chunk_by(|a, b| a == b) {
            let end = start + run.len();
            if run[0] {
                self.write(packets, start..end, w);
            }
            start = end;
        }
    }

    fn write(&self, packets: &HeaderBatch, places: Range<usize>, w: &mut TupleWriter) {
        let HeaderBatch {
            ts,
            addrs: [src, dst],
            ports: [from, to],
            packet_bytes,
            payload_bytes,
            ttl,
            ..
        } = packets;
        for &(id, header) in &self.columns {
            let places = places.clone();
            match header {
                HeaderField::Ts => w.extend_i64(id, ts[places].iter().copied()),
                HeaderField::SrcIp => w.extend_ip(id, src[places].iter().copied()),
                HeaderField::SrcPort => {
                    w.extend_u64(id, from[places].iter().map(|v| u64::from(*v)))
                }
                HeaderField::DstIp => w.extend_ip(id, dst[places].iter().copied()),
                HeaderField::DstPort => w.extend_u64(id, to[places].iter().map(|v| u64::from(*v))),
                HeaderField::PacketBytes => {
                    w.extend_u64(id, packet_bytes[places].iter().map(|v| u64::from(*v)))
                }
                HeaderField::PayloadBytes => {
                    w.extend_u64(id, payload_bytes[places].iter().map(|v| u64::from(*v)))
                }
                HeaderField::Ttl => w.extend_u64(id, ttl[places].iter().map(|v| u64::from(*v))),
            }
        }
        w.end_rows(places.len());
    }
}

impl HeaderBatch {
    /// Adds the headers of a packet. The buffer must not be full.
    #[inline(always)]
    pub fn push(&mut self, packet: &Packet<'_>) {
        let at = self.len % HEADERS;
        let FiveTuple { src, dst, .. } = packet.five_tuple;
        self.ts[at] = packet.ts.0;
        self.addrs[0][at] = src.addr.0;
        self.addrs[1][at] = dst.addr.0;
        self.ports[0][at] = src.port;
        self.ports[1][at] = dst.port;
        self.packet_bytes[at] = packet.original_len;
        self.payload_bytes[at] = packet.payload_original_len;
        self.ttl[at] = packet.ttl;
        self.is_tcp[at] = matches!(packet.transport, TransportHeader::Tcp(_));
        self.len += 1;
    }

    /// Number of packets.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no packets.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the buffer is full.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len == HEADERS
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl Default for HeaderBatch {
    fn default() -> HeaderBatch {
        HeaderBatch {
            len: 0,
            ts: [0; HEADERS],
            addrs: [[[0; 16]; HEADERS]; 2],
            ports: [[0; HEADERS]; 2],
            packet_bytes: [0; HEADERS],
            payload_bytes: [0; HEADERS],
            ttl: [0; HEADERS],
            is_tcp: [false; HEADERS],
        }
    }
}

#[inline]
fn begin(packet: &Packet<'_>, flow: &FlowContext, w: &mut TupleWriter) {
    let quality = if flow.midstream {
        TupleQuality::Midstream
    } else {
        TupleQuality::Exact
    };
    write_common(w, flow, packet.ts, packet.ts, quality);
    write_path(w, &packet.tunnel, packet.vlan);
}

#[inline]
fn write_five_tuple(
    w: &mut TupleWriter,
    five: &FiveTuple,
    [src_ip, src_port, dst_ip, dst_port]: [FieldId; 4],
) {
    w.ip(src_ip, &five.src.addr.0);
    w.u64(src_port, u64::from(five.src.port));
    w.ip(dst_ip, &five.dst.addr.0);
    w.u64(dst_port, u64::from(five.dst.port));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use tuple::common;
    use wire::{Addr, CapturedPacket, Endpoint, IpProtocol, LinkType, Timestamp};

    use super::*;

    /// A TCP or UDP frame over IPv4.
    fn frame(is_tcp: bool, ttl: u8, addrs: [u8; 8], ports: [u8; 4], payload: usize) -> Vec<u8> {
        let transport = if is_tcp { 20 } else { 8 };
        let mut bytes = vec![0; 34 + transport + payload.max(20)];
        bytes[12] = 8;
        bytes[14] = 0x45;
        bytes[16..18].copy_from_slice(&((20 + transport + payload) as u16).to_be_bytes());
        bytes[22] = ttl;
        bytes[23] = if is_tcp { 6 } else { 17 };
        bytes[26..34].copy_from_slice(&addrs);
        bytes[34..38].copy_from_slice(&ports);
        if is_tcp {
            bytes[46] = 0x50
        } else {
            bytes[38..40].copy_from_slice(&((8 + payload) as u16).to_be_bytes())
        }
        bytes
    }

    fn nobody() -> FlowContext {
        let nowhere = Endpoint {
            addr: Addr::default(),
            port: 0,
        };
        FlowContext {
            id: 0,
            client: nowhere,
            server: nowhere,
            protocol: IpProtocol::TCP,
            client_guessed: true,
            midstream: false,
            sample_rate: 1.0,
            tunnel: wire::Tunnel::default(),
            vlan: None,
            proxied: None,
            decrypted: None,
        }
    }

    proptest! {
        /// Column-wise rows equal the rows of the packet parsers.
        #[test]
        fn headers_are_written_as_by_the_parsers(
            packets in prop::collection::vec(
                (any::<bool>(), any::<u8>(), any::<[u8; 8]>(), any::<[u8; 4]>(), 0usize..40),
                0..=HEADERS,
            ),
        ) {
            let frames: Vec<_> = packets.iter().map(|(t, ttl, a, p, len)| frame(*t, *ttl, *a, *p, *len)).collect();
            let all: [(Schema, PacketParser); 2] =
                [(packet::schema(), packet::on_packet), (tcp_pkt_size::schema(), tcp_pkt_size::on_packet)];
            for (schema, parse) in all {
                let wanted = ["src_ip", "dst_ip", "src_port", "dst_port", "packet_bytes", "payload_bytes", "ttl"];
                let mut wanted: Vec<FieldId> = wanted.iter().filter_map(|name| schema.find(name)).collect();
                wanted.extend([common::TS, common::TS_END]);
                let schema = Arc::new(schema);
                let [mut one, mut many] = [(); 2].map(|()| TupleWriter::new(schema.clone(), &wanted));
                let columns = HeaderColumns::of(&many).expect("header fields only");
                let mut headers = HeaderBatch::default();
                for (i, bytes) in frames.iter().enumerate() {
                    let ts = Timestamp(i as i64);
                    let captured = CapturedPacket { ts, link_type: LinkType::Ethernet, original_len: 99, bytes };
                    // A random port may be a tunnel's, without tunnel contents.
                    let Ok(packet) = Packet::decode(&captured) else { continue };
                    headers.push(&packet);
                    parse(&packet, &nobody(), &mut one);
                }
                columns.on_packets(&headers, &mut many);
                let one = one.finish();
                let many = many.finish();
                prop_assert_eq!(one.rows(), many.rows());
                for id in wanted {
                    prop_assert_eq!(one.column(id), many.column(id));
                }
            }
        }
    }
}
