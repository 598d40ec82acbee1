//! Rows on disk: in the store, in files, after a kill, and under retention.

use std::sync::Arc;

use server::{
    AgentCoverage, JobId, JobState, ResultDelivery, ResultTable, RowRetention, ServiceLimits,
    WindowState,
};
use tuple::{Batch, DataType, Field, FieldId, Schema, TupleWriter, Unit};

use crate::client::Server;
use crate::fleet::{TestFleet, Way};

const START: FieldId = FieldId(0);
const END: FieldId = FieldId(1);
const KEY: FieldId = FieldId(2);
const COUNT: FieldId = FieldId(3);

/// Schema of windows with counts by a key.
pub fn schema() -> Arc<Schema> {
    let fields = vec![
        Field::new(
            "window_start",
            DataType::I64,
            Unit::EpochNanoseconds,
            "start",
        ),
        Field::new("window_end", DataType::I64, Unit::EpochNanoseconds, "end"),
        Field::new("url", DataType::Text, Unit::None, "key"),
        Field::new("count", DataType::U64, Unit::None, "count"),
    ];
    Arc::new(Schema {
        name: "group-count".into(),
        version: 1,
        doc: "".into(),
        fields,
        measure: None,
        key: None,
        parts: &[],
        facts: &tuple::SchemaFacts::NONE,
    })
}

/// A window that starts at second `start`, with these rows.
pub fn window(start: i64, rows: &[(&str, u64)]) -> Batch {
    let schema = schema();
    let ids: Vec<_> = schema.ids().collect();
    let mut writer = TupleWriter::new(schema, &ids);
    for (key, count) in rows {
        writer.i64(START, start * 1_000_000_000);
        writer.i64(END, (start + 10) * 1_000_000_000);
        writer.text(KEY, key.as_bytes());
        writer.u64(COUNT, *count);
        writer.end_row();
    }
    writer.finish()
}

/// Starts a job whose rows the test publishes.
pub fn begin(server: &Server) -> JobId {
    let job = server
        .job("PARSE http PROCESS (group-count: group=url, w=10s)")
        .parse()
        .expect("a number");
    announce(server, job);
    job
}

pub fn announce(server: &Server, job: JobId) {
    let schema = schema();
    let columns = schema.ids().collect();
    let table = ResultTable {
        processor: Some("group-count".into()),
        schema,
        columns,
        keys: 1,
    };
    server.fleet.hub().open(job, &[table]).expect("noted");
    server
        .fleet
        .hub()
        .turn(job, JobState::Running, None)
        .expect("noted");
}

pub fn publish(server: &Server, job: JobId, batch: &Batch, state: WindowState) {
    let coverage = AgentCoverage::default();
    let watermark_ns = 0;
    let delivery = ResultDelivery {
        job,
        result: 0,
        batch,
        state,
        watermark_ns,
        coverage: &coverage,
    };
    server.fleet.hub().publish(&delivery).expect("kept");
}

/// All stored counts, page by page.
pub fn counts(server: &Server, job: JobId) -> Vec<u64> {
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let page = server
            .get(&format!("/api/v1/jobs/{job}/rows?limit=3000{after}"))
            .of(200)
            .json();
        let rows = page["rows"].as_array().expect("rows");
        found.extend(rows.iter().map(|row| row[3].as_u64().expect("a count")));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return found,
        }
    }
}

pub fn segments(server: &Server, job: JobId) -> Vec<std::path::PathBuf> {
    let folder = server.folder.join("history").join(job.to_string());
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut all: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    all.sort();
    all
}

/// Publishes windows with counts from 0 up.
pub fn fill(server: &Server, job: JobId, windows: u64, rows: u64) -> Vec<u64> {
    for n in 0..windows {
        let counts: Vec<_> = (0..rows).map(|row| ("/a", n * rows + row)).collect();
        publish(
            server,
            job,
            &window(n as i64 * 10, &counts),
            WindowState::Closed,
        );
    }
    (0..windows * rows).collect()
}

#[test]
fn rows_become_files_without_loss_or_duplicates() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = begin(&server);
    let all = fill(&server, job, 100, 500);
    assert!(segments(&server, job).len() >= 2);
    assert_eq!(counts(&server, job), all);
    server
        .fleet
        .hub()
        .turn(job, JobState::Ended("done".into()), None)
        .expect("noted");
    assert_eq!(counts(&server, job), all);
    // Files are complete data sets.
    let sets = recording::DataSet::open(&segments(&server, job));
    assert!(
        sets.problems.is_empty() && sets.unfinished.is_empty(),
        "{:?}",
        sets.problems
    );
    // By time: windows 20 to 29.
    let since = 200_000_000_000_i64;
    let until = 300_000_000_000_i64;
    let path = format!("/api/v1/jobs/{job}/rows?since={since}&until={until}&limit=10000");
    let page = server.get(&path).of(200).json();
    let found: Vec<_> = page["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row[3].as_u64())
        .collect();
    assert_eq!(found, (10_000..15_000).map(Some).collect::<Vec<_>>());
}

