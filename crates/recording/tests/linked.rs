//! Tuples with linked tables: tuples read equal those written, for any set of tables that a query reads and row groups
//! that it skips; a table with missing rows affects only the tuples that they belong to.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use recording::{
    CaptureFacts, ColumnBound, DataSet, FileMetadata, Recorder, RecordingReplay, RecordingRotation,
    TableKind, TableRequest,
};
use tempfile::TempDir;
use tuple::{Batch, DataType, Field, FieldId, PartContent, Schema, TablePart, TupleWriter, Unit};

const N: FieldId = FieldId(0);
const TEXT: FieldId = FieldId(1);
const OFFSET: FieldId = FieldId(2);
const LIST: FieldId = FieldId(3);
const ALL: [FieldId; 4] = [N, TEXT, OFFSET, LIST];

const PARTS: &[TablePart] = &[
    TablePart {
        name: "first",
        holds: PartContent::Fields(&[N]),
    },
    TablePart {
        name: "rest",
        holds: PartContent::Rest,
    },
    TablePart {
        name: "blocks",
        holds: PartContent::Blocks {
            list: LIST,
            start: OFFSET,
            block_bytes: 512,
        },
    },
];

fn schema() -> Arc<Schema> {
    let field = |name, data_type| Field::new(name, data_type, Unit::None, "");
    let fields = vec![
        field("n", DataType::U64),
        field("text", DataType::Text),
        field("offset", DataType::U64),
        field("list", DataType::Hashes),
    ];
    Arc::new(Schema {
        name: "t".into(),
        version: 1,
        doc: "".into(),
        fields,
        measure: None,
        key: None,
        parts: PARTS,
        facts: &tuple::SchemaFacts {
            added: &["text"],
            ..tuple::SchemaFacts::NONE
        },
    })
}

/// A row; the list has checksums, `None` for a block that was not captured completely.
type Row = (u64, Option<String>, Option<u64>, Option<Vec<Option<u64>>>);

fn batch(rows: &[Row]) -> Batch {
    let mut w = TupleWriter::new(schema(), &ALL);
    for (n, text, offset, list) in rows {
        w.u64(N, *n);
        let _ = text.as_ref().map(|text| w.text(TEXT, text.as_bytes()));
        let _ = offset.map(|offset| w.u64(OFFSET, offset));
        let sums =
            |list: &Vec<Option<u64>>| list.iter().map(|sum| sum.unwrap_or(0)).collect::<Vec<_>>();
        let _ = list.as_ref().map(|list| w.hashes(LIST, &sums(list)));
        w.end_row();
    }
    w.finish()
}

fn numbered(range: std::ops::Range<u64>) -> Batch {
    let row = |n: u64| -> Row {
        let list = (!n.is_multiple_of(3)).then(|| (0..n % 5).map(|i| Some(n * 10 + i)).collect());
        (n, Some(format!("text {}", n / 1000)), Some(n * 512), list)
    };
    batch(&range.map(row).collect::<Vec<_>>())
}

fn recorder(folder: &Path, run: u64, rotation: RecordingRotation) -> Recorder {
    recorder_of(folder, run, rotation, &ALL)
}

fn recorder_of(
    folder: &Path,
    run: u64,
    rotation: RecordingRotation,
    columns: &[FieldId],
) -> Recorder {
    let mut recorder = Recorder::create(folder, rotation).expect("a folder");
    let head = FileMetadata {
        table: "t".into(),
        kind: TableKind::Tuples,
        parsers: vec![("t".into(), 1)],
        query: "PARSE t".into(),
        version: "0".into(),
        run,
        sample: "all".into(),
        sample_seed: 0,
        redacted: None,
        capture: CaptureFacts::default(),
    };
    recorder.add_table(head, &schema(), columns);
    recorder
}

fn replay(folder: &Path, columns: &[FieldId], bounds: Vec<ColumnBound>) -> RecordingReplay {
    let wanted = TableRequest {
        table: "t".into(),
        schema: schema(),
        columns: columns.to_vec(),
        bounds,
    };
    RecordingReplay::new(&DataSet::open(&[folder.to_owned()]), &[wanted])
}

