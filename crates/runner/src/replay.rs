//! Runs a query over a recording: checks that it has what the query needs, and passes the tuples to the engine with the
//! event time at which they were recorded. So late tuples are late again, and the result equals that over the packets.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use monitor::MonitorProgress;
use plan::{ComparisonOperator, Dataflow, Literal, Plan, Predicate, SampleMode};
use planner::{PlanInput, PlanOptions};
use query::checked_query;
use recording::{ColumnBound, DataSet, FileMetadata, RecordedTable, RecordingReplay, TableRequest};
use stream::{Engine, LimitedStretch, LossCount, OutputConsumer};
use tuple::{PartContent, Schema, TablePart};

use crate::redacted;
use crate::summary::{FedInput, InputError};

/// Field of checksums, which a recording may lack.
const CHECKSUMS: &str = "block_checksums";

/// Reason why a recording cannot answer a query.
#[derive(Debug)]
pub enum ReplayError {
    /// No part of the recording is readable; a message for each.
    Unreadable(Vec<String>),
    /// The recording lacks the requested data; a message.
    Wrong(String),
}

/// A recording that can answer a query.
pub struct ReplayRun {
    /// Tuples of the recording.
    pub replay: RecordingReplay,
    /// Sampling rate of the recording, and its seed.
    pub sample: (f64, u64),
    /// Capture loss.
    pub loss: LossCount,
    /// Period in which limits took effect during recording.
    pub limited: Option<LimitedStretch>,
    /// Time of the first packet, and the last event time.
    pub span: Option<(i64, i64)>,
}

/// An engine and its tuples.
pub struct ReplayFeed {
    engine: Engine,
    replay: RecordingReplay,
    watermark_ns: i64,
    /// Event time of the packets at the end of the recording.
    last_ns: Option<i64>,
}

/// Whether the inputs are recordings.
///
/// # Errors
/// `ReplayError::Wrong` for both recordings and captures.
pub fn asked(paths: &[PathBuf]) -> Result<bool, ReplayError> {
    match paths.iter().filter(|path| DataSet::is_one(path)).count() {
        0 => Ok(false),
        n if n == paths.len() => Ok(true),
        _ => Err(wrong(
            "-r reads recordings (folders) or captures (files), not both at once",
        )),
    }
}

/// Opens the recording and plans the query over it, with the options of the run; passes warnings to `note`.
///
/// # Errors
/// See [`ReplayError`].
pub fn open(
    mut query: checked_query::CheckedQuery,
    options: &PlanOptions,
    paths: &[PathBuf],
    note: &mut dyn FnMut(&str),
) -> Result<(Plan, ReplayRun), ReplayError> {
    if query.limit.packets.is_some() {
        return Err(wrong(
            "LIMIT counts packets, which a recording does not have: limit the time, as in LIMIT 90s",
        ));
    }
    let set = DataSet::open(paths);
    if set.tables.is_empty() {
        let unfinished = set
            .unfinished
            .iter()
            .map(|file| format!("{file}; there is nothing else to read"));
        let problems = set.problems.iter().map(ToString::to_string);
        return Err(ReplayError::Unreadable(
            problems.chain(unfinished).collect(),
        ));
    }
    set.unfinished
        .iter()
        .for_each(|file| note(&file.to_string()));
    let schemas: Vec<Arc<Schema>> = query
        .inputs
        .iter()
        .map(|input| input.schema.clone())
        .collect();
    let tables = tables(&set, &schemas)?;
    let heads = || tables.iter().flat_map(|(_, table)| table.heads());
    query.sample = sample(&query, heads().map(|head| head.sample.as_str()))?;
    let first_ts = heads().filter_map(|head| head.capture.first_ts).min();
    let is_joined = tables.len() < schemas.len();
    let mut options = PlanOptions {
        input: PlanInput::Tuples { first_ts },
        ..options.clone()
    };
    if !is_joined && schemas.iter().any(|schema| lacks_blocks(&set, schema)) {
        omit_checksums(&query, &mut options, "it was recorded with --checksums off")?;
    }
    let plan = planner::lower_with(&query, &options);
    let dataflow = if is_joined {
        stream::flat(&plan.dataflow)
    } else {
        plan.dataflow.clone()
    };
    redacted::mention(&dataflow, heads(), note);
    let loss = loss(heads());
    let limited = limited(heads());
    let last_ts = heads().filter_map(|head| head.capture.last_ts).max();
    let span = first_ts.zip(last_ts);
    let wanted: Vec<TableRequest> = (0..)
        .zip(&tables)
        .map(|(i, (name, _))| wanted(&dataflow, i, name))
        .collect();
    let share = match query.sample {
        SampleMode::Fraction(p) => p,
        _ => 1.0,
    };
    let sample = (share, heads().next().map_or(0, |head| head.sample_seed));
    Ok((
        Plan { dataflow, ..plan },
        ReplayRun {
            replay: RecordingReplay::new(&set, &wanted),
            sample,
            loss,
            limited,
            span,
        },
    ))
}

