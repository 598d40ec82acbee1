//! Flow-level parsers: `tcp_conn_time` (start and end of a connection) and `flow` (flow records). They are
//! stateless; all facts about the flow are arguments.

use tuple::{ColumnFamily, FieldId, HASH, Schema, TupleWriter, common};
use wire::Timestamp;

use crate::output::{write_common, write_decrypted, write_path, write_proxied};
use crate::{FlowContext, TupleQuality};

/// `tcp_conn_time`: start and end of connections.
pub mod tcp_conn_time {
    use super::{
        FlowContext, Schema, Timestamp, TupleQuality, TupleWriter, write_common, write_path,
    };

    tuple::fields! {
        EVENT: Text, None, "event", "start or end";
        FLAG: Text, None, "flag", "SYN at the start; FIN, RST or EXPIRED at the end";
        HANDSHAKE_NS: I64, Nanoseconds, "handshake_ns", "from the first SYN to the ACK that completes the handshake; set at the end";
        CONN_TIME_NS: I64, Nanoseconds, "conn_time_ns", "from start to end; set at the end if the start was captured";
    }

    /// Event that ended a connection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FlowEndReason {
        /// The first FIN of either side.
        Fin,
        /// A RST.
        Rst,
        /// Idle timeout or end of input.
        Expired,
    }

    /// End of a connection.
    #[derive(Clone, Copy, Debug)]
    pub struct ConnectionClose {
        /// Ending event.
        pub flag: FlowEndReason,
        /// Time of the FIN or RST, or of the last packet before expiry.
        pub ts: Timestamp,
        /// Time of the SYN, if seen.
        pub started: Option<Timestamp>,
        /// Duration of the handshake.
        pub handshake_ns: Option<i64>,
    }

    /// The schema.
    #[must_use]
    pub fn schema() -> Schema {
        let doc = "SYN, and FIN or RST (the first that ends the connection), or expiry";
        let facts = &tuple::SchemaFacts {
            success: Some("flag = 'FIN'"),
            whole: Some("event = 'end'"),
            first: &[
                "ts",
                "client_ip",
                "server_ip",
                "server_port",
                "event",
                "conn_time_ns",
                "flag",
            ],
            ..tuple::SchemaFacts::NONE
        };
        Schema {
            facts,
            ..Schema::of_parser("tcp_conn_time", 1, doc, FIELDS, Some(CONN_TIME_NS), None)
        }
    }

    /// Writes the tuple of a SYN.
    pub fn on_start(ts: Timestamp, flow: &FlowContext, w: &mut TupleWriter) {
        write_common(w, flow, ts, ts, TupleQuality::Exact);
        write_path(w, &flow.tunnel, flow.vlan);
        w.text(EVENT, b"start");
        w.text(FLAG, b"SYN");
        w.end_row();
    }

    /// Writes the tuple of an end; `now` is the packet clock.
    pub fn on_end(end: &ConnectionClose, now: Timestamp, flow: &FlowContext, w: &mut TupleWriter) {
        let quality = if end.started.is_some() {
            TupleQuality::Exact
        } else {
            TupleQuality::Midstream
        };
        write_common(w, flow, end.ts, now, quality);
        write_path(w, &flow.tunnel, flow.vlan);
        w.text(EVENT, b"end");
        let flag: &[u8] = match end.flag {
            FlowEndReason::Fin => b"FIN",
            FlowEndReason::Rst => b"RST",
            FlowEndReason::Expired => b"EXPIRED",
        };
        w.text(FLAG, flag);
        if let Some(handshake_ns) = end.handshake_ns {
            w.i64(HANDSHAKE_NS, handshake_ns);
        }
        if let Some(started) = end.started {
            w.i64(CONN_TIME_NS, end.ts.since(started));
        }
        w.end_row();
    }
}

/// `flow`: flow records.
pub mod flow_record {
    use super::{
        ColumnFamily, FieldId, FlowContext, HASH, Schema, Timestamp, TupleQuality, TupleWriter,
        common, write_common, write_decrypted, write_path, write_proxied,
    };

