//! Data sets as seen by a user: tuples read equal those written; files appear when they are complete; the files of a
//! killed writer are recovered; damage is reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use recording::{
    CaptureFacts, ColumnBound, DataSet, FileMetadata, Recorder, RecordingReplay, RecordingRotation,
    RecordingTotals, TableKind, TableRequest,
};
use tempfile::TempDir;
use tuple::{Batch, DataType, Field, FieldId, Schema, TupleWriter, Unit};

const SECOND: i64 = 1_000_000_000;

/// A column of every type and unit.
fn schema() -> Arc<Schema> {
    let fields = [
        ("id", DataType::U64, Unit::Id),
        ("ts", DataType::I64, Unit::EpochNanoseconds),
        ("client_ip", DataType::Ip, Unit::None),
        ("url", DataType::Text, Unit::None),
        ("hit", DataType::Bool, Unit::None),
        ("status", DataType::U64, Unit::None),
        ("response_time_ns", DataType::I64, Unit::Nanoseconds),
        ("share", DataType::F64, Unit::Fraction),
        ("hist", DataType::Json, Unit::None),
        ("sums", DataType::Hashes, Unit::Id),
    ];
    let fields = fields
        .map(|(name, data_type, unit)| Field::new(name, data_type, unit, ""))
        .to_vec();
    Arc::new(Schema {
        name: "t".into(),
        version: 3,
        doc: "".into(),
        fields,
        measure: None,
        key: None,
        parts: &[],
        facts: &tuple::SchemaFacts::NONE,
    })
}

type Row = (
    (Option<u64>, Option<i64>, Option<[u8; 16]>, Option<String>),
    (
        Option<bool>,
        Option<u64>,
        Option<i64>,
        Option<f64>,
        Option<String>,
    ),
    Option<Vec<u64>>,
);

fn any_row() -> impl Strategy<Value = Row> {
    let address = prop_oneof![
        any::<[u8; 16]>(),
        any::<[u8; 4]>().prop_map(|v4| std::net::Ipv4Addr::from(v4).to_ipv6_mapped().octets()),
    ];
    let text = || proptest::option::of(any::<String>());
    (
        (
            any::<Option<u64>>(),
            any::<Option<i64>>(),
            proptest::option::of(address),
            text(),
        ),
        (
            any::<Option<bool>>(),
            any::<Option<u64>>(),
            any::<Option<i64>>(),
            any::<Option<f64>>(),
            text(),
        ),
        proptest::option::of(proptest::collection::vec(
            prop_oneof![Just(0), any::<u64>()],
            0..5,
        )),
    )
}

fn batch(rows: &[Row]) -> Batch {
    let schema = schema();
    let all: Vec<FieldId> = schema.ids().collect();
    let mut w = TupleWriter::new(schema, &all);
    for ((id, ts, ip, url), (hit, status, time, share, hist), sums) in rows {
        let _ = id.map(|v| w.u64(FieldId(0), v));
        let _ = ts.map(|v| w.i64(FieldId(1), v));
        let _ = ip.map(|v| w.ip(FieldId(2), &v));
        let _ = url.as_ref().map(|v| w.text(FieldId(3), v.as_bytes()));
        let _ = hit.map(|v| w.bool(FieldId(4), v));
        let _ = status.map(|v| w.u64(FieldId(5), v));
        let _ = time.map(|v| w.i64(FieldId(6), v));
        let _ = share.map(|v| w.f64(FieldId(7), v));
        let _ = hist.as_ref().map(|v| w.text(FieldId(8), v.as_bytes()));
        let _ = sums.as_ref().map(|v| w.hashes(FieldId(9), v));
        w.end_row();
    }
    w.finish()
}

/// Rows from `from` up to but excluding `to`, numbered in `status`, one per millisecond.
fn numbered(from: u64, to: u64) -> Batch {
    let row = |n: u64| -> Row {
        let url = Some(format!("/page/{}", n % 7));
        (
            (Some(n % 5), Some(n as i64 * 1_000_000), None, url),
            (None, Some(n), Some(5), None, None),
            None,
        )
    };
    batch(&(from..to).map(row).collect::<Vec<_>>())
}

fn head() -> FileMetadata {
    FileMetadata {
        table: "t".into(),
        kind: TableKind::Tuples,
        parsers: vec![("t".into(), 3)],
        query: "PARSE t".into(),
        version: "0".into(),
        run: 7,
        sample: "all".into(),
        sample_seed: 0,
        redacted: None,
        capture: CaptureFacts::default(),
    }
}

fn recorder(folder: &Path, rotation: RecordingRotation) -> Recorder {
    let mut recorder = Recorder::create(folder, rotation).expect("a folder");
    let schema = schema();
    let all: Vec<FieldId> = schema.ids().collect();
    recorder.add_table(head(), &schema, &all);
    recorder
}

fn wanted(columns: Vec<FieldId>, bounds: Vec<ColumnBound>) -> TableRequest {
    TableRequest {
        table: "t".into(),
        schema: schema(),
        columns,
        bounds,
    }
}

