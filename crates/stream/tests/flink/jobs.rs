//! Complete jobs: tuples or cells pass through Kafka and Flink, and the merged result is finished here. The rows equal
//! those of one engine over the same tuples. `NETALYTICS_KAFKA` is the address of the brokers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use plan::Dataflow;
use stream::cells::{CellOrigin, CellTable, CellType};
use stream::flink_sql::{
    FlinkJobInput, FlinkSqlJob, FlinkStartOffset, FlinkStopMode, FlinkTopic, print, tuple_columns,
};
use stream::{Engine, EngineConfig};
use tuple::{DataType, Schema};

use crate::flows;
use crate::gateway::Gateway;
use crate::random::Random;
use crate::topic::Topic;
use crate::tuples::cells::{self, Value};
use crate::tuples::{Plain, Row, are_alike, batch_with, bring_rows, cell, rows_of};

/// Reduces values whose squares are summed to the range that Flink supports.
const SHIFT: u32 = 20;

fn random_rows(random: &mut Random, n: usize) -> Vec<Row> {
    let start = random.one(&[-3_000_000_000_i64, 1_700_000_000_250_000_000]);
    (0..n)
        .map(|_| Row {
            id: random.one(&[1, 2, 3, 4, u64::MAX]),
            ts_end: start + random.below(7_000_000_000) as i64,
            ip: random.chance(90).then(|| random.ip().octets()),
            path: random.chance(90).then(|| random.text()),
            n: random
                .chance(85)
                .then(|| random.u64() >> random.one(&[SHIFT, SHIFT, 40, 61])),
            delta: random
                .chance(85)
                .then(|| random.i64() >> random.one(&[SHIFT, 40, 62])),
            ratio: random
                .chance(85)
                .then(|| random.one(&[0.0, -0.0, 1.5, -2.25, 0.1, 1e-9, 3e-10, 1e30, 7.0])),
            ok: random.chance(85).then(|| random.bool()),
            rate: random.chance(85).then(|| random.one(&[1.0, 0.5, 0.1])),
        })
        .collect()
}

/// Encodes tuples as records, in the order of a parser's schema.
fn records(schema: &Schema, rows: &[Row], wm_ns: i64) -> Vec<Vec<Value>> {
    let long = |v: Option<i64>| v.map_or(Value::Null, Value::Long);
    let record = |row: &Row| {
        let mut record = vec![Value::Long(wm_ns), Value::Long((row.id % 32) as i64)];
        record.extend(schema.fields.iter().map(|field| match &*field.name {
            "id" => Value::Long(row.id as i64),
            "ts_end" => Value::Long(row.ts_end),
            "client_ip" => row.ip.map_or(Value::Null, |ip| Value::Bytes(ip.to_vec())),
            "path" => row.path.clone().map_or(Value::Null, Value::Text),
            "n_ns" => long(row.n.map(|n| n as i64)),
            "delta" => long(row.delta),
            "ratio" => row.ratio.map_or(Value::Null, Value::Double),
            "ok" => row.ok.map_or(Value::Null, Value::Bool),
            "sample_rate" => row.rate.map_or(Value::Null, Value::Double),
            _ => Value::Null,
        }));
        record
    };
    let mut all: Vec<Vec<Value>> = rows.iter().map(record).collect();
    // A heartbeat record.
    let mut beat = vec![Value::Null; schema.fields.len() + 2];
    beat[0] = Value::Long(wm_ns);
    all.insert(rows.len() / 2, beat);
    all
}

