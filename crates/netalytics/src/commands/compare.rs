//! `netalytics compare 'QUERY' -r AFTER --baseline BEFORE`, and `query` with BASELINE: prints two periods side by side.

use std::hash::{BuildHasher, RandomState};

use recording::{CaptureFacts, FileMetadata, TableKind};
use runner::RunResultTable;
use sinks::{EmptyReason, ResultHead, Sink, WindowPace, distinct_names, units};
use tuple::Batch;

use crate::cli::flags::{CompareFlags, OutputFormat, QueryFlags};
use crate::cli::query_text::CommandQuery;
use crate::cli::verbosity::Verbosity;
use crate::commands::query_stored;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::output;
use crate::render::comparison_table;
use crate::run::comparison::{ComparisonInput, ComparisonOutcome};
use crate::run::result_target::{ResultTarget, SinkContext};

/// Default confidence level.
pub const CONFIDENCE: f64 = 0.95;

/// Compares two inputs, or two periods of one.
pub fn compare(flags: &CompareFlags, quiet: bool, verbose: bool) -> anyhow::Result<CommandOutcome> {
    let telling = Verbosity::of(quiet, verbose);
    let query = CommandQuery::read(&flags.query.work.text)?;
    if let Some(server) = &flags.kept.server {
        if !query.has_baseline() {
            return Err(wrong_flags(
                "nothing to compare with: add BASELINE to the query",
            ));
        }
        let kept = query_stored::ask(server, &flags.kept, &query, flags.confidence)?;
        return kept.print(&flags.query, telling);
    }
    show(
        &flags.query,
        &query,
        (&flags.baseline, flags.confidence),
        telling,
    )
}

/// Answers a query with BASELINE.
pub fn with_baseline(
    flags: &QueryFlags,
    query: &CommandQuery,
    telling: Verbosity,
) -> anyhow::Result<CommandOutcome> {
    show(flags, query, (&[], CONFIDENCE), telling)
}

fn show(
    flags: &QueryFlags,
    query: &CommandQuery,
    (baseline, confidence): (&[std::path::PathBuf], f64),
    telling: Verbosity,
) -> anyhow::Result<CommandOutcome> {
    if flags.work.network.network.is_some() {
        return Err(wrong_flags(
            "a comparison reads existing data: remove --network",
        ));
    }
    if let Some(path) = &flags.output {
        output::refuse_inputs(path, baseline)?;
    }
    let mut ready = flags.prepare(query.text())?;
    flags.start(&mut ready)?;
    let is_terminal = ready.0.terminal;
    let done = ComparisonInput {
        own: &flags.work,
        baseline,
        confidence,
    }
    .run(query, telling, &mut |_| Ok(()))?;
    if telling != Verbosity::Errors {
        notes(&done).iter().for_each(|note| output::complain(note));
    }
    let for_eyes = match flags.format {
        Some(format) => format == OutputFormat::Table,
        None => is_terminal && !flags.json,
    };
    let mut shown: Vec<(ResultHead, Vec<Batch>, RunResultTable)> = Vec::new();
    let names = distinct_names(
        done.results
            .iter()
            .map(|compared| compared.processor.as_str()),
    );
    for ((compared, rows), name) in done.results.iter().zip(&done.rows).zip(names) {
        let (schema, rows, keys) = if for_eyes {
            let first = compared.first_aggregate();
            let schema = comparison_table::long_schema(compared.schema(), first);
            let rows = rows
                .iter()
                .map(|batch| comparison_table::long_rows(first, &schema, batch))
                .collect();
            (schema, rows, first)
        } else {
            (compared.schema().clone(), rows.clone(), compared.keys)
        };
        let head = ResultHead {
            processor: Some(name.clone()),
            parsers: done
                .query
                .inputs
                .iter()
                .map(|input| input.schema.name.to_string())
                .collect(),
            columns: schema
                .fields
                .iter()
                .map(|field| field.name.to_string())
                .collect(),
            keys,
            slide_ns: None,
            empty: EmptyReason::NoTuples,
        };
        let columns = schema.ids().collect();
        shown.push((
            head,
            rows,
            RunResultTable {
                head: file_head(&done, name),
                schema,
                columns,
            },
        ));
    }
    let heads = shown.iter().map(|(head, ..)| head.clone()).collect();
    let mut tables = Vec::new();
    let mut rows = Vec::new();
    for (_, batches, table) in shown {
        tables.push(table);
        rows.push(batches);
    }
    let opened = SinkContext {
        heads,
        tables,
        names: done.names,
        pace: WindowPace::Whole,
        row_group_bytes: 8 << 20,
    };
    let mut sink = flags.open(ready, opened)?;
    let written = write(sink.as_mut(), &rows);
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(done.ended),
    }
}

fn write(sink: &mut dyn Sink, rows: &[Vec<Batch>]) -> std::io::Result<()> {
    for (i, batches) in rows.iter().enumerate() {
        batches.iter().try_for_each(|batch| sink.write(i, batch))?;
    }
    sink.finish()
}

/// Notes on the periods and the comparison.
fn notes(done: &ComparisonOutcome) -> Vec<String> {
    let length = |i: usize| done.periods[i].nanos().unwrap_or(0);
    let said = |i: usize, name: &str| {
        let since = sinks::DisplayZone::default().time(done.periods[i].since_ns.unwrap_or(0));
        format!(
            "{name:<9} {} from {since}: {} tuples",
            units::duration(length(i) as f64),
            done.tuples[i]
        )
    };
    let mut notes = vec![said(0, "period"), said(1, "baseline")];
    let longer = length(0).max(length(1));
    let shorter = length(0).min(length(1));
    if longer - shorter > longer / 100 {
        notes.push(
            "note: the periods differ in length: counts and sums are compared per second".into(),
        );
    }
    if let Some(i) = [0, 1].into_iter().find(|i| done.tuples[*i] == 0) {
        notes.push(format!(
            "note: the {} has no data",
            ["period", "baseline"][i]
        ));
    }
    notes
}

fn file_head(done: &ComparisonOutcome, table: String) -> FileMetadata {
    let inputs = done.query.inputs.iter();
    FileMetadata {
        kind: TableKind::Result,
        table,
        parsers: inputs
            .map(|i| (i.schema.name.to_string(), i.schema.version))
            .collect(),
        query: done.query.text.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        run: RandomState::new().hash_one(0),
        sample: "all".into(),
        sample_seed: 0,
        redacted: None,
        capture: CaptureFacts::default(),
    }
}