    tuple::fields! {
        CLIENT_PACKETS: U64, None, "client_packets", "packets sent by the client";
        SERVER_PACKETS: U64, None, "server_packets", "packets sent by the server";
        CLIENT_BYTES: U64, Bytes, "client_bytes", "length of client_packets on the wire";
        SERVER_BYTES: U64, Bytes, "server_bytes", "length of server_packets on the wire";
        CLIENT_PAYLOAD_BYTES: U64, Bytes, "client_payload_bytes", "transport payload including retransmissions";
        SERVER_PAYLOAD_BYTES: U64, Bytes, "server_payload_bytes", "transport payload including retransmissions";
        HANDSHAKE_NS: I64, Nanoseconds, "handshake_ns", "from the first SYN to the ACK that completes the handshake";
        RETRANSMISSIONS: U64, None, "retransmissions", "retransmitted TCP segments: data, SYNs, and FINs";
        OUT_OF_ORDER: U64, None, "out_of_order", "TCP segments out of order";
        GAPS: U64, None, "gaps", "gaps in the captured bytes";
        GAP_BYTES: U64, Bytes, "gap_bytes", "bytes missing in the gaps";
        ACKED_UNSEEN_BYTES: U64, Bytes, "acked_unseen_bytes", "acknowledged but not captured: lost on the way to the capture";
        DUPLICATES: U64, None, "duplicates", "duplicates of captured packets, made by a mirror; not part of other counts";
        CONN_STATE: Text, None, "conn_state", "TCP: S0, S1, SF, REJ, S2, S3, RSTO, RSTR, RSTOS0, RSTRH, SH, SHR, or OTH, as in Zeek";
        HISTORY: Text, None, "history", "TCP: Zeek's history letters in order of appearance, the client's in capitals";
        DURATION_NS: I64, Nanoseconds, "duration_ns", "first to last packet";
        REASON: Text, None, "reason", "fin, rst, idle, evicted, port_reused, end_of_input, or active_timeout for a flow that continues";
        CLIENT_RTT_NS: I64, Nanoseconds, "client_rtt_ns", "from the capture to the client and back: SYN-ACK to ACK; null after a retransmission of either";
        SERVER_RTT_NS: I64, Nanoseconds, "server_rtt_ns", "from the capture to the server and back: SYN to SYN-ACK; null after a retransmission of either";
        APPLICATION: Text, None, "application", "application protocol, recognized by the first bytes: http, mysql, tls, dns, …; null if unknown";
        SYN_RETRANSMISSIONS: U64, None, "syn_retransmissions", "retransmitted SYNs and SYN-ACKs, which delay the connect";
        EXPORTER: Ip, None, "exporter", "router or switch that exported the record; null for captured packets, as the fields below";
        OBSERVATION_DOMAIN: U64, None, "observation_domain", "IPFIX observation domain, NetFlow v9 source, or NetFlow v5 engine of the exporter";
        RATE_FROM: Text, None, "rate_from", "origin of the sampling rate: record, options, query (which has configured the exporter), or assumed (none was reported: 1)";
        PACKET_RATE: F64, Fraction, "packet_rate", "share of packets that the exporter measured; packets and bytes are scaled by its inverse";
        INPUT_INTERFACE: U64, None, "input_interface", "interface that the client's packets enter by, in the exporter's numbering";
        OUTPUT_INTERFACE: U64, None, "output_interface", "interface that the client's packets leave by";
        TCP_FLAGS: U64, None, "tcp_flags", "TCP flags of all packets: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32";
        CLIENT_AS: U64, None, "client_as", "autonomous system of the client, or the exporter's neighbor toward it";
        SERVER_AS: U64, None, "server_as", "autonomous system of the server, or the exporter's neighbor toward it";
        CLIENT_MAC: Text, None, "client_mac", "Ethernet address of the client's side" => HASH;
        SERVER_MAC: Text, None, "server_mac", "Ethernet address of the server's side" => HASH;
        PATH_DELAY_NS: I64, Nanoseconds, "path_delay_ns", "mean one-way delay from the entry into the measured path (RFC 9951)";
        PATH_DELAY_MIN_NS: I64, Nanoseconds, "path_delay_min_ns", "smallest one-way delay";
        PATH_DELAY_MAX_NS: I64, Nanoseconds, "path_delay_max_ns", "largest one-way delay";
    }

