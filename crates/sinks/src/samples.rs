//! Batches for this crate's tests: rows with a column of every type, and a windowed result.

use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use tuple::{Batch, DataType, Field, FieldId, Schema, TupleWriter, Unit};

use crate::ResultHead;

/// A row with a column of every type.
#[derive(Clone, Debug, Default)]
pub struct SampleRow {
    pub id: Option<u64>,
    pub ts: Option<i64>,
    pub client_ip: Option<IpAddr>,
    pub url: Option<String>,
    pub hit: Option<bool>,
    pub status: Option<u64>,
    pub response_time: Option<i64>,
    pub avg: Option<f64>,
    pub hist: Option<String>,
}

impl SampleRow {
    pub fn sample() -> SampleRow {
        SampleRow {
            id: Some(255),
            ts: Some(1_795_291_157_229_334_000),
            client_ip: Some(IpAddr::from([10, 0, 0, 1])),
            url: Some("/a?\"b\"".into()),
            hit: Some(true),
            status: Some(200),
            response_time: Some(-5),
            avg: Some(1.5),
            hist: Some("[[1.5,2]]".into()),
        }
    }
}

pub fn any_row() -> impl Strategy<Value = SampleRow> {
    let url = proptest::option::of(
        proptest::collection::vec(any::<char>(), 0..20).prop_map(String::from_iter),
    );
    let ip = proptest::option::of(any::<[u8; 16]>().prop_map(|b| crate::cells::ip(&b)));
    let rest = (
        any::<Option<u64>>(),
        any::<Option<i64>>(),
        any::<Option<u64>>(),
        any::<Option<i64>>(),
        any::<Option<f64>>(),
    );
    (url, ip, rest).prop_map(
        |(url, client_ip, (id, ts, status, response_time, avg))| SampleRow {
            id,
            ts,
            client_ip,
            url,
            hit: Some(true),
            status,
            response_time,
            avg,
            hist: None,
        },
    )
}

/// A schema with these fields, named `t`.
pub fn schema(fields: &[(&'static str, DataType, Unit)]) -> Arc<Schema> {
    let fields = fields
        .iter()
        .map(|(name, data_type, unit)| Field::new(name, *data_type, *unit, ""))
        .collect();
    Arc::new(Schema {
        name: "t".into(),
        version: 1,
        doc: "".into(),
        fields,
        measure: None,
        key: None,
        parts: &[],
        facts: &tuple::SchemaFacts::NONE,
    })
}

pub fn writer(schema: Arc<Schema>) -> TupleWriter {
    let all: Vec<FieldId> = schema.ids().collect();
    TupleWriter::new(schema, &all)
}

pub fn head(processor: Option<&str>, batch: &Batch) -> ResultHead {
    let columns = crate::cells::names(batch);
    let slide_ns = columns
        .iter()
        .any(|name| name == "window_start")
        .then_some(10_000_000_000);
    let keys = usize::from(columns.iter().any(|name| name == "url"));
    ResultHead {
        processor: processor.map(Into::into),
        columns,
        keys,
        slide_ns,
        ..ResultHead::default()
    }
}

pub fn batch(rows: &[SampleRow]) -> Batch {
    let mut w = writer(schema(&[
        ("id", DataType::U64, Unit::Id),
        ("ts", DataType::I64, Unit::EpochNanoseconds),
        ("client_ip", DataType::Ip, Unit::None),
        ("url", DataType::Text, Unit::None),
        ("hit", DataType::Bool, Unit::None),
        ("status", DataType::U64, Unit::None),
        ("response_time_ns", DataType::I64, Unit::Nanoseconds),
        ("avg_ns", DataType::F64, Unit::Nanoseconds),
        ("hist", DataType::Json, Unit::Nanoseconds),
    ]));
    for row in rows {
        set(&mut w, row);
        w.end_row();
    }
    w.finish()
}

fn set(w: &mut TupleWriter, row: &SampleRow) {
    let _ = row.id.map(|v| w.u64(FieldId(0), v));
    let _ = row.ts.map(|v| w.i64(FieldId(1), v));
    let octets = |ip| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let _ = row.client_ip.map(|v| w.ip(FieldId(2), &octets(v)));
    let _ = row.url.as_ref().map(|v| w.text(FieldId(3), v.as_bytes()));
    let _ = row.hit.map(|v| w.bool(FieldId(4), v));
    let _ = row.status.map(|v| w.u64(FieldId(5), v));
    let _ = row.response_time.map(|v| w.i64(FieldId(6), v));
    let _ = row.avg.map(|v| w.f64(FieldId(7), v));
    let _ = row.hist.as_ref().map(|v| w.text(FieldId(8), v.as_bytes()));
}

/// A result of one window.
pub fn result(rows: &[(&str, u64)]) -> Batch {
    let mut w = result_writer();
    for (url, count) in rows {
        push_result(&mut w, 1_795_291_150_000_000_000, url, *count, None);
    }
    w.finish()
}

pub fn result_writer() -> TupleWriter {
    writer(schema(&[
        ("window_start", DataType::I64, Unit::EpochNanoseconds),
        ("window_end", DataType::I64, Unit::EpochNanoseconds),
        ("url", DataType::Text, Unit::None),
        ("count", DataType::U64, Unit::None),
        ("approximate", DataType::Bool, Unit::None),
        ("error_bound", DataType::F64, Unit::None),
    ]))
}

pub fn push_result(
    w: &mut TupleWriter,
    start: i64,
    url: &str,
    count: u64,
    error_bound: Option<f64>,
) {
    w.i64(FieldId(0), start);
    w.i64(FieldId(1), start + 10_000_000_000);
    w.text(FieldId(2), url.as_bytes());
    w.u64(FieldId(3), count);
    w.bool(FieldId(4), error_bound.is_some());
    if let Some(bound) = error_bound {
        w.f64(FieldId(5), bound);
    }
    w.end_row();
}