#[test]
fn after_a_kill_every_row_that_was_acknowledged_is_there_once() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = begin(&server);
    let all = fill(&server, job, 40, 500);
    publish(&server, job, &window(0, &[]), WindowState::Closed);
    // State after a kill: the current files, and an incomplete segment.
    let own = tempfile::tempdir().expect("a folder");
    copy(&server.folder, own.path());
    let orphan = own
        .path()
        .join(format!("history/{job}/0-{:012}/group-count", 19_000));
    std::fs::create_dir_all(&orphan).expect("made");
    std::fs::write(orphan.join("group-count-000001.parquet"), "half").expect("written");
    let _ = std::fs::remove_file(own.path().join("lock"));
    let again = Server::over(
        own.path(),
        TestFleet::new(Way::Note),
        ServiceLimits::default(),
    );
    assert_eq!(counts(&again, job), all);
    assert!(!orphan.exists());
    // The job continues.
    announce(&again, job);
    publish(
        &again,
        job,
        &window(9000, &[("/a", 20_000)]),
        WindowState::Closed,
    );
    assert_eq!(counts(&again, job).last(), Some(&20_000));
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target)
        } else {
            std::fs::copy(&path, target).expect("copied");
        }
    }
}

#[test]
fn readers_see_every_row_once_while_rows_move_to_files() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = begin(&server);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| fill(&server, job, 200, 500));
        while !writing.is_finished() {
            let found = counts(&server, job);
            assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>());
        }
    });
    assert_eq!(counts(&server, job).len(), 100_000);
}

#[test]
fn rows_beyond_retention_are_removed_and_counted() {
    for (retention, some_stay) in [
        (
            RowRetention {
                age_ns: 0,
                bytes: 40_000,
            },
            true,
        ),
        (
            RowRetention {
                age_ns: 1,
                bytes: 0,
            },
            false,
        ),
    ] {
        let limits = ServiceLimits {
            retention,
            ..ServiceLimits::default()
        };
        let server = Server::with(TestFleet::new(Way::Note), limits);
        let job = begin(&server);
        let all = fill(&server, job, 200, 500);
        server
            .fleet
            .hub()
            .turn(job, JobState::Ended("done".into()), None)
            .expect("noted");
        server.service.as_ref().expect("the service").look_after();
        let left = counts(&server, job);
        assert!(
            left.len() < all.len() && left == all[all.len() - left.len()..],
            "{}",
            left.len()
        );
        assert_eq!(!left.is_empty(), some_stay);
        let counters = server.get("/api/v1/counters").of(200).json();
        assert_eq!(
            counters["rows_dropped"].as_u64(),
            Some((all.len() - left.len()) as u64)
        );
        assert_eq!(segments(&server, job).is_empty(), !some_stay);
    }
}

#[test]
fn bytes_that_are_kept_are_counted_from_the_first_row_on() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = begin(&server);
    let kept = || {
        server.get("/api/v1/counters").of(200).json()["history_bytes"]
            .as_u64()
            .expect("a number")
    };
    let before = kept();
    fill(&server, job, 1, 5);
    // Few rows stay in the store, and are in no file yet.
    assert!(segments(&server, job).is_empty() && kept() > before);
}

#[test]
fn files_removed_while_read_are_not_damage() {
    let limits = ServiceLimits {
        retention: RowRetention {
            age_ns: 0,
            bytes: 40_000,
        },
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let job = begin(&server);
    std::thread::scope(|scope| {
        let server = &server;
        let writing = scope.spawn(move || fill(server, job, 200, 500));
        let retaining = scope.spawn(move || {
            while !writing.is_finished() {
                server.service.as_ref().expect("the service").look_after();
            }
        });
        while !retaining.is_finished() {
            let found = counts(server, job);
            assert!(found.is_sorted(), "rows come in their order");
        }
    });
    let counters = server.get("/api/v1/counters").of(200).json();
    assert_eq!(counters["segments_damaged"], 0, "{counters}");
    assert!(counters["rows_dropped"].as_u64() > Some(0), "{counters}");
}

#[test]
fn rows_name_missing_agents() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = begin(&server);
    let batch = window(0, &[("/a", 1)]);
    let coverage = AgentCoverage {
        missing: vec!["web-1".into(), "web-2".into()],
    };
    let delivery = ResultDelivery {
        job,
        result: 0,
        batch: &batch,
        state: WindowState::Closed,
        watermark_ns: 0,
        coverage: &coverage,
    };
    server.fleet.hub().publish(&delivery).expect("kept");
    let page = server
        .get(&format!("/api/v1/jobs/{job}/rows"))
        .of(200)
        .json();
    assert_eq!(
        page["rows"][0],
        serde_json::json!(["0", "10000000000", "/a", 1, "web-1 web-2"])
    );
}

