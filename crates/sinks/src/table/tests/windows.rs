//! Windows: a row per group, gaps, dates, zones, sparklines, and open windows, on terminals of 80 and 200 columns.

use jiff::tz::TimeZone;

use super::*;
use crate::DisplayZone;

const SECOND: i64 = 1_000_000_000;
/// 2026-11-21T23:59:50Z.
const START: i64 = 1_795_305_590 * SECOND;

/// A row of a window of ten seconds.
struct WindowRow(i64, &'static str, u64, f64);

fn rows(rows: &[WindowRow]) -> Batch {
    let columns = [
        ("window_start", DataType::I64, Unit::EpochNanoseconds),
        ("window_end", DataType::I64, Unit::EpochNanoseconds),
        ("url", DataType::Text, Unit::None),
        ("count", DataType::U64, Unit::None),
        ("min_ns", DataType::F64, Unit::Nanoseconds),
        ("avg_ns", DataType::F64, Unit::Nanoseconds),
        ("stddev_ns", DataType::F64, Unit::Nanoseconds),
        ("p50_ns", DataType::F64, Unit::Nanoseconds),
        ("p95_ns", DataType::F64, Unit::Nanoseconds),
        ("p99_ns", DataType::F64, Unit::Nanoseconds),
    ];
    let mut w = samples::writer(samples::schema(&columns));
    for WindowRow(window, url, count, avg) in rows {
        w.i64(FieldId(0), START + 10 * SECOND * window);
        w.i64(FieldId(1), START + 10 * SECOND * (window + 1));
        w.text(FieldId(2), url.as_bytes());
        w.u64(FieldId(3), *count);
        for (field, factor) in [(4, 0.5), (5, 1.0), (6, 0.1), (7, 0.9), (8, 1.9), (9, 2.5)] {
            w.f64(FieldId(field), *avg * factor);
        }
        w.end_row();
    }
    w.finish()
}

fn sample() -> Batch {
    let mut all = Vec::new();
    for window in [0, 1, 2, 5, 6, 20] {
        all.push(WindowRow(
            window,
            "/",
            40 + (window * 37 % 60) as u64,
            1.5e6 + 2e5 * window as f64,
        ));
        if window != 2 {
            all.push(WindowRow(
                window,
                "/products/shoes/winter/boots/reviews/latest",
                3,
                30e6,
            ));
            all.push(WindowRow(
                window,
                "/products/shoes/summer/sandals/reviews/latest",
                2,
                40e6 - 1e6 * window as f64,
            ));
        }
    }
    rows(&all)
}

fn check_at(style: TableStyle, batches: &[Batch], expected: &str) -> Vec<String> {
    let heads = [samples::head(Some("diff-group"), &batches[0])];
    let batches: Vec<(usize, Batch)> = batches.iter().map(|batch| (0, batch.clone())).collect();
    let (text, notes) = print(style.clone(), &heads, &batches);
    let widest = text
        .lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0);
    assert!(style.width.is_none_or(|width| widest <= width), "{text}");
    assert_eq!(text.trim_end(), expected.trim_matches('\n'));
    notes
}