fn replay(folder: &Path, wanted: TableRequest) -> RecordingReplay {
    RecordingReplay::new(&DataSet::open(&[folder.to_owned()]), &[wanted])
}

/// The numbers in `status`, in order.
fn numbers(replay: &mut RecordingReplay) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(rows) = replay.next_rows() {
        numbers.extend(rows.batch.u64(FieldId(5)).values());
    }
    numbers
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder for test files")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = fs::read_dir(folder.join("t"))
        .expect("a table")
        .map(|e| e.expect("an entry").path())
        .collect();
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tuples_round_trip(
        parts in proptest::collection::vec((proptest::collection::vec(any_row(), 0..30), 0i64..100), 0..5),
    ) {
        let folder = folder();
        let mut recorder = recorder(folder.path(), RecordingRotation::default());
        let mut watermark = i64::MIN / 2;
        let mut want = Vec::new();
        for (rows, later) in &parts {
            watermark += later;
            recorder.write(0, &batch(rows), watermark).expect("it can be written");
            want.extend(rows.iter().map(|row| (row.clone(), watermark)));
        }
        recorder.finish().expect("it can be finished");
        let mut replay = replay(folder.path(), wanted(schema().ids().collect(), vec![]));
        let mut got = 0;
        while let Some(read) = replay.next_rows() {
            let n = read.batch.rows();
            let (rows, watermarks): (Vec<Row>, Vec<i64>) = want[got..got + n].iter().cloned().unzip();
            prop_assert!(watermarks.iter().all(|ns| *ns == read.watermark_ns));
            let want = batch(&rows);
            for id in schema().ids() {
                prop_assert_eq!(read.batch.column(id), want.column(id), "{}", schema().field(id).name);
            }
            got += n;
        }
        prop_assert_eq!(got, want.len());
        prop_assert_eq!(replay.problems(), &[]);
    }
}

#[test]
fn only_matching_row_groups_are_read() {
    let folder = folder();
    let mut recorder = recorder(folder.path(), RecordingRotation::default());
    for n in 0..100 {
        recorder
            .write(0, &numbered(n * 4000, (n + 1) * 4000), n as i64)
            .expect("written");
    }
    recorder.finish().expect("finished");
    // Numbers 300,000 to 300,010: at most two of seven row groups.
    let bound = ColumnBound {
        field: FieldId(5),
        low: 300_000,
        high: 300_010,
    };
    let mut some = replay(folder.path(), wanted(vec![FieldId(5)], vec![bound]));
    let read = numbers(&mut some);
    assert!(
        read.contains(&300_000) && read.contains(&300_010) && read.len() < 140_000,
        "{}",
        read.len()
    );
    assert_eq!(some.counters().rows_skipped + read.len() as u64, 400_000);
    // Times are bounds as well; none of them matches here.
    let never = ColumnBound {
        field: FieldId(1),
        low: i128::from(i64::MAX),
        high: i128::MAX,
    };
    let mut none = replay(folder.path(), wanted(vec![FieldId(5)], vec![never]));
    assert!(numbers(&mut none).is_empty());
    assert_eq!(
        (none.counters().rows, none.counters().rows_skipped),
        (0, 400_000)
    );
}

#[test]
fn files_rotate_by_size_or_time() {
    let folder = folder();
    let rotation = RecordingRotation {
        every_ns: Some(10 * SECOND),
        bytes: 1 << 30,
    };
    let mut recorder = recorder(folder.path(), rotation);
    for second in 0..35 {
        recorder.advance(second * SECOND).expect("advanced");
        recorder
            .write(
                0,
                &numbered(second as u64 * 10, second as u64 * 10 + 10),
                second * SECOND,
            )
            .expect("written");
        assert_eq!(
            recorder.kept().files,
            second as u64 / 10,
            "complete files only"
        );
    }
    recorder.advance(40 * SECOND).expect("advanced");
    assert_eq!(recorder.kept().files, 4, "without a row");
    recorder.finish().expect("finished");
    let names: Vec<_> = files(folder.path())
        .iter()
        .map(|p| p.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "t-000001.parquet",
            "t-000002.parquet",
            "t-000003.parquet",
            "t-000004.parquet"
        ]
    );
    let mut all = replay(folder.path(), wanted(vec![FieldId(5)], vec![]));
    assert_eq!(numbers(&mut all), (0..350).collect::<Vec<_>>());
}

#[test]
fn large_files_end() {
    let folder = folder();
    let mut recorder = recorder(
        folder.path(),
        RecordingRotation {
            every_ns: None,
            bytes: 100_000,
        },
    );
    for n in 0..50 {
        recorder
            .write(0, &numbered(n * 4000, (n + 1) * 4000), n as i64)
            .expect("written");
    }
    recorder.finish().expect("finished");
    assert!(recorder.kept().files > 3, "{:?}", recorder.kept());
    let mut all = replay(folder.path(), wanted(vec![FieldId(5)], vec![]));
    assert_eq!(numbers(&mut all), (0..200_000).collect::<Vec<_>>());
    let sizes: u64 = files(folder.path())
        .iter()
        .map(|p| p.metadata().expect("a file").len())
        .sum();
    assert_eq!(recorder.kept().bytes, sizes);
}

