//! Runs a query over a recording: checks that it has what the query needs, and passes the tuples to the engine with the
//! event time at which they were recorded. So late tuples are late again, and the result equals that over the packets.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use monitor::Step;
use plan::{Bounds, Compare, Dataflow, Literal, Plan, Predicate, Sample};
use query::checked;
use recording::{Bound, DataSet, Head, Replay, Table, Wanted};
use stream::{Engine, Limited, Loss, TakeOutput};
use tuple::{Holds, Part, Schema};

use crate::redacted;
use crate::summary::{Fed, InputError};

/// Reason why a recording cannot answer a query.
#[derive(Debug)]
pub enum CannotAnswer {
    /// No part is readable; one message each.
    Unreadable(Vec<String>),
    /// It lacks the requested data; a message.
    Wrong(String),
}

/// Whether checksums are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// If the query has them.
    On,
    /// Never.
    Off,
}

/// A recording that can answer a query.
pub struct Replaying {
    /// Its tuples.
    pub replay: Replay,
    /// Sampling rate of the recording, and its seed.
    pub sample: (f64, u64),
    /// Capture loss.
    pub loss: Loss,
    /// Period in which limits took effect during recording.
    pub limited: Option<Limited>,
    /// Time of the first packet, and the last event time.
    pub span: Option<(i64, i64)>,
}

/// An engine and its tuples.
pub struct Feed {
    engine: Engine,
    replay: Replay,
    watermark_ns: i64,
    /// Event time of the packets at the end of the recording.
    last_ns: Option<i64>,
}

/// Whether the inputs are recordings.
///
/// # Errors
/// `CannotAnswer::Wrong` for both recordings and captures.
pub fn asked(paths: &[PathBuf]) -> Result<bool, CannotAnswer> {
    match paths.iter().filter(|path| DataSet::is_one(path)).count() {
        0 => Ok(false),
        n if n == paths.len() => Ok(true),
        _ => Err(wrong("-r reads recordings (folders) or captures (files), not both at once")),
    }
}

/// Opens the recording and plans the query over it, within `bounds`; passes warnings to `note`.
///
/// # Errors
/// See [`CannotAnswer`].
pub fn open(
    mut query: checked::Query,
    bounds: Bounds,
    paths: &[PathBuf],
    checksums: Checksums,
    note: &mut dyn FnMut(&str),
) -> Result<(Plan, Replaying), CannotAnswer> {
    if query.limit.packets.is_some() {
        return Err(wrong("LIMIT counts packets, and a recording has none: limit the time, as in LIMIT 90s"));
    }
    let set = DataSet::open(paths);
    if set.tables.is_empty() {
        let unfinished = set.unfinished.iter().map(|file| format!("{file}; there is nothing else to read"));
        let problems = set.problems.iter().map(ToString::to_string);
        return Err(CannotAnswer::Unreadable(problems.chain(unfinished).collect()));
    }
    set.unfinished.iter().for_each(|file| note(&file.to_string()));
    let schemas: Vec<Arc<Schema>> = query.inputs.iter().map(|input| input.schema.clone()).collect();
    let tables = tables(&set, &schemas)?;
    let heads = || tables.iter().flat_map(|(_, table)| table.heads());
    query.sample = sample(&query, heads().map(|head| head.sample.as_str()))?;
    let first_ts = heads().filter_map(|head| head.capture.first_ts).min();
    let mut plan = planner::recorded(&planner::within(planner::lower(&query), bounds), first_ts);
    let is_joined = tables.len() < schemas.len();
    if checksums == Checksums::Off {
        leave_out_checksums(&mut plan, "--checksums off")?;
    } else if !is_joined && schemas.iter().any(|schema| lacks_blocks(&set, schema)) {
        leave_out_checksums(&mut plan, "it was recorded with --checksums off")?;
    }
    let dataflow = if is_joined { stream::flat(&plan.dataflow) } else { plan.dataflow.clone() };
    redacted::mention(&dataflow, heads(), note);
    let (loss, limited) = (loss(heads()), limited(heads()));
    let last_ts = heads().filter_map(|head| head.capture.last_ts).max();
    let span = first_ts.zip(last_ts);
    let wanted: Vec<Wanted> = (0..).zip(&tables).map(|(i, (name, _))| wanted(&dataflow, i, name)).collect();
    let share = match query.sample {
        Sample::Fraction(p) => p,
        _ => 1.0,
    };
    let sample = (share, heads().next().map_or(0, |head| head.sample_seed));
    Ok((
        Plan { dataflow, ..plan },
        Replaying { replay: Replay::new(&set, &wanted), sample, loss, limited, span },
    ))
}