#[test]
fn eighty_columns() {
    let style = TableStyle {
        width: Some(80),
        ..TableStyle::default()
    };
    let notes = check_at(
        style,
        &[sample()],
        "
diff-group  windows of 10 s, 2026-11-21 UTC
window    url                 count      min      avg      p50      p95      p99
────────  ──────────────────  ─────  ───────  ───────  ───────  ───────  ───────
23:59:50  /                      40   750 µs  1.50 ms  1.35 ms  2.85 ms  3.75 ms
          /products/s…latest      3  15.0 ms  30.0 ms  27.0 ms  57.0 ms  75.0 ms
          /products…2…latest      2  20.0 ms  40.0 ms  36.0 ms  76.0 ms   100 ms
2026-11-22 UTC
00:00:00  /                      77   850 µs  1.70 ms  1.53 ms  3.23 ms  4.25 ms
          /products/s…latest      3  15.0 ms  30.0 ms  27.0 ms  57.0 ms  75.0 ms
          /products…2…latest      2  19.5 ms  39.0 ms  35.1 ms  74.1 ms  97.5 ms
00:00:10  /                      54   950 µs  1.90 ms  1.71 ms  3.61 ms  4.75 ms
00:00:20  — no tuples —
00:00:30  — no tuples —
00:00:40  /                      45  1.25 ms  2.50 ms  2.25 ms  4.75 ms  6.25 ms
          /products/s…latest      3  15.0 ms  30.0 ms  27.0 ms  57.0 ms  75.0 ms
          /products…2…latest      2  17.5 ms  35.0 ms  31.5 ms  66.5 ms  87.5 ms
00:00:50  /                      82  1.35 ms  2.70 ms  2.43 ms  5.13 ms  6.75 ms
          /products/s…latest      3  15.0 ms  30.0 ms  27.0 ms  57.0 ms  75.0 ms
          /products…2…latest      2  17.0 ms  34.0 ms  30.6 ms  64.6 ms  85.0 ms
00:01:00  — no tuples in 13 windows —
00:03:10  /                      60  2.75 ms  5.50 ms  4.95 ms  10.4 ms  13.8 ms
          /products/s…latest      3  15.0 ms  30.0 ms  27.0 ms  57.0 ms  75.0 ms
          /products…2…latest      2  10.0 ms  20.0 ms  18.0 ms  38.0 ms  50.0 ms

diff-group  21 windows, 23:59:50 – 2026-11-22 00:03:20, 2 a bar: the largest
url                                       count
────────────────────────────────────────  ───────────────────
/                                         █▆▅█      ▆ 45 – 82
/products/shoes/winter/b…/reviews/latest  █ ██      █ 3
/products/shoes/summer/s…/reviews/latest  █ ██      █ 2
",
    );
    assert_eq!(
        notes,
        ["columns that did not fit: stddev (all on a wider terminal, with --format jsonl or csv)"]
    );
}

