//! BASELINE: compares two periods of stored tuples, as `netalytics compare` does with two captures.

use std::ops::ControlFlow;

use plan::TimeBounds;
use sinks::distinct_names;
use stream::compare::{COLUMNS_EACH, ComparisonSide, PeriodComparison, refused};
use stream::{Engine, EngineOutput};
use tuple::{Batch, FieldId};

use super::coverage::plan_of;
use super::data_gaps::missing;
use super::past_queries::PastQueries;
use super::read::{ReadCounts, TakeTuples, config, give, notes};
use super::sources::{KeptTuples, SourceQuery};
use super::{AnswerOrigin, PastQuery, PastResponse, PastTable, Period, QueryDeadline};
use crate::results::coverage;
use crate::store::persist_error::PersistError;
use crate::store::service_error::ServiceError;

/// Compares the query's period with its baseline.
pub fn compare(
    past: &PastQueries,
    kept: &KeptTuples,
    wanted: &SourceQuery<'_>,
    (asked, deadline): (&PastQuery, QueryDeadline),
) -> Result<PastResponse, ServiceError> {
    let dataflow = &kept.covered.dataflow;
    if let Some(why) = refused(dataflow) {
        return Err(ServiceError::Wrong(why.into()));
    }
    if wanted.query.sample != plan::SampleMode::All || kept.covered.sample != plan::SampleMode::All
    {
        return Err(ServiceError::Wrong(
            "a comparison uses every flow: omit SAMPLE".into(),
        ));
    }
    let Some(baseline) = wanted.baseline else {
        return Err(PersistError::Damaged.into());
    };
    let bounds = |(since, until): Period| TimeBounds {
        since_ns: Some(since),
        until_ns: Some(until),
    };
    let config = config(past, kept);
    let own = bounds(wanted.own);
    let before = bounds(baseline);
    let mut comparison = PeriodComparison::new(dataflow, &config, own, before, asked.confidence);
    let mut all = ReadCounts::default();
    let mut tuples = [0; 2];
    for (i, (side, period)) in [
        (ComparisonSide::Baseline, baseline),
        (ComparisonSide::Own, wanted.own),
    ]
    .into_iter()
    .enumerate()
    {
        let of_side = plan_of(wanted.query, plan::SampleMode::All, period).dataflow;
        let engine = Engine::new(&of_side.tuples(), config.clone());
        let mut half = ComparedPeriod {
            engine,
            side,
            comparison: &mut comparison,
            tuples: 0,
        };
        let counts = give(past, kept, &of_side, period, deadline, &mut half)?;
        tuples[i] = half.tuples;
        all = ReadCounts {
            tuples: all.tuples + counts.tuples,
            lacking: all.lacking + counts.lacking,
        };
    }
    let (_, absences) = past.lanes_of(&kept.job, wanted.own.1.max(baseline.1))?;
    let mut lacking = [wanted.own, baseline]
        .map(|period| missing(&absences, period))
        .concat();
    lacking.sort();
    lacking.dedup();
    let covers_both = [wanted.own, baseline]
        .iter()
        .all(|period| kept.covers(*period));
    let compared = comparison.results();
    let mut rows: Vec<Vec<Batch>> = compared.iter().map(|_| Vec::new()).collect();
    comparison.finish(&mut |i, batch| rows[i].push(batch));
    let names = distinct_names(compared.iter().map(|one| one.processor.as_str()));
    let mut results = Vec::new();
    for (i, ((one, rows), name)) in compared.iter().zip(&rows).zip(names).enumerate() {
        let columns: Vec<FieldId> = one.schema().ids().collect();
        // With missing agents, differences may result from their absence.
        let verdicts: Vec<FieldId> = if lacking.is_empty() && covers_both {
            Vec::new()
        } else {
            columns
                .iter()
                .copied()
                .skip(one.first_aggregate() + COLUMNS_EACH - 1)
                .step_by(COLUMNS_EACH)
                .collect()
        };
        let rows: Vec<(Batch, Vec<String>)> = rows
            .iter()
            .map(|batch| (coverage::without(batch, &verdicts), lacking.clone()))
            .collect();
        let made = PastTable::made(i, Some(name), one.keys, (one.schema(), &columns), &rows);
        results.push(made.ok_or(PersistError::Damaged)?);
    }
    let mut notes = notes(kept, &[wanted.own, baseline], all, &absences);
    if !lacking.is_empty() {
        notes.push("agents were missing: differences are not tested for significance".into());
    }
    if lacking.is_empty() && !covers_both {
        notes.push(
            "data of the two periods is incomplete: differences are not tested for significance"
                .into(),
        );
    }
    for (name, tuples) in ["baseline", "period"].iter().zip(tuples) {
        if tuples == 0 {
            notes.push(format!("the {name} has no data"));
        }
    }
    Ok(PastResponse {
        results,
        job: kept.job_named(),
        recording: None,
        from: AnswerOrigin::Tuples,
        period: Some(wanted.own),
        baseline: Some(baseline),
        tuples: all.tuples,
        notes,
    })
}

/// One of the two periods: passes its filtered tuples to the comparison.
struct ComparedPeriod<'c> {
    engine: Engine,
    side: ComparisonSide,
    comparison: &'c mut PeriodComparison,
    tuples: u64,
}

impl TakeTuples for ComparedPeriod<'_> {
    fn take(&mut self, batch: &Batch) -> ControlFlow<()> {
        let mut out: Vec<EngineOutput> = Vec::new();
        self.engine.push(0, batch, &mut out);
        for output in out {
            self.tuples += output.batch.rows() as u64;
            self.comparison.push(self.side, &output.batch);
        }
        ControlFlow::Continue(())
    }
}