    /// Columns of any information element of an export record.
    pub const FIELD: ColumnFamily = ColumnFamily {
        name: "field",
        doc: "information element of the exporter's record, ELEMENT or ENTERPRISE_ELEMENT",
        fold: Some(HASH),
    };

    /// Columns derived from counts.
    pub const COUNTS: [FieldId; 14] = [
        common::QUALITY,
        CLIENT_PACKETS,
        SERVER_PACKETS,
        CLIENT_BYTES,
        SERVER_BYTES,
        CLIENT_PAYLOAD_BYTES,
        SERVER_PAYLOAD_BYTES,
        RETRANSMISSIONS,
        SYN_RETRANSMISSIONS,
        OUT_OF_ORDER,
        GAPS,
        GAP_BYTES,
        ACKED_UNSEEN_BYTES,
        DUPLICATES,
    ];

    /// Other columns that need every segment.
    pub const SEGMENTS: [FieldId; 3] = [HISTORY, CLIENT_RTT_NS, SERVER_RTT_NS];

    /// Columns that export records do not fill.
    pub const CAPTURED_ONLY: [FieldId; 16] = [
        CLIENT_PAYLOAD_BYTES,
        SERVER_PAYLOAD_BYTES,
        HANDSHAKE_NS,
        RETRANSMISSIONS,
        OUT_OF_ORDER,
        GAPS,
        GAP_BYTES,
        ACKED_UNSEEN_BYTES,
        DUPLICATES,
        CONN_STATE,
        HISTORY,
        CLIENT_RTT_NS,
        SERVER_RTT_NS,
        APPLICATION,
        SYN_RETRANSMISSIONS,
        common::QUALITY,
    ];

