//! Encoding of reports: round trips, and untrusted bytes.

use proptest::prelude::*;
use stream::EngineOutput;

use super::*;
use crate::collector::{Collector, IgnoreCoverage};
use crate::fixture::{FixtureQuery, FixtureTuple, QueryFixture};
use crate::lanes::LaneId;

const TUPLES: [(u8, i64, u64); 4] = [(b'a', 3, 1), (b'b', 5, 2), (b'a', 12, 1), (b'c', 17, 3)];

/// A report with every element.
fn report(fixture: &QueryFixture) -> WorkerReport {
    let tuples = TUPLES.map(|(name, time, flow)| FixtureTuple { name, time, flow });
    let packets = LossCount { seen: 100, lost: 1 };
    let lost = LossStretch {
        from_ns: i64::MIN,
        to_ns: 17,
        packets,
        bytes: LossCount { seen: 5, lost: 7 },
    };
    let mut worker = fixture.lane();
    let loss = LossCount {
        seen: 1 << 40,
        lost: 3,
    };
    let open = worker.peek();
    WorkerReport {
        loss,
        lost: Some(lost),
        limited: None,
        open,
        ..worker.report(20, &tuples)
    }
}

/// Rows that a collector emits for a report.
fn rows(fixture: &QueryFixture, report: WorkerReport) -> Vec<String> {
    let mut collector = Collector::of_lanes(fixture.engines(), 1 << 20);
    let mut out = Vec::<EngineOutput>::new();
    collector.take(LaneId(0), report, &mut IgnoreCoverage(&mut out));
    collector.end(&mut IgnoreCoverage(&mut out));
    out.iter()
        .map(|output| format!("{:?} {:?}", output.pipeline, output.batch))
        .collect()
}

#[test]
fn reports_round_trip() {
    for query in [FixtureQuery::Raw, FixtureQuery::Windows] {
        let fixture = QueryFixture::new(query);
        let said = report(&fixture);
        let heard = WorkerReport::decode(&said.encode(), &fixture.engines()).expect("a report");
        assert_eq!(
            (
                heard.watermark,
                heard.loss,
                heard.lost,
                heard.open.is_some()
            ),
            (said.watermark, said.loss, said.lost, said.open.is_some())
        );
        assert!(heard.part.bytes > 0 && heard.part.rows.len() == said.part.rows.len());
        let expected = rows(&fixture, said);
        assert_eq!(rows(&fixture, heard), expected);
        assert!(!expected.is_empty());
    }
}

#[test]
fn times_of_limits_are_decoded_and_mark_rows() {
    let fixture = QueryFixture::new(FixtureQuery::Windows);
    let plain = report(&fixture).encode();
    let limited = Some(stream::LimitedStretch {
        from_ns: 4,
        to_ns: 11,
        times: 3,
    });
    let said = WorkerReport {
        limited,
        ..report(&fixture)
    }
    .encode();
    assert_eq!((plain[0], said[0]), (PLAIN, LIMITED));
    assert_eq!(
        head(&said).map(|head| head.brings),
        Ok(ReportContent::Windows)
    );
    let heard = WorkerReport::decode(&said, &fixture.engines()).expect("a report");
    assert_eq!(heard.limited, limited);
    let is_marked = |report| {
        let mut collector = Collector::of_lanes(fixture.engines(), 1 << 20);
        let mut out = Vec::<EngineOutput>::new();
        collector.take(LaneId(0), report, &mut IgnoreCoverage(&mut out));
        collector.end(&mut IgnoreCoverage(&mut out));
        let marks = |output: &EngineOutput| {
            let id = output.batch.schema().find("approximate").expect("a column");
            let marks = output.batch.bool(id);
            (0..output.batch.rows())
                .map(|row| marks.value(row))
                .collect::<Vec<_>>()
        };
        out.iter().flat_map(marks).collect::<Vec<_>>()
    };
    // Windows of ten: the first two are affected.
    let unmarked = is_marked(WorkerReport::decode(&plain, &fixture.engines()).expect("a report"));
    assert!(!unmarked.is_empty() && unmarked.iter().all(|mark| !mark));
    assert!(is_marked(heard).iter().all(|mark| *mark));
    for cut in 0..said.len() {
        assert!(
            WorkerReport::decode(&said[..cut], &fixture.engines()).is_err(),
            "{cut}"
        );
    }
}