#[test]
fn two_hundred_columns() {
    let style = TableStyle {
        width: Some(200),
        ..TableStyle::default()
    };
    let notes = check_at(style, &[sample()], "
diff-group  windows of 10 s, 2026-11-21 UTC
window    url                                            count      min      avg   stddev      p50      p95      p99
────────  ─────────────────────────────────────────────  ─────  ───────  ───────  ───────  ───────  ───────  ───────
23:59:50  /                                                 40   750 µs  1.50 ms   150 µs  1.35 ms  2.85 ms  3.75 ms
          /products/shoes/winter/boots/reviews/latest        3  15.0 ms  30.0 ms  3.00 ms  27.0 ms  57.0 ms  75.0 ms
          /products/shoes/summer/sandals/reviews/latest      2  20.0 ms  40.0 ms  4.00 ms  36.0 ms  76.0 ms   100 ms
2026-11-22 UTC
00:00:00  /                                                 77   850 µs  1.70 ms   170 µs  1.53 ms  3.23 ms  4.25 ms
          /products/shoes/winter/boots/reviews/latest        3  15.0 ms  30.0 ms  3.00 ms  27.0 ms  57.0 ms  75.0 ms
          /products/shoes/summer/sandals/reviews/latest      2  19.5 ms  39.0 ms  3.90 ms  35.1 ms  74.1 ms  97.5 ms
00:00:10  /                                                 54   950 µs  1.90 ms   190 µs  1.71 ms  3.61 ms  4.75 ms
00:00:20  — no tuples —
00:00:30  — no tuples —
00:00:40  /                                                 45  1.25 ms  2.50 ms   250 µs  2.25 ms  4.75 ms  6.25 ms
          /products/shoes/winter/boots/reviews/latest        3  15.0 ms  30.0 ms  3.00 ms  27.0 ms  57.0 ms  75.0 ms
          /products/shoes/summer/sandals/reviews/latest      2  17.5 ms  35.0 ms  3.50 ms  31.5 ms  66.5 ms  87.5 ms
00:00:50  /                                                 82  1.35 ms  2.70 ms   270 µs  2.43 ms  5.13 ms  6.75 ms
          /products/shoes/winter/boots/reviews/latest        3  15.0 ms  30.0 ms  3.00 ms  27.0 ms  57.0 ms  75.0 ms
          /products/shoes/summer/sandals/reviews/latest      2  17.0 ms  34.0 ms  3.40 ms  30.6 ms  64.6 ms  85.0 ms
00:01:00  — no tuples in 13 windows —
00:03:10  /                                                 60  2.75 ms  5.50 ms   550 µs  4.95 ms  10.4 ms  13.8 ms
          /products/shoes/winter/boots/reviews/latest        3  15.0 ms  30.0 ms  3.00 ms  27.0 ms  57.0 ms  75.0 ms
          /products/shoes/summer/sandals/reviews/latest      2  10.0 ms  20.0 ms  2.00 ms  18.0 ms  38.0 ms  50.0 ms

diff-group  21 windows, 23:59:50 – 2026-11-22 00:03:20, 1 a bar
url                                       count                          avg                                      p95                                      p99
────────────────────────────────────────  ─────────────────────────────  ───────────────────────────────────────  ───────────────────────────────────────  ───────────────────────────────────────
/                                         ▄█▆  ▅█             ▆ 40 – 82  ▃▃▃  ▄▄             █ 1.50 ms – 5.50 ms  ▃▃▃  ▄▄             █ 2.85 ms – 10.4 ms  ▃▃▃  ▄▄             █ 3.75 ms – 13.8 ms
/products/shoes/winter/b…/reviews/latest  ██   ██             █ 3        ██   ██             █ 30.0 ms            ██   ██             █ 57.0 ms            ██   ██             █ 75.0 ms
/products/shoes/summer/s…/reviews/latest  ██   ██             █ 2        ██   ▇▇             ▄ 20.0 ms – 40.0 ms  ██   ▇▇             ▄ 38.0 ms – 76.0 ms  ██   ▇▇             ▄ 50.0 ms – 100 ms
");
    assert_eq!(notes, [""; 0]);
}

#[test]
fn windows_in_order_of_arrival_in_another_zone() {
    let zone = DisplayZone::new(TimeZone::get("Europe/Berlin").expect("the data base is built in"));
    let style = TableStyle {
        width: Some(80),
        zone,
        pace: WindowPace::AtOnce,
        ..TableStyle::default()
    };
    let batches = [
        rows(&[WindowRow(0, "/", 9, 1.5e6)]),
        rows(&[WindowRow(1, "/a/rather/long/path", 1_234_567, 999e6)]),
        rows(&[WindowRow(2, "/", 8, 1.5e6)]),
    ];
    check_at(
        style,
        &batches,
        "
diff-group  windows of 10 s, 2026-11-22 Europe/Berlin (+01:00)
window    url             count      min      avg      p50      p95      p99
────────  ────────────  ───────  ───────  ───────  ───────  ───────  ───────
00:59:50  /                   9   750 µs  1.50 ms  1.35 ms  2.85 ms  3.75 ms
01:00:00  /a/rath…path  1234567   500 ms   999 ms   899 ms   1.90 s   2.50 s
01:00:10  /                   8   750 µs  1.50 ms  1.35 ms  2.85 ms  3.75 ms

diff-group  3 windows, 00:59:50 – 01:00:20, 1 a bar
url                  count        avg          p95          p99
───────────────────  ───────────  ───────────  ───────────  ───────────
/a/rather/long/path   █  1234567   █  999 ms    █  1.90 s    █  2.50 s
/                    █ █ 8 – 9    █ █ 1.50 ms  █ █ 2.85 ms  █ █ 3.75 ms
",
    );
}

#[test]
fn a_window_of_which_no_row_was_chosen_may_have_had_tuples() {
    let batch = rows(&[WindowRow(0, "/", 9, 1.5e6), WindowRow(2, "/", 9, 1.5e6)]);
    let head = ResultHead {
        empty: crate::EmptyReason::NoneChosen,
        ..samples::head(Some("x"), &batch)
    };
    let (text, _) = print(TableStyle::default(), &[head], &[(0, batch)]);
    assert!(text.contains("\n00:00:00  — no rows —\n"), "{text}");
}

#[test]
fn many_windows_share_bars() {
    let style = || TableStyle {
        width: Some(60),
        ..TableStyle::default()
    };
    let all: Vec<WindowRow> = (0..300)
        .map(|window| WindowRow(window, "/", (window % 50) as u64, 1e6))
        .collect();
    let heads = [samples::head(Some("x"), &rows(&all))];
    let (text, _) = print(style(), &heads, &[(0, rows(&all))]);
    let last: Vec<&str> = text.lines().rev().take(4).collect();
    let expected = "
x  300 windows, 23:59:50 – 2026-11-2…, 12 a bar: the largest
url  count
───  ─────────────────────────────────
/    ▂▄▆██▄▆██▄▆██▃▅▇█▃▅▇█▃▅▇█ 11 – 49
";
    assert_eq!(
        last.into_iter().rev().collect::<Vec<_>>().join("\n"),
        expected.trim_matches('\n')
    );
}

#[test]
fn open_windows_are_drawn_and_erased() {
    let batch = rows(&[WindowRow(0, "/", 9, 1.5e6)]);
    let style = TableStyle {
        width: Some(80),
        height: Some(8),
        pace: WindowPace::AtOnce,
        ..TableStyle::default()
    };
    let mut sink = TableSink::new(Vec::new(), &[samples::head(Some("x"), &batch)], style);
    let draw = |sink: &mut TableSink<Vec<u8>>, n: u64| {
        let of = |i| {
            WindowRow(
                1,
                ["/a", "/b", "/c", "/d", "/e", "/f"][i as usize],
                n,
                1.5e6,
            )
        };
        sink.show_open(&[(0, rows(&(0..n).map(of).collect::<Vec<_>>()))])
            .expect("writing to memory cannot fail");
    };
    let all = (|| {
        draw(&mut sink, 1);
        sink.write(0, &batch)?;
        draw(&mut sink, 2);
        draw(&mut sink, 6);
        sink.write(0, &rows(&[WindowRow(1, "/a", 9, 1.5e6)]))?;
        sink.finish()
    })();
    all.expect("writing to memory cannot fail");
    let text = String::from_utf8_lossy(&sink.out).replace('\x1b', "ESC");
    assert_eq!(
        text.trim_end(),
        "
── x  00:00:00 – 00:00:10, still open: so far ──
window    url             count      min      avg      p50      p95      p99
────────  ────────────  ───────  ───────  ───────  ───────  ───────  ───────
00:00:00  /a                  1   750 µs  1.50 ms  1.35 ms  2.85 ms  3.75 ms
ESC[4FESC[Jx  windows of 10 s, 2026-11-21 UTC
window    url             count      min      avg      p50      p95      p99
────────  ────────────  ───────  ───────  ───────  ───────  ───────  ───────
23:59:50  /                   9   750 µs  1.50 ms  1.35 ms  2.85 ms  3.75 ms
── x  00:00:00 – 00:00:10, still open: so far ──
00:00:00  /a                  2   750 µs  1.50 ms  1.35 ms  2.85 ms  3.75 ms
          /b                  2   750 µs  1.50 ms  1.35 ms  2.85 ms  3.75 ms
ESC[3FESC[J── x  00:00:00 – 00:00:10, still open: so far ──
00:00:00  /a                  6   750 µs  1.50 ms  1.35 ms  2.85 ms  3.75 ms
          /b                  6   750 µs  1.50 ms  1.35 ms  2.85 ms  3.75 ms
          /c                  6   750 µs  1.50 ms  1.35 ms  2.85 ms  3.75 ms
… and 3 more lines
ESC[5FESC[J2026-11-22 UTC
00:00:00  /a                  9   750 µs  1.50 ms  1.35 ms  2.85 ms  3.75 ms
"
        .trim_matches('\n')
    );
}
