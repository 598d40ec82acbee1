//! What a recording can answer: its sampling, losses, limits, and the bounds of its columns.

use plan::Column;
use tuple::FieldId;

use super::*;

fn compare(op: ComparisonOperator, literal: Literal) -> Predicate {
    Predicate::Compare {
        column: Column {
            input: 0,
            field: FieldId(3),
        },
        op,
        literal,
    }
}

/// Lower and upper bounds of a predicate.
fn bounds(predicate: &Predicate) -> Vec<(i128, i128)> {
    let mut found = Vec::new();
    add_bounds(predicate, &mut found);
    found.iter().map(|bound| (bound.low, bound.high)).collect()
}

#[test]
fn comparisons_with_integers_bound_a_column() {
    use ComparisonOperator::{Eq, Ge, Gt, Le, Lt, Ne};
    let of = |op| bounds(&compare(op, Literal::I64(7)));
    assert_eq!(of(Eq), [(7, 7)]);
    assert_eq!(
        (of(Lt), of(Le)),
        (vec![(i128::MIN, 6)], vec![(i128::MIN, 7)])
    );
    assert_eq!(
        (of(Gt), of(Ge)),
        (vec![(8, i128::MAX)], vec![(7, i128::MAX)])
    );
    assert_eq!(of(Ne), []);
}

#[test]
fn bounds_exceed_the_types_of_columns() {
    let greatest = compare(ComparisonOperator::Gt, Literal::U64(u64::MAX));
    assert_eq!(bounds(&greatest), [(i128::from(u64::MAX) + 1, i128::MAX)]);
    let least = compare(ComparisonOperator::Lt, Literal::I64(i64::MIN));
    assert_eq!(bounds(&least), [(i128::MIN, i128::from(i64::MIN) - 1)]);
}

/// A bound that does not follow would skip rows of the result.
#[test]
fn only_necessary_conditions_are_bounds() {
    let one = || compare(ComparisonOperator::Eq, Literal::U64(1));
    assert_eq!(
        bounds(&Predicate::And(vec![one(), Predicate::And(vec![one()])])).len(),
        2
    );
    assert_eq!(bounds(&Predicate::Or(vec![one(), one()])), []);
    assert_eq!(bounds(&Predicate::Not(Box::new(one()))), []);
    assert_eq!(
        bounds(&compare(ComparisonOperator::Eq, Literal::F64(1.0))),
        []
    );
    let computed = Predicate::Compare {
        column: Column::computed(0),
        op: ComparisonOperator::Eq,
        literal: Literal::U64(1),
    };
    assert_eq!(bounds(&computed), []);
}

fn sampled(query: &str, recorded: &[&str]) -> Result<SampleMode, String> {
    let query = query::check(query, &parsers::registry::schemas(), &()).expect("a query");
    sample(&query, recorded.iter().copied()).map_err(|error| match error {
        ReplayError::Wrong(text) => text,
        ReplayError::Unreadable(_) => "unreadable".to_owned(),
    })
}

#[test]
fn the_sampling_of_a_recording_is_that_of_its_capture() {
    assert_eq!(sampled("PARSE http", &["all"]), Ok(SampleMode::All));
    assert_eq!(
        sampled("PARSE http", &["0.25", "0.25"]),
        Ok(SampleMode::Fraction(0.25))
    );
    assert_eq!(
        sampled("PARSE http SAMPLE auto", &["auto"]),
        Ok(SampleMode::Auto)
    );
    assert_eq!(
        sampled("PARSE http SAMPLE 0.25", &["0.25"]),
        Ok(SampleMode::Fraction(0.25))
    );
}

#[test]
fn another_sampling_is_an_error() {
    let error = sampled("PARSE http SAMPLE 0.5", &["0.25"]).expect_err("another rate");
    assert!(
        error.starts_with("SAMPLE chooses flows by their packets"),
        "{error}"
    );
    let error = sampled("PARSE http", &["all", "0.25", "all"]).expect_err("two rates");
    assert_eq!(
        error,
        "parts of the recording were sampled differently: 0.25, all"
    );
    assert!(sampled("PARSE http", &[]).is_err());
}

/// As from a later version: results would be wrong without an error.
#[test]
fn an_unknown_sampling_is_an_error() {
    for recorded in [
        "adaptive",
        "",
        "NaN",
        "inf",
        "0",
        "-0.5",
        "1.5",
        "0.25 of flows",
    ] {
        let error = sampled("PARSE http", &[recorded]).expect_err(recorded);
        assert!(
            error.contains(&format!("does not know ({recorded})")),
            "{error}"
        );
    }
    assert_eq!(sampled("PARSE http", &["1"]), Ok(SampleMode::Fraction(1.0)));
}

/// Metadata of a file of a run.
fn head(run: u64, seen: u64, lost: u64, limited: Option<(i64, i64)>) -> FileMetadata {
    let mut head = FileMetadata::of("http", recording::TableKind::Tuples);
    head.run = run;
    head.capture.seen_bytes = seen;
    head.capture.unseen_bytes = lost;
    head.capture.limited = limited;
    head
}

/// Each file of a run has the counters at its end, in any order of the files.
#[test]
fn the_loss_of_several_files_and_runs_is_counted_once() {
    let mut heads = vec![
        head(1, 100, 1, None),
        head(1, 300, 7, None),
        head(1, 200, 5, None),
        head(2, 1000, 0, None),
    ];
    let count = |heads: &[FileMetadata]| {
        let all = loss(heads.iter());
        (all.seen, all.lost)
    };
    assert_eq!(count(&heads), (1300, 7));
    heads.reverse();
    assert_eq!(count(&heads), (1300, 7));
    assert_eq!(count(&[]), (0, 0));
}

#[test]
fn limits_of_all_files_are_one_period() {
    let period = |heads: &[FileMetadata]| limited(heads.iter()).map(|all| (all.from_ns, all.to_ns));
    let heads = [
        head(1, 0, 0, Some((50, 60))),
        head(1, 0, 0, None),
        head(2, 0, 0, Some((10, 20))),
        head(2, 0, 0, Some((15, 55))),
    ];
    assert_eq!(period(&heads), Some((10, 60)));
    assert_eq!(period(&heads[1..2]), None);
    assert_eq!(
        period(&[head(1, 0, 0, Some((i64::MIN, i64::MAX)))]),
        Some((i64::MIN, i64::MAX))
    );
}

#[test]
fn recordings_and_captures_are_not_mixed() {
    assert!(matches!(asked(&[]), Ok(false)));
    assert!(matches!(
        asked(&[PathBuf::from("/no/such/capture.pcap")]),
        Ok(false)
    ));
    let folder = tempfile::tempdir().expect("a folder");
    let recording = || folder.path().to_path_buf();
    assert!(matches!(asked(&[recording(), recording()]), Ok(true)));
    let both = asked(&[recording(), PathBuf::from("/no/such/capture.pcap")]);
    assert!(matches!(both, Err(ReplayError::Wrong(_))));
}

/// A folder with files that are not recordings.
#[test]
fn a_folder_without_tables_names_its_problems() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing");
    let other = folder.path().join("notes.parquet");
    std::fs::write(&other, b"PAR1 but not more").expect("a file");
    for path in [missing, folder.path().to_path_buf()] {
        let query =
            query::check("PARSE http", &parsers::registry::schemas(), &()).expect("a query");
        let opened = open(query, &PlanOptions::default(), &[path], &mut |_| ());
        let Err(ReplayError::Unreadable(problems)) = opened else {
            panic!("unreadable")
        };
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
