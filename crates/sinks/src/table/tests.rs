//! Tables as golden text.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tuple::{Batch, DataType, Field, FieldId, Schema, TupleWriter, Unit};

use super::{TableSink, TableStyle, WindowPace};
use crate::samples::{self, SampleRow};
use crate::{ResultHead, Sink};

mod windows;

fn print(
    style: TableStyle,
    heads: &[ResultHead],
    batches: &[(usize, Batch)],
) -> (String, Vec<String>) {
    let mut out = Vec::new();
    let mut sink = TableSink::new(&mut out, heads, style);
    for (result, batch) in batches {
        sink.write(*result, batch)
            .expect("writing to memory cannot fail");
    }
    sink.finish().expect("writing to memory cannot fail");
    let notes = sink.notes();
    drop(sink);
    (String::from_utf8(out).expect("a table is text"), notes)
}

fn check(style: TableStyle, heads: &[ResultHead], batches: &[(usize, Batch)], expected: &str) {
    let (text, notes) = print(style, heads, batches);
    assert_eq!(text.trim_end(), expected.trim_matches('\n'), "\n{text}");
    assert_eq!(notes, [""; 0]);
}

#[test]
fn every_type_has_its_unit() {
    let batch = samples::batch(&[
        SampleRow::sample(),
        SampleRow {
            url: Some("/\x1b[31m\n".into()),
            avg: Some(4.56e9),
            ..SampleRow::sample()
        },
        SampleRow::default(),
    ]);
    check(TableStyle::default(), &[samples::head(None, &batch)], &[(0, batch)], "
id                ts                           client_ip  url          hit   status  response_time      avg  hist
────────────────  ───────────────────────────  ─────────  ───────────  ────  ──────  ─────────────  ───────  ─────────
00000000000000ff  2026-11-21T19:59:17.229334Z  10.0.0.1   /a?\"b\"       true     200          -5 ns  1.50 ns  [[1.5,2]]
00000000000000ff  2026-11-21T19:59:17.229334Z  10.0.0.1   /\\x1b[31m\\n  true     200          -5 ns   4.56 s  [[1.5,2]]
-                 -                            -          -            -          -              -        -  -
");
}

#[test]
fn sections_of_a_report_are_blocks_under_one_title() {
    let data = DataType::U64;
    let time = Unit::EpochNanoseconds;
    let fields = [
        Field::new("window_start", DataType::I64, time, ""),
        Field::new("window_end", DataType::I64, time, ""),
        Field::new("section", DataType::Text, Unit::None, ""),
        Field::new("key", DataType::Text, Unit::None, ""),
        Field::new("count", data, Unit::None, ""),
        Field::new("bytes", data, Unit::Bytes, ""),
    ];
    let schema = Schema {
        name: "report".into(),
        version: 1,
        doc: "".into(),
        fields: fields.to_vec(),
        measure: None,
        key: None,
        parts: &[],
        facts: &tuple::SchemaFacts::NONE,
    };
    let schema = Arc::new(schema);
    let ids: Vec<FieldId> = schema.ids().collect();
    let mut w = TupleWriter::new(schema, &ids);
    let mut row = |start: i64, section: &str, key: &str, count, bytes: Option<u64>| {
        w.i64(ids[0], (1_795_291_150 + start) * 1_000_000_000);
        w.i64(ids[1], (1_795_291_160 + start) * 1_000_000_000);
        w.text(ids[2], section.as_bytes());
        w.text(ids[3], key.as_bytes());
        w.u64(ids[4], count);
        bytes.iter().for_each(|b| w.u64(ids[5], *b));
        w.end_row();
    };
    row(0, "operations", "READ", 12, Some(4096));
    row(0, "operations", "GETATTR", 3, None);
    row(0, "misaligned", "read", 2, None);
    row(10, "misaligned", "read", 4, None);
    let batch = w.finish();
    check(
        TableStyle::default(),
        &[samples::head(Some("report"), &batch)],
        &[(0, batch)],
        "
report  2026-11-21T19:59:10Z – 2026-11-21T19:59:20Z
operations  count   bytes
──────────  ─────  ──────
READ           12  4.1 kB
GETATTR         3       -

misaligned  count
──────────  ─────
read            2

report  2026-11-21T19:59:20Z – 2026-11-21T19:59:30Z
misaligned  count
──────────  ─────
read            4
",
    );
}

#[test]
fn windows_follow_each_other() {
    let mut w = samples::result_writer();
    for (start, url, count) in [(0, "/a", 3), (0, "/basket", 12), (10, "/a", 1)] {
        samples::push_result(
            &mut w,
            1_795_291_150_000_000_000 + start * 1_000_000_000,
            url,
            count,
            None,
        );
    }
    let batch = w.finish();
    check(
        TableStyle::default(),
        &[samples::head(Some("top-k"), &batch)],
        &[(0, batch)],
        "
top-k  windows of 10 s, 2026-11-21 UTC
window    url      count
────────  ───────  ─────
19:59:10  /a           3
          /basket     12
19:59:20  /a           1
",
    );
}

#[test]
fn several_results_have_titles_and_doubt_is_shown() {
    let sure = samples::result(&[("/a", 3)]);
    let mut w = samples::result_writer();
    samples::push_result(&mut w, 1_795_291_150_000_000_000, "/b", 5, Some(1.0));
    let doubtful = w.finish();
    let heads = [
        samples::head(Some("a"), &sure),
        samples::head(Some("b"), &doubtful),
    ];
    check(
        TableStyle::default(),
        &heads,
        &[(0, sure), (1, doubtful)],
        "
a  windows of 10 s, 2026-11-21 UTC
window    url  count
────────  ───  ─────
19:59:10  /a       3

b  windows of 10 s, 2026-11-21 UTC
window    url  count  approximate  error_bound
────────  ───  ─────  ───────────  ───────────
19:59:10  /b       5  true                   1
",
    );
}

#[test]
fn tuples_stream_under_one_header() {
    let batch = |url: &str| {
        let mut w = samples::writer(samples::schema(&[
            ("url", DataType::Text, Unit::None),
            ("response_time_ns", DataType::I64, Unit::Nanoseconds),
        ]));
        w.text(FieldId(0), url.as_bytes());
        w.i64(FieldId(1), 1_500_000);
        w.end_row();
        w.finish()
    };
    let heads = [samples::head(None, &batch(""))];
    let batches = [(0, batch("/a")), (0, batch("/the second"))];
    let style = || TableStyle {
        width: Some(26),
        ..TableStyle::default()
    };
    let header = "
url          response_time
───────────  ─────────────
/a                 1.50 ms
/the second        1.50 ms
";
    check(style(), &heads, &batches, header);
    // Enough rows to determine the widths; later ones must fit, unless the width is unlimited.
    let many: Vec<_> = (0..64)
        .map(|_| (0, batch("/a")))
        .chain([(0, batch("/the second"))])
        .collect();
    let end = |style| {
        print(style, &heads, &many)
            .0
            .lines()
            .skip(65)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(end(style()), "/a         1.50 ms\n/t…        1.50 ms");
    assert_eq!(
        end(TableStyle::default()),
        "/a         1.50 ms\n/the second        1.50 ms"
    );
    let mut sink = TableSink::new(Vec::new(), &heads, style());
    sink.write(0, &batch("/a"))
        .and_then(|()| sink.flush())
        .expect("writing to memory cannot fail");
    assert_eq!(
        String::from_utf8_lossy(&sink.out).lines().count(),
        3,
        "flushed means written"
    );
}

#[test]
fn names_stand_for_addresses_and_are_made_harmless() {
    let batch = samples::batch(&[SampleRow::sample()]);
    let ip = IpAddr::from([10, 0, 0, 1]);
    for (names, expected) in [
        (Some(HashMap::from([(ip, "shop".to_owned())])), " shop "),
        (
            Some(HashMap::from([(ip, "\x1b[0m".to_owned())])),
            " \\x1b[0m ",
        ),
        (None, " 10.0.0.1 "),
    ] {
        let style = TableStyle {
            names,
            ..TableStyle::default()
        };
        let (text, _) = print(style, &[samples::head(None, &batch)], &[(0, batch.clone())]);
        assert!(text.contains(expected), "{text}");
    }
    let mut sink = TableSink::new(
        Vec::new(),
        &[samples::head(None, &batch)],
        TableStyle {
            names: Some(HashMap::new()),
            ..TableStyle::default()
        },
    );
    sink.learn_name(ip, "learned");
    sink.write(0, &batch)
        .and_then(|()| sink.finish())
        .expect("writing to memory cannot fail");
    assert!(String::from_utf8_lossy(&sink.out).contains(" learned "));
}

#[test]
fn a_narrow_terminal_cuts_text_then_leaves_columns_out() {
    let long = "/".repeat(300);
    let batch = samples::batch(&[SampleRow {
        url: Some(long),
        ..SampleRow::sample()
    }]);
    for width in [40, 60, 80, 100, 120, 200] {
        let style = TableStyle {
            width: Some(width),
            ..TableStyle::default()
        };
        let (text, notes) = print(style, &[samples::head(None, &batch)], &[(0, batch.clone())]);
        let widest = text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
        assert!(widest <= width, "{width}:\n{text}");
        assert_eq!(notes.is_empty(), width >= 120, "{notes:?}\n{text}");
        assert!(text.contains('…') || width < 80, "{text}");
    }
    let (text, _) = print(
        TableStyle::default(),
        &[samples::head(None, &batch)],
        &[(0, batch)],
    );
    assert!(
        text.lines().all(|l| l.chars().count() < 400),
        "a bound where no width is known"
    );
}

#[test]
fn a_result_keeps_its_columns() {
    let batch = samples::result(&[(&"/".repeat(100), 7)]);
    let style = TableStyle {
        width: Some(20),
        ..TableStyle::default()
    };
    let (text, notes) = print(
        style,
        &[samples::head(Some("top-k"), &batch)],
        &[(0, batch)],
    );
    assert!(text.contains("19:59:10  ///////…////      7"), "{text}");
    assert!(notes.is_empty());
}

#[test]
fn intervals_stand_with_their_value() {
    let mut w = samples::writer(samples::schema(&[
        ("url", DataType::Text, Unit::None),
        ("count", DataType::U64, Unit::None),
        ("count_low", DataType::F64, Unit::None),
        ("count_high", DataType::F64, Unit::None),
        ("avg_ns", DataType::F64, Unit::Nanoseconds),
        ("avg_ns_low", DataType::F64, Unit::Nanoseconds),
        ("avg_ns_high", DataType::F64, Unit::Nanoseconds),
    ]));
    w.text(FieldId(0), b"/a");
    w.u64(FieldId(1), 100);
    w.f64(FieldId(2), 90.0);
    w.f64(FieldId(3), 112.0);
    w.f64(FieldId(4), 1_500_000.0);
    w.end_row();
    let batch = w.finish();
    check(
        TableStyle::default(),
        &[samples::head(Some("x"), &batch)],
        &[(0, batch)],
        "
url           count      avg
───  ──────────────  ───────
/a   100 (90 – 112)  1.50 ms
",
    );
}

/// Primary columns are first, endpoints last; columns are omitted from the right.
#[test]
fn a_parsers_own_fields_come_before_the_ends() {
    const FACTS: tuple::SchemaFacts = tuple::SchemaFacts {
        first: &["path", "status"],
        ..tuple::SchemaFacts::NONE
    };
    let own = [
        Field::new("method", DataType::Text, Unit::None, ""),
        Field::new("status", DataType::U64, Unit::None, ""),
        Field::new("path", DataType::Text, Unit::None, ""),
    ];
    let schema = Schema {
        facts: &FACTS,
        ..Schema::of_parser("t", 1, "", &own, None, None)
    };
    let schema = Arc::new(schema);
    let ids: Vec<FieldId> = schema.ids().collect();
    let mut writer = TupleWriter::new(schema.clone(), &ids);
    let id = |name: &str| schema.find(name).expect("a field");
    writer.i64(tuple::common::TS, 0);
    writer.u64(tuple::common::SERVER_PORT, 80);
    writer.text(id("method"), b"GET");
    writer.u64(id("status"), 200);
    writer.text(id("path"), "/".repeat(40).as_bytes());
    writer.end_row();
    let batch = writer.finish();
    let header = |width| {
        let style = TableStyle {
            width: Some(width),
            ..TableStyle::default()
        };
        let (text, _) = print(style, &[samples::head(None, &batch)], &[(0, batch.clone())]);
        text.lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(header(40), ["path", "status"]);
    assert_eq!(header(50), ["path", "status", "method"]);
    assert_eq!(header(20), ["path", "status"]);
    assert_eq!(header(400)[..4], ["path", "status", "method", "id"]);
}
