//! Rows as flow records. Null is an absent element, and a template has the elements that are present.

use std::net::IpAddr;
use std::sync::Arc;

use sinks::ResultHead;
use sinks::cells::{CellValues, ColumnCells, ip};
use telemetry::OutgoingRecord;
use tuple::Batch;
use wire::Timestamp;

use crate::flow_columns::{FlowColumn, FlowDirections, FlowFormat, OctetElement};
use crate::flow_row::FlowRow;
use crate::queue::OutletItem;
use crate::worker::{MessageBody, OutletMessage, RowMapping};

/// Maximum rows per message.
const ROWS_MAX: usize = 256;

/// Converts rows to flow records.
pub struct FlowMapping {
    format: FlowFormat,
    heads: Option<Arc<[ResultHead]>>,
    number: u64,
    left_out: u64,
}

/// Values of a row.
#[derive(Default)]
struct FlowValues {
    start: Option<i64>,
    end: Option<i64>,
    duration_ns: Option<i64>,
    addresses: [Option<IpAddr>; 2],
    ports: [Option<u16>; 2],
    protocol: Option<u8>,
    packets: [Option<u64>; 2],
    octets: [Option<u64>; 2],
    payload: [Option<u64>; 2],
    /// Elements that are the same in both directions.
    others: OutgoingRecord,
}

impl FlowMapping {
    /// Records of this form.
    pub fn new(format: FlowFormat) -> FlowMapping {
        FlowMapping {
            format,
            heads: None,
            number: 0,
            left_out: 0,
        }
    }

    fn rows(&mut self, result: usize, batch: &Batch) -> Vec<FlowRow> {
        let head = self.heads.as_ref().and_then(|heads| heads.get(result));
        let parser = head
            .and_then(|head| head.parsers.first())
            .map_or("", |name| name);
        let schema = batch.schema();
        let meanings = self.format.columns(parser, schema.fields.iter());
        let columns: Vec<(FlowColumn, ColumnCells<'_>)> = schema
            .ids()
            .zip(meanings)
            .filter_map(|(id, meaning)| Some((meaning?, ColumnCells::of(batch, id)?)))
            .collect();
        let mut rows = Vec::with_capacity(batch.rows());
        for row in 0..batch.rows() {
            let mut values = FlowValues::default();
            for (meaning, cells) in columns.iter().filter(|(_, cells)| !cells.is_null(row)) {
                if !values.take(*meaning, cells.values, row) {
                    self.left_out += 1;
                }
            }
            rows.push(values.records(&self.format, &mut self.left_out));
        }
        rows
    }
}

impl RowMapping for FlowMapping {
    fn take(&mut self, item: OutletItem, out: &mut Vec<OutletMessage>) {
        match item {
            OutletItem::Heads(heads) => self.heads = Some(heads),
            OutletItem::Rows(result, batch) => {
                for start in (0..batch.rows()).step_by(ROWS_MAX) {
                    let rows = batch.slice(start, ROWS_MAX.min(batch.rows() - start));
                    let rows = self.rows(result, &rows);
                    self.number += 1;
                    out.push(OutletMessage {
                        rows: rows.len() as u64,
                        body: MessageBody::Flows(rows),
                        number: self.number,
                    });
                }
            }
            OutletItem::Complete | OutletItem::Vitals(_) => {}
        }
    }

    fn finish(&mut self, _: &mut Vec<OutletMessage>) {}

    fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl FlowValues {
    /// Takes a value that is not null; false if the element cannot represent it.
    fn take(&mut self, meaning: FlowColumn, cells: CellValues<'_>, row: usize) -> bool {
        use FlowColumn as C;
        match (meaning, cells) {
            (C::Start, CellValues::I64(a)) => self.start = Some(a.value(row)),
            (C::End, CellValues::I64(a)) => self.end = Some(a.value(row)),
            (C::Duration, CellValues::I64(a)) => self.duration_ns = Some(a.value(row)),
            (C::Source, CellValues::Ip(a)) => self.addresses[0] = Some(ip(a.value(row))),
            (C::Destination, CellValues::Ip(a)) => self.addresses[1] = Some(ip(a.value(row))),
            (C::SourcePort, CellValues::U64(a)) => {
                self.ports[0] = u16::try_from(a.value(row)).ok();
                return self.ports[0].is_some();
            }
            (C::DestinationPort, CellValues::U64(a)) => {
                self.ports[1] = u16::try_from(a.value(row)).ok();
                return self.ports[1].is_some();
            }
            (C::Protocol, CellValues::Text(a)) => {
                self.protocol = protocol(a.value(row));
                return self.protocol.is_some();
            }
            (C::Packets(side), CellValues::U64(a)) => {
                self.packets[side as usize] = Some(a.value(row));
            }
            (C::Octets(side), CellValues::U64(a)) => {
                self.octets[side as usize] = Some(a.value(row));
            }
            (C::Payload(side), CellValues::U64(a)) => {
                self.payload[side as usize] = Some(a.value(row));
            }
            (C::Number(id, len), CellValues::U64(a)) => {
                let value = a.value(row);
                if len < 8 && value >> (8 * len) > 0 {
                    return false;
                }
                self.others.put(id, len, Some(value));
            }
            (C::Probability, CellValues::F64(a)) => {
                self.others.put(311, 8, Some(a.value(row).to_bits()));
            }
            (C::EndReason, CellValues::Text(a)) => {
                let reason = end_reason(a.value(row));
                self.others.put(136, 1, reason);
                return reason.is_some();
            }
            // `biflowDirection`: arbitrary, or from the initiator.
            (C::Guessed, CellValues::Bool(a)) => {
                self.others.put(239, 1, Some(u8::from(!a.value(row))));
            }
            (C::Application, CellValues::Text(a)) => {
                self.others.put_text(0, 96, a.value(row).as_bytes());
            }
            (C::Private(enterprise, id), cells) => self.take_private(enterprise, id, cells, row),
            _ => return false,
        }
        true
    }

    /// Elements of an enterprise have the type of the column.
    fn take_private(&mut self, enterprise: u32, id: u16, cells: CellValues<'_>, row: usize) {
        let others = &mut self.others;
        match cells {
            // RFC 7011 section 6.1.5.
            CellValues::Bool(a) => {
                let value: u8 = if a.value(row) { 1 } else { 2 };
                others.put_of(enterprise, id, 1, Some(value));
            }
            CellValues::U64(a) => others.put_of(enterprise, id, 8, Some(a.value(row))),
            CellValues::I64(a) => {
                others.put_of(enterprise, id, 8, Some(a.value(row).cast_unsigned()));
            }
            CellValues::F64(a) => others.put_of(enterprise, id, 8, Some(a.value(row).to_bits())),
            CellValues::Text(a) => others.put_text(enterprise, id, a.value(row).as_bytes()),
            // An IPv6 address, which may be mapped from IPv4, so that the type is always the same.
            CellValues::Ip(a) => {
                let bytes: [u8; 16] = a.value(row).try_into().unwrap_or_default();
                others.put_of(enterprise, id, 16, Some(u128::from_be_bytes(bytes)));
            }
            CellValues::Json(_) | CellValues::Hashes(_) => {}
        }
    }

    /// The records; counts values that cannot be represented.
    fn records(mut self, format: &FlowFormat, left_out: &mut u64) -> FlowRow {
        if let Some((start, duration)) = self.start.zip(self.duration_ns) {
            self.end = Some(start.saturating_add(duration));
        }
        for time in [&mut self.start, &mut self.end] {
            if time.is_some_and(|time| time < 0) {
                *time = None;
                *left_out += 1;
            }
        }
        let has = |side: usize| {
            let counts = [self.packets[side], self.octets[side], self.payload[side]];
            counts.iter().flatten().any(|count| *count > 0)
        };
        match format.directions {
            FlowDirections::Split => match (has(0), has(1)) {
                (true, true) => FlowRow {
                    record: self.record(format, 0),
                    reverse: Some(self.record(format, 1)),
                },
                (false, true) => FlowRow {
                    record: self.record(format, 1),
                    reverse: None,
                },
                (_, false) => FlowRow {
                    record: self.record(format, 0),
                    reverse: None,
                },
            },
            FlowDirections::Biflow => {
                let mut record = self.record(format, 0);
                record.put_reverse(format.octet_element(), 8, self.octets[1]);
                record.put_reverse(2, 8, self.packets[1]);
                record.put_reverse(401, 8, self.payload[1]);
                FlowRow {
                    record,
                    reverse: None,
                }
            }
        }
    }

    /// The record of the packets from a side.
    fn record(&self, format: &FlowFormat, from: usize) -> OutgoingRecord {
        let to = 1 - from;
        let mut record = OutgoingRecord {
            start: self.start.map(Timestamp),
            end: self.end.map(Timestamp),
            fields: Vec::with_capacity(12 + self.others.fields.len()),
        };
        record.put_address(8, 27, self.addresses[from]);
        record.put_address(12, 28, self.addresses[to]);
        record.put(7, 2, self.ports[from]);
        record.put(11, 2, self.ports[to]);
        record.put(4, 1, self.protocol);
        record.put(format.octet_element(), 8, self.octets[from]);
        record.put(2, 8, self.packets[from]);
        record.put(401, 8, self.payload[from]);
        record.fields.extend(self.others.fields.iter().cloned());
        record
    }
}

impl FlowFormat {
    /// `octetDeltaCount` or `layer2OctetDeltaCount`.
    fn octet_element(&self) -> u16 {
        match self.octets {
            OctetElement::Octets => 1,
            OctetElement::Layer2 => 352,
        }
    }
}

/// Number of a protocol.
fn protocol(name: &str) -> Option<u8> {
    match name {
        "tcp" => Some(6),
        "udp" => Some(17),
        "icmp" => Some(1),
        "icmp6" => Some(58),
        number => number.parse().ok(),
    }
}

/// Value of `flowEndReason`: idle timeout, active timeout, end of flow detected, forced end, lack of resources.
fn end_reason(reason: &str) -> Option<u8> {
    match reason {
        "idle" => Some(1),
        "active_timeout" => Some(2),
        "fin" | "rst" | "port_reused" => Some(3),
        "end_of_input" => Some(4),
        "evicted" => Some(5),
        _ => None,
    }
}