/// Whether a parser's checksums were omitted during recording.
fn lacks_blocks(set: &DataSet, schema: &Schema) -> bool {
    let is_of_blocks = |part: &&TablePart| matches!(part.holds, PartContent::Blocks { .. });
    schema
        .parts
        .iter()
        .filter(is_of_blocks)
        .any(|part| !set.tables.contains_key(part.name))
}

/// Omits checksums from the plan of a query.
///
/// # Errors
/// `ReplayError::Wrong` if the query reads them.
pub fn omit_checksums(
    query: &checked_query::CheckedQuery,
    options: &mut PlanOptions,
    reason: &str,
) -> Result<(), ReplayError> {
    if options.reads(query, CHECKSUMS) {
        return Err(wrong(format!("{reason}, but the query reads {CHECKSUMS}")));
    }
    options.omitted = Some(CHECKSUMS);
    Ok(())
}

fn wrong(why: impl Into<String>) -> ReplayError {
    ReplayError::Wrong(why.into())
}

/// Tables with the tuples of the parsers: one for each, or the one in which they are joined.
fn tables(
    set: &DataSet,
    schemas: &[Arc<Schema>],
) -> Result<Vec<(String, RecordedTable)>, ReplayError> {
    let names: Vec<&str> = schemas.iter().map(|schema| schema.name.as_ref()).collect();
    let of_tuples =
        |name: &str, parts: &[TablePart]| Some((name.to_owned(), set.tuples(name, parts)?));
    let each: Option<Vec<_>> = schemas
        .iter()
        .map(|schema| of_tuples(&schema.name, schema.parts))
        .collect();
    let tables = each
        .or_else(|| of_tuples(&names.join("+"), &[]).map(|table| vec![table]))
        .ok_or_else(|| {
            let mut there: Vec<String> = set
                .tables
                .values()
                .filter_map(RecordedTable::holds)
                .collect();
            there.sort_unstable();
            there.dedup();
            let missing = schemas
                .iter()
                .find(|schema| of_tuples(&schema.name, schema.parts).is_none());
            let missing = missing.map_or("", |schema| &schema.name);
            wrong(format!(
                "the recording has no tuples of {missing}; it has: {}",
                there.join(", ")
            ))
        })?;
    for head in tables.iter().flat_map(|(_, table)| table.heads()) {
        for (name, version) in &head.parsers {
            let ours = schemas
                .iter()
                .find(|schema| schema.name == *name)
                .map(|schema| schema.version);
            if let Some(ours) = ours.filter(|ours| ours != version) {
                return Err(wrong(format!(
                    "{} was recorded with version {version} of {name}'s schema, and this program has version {ours}: \
                     netalytics {} can read it",
                    head.table, head.version
                )));
            }
        }
    }
    Ok(tables)
}

/// Sampling of the recording, which the query must have, too.
fn sample<'a>(
    query: &checked_query::CheckedQuery,
    recorded: impl Iterator<Item = &'a str>,
) -> Result<SampleMode, ReplayError> {
    let mut all: Vec<&str> = recorded.collect();
    all.sort_unstable();
    all.dedup();
    let [recorded] = all[..] else {
        return Err(wrong(format!(
            "parts of the recording were sampled differently: {}",
            all.join(", ")
        )));
    };
    let recorded = match recorded {
        "all" => SampleMode::All,
        "auto" => SampleMode::Auto,
        "exported" => SampleMode::Exported,
        rate => match rate.parse() {
            Ok(share) if share > 0.0 && share <= 1.0 => SampleMode::Fraction(share),
            _ => {
                return Err(wrong(format!(
                    "the recording was sampled in a way that this program does not know ({rate}): a later version \
                     of netalytics can read it"
                )));
            }
        },
    };
    if query.sample != SampleMode::All && query.sample != recorded {
        return Err(wrong(
            "SAMPLE chooses flows by their packets: a recording keeps the sampling rate of its capture, and \
             results are scaled by it",
        ));
    }
    Ok(recorded)
}

/// Capture loss of all runs, by the end of each.
fn loss<'a>(heads: impl Iterator<Item = &'a FileMetadata>) -> LossCount {
    let mut runs: HashMap<u64, LossCount> = HashMap::new();
    for FileMetadata { run, capture, .. } in heads {
        let of_run = runs.entry(*run).or_default();
        of_run.seen = of_run.seen.max(capture.seen_bytes);
        of_run.lost = of_run.lost.max(capture.unseen_bytes);
    }
    let mut all = LossCount::default();
    runs.into_values().for_each(|loss| all.add(loss));
    all
}

