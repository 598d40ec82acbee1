//! `interface`: what an interface of a switch counted between two sFlow reports.

use tuple::{FieldId, Schema, SchemaFacts, TupleWriter, common};
use wire::{Addr, Timestamp};

tuple::fields! {
    EXPORTER: Ip, None, "exporter", "switch or router with the interface";
    OBSERVATION_DOMAIN: U64, None, "observation_domain", "sFlow sub-agent of the exporter";
    INTERFACE: U64, None, "interface", "number of the interface, in the exporter's numbering (ifIndex)";
    SPEED: U64, None, "speed", "bits per second; 0 if unknown";
    PERIOD_NS: I64, Nanoseconds, "period_ns", "time since the previous report, by the exporter's clock; the columns below count since then";
    IN_BYTES: U64, Bytes, "in_bytes", "bytes received";
    IN_PACKETS: U64, None, "in_packets", "packets received: unicast, multicast, and broadcast, as far as the exporter counts them";
    IN_ERRORS: U64, None, "in_errors", "received packets with a fault; null if the exporter does not count them, as the columns below";
    IN_DISCARDS: U64, None, "in_discards", "received packets without a fault that were discarded";
    OUT_BYTES: U64, Bytes, "out_bytes", "bytes sent";
    OUT_PACKETS: U64, None, "out_packets", "packets sent";
    OUT_ERRORS: U64, None, "out_errors", "packets that could not be sent because of a fault";
    OUT_DISCARDS: U64, None, "out_discards", "packets that were discarded instead of sent";
}

/// Counters of one direction of an interface; `None`: the exporter does not maintain the counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounts {
    /// Bytes.
    pub bytes: u64,
    /// Packets without a fault.
    pub packets: Option<u64>,
    /// Packets with a fault.
    pub errors: Option<u64>,
    /// Discarded packets.
    pub discards: Option<u64>,
}

/// Counts of an interface between two reports.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceCounts {
    /// Identifier of the interface.
    pub id: u64,
    /// Time of reception.
    pub now: Timestamp,
    /// Switch or router.
    pub exporter: Addr,
    /// Sub-agent.
    pub domain: u32,
    /// SNMP `ifIndex`.
    pub index: u32,
    /// Bits per second.
    pub speed: u64,
    /// Time between the reports.
    pub period_ns: i64,
    /// Received and sent.
    pub directions: [DirectionCounts; 2],
}

/// The schema.
#[must_use]
pub fn schema() -> Schema {
    let facts = &SchemaFacts {
        first: &[
            "ts",
            "exporter",
            "interface",
            "in_bytes",
            "out_bytes",
            "in_packets",
            "out_packets",
        ],
        ..SchemaFacts::NONE
    };
    Schema {
        facts,
        ..Schema::of_parser(
            "interface",
            1,
            "sFlow report of an interface's counters",
            FIELDS,
            Some(IN_BYTES),
            Some(INTERFACE),
        )
    }
}

/// Writes the tuple.
pub fn write_counts(w: &mut TupleWriter, counts: &InterfaceCounts) {
    w.u64(common::ID, counts.id);
    w.i64(common::TS, counts.now.0);
    w.i64(common::TS_END, counts.now.0);
    w.f64(common::SAMPLE_RATE, 1.0);
    w.ip(EXPORTER, &counts.exporter.0);
    w.u64(OBSERVATION_DOMAIN, counts.domain.into());
    w.u64(INTERFACE, counts.index.into());
    w.u64(SPEED, counts.speed);
    w.i64(PERIOD_NS, counts.period_ns);
    const COLUMNS: [[FieldId; 4]; 2] = [
        [IN_BYTES, IN_PACKETS, IN_ERRORS, IN_DISCARDS],
        [OUT_BYTES, OUT_PACKETS, OUT_ERRORS, OUT_DISCARDS],
    ];
    for (columns, of) in COLUMNS.iter().zip(&counts.directions) {
        let values = [Some(of.bytes), of.packets, of.errors, of.discards];
        for (column, value) in columns.iter().zip(values) {
            if let Some(value) = value {
                w.u64(*column, value);
            }
        }
    }
    w.end_row();
}
