//! Reads stored tuples by piece, each after event time has reached the earliest time in it and all following pieces.

use std::ops::ControlFlow;

use plan::{Dataflow, SampleMode};
use sinks::distinct_names;
use stream::{Engine, EngineOutput, LossCount, OutputConsumer, TupleProjection};
use tuple::{Batch, FieldId};

use super::data_gaps::{DataGap, cut};
use super::past_queries::PastQueries;
use super::sources::{KeptTuples, SourceQuery};
use super::{AnswerOrigin, PastQuery, PastResponse, PastTable, Period, QueryDeadline};
use crate::results::coverage;
use crate::store::history::ReadOutcome;
use crate::store::persist_error::PersistError;
use crate::store::service_error::ServiceError;

/// Maximum absences of agents reported.
const ABSENCES_MAX: usize = 20;

/// Counters of a read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadCounts {
    /// Tuples read.
    pub tuples: u64,
    /// Tuples removed in the meantime.
    pub lacking: u64,
}

/// Receiver of tuples.
pub trait TakeTuples {
    /// No later tuple ended before this time.
    fn advance(&mut self, _ns: i64) {}

    /// Receives tuples; returns whether more are wanted.
    fn take(&mut self, batch: &Batch) -> ControlFlow<()>;
}

/// Passes all stored tuples within a period, as input of `dataflow`, ordered only as far as [`TakeTuples::advance`]
/// states.
pub fn give(
    past: &PastQueries,
    kept: &KeptTuples,
    dataflow: &Dataflow,
    period: Period,
    deadline: QueryDeadline,
    to: &mut dyn TakeTuples,
) -> Result<ReadCounts, ServiceError> {
    let segments = &past.store.segments;
    let pieces = segments.pieces(kept.job.id, kept.result.place, period)?;
    // Later pieces may contain earlier tuples: reconnected agents send data of the time of their absence.
    let mut floors: Vec<i64> = pieces.iter().map(|piece| piece.first_ns).collect();
    for i in (1..floors.len()).rev() {
        floors[i - 1] = floors[i - 1].min(floors[i]);
    }
    let input = &dataflow.inputs[0];
    let columns: Vec<FieldId> = kept.covered.columns.iter().map(|(_, from)| *from).collect();
    let as_input = |batch: &Batch| {
        let mut arrays = vec![None; input.schema.fields.len()];
        for (to, from) in &kept.covered.columns {
            arrays[usize::from(to.0)] = batch.column(*from).cloned();
        }
        Batch::new(input.schema.clone(), batch.rows(), arrays)
    };
    let mut counts = ReadCounts::default();
    let mut flow = ControlFlow::Continue(());
    let all: i64 = pieces.iter().map(|piece| piece.rows).sum();
    for (piece, floor) in pieces.iter().zip(floors) {
        to.advance(floor);
        let mut is_over = false;
        let mut take = |batch: &Batch| {
            is_over = deadline.is_over();
            if !is_over {
                counts.tuples += batch.rows() as u64;
                flow = to.take(&as_input(batch));
            }
            !is_over && flow.is_continue()
        };
        let read =
            past.history
                .read_piece((kept.job.id, &kept.result), &columns, piece, &mut take)?;
        if is_over {
            past.hub.meters.queries_given_up.add(1);
            let read = counts.tuples;
            return Err(ServiceError::Late(format!(
                "the query took too long and was stopped after {read} of {all} tuples: choose a shorter time"
            )));
        }
        if let ReadOutcome::Lacks(rows) = read {
            counts.lacking += rows;
        }
        if flow.is_break() {
            break;
        }
    }
    Ok(counts)
}

/// Configuration of an engine over stored tuples.
pub fn config(past: &PastQueries, kept: &KeptTuples) -> stream::EngineConfig {
    let window_bytes_max = past.limits.bytes;
    let sample = match kept.covered.sample {
        SampleMode::Fraction(share) => share,
        SampleMode::All | SampleMode::Auto | SampleMode::Exported => 1.0,
    };
    stream::EngineConfig {
        sample,
        window_bytes_max,
        ..stream::EngineConfig::default()
    }
}

/// Answers a query from stored tuples.
pub fn answer(
    past: &PastQueries,
    kept: &KeptTuples,
    wanted: &SourceQuery<'_>,
    (asked, deadline): (&PastQuery, QueryDeadline),
) -> Result<PastResponse, ServiceError> {
    let dataflow = &kept.covered.dataflow;
    let bytes_max = past.limits.bytes;
    let mut engine = Engine::new(dataflow, config(past, kept));
    let (lanes, absences) = past.lanes_of(&kept.job, wanted.own.1)?;
    let mut loss = LossCount::default();
    lanes.iter().for_each(|(_, facts)| loss.add(facts.loss()));
    engine.set_capture_loss(loss.share());
    let shown = dataflow
        .pipelines
        .is_empty()
        .then(|| TupleProjection::new(dataflow, &engine, bytes_max));
    let rows = PastRows {
        shown,
        results: Vec::new(),
        rows_max: asked.rows_max,
    };
    let mut reading = PastEngine { engine, rows };
    let counts = give(past, kept, dataflow, wanted.own, deadline, &mut reading)?;
    let PastEngine {
        mut engine,
        mut rows,
    } = reading;
    engine.finish(&mut rows);
    rows.finish();
    let results =
        results(kept, &engine, rows, (&absences, wanted.own)).ok_or(PersistError::Damaged)?;
    let notes = notes(kept, &[wanted.own], counts, &absences);
    let job = kept.job_named();
    let period = Some(wanted.own);
    let tuples = counts.tuples;
    let from = AnswerOrigin::Tuples;
    Ok(PastResponse {
        results,
        job,
        recording: None,
        from,
        period,
        baseline: None,
        tuples,
        notes,
    })
}