/// Period with tuples that a limit may have changed, in any run.
fn limited<'a>(heads: impl Iterator<Item = &'a FileMetadata>) -> Option<LimitedStretch> {
    let stretches = heads.filter_map(|head| head.capture.limited);
    let stretches = stretches.map(|(from_ns, to_ns)| LimitedStretch {
        from_ns,
        to_ns,
        times: 1,
    });
    stretches.map(Some).fold(None, LimitedStretch::union)
}

/// Columns and bounds that an input of the dataflow needs from its table.
fn wanted(dataflow: &Dataflow, input: u16, table: &str) -> TableRequest {
    let at = &dataflow.inputs[usize::from(input)];
    let mut bounds = Vec::new();
    let after = dataflow
        .filter
        .iter()
        .filter(|_| dataflow.inputs.len() == 1);
    at.filter
        .iter()
        .chain(after)
        .for_each(|predicate| add_bounds(predicate, &mut bounds));
    TableRequest {
        table: table.to_owned(),
        schema: at.schema.clone(),
        columns: at.columns.clone(),
        bounds,
    }
}

/// Adds the bounds on integer columns that follow from a predicate.
fn add_bounds(predicate: &Predicate, bounds: &mut Vec<ColumnBound>) {
    match predicate {
        Predicate::And(parts) => parts.iter().for_each(|part| add_bounds(part, bounds)),
        Predicate::Compare {
            column,
            op,
            literal,
        } if column.computed_place().is_none() => {
            let value = match literal {
                Literal::U64(v) => i128::from(*v),
                Literal::I64(v) => i128::from(*v),
                _ => return,
            };
            let (low, high) = match op {
                ComparisonOperator::Eq => (value, value),
                ComparisonOperator::Lt => (i128::MIN, value - 1),
                ComparisonOperator::Le => (i128::MIN, value),
                ComparisonOperator::Gt => (value + 1, i128::MAX),
                ComparisonOperator::Ge => (value, i128::MAX),
                ComparisonOperator::Ne => return,
            };
            bounds.push(ColumnBound {
                field: column.field,
                low,
                high,
            });
        }
        _ => {}
    }
}

impl ReplayFeed {
    /// A feed for an engine of `dataflow`.
    pub fn new(
        dataflow: &Dataflow,
        config: stream::EngineConfig,
        replaying: ReplayRun,
    ) -> ReplayFeed {
        let ReplayRun {
            replay,
            sample: (sample, sample_seed),
            loss,
            limited,
            span,
        } = replaying;
        let mut engine = Engine::new(
            dataflow,
            stream::EngineConfig {
                sample,
                sample_seed,
                ..config
            },
        );
        engine.set_capture_loss(loss.share());
        limited
            .into_iter()
            .for_each(|limited| engine.add_limited(limited));
        span.into_iter()
            .for_each(|(first_ns, _)| engine.begin_run(first_ns));
        ReplayFeed {
            engine,
            replay,
            watermark_ns: i64::MIN,
            last_ns: span.map(|span| span.1),
        }
    }
}

impl ReplayFeed {
    /// Closes complete windows, including empty ones.
    fn advance(&mut self, now_ns: i64, out: &mut dyn OutputConsumer) {
        if now_ns > i64::MIN {
            self.engine.advance(now_ns, out);
            self.engine.pass(now_ns, out);
        }
    }
}

impl crate::feed::TupleFeed for ReplayFeed {
    fn next(&mut self, out: &mut dyn OutputConsumer) -> MonitorProgress {
        let Some(rows) = self.replay.next_rows() else {
            self.watermark_ns = self.watermark_ns.max(self.last_ns.unwrap_or(i64::MIN));
            self.finish(out);
            return MonitorProgress::Done;
        };
        if rows.watermark_ns > self.watermark_ns {
            self.advance(self.watermark_ns, out);
            self.watermark_ns = rows.watermark_ns;
        }
        self.engine.push(rows.table, &rows.batch, out);
        MonitorProgress::Going
    }

    fn finish(&mut self, out: &mut dyn OutputConsumer) {
        self.advance(self.watermark_ns, out);
        self.engine.finish(out);
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn fed(&self) -> FedInput {
        FedInput::Recording(self.replay.counters())
    }

    fn problems(&self) -> Vec<InputError> {
        let problem = |p: &recording::ReadProblem| InputError {
            path: p.path.display().to_string(),
            offset: None,
            text: p.to_string(),
            after_packets: 0,
        };
        self.replay.problems().iter().map(problem).collect()
    }
}

#[cfg(test)]
mod tests;