    /// Counts of a flow since its start or its last record.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FlowCounts {
        /// Packets of client and server.
        pub packets: [u64; 2],
        /// Bytes on the wire of client and server.
        pub bytes: [u64; 2],
        /// Payload bytes of client and server.
        pub payload_bytes: [u64; 2],
        /// Retransmitted segments of both sides.
        pub retransmissions: u64,
        /// Retransmitted SYNs and SYN-ACKs; included in `retransmissions`.
        pub syn_retransmissions: u64,
        /// Out-of-order segments of both sides.
        pub out_of_order: u64,
        /// Gaps in the byte streams of both sides.
        pub gaps: u64,
        /// Bytes in these gaps.
        pub gap_bytes: u64,
        /// Bytes that were acknowledged but not captured, of both sides.
        pub acked_unseen_bytes: u64,
        /// Duplicate packets of both sides.
        pub duplicates: u64,
    }

    impl FlowCounts {
        /// Difference to `earlier`.
        #[must_use]
        pub fn since(&self, earlier: &FlowCounts) -> FlowCounts {
            let pair = |a: [u64; 2], b: [u64; 2]| [a[0] - b[0], a[1] - b[1]];
            FlowCounts {
                packets: pair(self.packets, earlier.packets),
                bytes: pair(self.bytes, earlier.bytes),
                payload_bytes: pair(self.payload_bytes, earlier.payload_bytes),
                retransmissions: self.retransmissions - earlier.retransmissions,
                syn_retransmissions: self.syn_retransmissions - earlier.syn_retransmissions,
                out_of_order: self.out_of_order - earlier.out_of_order,
                gaps: self.gaps - earlier.gaps,
                gap_bytes: self.gap_bytes - earlier.gap_bytes,
                acked_unseen_bytes: self.acked_unseen_bytes - earlier.acked_unseen_bytes,
                duplicates: self.duplicates - earlier.duplicates,
            }
        }
    }

    /// Contents of a flow record.
    #[derive(Clone, Copy, Debug)]
    pub struct FlowRecord<'a> {
        /// Time of the first packet.
        pub first_ts: Timestamp,
        /// Time of the last packet.
        pub last_ts: Timestamp,
        /// Time of the record.
        pub now: Timestamp,
        /// Counts.
        pub counts: FlowCounts,
        /// Duration of the TCP handshake.
        pub handshake_ns: Option<i64>,
        /// TCP round-trip times of client and server.
        pub rtt_ns: [Option<i64>; 2],
        /// TCP connection state.
        pub conn_state: Option<&'a str>,
        /// TCP history letters.
        pub history: Option<&'a str>,
        /// Name of the application protocol.
        pub application: Option<&'a str>,
        /// Reason for the record.
        pub reason: &'a str,
    }

    /// The schema.
    #[must_use]
    pub fn schema() -> Schema {
        let doc = "flow end, and every active timeout; counts are those since the previous record of the flow";
        let facts = &tuple::SchemaFacts {
            first: &[
                "ts",
                "client_ip",
                "server_ip",
                "server_port",
                "application",
                "duration_ns",
                "conn_state",
                "client_bytes",
                "server_bytes",
            ],
            added: &[
                "syn_retransmissions",
                "exporter",
                "observation_domain",
                "rate_from",
                "packet_rate",
                "input_interface",
                "output_interface",
                "tcp_flags",
                "client_as",
                "server_as",
                "client_mac",
                "server_mac",
                "path_delay_ns",
                "path_delay_min_ns",
                "path_delay_max_ns",
            ],
            counter_rate: Some("packet_rate"),
            families: &[FIELD],
            ..tuple::SchemaFacts::NONE
        };
        Schema {
            facts,
            ..Schema::of_parser("flow", 1, doc, FIELDS, Some(DURATION_NS), None)
        }
    }

    /// Writes the tuple.
    pub fn on_record(record: &FlowRecord<'_>, flow: &FlowContext, w: &mut TupleWriter) {
        let quality = match () {
            () if flow.midstream => TupleQuality::Midstream,
            () if record.counts.gaps > 0 => TupleQuality::GapBody,
            () => TupleQuality::Exact,
        };
        write_common(w, flow, record.first_ts, record.now, quality);
        write_path(w, &flow.tunnel, flow.vlan);
        write_proxied(w, flow.proxied);
        write_decrypted(w, flow.decrypted.as_deref());
        let c = &record.counts;
        for (id, n) in [
            (CLIENT_PACKETS, c.packets[0]),
            (SERVER_PACKETS, c.packets[1]),
            (CLIENT_BYTES, c.bytes[0]),
            (SERVER_BYTES, c.bytes[1]),
            (CLIENT_PAYLOAD_BYTES, c.payload_bytes[0]),
            (SERVER_PAYLOAD_BYTES, c.payload_bytes[1]),
            (RETRANSMISSIONS, c.retransmissions),
            (SYN_RETRANSMISSIONS, c.syn_retransmissions),
            (OUT_OF_ORDER, c.out_of_order),
            (GAPS, c.gaps),
            (GAP_BYTES, c.gap_bytes),
            (ACKED_UNSEEN_BYTES, c.acked_unseen_bytes),
            (DUPLICATES, c.duplicates),
        ] {
            w.u64(id, n);
        }
        if let Some(handshake_ns) = record.handshake_ns {
            w.i64(HANDSHAKE_NS, handshake_ns);
        }
        if let Some(conn_state) = record.conn_state {
            w.text(CONN_STATE, conn_state.as_bytes());
        }
        if let Some(history) = record.history {
            w.text(HISTORY, history.as_bytes());
        }
        w.i64(DURATION_NS, record.last_ts.since(record.first_ts));
        w.text(REASON, record.reason.as_bytes());
        for (id, rtt_ns) in [CLIENT_RTT_NS, SERVER_RTT_NS]
            .into_iter()
            .zip(record.rtt_ns)
        {
            if let Some(rtt_ns) = rtt_ns {
                w.i64(id, rtt_ns);
            }
        }
        if let Some(application) = record.application {
            w.text(APPLICATION, application.as_bytes());
        }
        w.end_row();
    }
}