/// Whether a parser's checksums were omitted during recording.
fn lacks_blocks(set: &DataSet, schema: &Schema) -> bool {
    let is_of_blocks = |part: &&Part| matches!(part.holds, Holds::Blocks { .. });
    schema.parts.iter().filter(is_of_blocks).any(|part| !set.tables.contains_key(part.name))
}

/// Removes checksums from the columns of the query.
///
/// # Errors
/// `CannotAnswer::Wrong` if it requires them.
pub fn leave_out_checksums(plan: &mut Plan, why: &str) -> Result<(), CannotAnswer> {
    match planner::leave_out(plan, "block_checksums") {
        true => Ok(()),
        false => Err(wrong(format!("{why}, but the query reads block_checksums"))),
    }
}

fn wrong(why: impl Into<String>) -> CannotAnswer {
    CannotAnswer::Wrong(why.into())
}

/// Tables with the tuples of the parsers: one for each, or the one in which they are joined.
fn tables(set: &DataSet, schemas: &[Arc<Schema>]) -> Result<Vec<(String, Table)>, CannotAnswer> {
    let names: Vec<&str> = schemas.iter().map(|schema| schema.name.as_ref()).collect();
    let of_tuples = |name: &str, parts: &[Part]| Some((name.to_owned(), set.tuples(name, parts)?));
    let each: Option<Vec<_>> = schemas.iter().map(|schema| of_tuples(&schema.name, schema.parts)).collect();
    let tables =
        each.or_else(|| of_tuples(&names.join("+"), &[]).map(|table| vec![table])).ok_or_else(|| {
            let mut there: Vec<String> = set.tables.values().filter_map(Table::holds).collect();
            there.sort_unstable();
            there.dedup();
            let missing = schemas.iter().find(|schema| of_tuples(&schema.name, schema.parts).is_none());
            let missing = missing.map_or("", |schema| &schema.name);
            wrong(format!("the recording has no tuples of {missing}; what it has: {}", there.join(", ")))
        })?;
    for head in tables.iter().flat_map(|(_, table)| table.heads()) {
        for (name, version) in &head.parsers {
            let ours = schemas.iter().find(|schema| schema.name == *name).map(|schema| schema.version);
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
    query: &checked::Query,
    recorded: impl Iterator<Item = &'a str>,
) -> Result<Sample, CannotAnswer> {
    let mut all: Vec<&str> = recorded.collect();
    all.sort_unstable();
    all.dedup();
    let [recorded] = all[..] else {
        return Err(wrong(format!("parts of the recording were sampled differently: {}", all.join(", "))));
    };
    let recorded = match recorded {
        "all" => Sample::All,
        "auto" => Sample::Auto,
        rate => rate.parse().map_or(Sample::All, Sample::Fraction),
    };
    if query.sample != Sample::All && query.sample != recorded {
        return Err(wrong(
            "SAMPLE chooses flows by their packets: a recording has the sampling that it was recorded with, and \
             results are scaled by that",
        ));
    }
    Ok(recorded)
}

/// Capture loss of all runs, by the end of each.
fn loss<'a>(heads: impl Iterator<Item = &'a Head>) -> Loss {
    let mut runs: HashMap<u64, Loss> = HashMap::new();
    for Head { run, capture, .. } in heads {
        let of_run = runs.entry(*run).or_default();
        of_run.seen = of_run.seen.max(capture.seen_bytes);
        of_run.lost = of_run.lost.max(capture.unseen_bytes);
    }
    let mut all = Loss::default();
    runs.into_values().for_each(|loss| all.add(loss));
    all
}

/// Period with tuples that a limit may have changed, in any run.
fn limited<'a>(heads: impl Iterator<Item = &'a Head>) -> Option<Limited> {
    let stretches = heads.filter_map(|head| head.capture.limited);
    let stretches = stretches.map(|(from_ns, to_ns)| Limited { from_ns, to_ns, times: 1 });
    stretches.map(Some).fold(None, Limited::union)
}

