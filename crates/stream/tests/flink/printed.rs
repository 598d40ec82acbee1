//! Generated SQL is unchanged: one golden file per dataflow. `UPDATE=1` rewrites them.

use std::path::Path;

use stream::EngineConfig;
use stream::flink_sql::{
    FlinkJobInput, FlinkSqlJob, FlinkStartOffset, FlinkStopMode, FlinkTopic, print,
};

use crate::flows;

fn job(from: FlinkJobInput) -> FlinkSqlJob {
    FlinkSqlJob {
        name: "netalytics 7".into(),
        from,
        merged: vec![
            "netalytics.merged.v1.7".into(),
            "netalytics.merged.v1.7-1".into(),
        ],
        brokers: "kafka-1:9092,kafka-2:9092".into(),
        properties: vec![("security.protocol".into(), "SSL".into())],
        group: "netalytics-7".into(),
        start: FlinkStartOffset::At(1_700_000_000_000),
        end: FlinkStopMode::Never,
        transactions: "netalytics-7".into(),
        transaction_ms: 60_000,
        checkpoint_ms: 1000,
        parallelism: Some(2),
        idle_ms: 5000,
        join_span_ms: 300_000,
    }
}

fn check(name: &str, printed: &[String]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/flink/golden")
        .join(format!("{name}.sql"));
    let printed: String = printed
        .iter()
        .map(|statement| format!("{statement};\n\n"))
        .collect();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &printed).expect("the file is written");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = printed.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert!(
        printed == expected,
        "{} differs, first: {differs:?}",
        file.display()
    );
}

fn source(topic: &str) -> FlinkTopic {
    FlinkTopic {
        topic: topic.into(),
        lateness_ms: 0,
    }
}

#[test]
fn dataflows_are_printed_as_before() {
    for (name, flow) in flows::all() {
        let tuples = vec![source("netalytics.t.v1"), source("netalytics.other.v1")];
        check(
            name,
            &print(
                &flow,
                &EngineConfig::default(),
                &job(FlinkJobInput::Tuples(tuples)),
            )
            .expect("it is printed"),
        );
    }
    let (name, flow) = flows::all().swap_remove(0);
    let cells = vec![source("netalytics.cells.v1.0011223344556677")];
    let printed = print(
        &flow,
        &EngineConfig::default(),
        &job(FlinkJobInput::Cells(cells)),
    )
    .expect("it is printed");
    check(&format!("{name}_of_cells"), &printed);
}
