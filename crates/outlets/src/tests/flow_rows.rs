//! Rows as flow records.

use std::net::{IpAddr, Ipv4Addr};

use telemetry::{OutgoingRecord, OutgoingValue};
use tuple::{Batch, DataType, Field, FieldId, TupleWriter, Unit};

use super::{head, schema};
use crate::address::{OutletAddress, SystemSecrets};
use crate::flow_columns::FlowFormat;
use crate::flow_records::FlowMapping;
use crate::flow_row::FlowRow;
use crate::queue::OutletItem;
use crate::worker::{MessageBody, OutletMessage, RowMapping};

/// A value of a column.
#[derive(Clone, Copy)]
enum CellValue {
    U64(u64),
    I64(i64),
    Text(&'static str),
    Ip([u8; 4]),
}

use CellValue::{I64, Ip, Text, U64};

/// One row with these columns.
fn row(columns: &[(&'static str, CellValue)]) -> Batch {
    let fields = columns.iter().map(|(name, value)| {
        let data_type = match value {
            U64(_) => DataType::U64,
            I64(_) => DataType::I64,
            Text(_) => DataType::Text,
            Ip(_) => DataType::Ip,
        };
        Field::new(name, data_type, Unit::None, "")
    });
    let schema = schema(fields.collect());
    let mut w = TupleWriter::new(schema.clone(), &schema.ids().collect::<Vec<_>>());
    for (id, (_, value)) in schema.ids().zip(columns) {
        match value {
            U64(value) => w.u64(id, *value),
            I64(value) => w.i64(id, *value),
            Text(value) => w.text(id, value.as_bytes()),
            Ip(value) => w.ip(id, &Ipv4Addr::from(*value).to_ipv6_mapped().octets()),
        }
    }
    w.end_row();
    w.finish()
}

/// Messages of a batch, and the number of omitted values.
fn messages(to: &str, batch: &Batch) -> (Vec<OutletMessage>, u64) {
    let address = OutletAddress::read(to, &SystemSecrets).expect("an address");
    let format = FlowFormat::of(&address).expect("options").expect("flows");
    let mut mapping = FlowMapping::new(format);
    let mut out = Vec::new();
    let head = sinks::ResultHead {
        parsers: vec!["flow".into()],
        ..head()
    };
    mapping.take(OutletItem::Heads([head].into()), &mut out);
    mapping.take(OutletItem::Rows(0, batch.clone()), &mut out);
    mapping.finish(&mut out);
    (out, mapping.left_out())
}

fn rows(message: &OutletMessage) -> &[FlowRow] {
    match &message.body {
        MessageBody::Flows(rows) => rows,
        _ => panic!("flow records only"),
    }
}

fn only(to: &str, columns: &[(&'static str, CellValue)]) -> (FlowRow, u64) {
    let (messages, left_out) = messages(to, &row(columns));
    (rows(&messages[0])[0].clone(), left_out)
}

/// Value of a registered element.
fn element(record: &OutgoingRecord, id: u16) -> Option<u128> {
    let of_id =
        |field: &&telemetry::OutgoingField| (field.element.enterprise, field.element.id) == (0, id);
    match record.fields.iter().find(of_id)?.value {
        OutgoingValue::Fixed { value, .. } => Some(value),
        OutgoingValue::Text(_) => None,
    }
}

#[test]
fn values_beyond_an_element_are_left_out_and_counted() {
    for (name, value, id, expected) in [
        ("client_port", U64(65_535), 7, Some(65_535)),
        ("client_port", U64(65_536), 7, None),
        ("server_port", U64(u64::MAX), 11, None),
        ("transport", Text("icmp6"), 4, Some(58)),
        ("transport", Text("255"), 4, Some(255)),
        ("transport", Text("256"), 4, None),
        ("transport", Text("-1"), 4, None),
        ("transport", Text(""), 4, None),
        ("vlan_id", U64(65_535), 58, Some(65_535)),
        ("vlan_id", U64(65_536), 58, None),
        ("id", U64(u64::MAX), 148, Some(u64::MAX.into())),
        ("reason", Text("evicted"), 136, Some(5)),
        // Of a later version.
        ("reason", Text("moved"), 136, None),
    ] {
        let (row, left_out) = only("ipfix://h", &[(name, value)]);
        assert_eq!(element(&row.record, id), expected, "{name}");
        assert_eq!(left_out, u64::from(expected.is_none()), "{name}");
    }
}

#[test]
fn times_before_1970_are_left_out_and_late_ends_are_bounded() {
    for (ts, duration, start, end, expected) in [
        (5, 10, Some(5), Some(15), 0),
        (-1, 10, None, Some(9), 1),
        (-20, 10, None, None, 2),
        (5, -10, Some(5), None, 1),
        (i64::MAX - 1, 10, Some(i64::MAX - 1), Some(i64::MAX), 0),
        (i64::MIN, -1, None, None, 2),
    ] {
        let columns = [("ts", I64(ts)), ("duration_ns", I64(duration))];
        let (row, left_out) = only("ipfix://h", &columns);
        let times = [row.record.start, row.record.end].map(|time| time.map(|time| time.0));
        assert_eq!(times, [start, end], "{ts} {duration}");
        assert_eq!(left_out, expected, "{ts} {duration}");
    }
}

/// A duration without a start has no end.
#[test]
fn a_duration_alone_is_not_sent() {
    let columns = [("duration_ns", I64(7)), ("client_packets", U64(1))];
    let (row, left_out) = only("ipfix://h", &columns);
    assert_eq!(
        (row.record.start, row.record.end, left_out),
        (None, None, 0)
    );
    let batch = self::row(&columns);
    let address = OutletAddress::read("ipfix://h", &SystemSecrets).expect("an address");
    let format = FlowFormat::of(&address).expect("options").expect("flows");
    assert_eq!(format.unsent("flow", &batch), ["duration_ns"]);
}

#[test]
fn split_records_are_those_of_the_directions_with_packets() {
    let ends = [
        ("client_ip", Ip([1, 0, 0, 1])),
        ("server_ip", Ip([2, 0, 0, 2])),
    ];
    let [client, server] =
        [[1, 0, 0, 1], [2, 0, 0, 2]].map(|octets| u128::from(u32::from_be_bytes(octets)));
    for (packets, expected) in [
        ([1, 2], vec![(client, 1), (server, 2)]),
        ([1, 0], vec![(client, 1)]),
        ([0, 2], vec![(server, 2)]),
        ([0, 0], vec![(client, 0)]),
        ([u64::MAX, 0], vec![(client, u128::from(u64::MAX))]),
    ] {
        for to in ["ipfix://h#directions=split", "netflow9://h"] {
            let mut columns = ends.to_vec();
            columns.push(("client_packets", U64(packets[0])));
            columns.push(("server_packets", U64(packets[1])));
            let (row, _) = only(to, &columns);
            let records = [Some(row.record), row.reverse];
            let seen = records.iter().flatten().map(|record| {
                (
                    element(record, 8).expect("a source"),
                    element(record, 2).expect("packets"),
                )
            });
            assert_eq!(seen.collect::<Vec<_>>(), expected, "{to} {packets:?}");
        }
    }
}

/// Payload alone, without packets, is a direction too.
#[test]
fn a_direction_with_payload_only_has_a_record() {
    let columns = [
        ("client_ip", Ip([1, 0, 0, 1])),
        ("client_packets", U64(3)),
        ("server_payload_bytes", U64(9)),
    ];
    let (row, _) = only("ipfix://h#directions=split", &columns);
    let reverse = row.reverse.expect("two records");
    assert_eq!(
        (element(&row.record, 2), element(&row.record, 401)),
        (Some(3), None)
    );
    assert_eq!(
        (element(&reverse, 2), element(&reverse, 401)),
        (None, Some(9))
    );
    assert_eq!(
        element(&reverse, 12),
        Some(u32::from_be_bytes([1, 0, 0, 1]).into())
    );
}

#[test]
fn messages_keep_the_order_of_many_rows() {
    let schema = schema(vec![Field::new("id", DataType::U64, Unit::Id, "")]);
    let mut w = TupleWriter::new(schema, &[FieldId(0)]);
    for id in 0..5000 {
        w.u64(FieldId(0), id);
        w.end_row();
    }
    let (messages, left_out) = messages("ipfix://h", &w.finish());
    assert_eq!(left_out, 0);
    let ids = messages.iter().flat_map(rows);
    let ids: Vec<_> = ids.filter_map(|row| element(&row.record, 148)).collect();
    assert_eq!(ids, (0..5000).collect::<Vec<u128>>());
    for (number, message) in (1..).zip(&messages) {
        assert_eq!(message.number, number);
        assert_eq!(message.rows, rows(message).len() as u64);
    }
}

/// The element of the source is that of its address family.
#[test]
fn addresses_of_both_families_may_meet_in_a_row() {
    let fields = ["client_ip", "server_ip"];
    let fields = fields.map(|name| Field::new(name, DataType::Ip, Unit::None, ""));
    let schema = schema(fields.to_vec());
    let mut w = TupleWriter::new(schema, &[FieldId(0), FieldId(1)]);
    let v6: IpAddr = "2001:db8::1".parse().expect("an address");
    let IpAddr::V6(v6) = v6 else { panic!("IPv6") };
    w.ip(
        FieldId(0),
        &Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets(),
    );
    w.ip(FieldId(1), &v6.octets());
    w.end_row();
    let (messages, _) = messages("ipfix://h", &w.finish());
    let record = &rows(&messages[0])[0].record;
    let seen = [8, 27, 12, 28].map(|id| element(record, id));
    assert_eq!(seen, [Some(0x0a00_0001), None, None, Some(u128::from(v6))]);
}