#[test]
fn runs_are_merged_by_time() {
    let folder = folder();
    // The second run has earlier traffic, and the two overlap.
    for (run, times) in [(1, 100..200), (2, 50..150)] {
        let mut recorder =
            Recorder::create(folder.path(), RecordingRotation::default()).expect("a folder");
        recorder.add_table(
            FileMetadata { run, ..head() },
            &schema(),
            &schema().ids().collect::<Vec<_>>(),
        );
        for n in times {
            recorder
                .write(0, &numbered(n, n + 1), n as i64)
                .expect("written");
        }
        recorder.finish().expect("finished");
    }
    let mut all = replay(folder.path(), wanted(vec![FieldId(5)], vec![]));
    let mut want: Vec<u64> = (50..150).chain(100..200).collect();
    want.sort_unstable();
    assert_eq!(numbers(&mut all), want);
}

#[test]
fn a_table_without_rows_is_there() {
    let folder = folder();
    recorder(folder.path(), RecordingRotation::default())
        .finish()
        .expect("finished");
    let set = DataSet::open(&[folder.path().to_owned()]);
    assert_eq!(
        set.tables["t"]
            .heads()
            .map(|h| h.query.as_str())
            .collect::<Vec<_>>(),
        ["PARSE t"]
    );
    assert!(
        replay(folder.path(), wanted(vec![FieldId(5)], vec![]))
            .next_rows()
            .is_none()
    );
}

/// Files on disk when a writer dies at any moment: everything except the open row group is recovered.
#[test]
fn tuples_of_killed_writers_are_recovered() {
    let copy = folder();
    let folder = folder();
    let mut recorder = recorder(
        folder.path(),
        RecordingRotation {
            every_ns: None,
            bytes: 600_000,
        },
    );
    for n in 0..80 {
        recorder
            .write(0, &numbered(n * 4000, (n + 1) * 4000), n as i64)
            .expect("written");
        if n > 16 && n % 7 == 3 {
            let at = copy.path().join(n.to_string());
            fs::create_dir_all(at.join("t")).expect("a folder");
            for file in files(folder.path()) {
                fs::copy(&file, at.join("t").join(file.file_name().expect("a name")))
                    .expect("copied");
            }
            let open_rows = 65_536;
            let check = |at: &Path| {
                let mut all = replay(at, wanted(vec![FieldId(5)], vec![]));
                let read = numbers(&mut all);
                assert_eq!(all.problems(), &[]);
                assert_eq!(
                    read,
                    (0..read.len() as u64).collect::<Vec<_>>(),
                    "in order, each once"
                );
                assert!(
                    read.len() as u64 + open_rows >= (n + 1) * 4000,
                    "{n}: {}",
                    read.len()
                );
                read.len() as u64
            };
            let as_it_is = check(&at);
            // The next recorder completes the file, so that any Parquet reader can read it.
            let next = Recorder::create(&at, RecordingRotation::default()).expect("recovered");
            assert_eq!(check(&at), as_it_is);
            assert!(
                files(&at)
                    .iter()
                    .all(|p| p.extension().is_some_and(|e| e == "parquet"))
            );
            assert!(next.kept().rows_recovered <= as_it_is);
        }
    }
    // The file of a live writer is left unchanged.
    assert_eq!(
        Recorder::create(folder.path(), RecordingRotation::default())
            .expect("a folder")
            .kept(),
        RecordingTotals::default()
    );
    recorder.finish().expect("finished");
}

#[test]
fn damaged_files_are_reported_and_the_rest_is_read() {
    let folder = folder();
    let mut recorder = recorder(
        folder.path(),
        RecordingRotation {
            every_ns: Some(1),
            bytes: 1 << 30,
        },
    );
    for n in 0..3 {
        recorder.advance(n).expect("advanced");
        recorder
            .write(0, &numbered(n as u64 * 10, n as u64 * 10 + 10), n)
            .expect("written");
    }
    recorder.finish().expect("finished");
    let second = &files(folder.path())[1];
    let whole = fs::read(second).expect("read");
    for damaged in [
        vec![],
        b"PAR1".to_vec(),
        whole[..whole.len() / 2].to_vec(),
        vec![b'x'; 5000],
    ] {
        fs::write(second, damaged).expect("written");
        let mut all = replay(folder.path(), wanted(vec![FieldId(5)], vec![]));
        assert_eq!(numbers(&mut all), (0..10).chain(20..30).collect::<Vec<_>>());
        let [problem] = all.problems() else {
            panic!("{:?}", all.problems())
        };
        assert!(
            problem.to_string().starts_with(second.to_str().unwrap()),
            "{problem}"
        );
    }
}

#[test]
fn folders_without_a_recording_are_reported() {
    let folder = folder();
    let set = DataSet::open(&[folder.path().to_owned()]);
    assert!(
        set.problems[0].message.contains("no recording"),
        "{:?}",
        set.problems
    );
}