fn results(
    kept: &KeptTuples,
    engine: &Engine,
    rows: PastRows,
    (absences, period): (&[DataGap], Period),
) -> Option<Vec<PastTable>> {
    let dataflow = &kept.covered.dataflow;
    let PastRows {
        shown, mut results, ..
    } = rows;
    let mut made = |place: usize, processor, keys, columns: (&tuple::Schema, &[FieldId])| {
        let (batches, left_out) = results
            .get_mut(place)
            .map(std::mem::take)
            .unwrap_or_default();
        let upper_ends = coverage::upper_ends(dataflow, place, kept.covered.sample);
        let mut rows: Vec<(Batch, Vec<String>)> = batches
            .iter()
            .flat_map(|batch| cut(batch, absences, period))
            .collect();
        for (batch, _) in rows.iter_mut().filter(|(_, missing)| !missing.is_empty()) {
            *batch = coverage::without(batch, &upper_ends);
        }
        Some(PastTable {
            left_out,
            ..PastTable::made(place, processor, keys, columns, &rows)?
        })
    };
    if let Some(shown) = &shown {
        let (schema, columns) = shown.columns();
        return Some(vec![made(0, None, 0, (schema, &columns))?]);
    }
    let names = distinct_names(dataflow.pipelines.iter().map(|p| p.name.as_str()));
    let result = |(i, name): (usize, String)| {
        let schema = engine.result_schema(i);
        let columns: Vec<FieldId> = schema.ids().collect();
        made(
            i,
            Some(name),
            dataflow.pipelines[i].group.len(),
            (schema, &columns),
        )
    };
    names.into_iter().enumerate().map(result).collect()
}

/// Notes on an answer from stored tuples.
pub fn notes(
    kept: &KeptTuples,
    periods: &[Period],
    counts: ReadCounts,
    absences: &[DataGap],
) -> Vec<String> {
    let name = kept.in_words();
    let time = |ns| sinks::DisplayZone::default().time(ns);
    let mut notes = vec![format!("answered from the tuples that {name} keeps")];
    for (since, until) in periods {
        if kept.kept.0 > *since {
            notes.push(format!(
                "{name} keeps tuples from {} on: the result has no earlier data",
                time(kept.kept.0)
            ));
        }
        if kept.kept.1 < *until && kept.job.ended_ns.is_some() {
            notes.push(format!(
                "{name} ended at {}: the result has no later data",
                time(kept.kept.1)
            ));
        }
    }
    let within = |absence: &&DataGap| {
        periods
            .iter()
            .any(|(since, until)| absence.period.0 < *until && *since < absence.period.1)
    };
    for DataGap {
        agent,
        period: (from, to),
    } in absences.iter().filter(within).take(ABSENCES_MAX)
    {
        notes.push(format!(
            "agent {agent} sent no data from {} to {}",
            time(*from),
            time(*to)
        ));
    }
    if counts.lacking > 0 {
        notes.push(format!(
            "retention removed {} tuples meanwhile",
            counts.lacking
        ));
    }
    if let (true, Some(field)) = (
        kept.job.spec.is_redacted(),
        planner::compared_folded(&kept.covered.dataflow),
    ) {
        notes.push(format!(
            "{field} was redacted before it was stored; WHERE applies to the redacted text"
        ));
    }
    if let (Some(_), Some(reason), None) = (kept.job_named(), &kept.job.reason, kept.job.ended_ns) {
        notes.push(format!("{name}: {reason}"));
    }
    notes.dedup();
    notes
}

/// An engine and its output.
struct PastEngine {
    engine: Engine,
    rows: PastRows,
}

impl TakeTuples for PastEngine {
    fn advance(&mut self, ns: i64) {
        self.engine.advance(ns, &mut self.rows);
    }

    fn take(&mut self, batch: &Batch) -> ControlFlow<()> {
        self.engine.push(0, batch, &mut self.rows);
        if self
            .rows
            .shown
            .as_ref()
            .is_some_and(TupleProjection::is_full)
        {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Rows of an answer per result, up to a limit, and the number of further rows.
struct PastRows {
    shown: Option<TupleProjection>,
    results: Vec<(Vec<Batch>, u64)>,
    rows_max: usize,
}

impl PastRows {
    fn add(&mut self, place: usize, batch: Batch) {
        if self.results.len() <= place {
            self.results.resize_with(place + 1, Default::default);
        }
        let (batches, left_out) = &mut self.results[place];
        let room = self
            .rows_max
            .saturating_sub(batches.iter().map(Batch::rows).sum());
        let taken = room.min(batch.rows());
        *left_out += (batch.rows() - taken) as u64;
        if taken > 0 {
            batches.push(batch.slice(0, taken));
        }
    }

    fn finish(&mut self) {
        let mut last = Vec::new();
        if let Some(shown) = &mut self.shown {
            shown.finish(|batch| last.push(batch));
        }
        last.into_iter().for_each(|batch| self.add(0, batch));
    }
}

impl OutputConsumer for PastRows {
    fn take(
        &mut self,
        EngineOutput {
            pipeline, batch, ..
        }: EngineOutput,
    ) {
        let batch = match &mut self.shown {
            Some(shown) => shown.take(&batch),
            None => Some(batch),
        };
        if let Some(batch) = batch.filter(|batch| batch.rows() > 0) {
            self.add(pipeline.unwrap_or(0), batch);
        }
    }
}