#[test]
fn only_announced_results_are_accepted() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = begin(&server);
    let hub = server.fleet.hub();
    let other = ResultTable {
        processor: None,
        schema: schema(),
        columns: vec![COUNT],
        keys: 0,
    };
    assert!(hub.open(job, &[other]).is_err());
    let batch = window(0, &[("/a", 1)]);
    let coverage = AgentCoverage::default();
    let delivery = |job, result| ResultDelivery {
        job,
        result,
        batch: &batch,
        state: WindowState::Closed,
        watermark_ns: 0,
        coverage: &coverage,
    };
    assert!(hub.publish(&delivery(job, 1)).is_err());
    assert!(hub.publish(&delivery(JobId(99), 0)).is_err());
    hub.turn(job, JobState::Ended("done".into()), None)
        .expect("noted");
    assert!(hub.publish(&delivery(job, 0)).is_err());
    assert_eq!(counts(&server, job), Vec::<u64>::new());
}

/// Damage to a file, by its name.
pub type Damage = (&'static str, fn(&std::path::Path));

/// Damage to a file.
pub const DAMAGES: [Damage; 6] = [
    ("removed", |path| {
        std::fs::remove_file(path).expect("removed")
    }),
    ("emptied", |path| std::fs::write(path, "").expect("written")),
    ("overwritten", |path| {
        std::fs::write(path, "no Parquet file").expect("written")
    }),
    ("cut", |path| {
        let bytes = std::fs::read(path).expect("a file");
        std::fs::write(path, &bytes[..bytes.len() / 2]).expect("written");
    }),
    ("flipped", |path| {
        let mut bytes = std::fs::read(path).expect("a file");
        bytes[100] ^= 4;
        std::fs::write(path, bytes).expect("written");
    }),
    ("gone with its folder", |path| {
        let segment = path.ancestors().nth(2).expect("its segment");
        std::fs::remove_dir_all(segment).expect("removed");
    }),
];

#[test]
fn damaged_files_are_errors_and_other_rows_remain() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = begin(&server);
    let all = fill(&server, job, 100, 500);
    let of = |segment: usize| segments(&server, job).swap_remove(segment);
    let number = |path: &std::path::Path| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name");
        name.split_once('-')
            .and_then(|(_, first)| first.parse::<u64>().ok())
            .expect("a number")
    };
    for segment in [0, 1] {
        let folder = of(segment);
        let first = number(&of(segment));
        let file = folder.join("group-count/group-count-000001.parquet");
        let kept = std::fs::read(&file).expect("it exists");
        for (what, damage) in DAMAGES {
            damage(&file);
            let rows = |ask: &str| server.get(&format!("/api/v1/jobs/{job}/rows?limit=10000{ask}"));
            let after = if first == 0 {
                String::new()
            } else {
                format!("&after={}", first - 1)
            };
            let said = rows(&after).of(500).json();
            let words = said["message"].as_str().expect("words");
            let named = format!(
                "history/{job}/{}",
                folder.file_name().and_then(|n| n.to_str()).expect("a name")
            );
            assert_eq!(said["code"], "damaged", "{what}: {said}");
            assert!(
                words.contains(&named) && words.contains(&format!("rows {first} to ")),
                "{what}: {words}"
            );
            let last: u64 = words
                .split(' ')
                .nth(3)
                .and_then(|n| n.parse().ok())
                .expect("the last row");
            // Rows before the damage are readable, and the page ends there.
            let mut read = Vec::new();
            let mut more = first > 0;
            while more {
                let page = rows(
                    &read
                        .last()
                        .map(|n| format!("&after={n}"))
                        .unwrap_or_default(),
                )
                .of(200)
                .json();
                read.extend(
                    page["rows"]
                        .as_array()
                        .expect("rows")
                        .iter()
                        .map(|row| row[3].as_u64().expect("a count")),
                );
                more = (read.len() as u64) < first;
            }
            assert_eq!(read, all[..first as usize], "{what}");
            // Rows after the damage are readable.
            let page = rows(&format!("&after={last}")).of(200).json();
            assert_eq!(page["rows"][0][3].as_u64(), Some(last + 1), "{what}");
            // Other formats return the same.
            for form in ["csv", "jsonl", "arrow", "parquet"] {
                rows(&format!("{after}&format={form}")).of(500);
            }
            std::fs::create_dir_all(file.parent().expect("its folder")).expect("made");
            std::fs::write(&file, &kept).expect("written");
            assert_eq!(counts(&server, job), all, "{what}, and repaired");
        }
    }
    assert!(server.get("/api/v1/counters").of(200).json()["segments_damaged"].as_u64() > Some(0));
}