#[test]
fn large_reports_are_packed() {
    let fixture = QueryFixture::new(FixtureQuery::Raw);
    let tuples: Vec<_> = (0..5000)
        .map(|n| FixtureTuple {
            name: b'a',
            time: n % 7,
            flow: 1,
        })
        .collect();
    let said = fixture.lane().report(20, &tuples);
    let bytes = said.encode();
    assert!(bytes.len() < said.part.bytes / 10, "{} bytes", bytes.len());
    let heard = WorkerReport::decode(&bytes, &fixture.engines()).expect("a report");
    assert_eq!(rows(&fixture, heard), rows(&fixture, said));
}

/// Error for these bytes.
fn refused(bytes: &[u8], fixture: &QueryFixture) -> String {
    match WorkerReport::decode(bytes, &fixture.engines()) {
        Ok(_) => String::new(),
        Err(why) => why.to_string(),
    }
}

#[test]
fn malformed_reports_are_rejected() {
    let raw = QueryFixture::new(FixtureQuery::Raw);
    let windows = QueryFixture::new(FixtureQuery::Windows);
    let plain = [&[PLAIN, 0][..], &report(&raw).plain()].concat();
    for cut in 0..plain.len() {
        assert!(!refused(&plain[..cut], &raw).is_empty(), "{cut}");
    }
    for (bytes, expected) in [
        (&[3, 0][..], "report of version 3"),
        (&[1, 9], "report with invalid compression"),
        (&[1, 1, 5], "report with invalid compression"),
        (
            &[plain.as_slice(), &[0]].concat(),
            "report with invalid trailing bytes",
        ),
    ] {
        assert_eq!(refused(bytes, &raw), expected);
    }
    let of_rows = WorkerReport {
        open: None,
        ..report(&raw)
    }
    .encode();
    let expected = "report with rows that cannot be read: results come as windows";
    assert_eq!(refused(&of_rows, &windows), expected);
    let of_windows = report(&windows).encode();
    assert!(
        refused(&of_windows, &raw).contains("another dataflow"),
        "{}",
        refused(&of_windows, &raw)
    );
    let bomb = vec![0; REPORT_BYTES_MAX + 1];
    let bomb = [
        &[PLAIN, 1][..],
        &zstd::bulk::compress(&bomb, 19).expect("it is packed"),
    ]
    .concat();
    assert_eq!(refused(&bomb, &raw), "report that is too large");
}

#[test]
fn rows_of_other_columns_are_refused() {
    let fixture = QueryFixture::new(FixtureQuery::Raw);
    let plain = report(&fixture).plain();
    let at = plain
        .windows(4)
        .position(|w| w == b"name")
        .expect("a column is called so");
    let mut other = [&[PLAIN, 0][..], &plain].concat();
    other[at + 2] = b'x';
    assert_eq!(
        refused(&other, &fixture),
        "report with rows that cannot be read: a column xame that is not part of the query"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20000))]
    /// Any changed bytes are rejected or decode to rows, without panic.
    #[test]
    fn nothing_panics(
        is_raw in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let fixture = QueryFixture::new(if is_raw { FixtureQuery::Raw } else { FixtureQuery::Windows });
        let mut plain = [&[PLAIN, 0][..], &report(&fixture).plain()].concat();
        for (at, to) in changes {
            let at = at.index(plain.len());
            plain[at] = to;
        }
        if let Ok(report) = WorkerReport::decode(&plain, &fixture.engines()) {
            rows(&fixture, report);
        }
    }
}

#[test]
fn the_loss_of_a_report_is_counted_from_a_later_begin() {
    for query in [FixtureQuery::Raw, FixtureQuery::Windows] {
        let fixture = QueryFixture::new(query);
        for loss in [LossCount::default(), LossCount { seen: 40, lost: 2 }] {
            let said = report(&fixture);
            let expected = LossCount {
                seen: said.loss.seen - loss.seen,
                lost: said.loss.lost - loss.lost,
            };
            let bytes = since(&said.encode(), loss).expect("a report");
            let heard = WorkerReport::decode(&bytes, &fixture.engines()).expect("a report");
            assert_eq!((heard.loss, heard.lost), (expected, said.lost));
            assert_eq!(rows(&fixture, heard), rows(&fixture, said));
        }
    }
    assert_eq!(
        since(&[PLAIN, 0], LossCount::default()),
        Err(ReportError::Short)
    );
}