fn unique(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_micros();
    format!("{what}-{now}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn job(kafka: &str, from: FlinkJobInput, merged: Vec<String>) -> FlinkSqlJob {
    FlinkSqlJob {
        name: unique("netalytics-test"),
        from,
        merged,
        brokers: kafka.into(),
        properties: Vec::new(),
        group: unique("group"),
        start: FlinkStartOffset::Earliest,
        end: FlinkStopMode::Bounded,
        transactions: unique("transactions"),
        transaction_ms: 60_000,
        checkpoint_ms: 500,
        parallelism: None,
        idle_ms: 5000,
        join_span_ms: 10_000,
    }
}

/// Publishes rows to a topic and returns its location.
fn publish(
    gateway: &Gateway,
    kafka: &str,
    columns: Vec<(String, CellType)>,
    rows: &[Vec<Value>],
) -> FlinkTopic {
    let topic = Topic {
        name: unique("topic"),
        columns,
    };
    topic.create(gateway, kafka);
    topic.fill(gateway, rows);
    FlinkTopic {
        topic: topic.name,
        lateness_ms: 0,
    }
}

fn publish_tuples(gateway: &Gateway, kafka: &str, schema: &Schema, rows: &[Row]) -> FlinkTopic {
    let long = |name: &str| (name.to_owned(), CellType::Long);
    let mut columns = vec![long("wm_ns"), long("replicate")];
    columns.extend(
        schema
            .fields
            .iter()
            .map(|f| (f.name.to_string(), CellType::of(f.data_type))),
    );
    let first = rows.iter().map(|row| row.ts_end).min().unwrap_or(0);
    publish(gateway, kafka, columns, &records(schema, rows, first))
}

/// The result of a Flink job, completed by this engine.
fn through_flink(
    gateway: &Gateway,
    kafka: &str,
    flow: &Dataflow,
    from: FlinkJobInput,
    origin: CellOrigin,
    engine: &mut Engine,
) {
    let merged: Vec<String> = flow.pipelines.iter().map(|_| unique("merged")).collect();
    let job = job(kafka, from, merged.clone());
    for statement in print(flow, &EngineConfig::default(), &job).expect("it can be printed") {
        gateway
            .rows(&statement)
            .unwrap_or_else(|e| panic!("{e}\n{statement}"));
    }
    for (place, topic) in merged.into_iter().enumerate() {
        let table = engine.cell_table(place).clone();
        let columns: Vec<_> = table
            .columns_of(origin)
            .map(|c| (c.name.clone(), c.data))
            .collect();
        let topic = Topic {
            name: topic,
            columns,
        };
        topic.create(gateway, kafka);
        let rows: Vec<Vec<Value>> = topic.read(gateway);
        let rows = all_columns(&table, &topic, rows);
        let (marks, rows): (Vec<_>, Vec<_>) = rows
            .into_iter()
            .partition(|row| row[cells::place(&table, "mark")] != Value::Null);
        check_marks(&table, &marks, &rows);
        bring_rows(&cells::batch(&table, origin, &rows), place, engine);
    }
}

/// Rows with all columns of the table, as [`cells::batch`] expects them.
fn all_columns(table: &CellTable, topic: &Topic, rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let place = |name: &String| topic.columns.iter().position(|(n, _)| n == name);
    let places: Vec<Option<usize>> = table.columns.iter().map(|c| place(&c.name)).collect();
    let row = |row: Vec<Value>| {
        places
            .iter()
            .map(|p| p.map_or(Value::Null, |p| row[p].clone()))
            .collect()
    };
    rows.into_iter().map(row).collect()
}

/// Every pane has exactly one mark, with its number of rows.
fn check_marks(table: &CellTable, marks: &[Vec<Value>], rows: &[Vec<Value>]) {
    let time = cells::place(table, "et_ms");
    let mark = cells::place(table, "mark");
    let mut times: Vec<&Value> = rows.iter().map(|row| &row[time]).collect();
    times.sort();
    let mut counted: Vec<(&Value, i64)> = times
        .chunk_by(|a, b| a == b)
        .map(|run| (run[0], run.len() as i64))
        .collect();
    for row in marks {
        let Value::Long(n) = row[mark] else {
            panic!("marks are numbers")
        };
        let at = counted.iter().position(|one| *one == (&row[time], n));
        counted.remove(
            at.unwrap_or_else(|| panic!("no {n} rows at {:?}, but {counted:?}", row[time])),
        );
    }
    assert!(counted.is_empty(), "without a mark: {counted:?}");
}

/// A session per job, because all jobs use the same table names.
fn session(url: &str) -> Gateway {
    let gateway = Gateway::new(url);
    gateway
        .rows("SET 'table.dml-sync' = 'true'")
        .expect("a setting");
    gateway
}

fn check(url: &str, kafka: &str, name: &str, flow: &Dataflow, seed: u64) {
    let gateway = &session(url);
    let mut random = Random(seed);
    let mut inputs: Vec<Vec<Row>> = flow
        .inputs
        .iter()
        .map(|_| random_rows(&mut random, 120))
        .collect();
    if name.starts_with("large") {
        inputs.iter_mut().flatten().for_each(|row| {
            row.n = row.n.map(|_| random.u64());
            row.delta = row.delta.map(|_| random.i64());
        });
    }
    let mut here = Engine::new(flow, EngineConfig::default());
    let mut expected = Vec::new();
    let batches = flow.inputs.iter().zip(&inputs).enumerate();
    for (place, (input, rows)) in batches {
        here.push(
            place,
            &batch_with(&input.schema, &input.columns, rows),
            &mut expected,
        );
    }
    here.finish(&mut expected);
    let sources = flow.inputs.iter().zip(&inputs);
    let sources = sources
        .map(|(input, rows)| publish_tuples(gateway, kafka, &input.schema, rows))
        .collect();
    if flow.pipelines.is_empty() {
        return check_tuples(
            gateway,
            kafka,
            name,
            flow,
            FlinkJobInput::Tuples(sources),
            &expected,
        );
    }
    let mut there = Engine::new(flow, EngineConfig::default());
    through_flink(
        gateway,
        kafka,
        flow,
        FlinkJobInput::Tuples(sources),
        CellOrigin::OfTuples,
        &mut there,
    );
    let mut out = Vec::new();
    there.finish(&mut out);
    compare(name, flow, &out, &expected);
    if flow.inputs.len() == 1 {
        let gateway = &session(url);
        let mut there = Engine::new(flow, EngineConfig::default());
        through_flink(
            gateway,
            kafka,
            flow,
            cells_of(gateway, kafka, flow, &inputs[0]),
            CellOrigin::Merged,
            &mut there,
        );
        let mut out = Vec::new();
        there.finish(&mut out);
        compare(&format!("{name} of cells"), flow, &out, &expected);
    }
}

/// Tuples equal those of this engine, and every second has a mark.
fn check_tuples(
    gateway: &Gateway,
    kafka: &str,
    name: &str,
    flow: &Dataflow,
    from: FlinkJobInput,
    expected: &[stream::EngineOutput],
) {
    let job = job(kafka, from, vec![unique("merged")]);
    for statement in print(flow, &EngineConfig::default(), &job).expect("it can be printed") {
        gateway
            .rows(&statement)
            .unwrap_or_else(|e| panic!("{e}\n{statement}"));
    }
    let columns = tuple_columns(flow);
    let topic = Topic {
        name: job.merged[0].clone(),
        columns: columns.iter().map(|c| (c.name.clone(), c.data)).collect(),
    };
    topic.create(gateway, kafka);
    let last = columns.len() - 1;
    let (marks, rows): (Vec<_>, Vec<_>) = topic
        .read(gateway)
        .into_iter()
        .partition(|row| row[last] != Value::Null);
    let marked: i64 = marks
        .iter()
        .map(|row| if let Value::Long(n) = row[last] { n } else { 0 })
        .sum();
    assert_eq!(marked, rows.len() as i64, "{name}: tuples that are marked");
    let mut theirs: Vec<String> = rows
        .iter()
        .map(|row| format!("{:?}", &row[1..last]))
        .collect();
    let fields = || {
        columns[1..last]
            .iter()
            .map(|c| c.field.expect("a field of tuples"))
    };
    let plain = |value: Plain| match value {
        Plain::Null => Value::Null,
        Plain::Bool(v) => Value::Bool(v),
        Plain::U64(v) => Value::Long(v as i64),
        Plain::I64(v) => Value::Long(v),
        Plain::F64(v) => Value::Double(v),
        Plain::Text(v) => Value::Text(v),
        Plain::Ip(v) => Value::Bytes(v),
    };
    let mut ours: Vec<String> = Vec::new();
    for batch in expected.iter().map(|output| &output.batch) {
        for row in 0..batch.rows() {
            let row: Vec<Value> = fields().map(|id| plain(cell(batch, id, row))).collect();
            ours.push(format!("{row:?}"));
        }
    }
    ours.sort();
    theirs.sort();
    assert!(
        !ours.is_empty() && ours == theirs,
        "{name}: {:#?}",
        ours.iter().zip(&theirs).find(|(a, b)| a != b)
    );
    eprintln!("{name}: {} tuples are the same", ours.len());
}

/// The cells of three workers.
fn cells_of(gateway: &Gateway, kafka: &str, flow: &Dataflow, rows: &[Row]) -> FlinkJobInput {
    let input = &flow.inputs[0];
    let mut all = vec![Vec::new(); flow.pipelines.len()];
    let mut tables = Vec::new();
    for part in 0..3 {
        let mine: Vec<Row> = rows
            .iter()
            .filter(|row| row.id % 3 == part)
            .cloned()
            .collect();
        let mut worker = Engine::worker(
            flow,
            EngineConfig {
                seed: part + 1,
                ..EngineConfig::default()
            },
        );
        worker.push(
            0,
            &batch_with(&input.schema, &input.columns, &mine),
            &mut Vec::new(),
        );
        let partial = worker.detach_all();
        for (place, batches) in worker
            .cells(&partial, 1_800_000_000_000_000_000)
            .iter()
            .enumerate()
        {
            tables.push(worker.cell_table(place).clone());
            all[place].extend(cells::rows(&tables[place], batches));
        }
    }
    let sources = all.iter().zip(&tables).map(|(rows, table)| {
        let sent: Vec<_> = table
            .columns_of(CellOrigin::Sent)
            .map(|c| (c.name.clone(), c.data))
            .collect();
        let places: Vec<usize> = sent
            .iter()
            .map(|(name, _)| cells::place(table, name))
            .collect();
        let mut rows: Vec<Vec<Value>> = rows
            .iter()
            .map(|row| places.iter().map(|p| row[*p].clone()).collect())
            .collect();
        // All rows arrive at once: no promise holds before the last.
        rows.iter_mut()
            .for_each(|row| row[0] = Value::Long(-1_000_000_000));
        cells::shuffle(&mut rows, 7);
        publish(gateway, kafka, sent, &rows)
    });
    FlinkJobInput::Cells(sources.collect())
}

fn compare(
    name: &str,
    flow: &Dataflow,
    out: &[stream::EngineOutput],
    expected: &[stream::EngineOutput],
) {
    for place in 0..flow.pipelines.len() {
        let ours = rows_of(expected, Some(place));
        let theirs = rows_of(out, Some(place));
        assert!(!ours.is_empty(), "{name} has rows");
        if !are_alike(&ours, &theirs) {
            let differs = ours
                .iter()
                .zip(&theirs)
                .find(|(a, b)| !are_alike(&[a.to_vec()], &[b.to_vec()]));
            panic!(
                "{name}: {} rows here, {} there, first that differ:\n{differs:#?}",
                ours.len(),
                theirs.len()
            );
        }
    }
    eprintln!("{name}: the same");
}

#[test]
#[ignore = "requires NETALYTICS_FLINK_GATEWAY and NETALYTICS_KAFKA"]
fn jobs_have_the_results_of_one_engine() {
    let [url, kafka] = ["NETALYTICS_FLINK_GATEWAY", "NETALYTICS_KAFKA"]
        .map(|name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is set")));
    let only = std::env::var("ONLY").ok();
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1);
    for (name, flow) in flows::all().into_iter().filter(|(name, _)| {
        only.as_ref()
            .is_none_or(|only| only.split(',').any(|one| one == *name))
    }) {
        check(&url, &kafka, name, &flow, seed);
    }
}

/// Every column of a test schema has a value in [`records`].
#[test]
fn records_have_a_value_for_each_column() {
    let schema = crate::tuples::schema("t");
    let rows = random_rows(&mut Random(3), 5);
    assert!(
        records(&schema, &rows, 0)
            .iter()
            .all(|record| record.len() == schema.fields.len() + 2)
    );
    assert!(
        schema
            .fields
            .iter()
            .any(|field| field.data_type == DataType::F64)
    );
}