fn numbers(replay: &mut RecordingReplay) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(rows) = replay.next_rows() {
        numbers.extend(rows.batch.u64(N).values());
    }
    numbers
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder for test files")
}

fn any_row() -> impl Strategy<Value = Row> {
    let list = proptest::collection::vec(any::<Option<u64>>(), 0..20);
    (
        any::<u64>(),
        any::<Option<String>>(),
        any::<Option<u64>>(),
        proptest::option::of(list),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn linked_tuples_round_trip(
        parts in proptest::collection::vec((proptest::collection::vec(any_row(), 0..30), 0i64..9), 0..6),
        columns in proptest::sample::subsequence(ALL.to_vec(), 1..=4),
    ) {
        let folder = folder();
        let rotation = RecordingRotation { every_ns: Some(10), ..RecordingRotation::default() };
        let mut recorder = recorder(folder.path(), 0xfeed_f00d_dead_beef, rotation);
        let mut watermark = 0;
        let mut want = Vec::new();
        for (rows, later) in &parts {
            watermark += later;
            recorder.advance(watermark).expect("advanced");
            recorder.write(0, &batch(rows), watermark).expect("written");
            want.extend(rows.iter().map(|row| (row.clone(), watermark)));
        }
        recorder.finish().expect("finished");
        prop_assert_eq!(recorder.kept().rows, want.len() as u64);
        let mut replay = replay(folder.path(), &columns, vec![]);
        let mut got = 0;
        while let Some(read) = replay.next_rows() {
            let n = read.batch.rows();
            let (rows, watermarks): (Vec<Row>, Vec<i64>) = want[got..got + n].iter().cloned().unzip();
            prop_assert!(watermarks.iter().all(|ns| *ns == read.watermark_ns));
            let want = batch(&rows);
            for id in ALL {
                let expected = want.column(id).filter(|_| columns.contains(&id));
                prop_assert_eq!(read.batch.column(id), expected, "{}", schema().field(id).name);
            }
            got += n;
        }
        prop_assert_eq!(replay.problems(), &[]);
        prop_assert_eq!(got, want.len());
        prop_assert_eq!(replay.counters().rows, want.len() as u64);
    }
}

/// Two runs in one folder with the same numbers in `n`, each with its own tuples.
#[test]
fn row_groups_are_left_out_in_all_tables() {
    let folder = folder();
    for run in [1, 2] {
        let mut recorder = recorder(folder.path(), run, RecordingRotation::default());
        for n in 0..60 {
            recorder
                .write(0, &numbered(n * 5000..(n + 1) * 5000), n as i64)
                .expect("written");
        }
        recorder.finish().expect("finished");
    }
    let bounds = vec![
        ColumnBound {
            field: N,
            low: 70_000,
            high: 280_000,
        },
        ColumnBound {
            field: OFFSET,
            low: 512 * 200_000,
            high: 512 * 200_010,
        },
    ];
    let mut some = replay(folder.path(), &ALL, bounds);
    let mut seen = 0;
    while let Some(rows) = some.next_rows() {
        let first = rows.batch.u64(N).value(0);
        let want = numbered(first..first + rows.batch.rows() as u64);
        for id in ALL {
            assert_eq!(rows.batch.column(id), want.column(id));
        }
        seen += rows
            .batch
            .u64(N)
            .values()
            .iter()
            .filter(|n| (200_000..=200_010).contains(*n))
            .count();
    }
    assert_eq!(seen, 22, "of both runs");
    let counters = some.counters();
    assert!(
        counters.rows < 300_000 && counters.rows_skipped > 300_000,
        "{counters:?}"
    );
}

#[test]
fn tuples_missing_in_one_table_are_omitted() {
    let folder = folder();
    let mut recorder = recorder(
        folder.path(),
        3,
        RecordingRotation {
            every_ns: Some(1),
            ..RecordingRotation::default()
        },
    );
    for n in 0..3 {
        recorder.advance(n).expect("advanced");
        recorder
            .write(0, &numbered(n as u64 * 10..n as u64 * 10 + 10), n)
            .expect("written");
    }
    recorder.finish().expect("finished");
    let path = |table: &str, n: u32| {
        folder
            .path()
            .join(format!("{table}/{table}-00000{n}.parquet"))
    };
    // With a damaged file of blocks, the tuples are present without their lists.
    let whole = fs::read(path("blocks", 2)).expect("read");
    fs::write(path("blocks", 2), b"PAR1 and more").expect("written");
    let mut all = replay(folder.path(), &ALL, vec![]);
    let mut lists = Vec::new();
    while let Some(rows) = all.next_rows() {
        lists.extend(
            rows.batch
                .hashes(LIST)
                .iter()
                .map(|list| list.map(<[u8]>::to_vec)),
        );
    }
    assert_eq!((lists.len(), all.problems().len()), (30, 1));
    let want = numbered(0..30);
    for (i, want) in want.hashes(LIST).iter().enumerate() {
        let is_lost = (10..20).contains(&i) && want.is_some_and(|list| !list.is_empty());
        assert_eq!(lists[i].as_deref(), want.filter(|_| !is_lost), "{i}");
    }
    // With a damaged file that has one row per tuple, its tuples are missing.
    fs::write(path("blocks", 2), whole).expect("written");
    fs::remove_file(path("rest", 2)).expect("removed");
    let kept: Vec<u64> = (0..10).chain(20..30).collect();
    assert_eq!(numbers(&mut replay(folder.path(), &ALL, vec![])), kept);
    // A query that does not read that table is not affected.
    assert_eq!(
        numbers(&mut replay(folder.path(), &[N], vec![])),
        (0..30).collect::<Vec<_>>()
    );
}

/// Files on disk when a writer dies at any moment: the tuples of completed row groups are recovered with all their
/// parts.
#[test]
fn linked_tuples_of_killed_writers_are_recovered() {
    let copy = folder();
    let folder = folder();
    let mut recorder = recorder(folder.path(), 4, RecordingRotation::default());
    for n in 0..40 {
        recorder
            .write(0, &numbered(n * 4000..(n + 1) * 4000), n as i64)
            .expect("written");
        if n % 13 == 12 {
            for table in ["first", "rest", "blocks"] {
                fs::create_dir_all(copy.path().join(table)).expect("a folder");
                for file in fs::read_dir(folder.path().join(table)).expect("a table") {
                    let file = file.expect("an entry");
                    fs::copy(file.path(), copy.path().join(table).join(file.file_name()))
                        .expect("copied");
                }
            }
            let mut all = replay(copy.path(), &ALL, vec![]);
            let mut read = 0;
            while let Some(rows) = all.next_rows() {
                let want = numbered(read..read + rows.batch.rows() as u64);
                assert!(
                    ALL.iter()
                        .all(|id| rows.batch.column(*id) == want.column(*id))
                );
                read += rows.batch.rows() as u64;
            }
            assert_eq!(all.problems(), &[]);
            assert!(read + 68_000 >= (n + 1) * 4000, "{n}: {read}");
        }
    }
}

/// Column positions in a linked table differ from those in the tuples.
#[test]
fn columns_that_were_added_are_null_in_older_recordings_and_others_are_missing() {
    let folder = folder();
    let mut recorder = recorder_of(folder.path(), 1, RecordingRotation::default(), &[N, LIST]);
    recorder.write(0, &numbered(0..10), 0).expect("written");
    recorder.finish().expect("finished");
    let mut older = replay(folder.path(), &[N, TEXT], vec![]);
    let rows = older.next_rows().expect("rows");
    assert_eq!(
        (
            rows.batch.rows(),
            rows.batch.text(TEXT).iter().flatten().count()
        ),
        (10, 0)
    );
    assert_eq!(older.problems(), &[]);
    let mut without = replay(folder.path(), &[N, OFFSET], vec![]);
    assert!(without.next_rows().is_none());
    let problem = &without.problems()[0].message;
    assert!(
        problem.contains("the column offset was not recorded"),
        "{problem}"
    );
}