/// Columns and bounds that an input of the dataflow needs from its table.
fn wanted(dataflow: &Dataflow, input: u16, table: &str) -> Wanted {
    let at = &dataflow.inputs[usize::from(input)];
    let mut bounds = Vec::new();
    let after = dataflow.filter.iter().filter(|_| dataflow.inputs.len() == 1);
    at.filter.iter().chain(after).for_each(|predicate| add_bounds(predicate, &mut bounds));
    Wanted { table: table.to_owned(), schema: at.schema.clone(), columns: at.columns.clone(), bounds }
}

/// Adds the bounds on integer columns that follow from a predicate.
fn add_bounds(predicate: &Predicate, bounds: &mut Vec<Bound>) {
    match predicate {
        Predicate::And(parts) => parts.iter().for_each(|part| add_bounds(part, bounds)),
        Predicate::Compare { column, op, literal } if column.computed_place().is_none() => {
            let value = match literal {
                Literal::U64(v) => i128::from(*v),
                Literal::I64(v) => i128::from(*v),
                _ => return,
            };
            let (low, high) = match op {
                Compare::Eq => (value, value),
                Compare::Lt => (i128::MIN, value - 1),
                Compare::Le => (i128::MIN, value),
                Compare::Gt => (value + 1, i128::MAX),
                Compare::Ge => (value, i128::MAX),
                Compare::Ne => return,
            };
            bounds.push(Bound { field: column.field, low, high });
        }
        _ => {}
    }
}

impl Feed {
    /// A feed for an engine of `dataflow`.
    pub fn new(dataflow: &Dataflow, config: stream::Config, replaying: Replaying) -> Feed {
        let Replaying { replay, sample: (sample, sample_seed), loss, limited, span } = replaying;
        let mut engine = Engine::new(dataflow, stream::Config { sample, sample_seed, ..config });
        engine.set_capture_loss(loss.share());
        limited.into_iter().for_each(|limited| engine.add_limited(limited));
        span.into_iter().for_each(|(first_ns, _)| engine.begin_run(first_ns));
        Feed { engine, replay, watermark_ns: i64::MIN, last_ns: span.map(|span| span.1) }
    }
}

impl Feed {
    /// Closes complete windows, including empty ones.
    fn advance(&mut self, now_ns: i64, out: &mut dyn TakeOutput) {
        if now_ns > i64::MIN {
            self.engine.advance(now_ns, out);
            self.engine.pass(now_ns, out);
        }
    }
}

impl crate::feed::Feed for Feed {
    fn next(&mut self, out: &mut dyn TakeOutput) -> Step {
        let Some(rows) = self.replay.next_rows() else {
            self.watermark_ns = self.watermark_ns.max(self.last_ns.unwrap_or(i64::MIN));
            self.finish(out);
            return Step::Done;
        };
        if rows.watermark_ns > self.watermark_ns {
            self.advance(self.watermark_ns, out);
            self.watermark_ns = rows.watermark_ns;
        }
        self.engine.push(rows.table, &rows.batch, out);
        Step::Going
    }

    fn finish(&mut self, out: &mut dyn TakeOutput) {
        self.advance(self.watermark_ns, out);
        self.engine.finish(out);
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn fed(&self) -> Fed {
        Fed::Recording(self.replay.counters())
    }

    fn problems(&self) -> Vec<InputError> {
        let problem = |p: &recording::Problem| InputError {
            path: p.path.display().to_string(),
            offset: None,
            text: p.to_string(),
            after_packets: 0,
        };
        self.replay.problems().iter().map(problem).collect()
    }
}
