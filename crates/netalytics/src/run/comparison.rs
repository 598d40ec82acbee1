//! Comparison of two periods: the query runs over the baseline and then over the requested period. If both are in one
//! input, it is read twice, each time within one period; a recording is read only within the periods.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context;
use capture::seccomp::FileAccess;
use plan::{Plan, SampleMode, TimeBounds};
use runner::{MemoryDivision, RowWriting};
use sinks::Sink;
use stream::compare::{self, ComparedResult, ComparisonSide, PeriodComparison};
use tuple::{Batch, common};

use crate::cli::flags::WorkFlags;
use crate::cli::query_text;
use crate::cli::verbosity::Verbosity;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::render::hosts::{self, HostNames};
use crate::run::result_target::{ResultTarget, SinkContext};
use crate::run::run_query::work;
use crate::source::period::{self, QueryPeriods};
use crate::source::recording_replay;

/// Inputs of a comparison.
pub struct ComparisonInput<'a> {
    /// Flags of the requested period.
    pub own: &'a WorkFlags,
    /// Files of the baseline; empty: BASELINE gives the period.
    pub baseline: &'a [PathBuf],
    /// Confidence level; default 0.95.
    pub confidence: f64,
}

/// A completed comparison.
pub struct ComparisonOutcome {
    /// Columns of the results, by processor.
    pub results: Vec<ComparedResult>,
    /// Rows.
    pub rows: Vec<Vec<Batch>>,
    /// The period and the baseline.
    pub periods: [TimeBounds; 2],
    /// Tuples read of each.
    pub tuples: [u64; 2],
    /// Host names.
    pub names: HostNames,
    /// The query.
    pub query: query::CheckedQuery,
    /// Whether all input could be read.
    pub ended: CommandOutcome,
}

/// State shared by both runs.
struct ComparisonState {
    comparison: PeriodComparison,
    periods: [TimeBounds; 2],
    tuples: [u64; 2],
}

impl ComparisonInput<'_> {
    /// Reads both periods, after `begin` has received the columns of the results.
    pub fn run(
        &self,
        telling: Verbosity,
        begin: &mut dyn FnMut(&[ComparedResult]) -> anyhow::Result<()>,
    ) -> anyhow::Result<ComparisonOutcome> {
        self.refuse()?;
        let text = query_text::read(&self.own.text)?;
        let mut names = hosts::read(self.own.text.hosts.as_deref())?;
        let query = query_text::check(&text, &mut names, &self.own.read)?;
        if query.sample != SampleMode::All {
            return Err(wrong_flags("a comparison uses every flow: omit SAMPLE"));
        }
        let before = WorkFlags {
            text: self.own.text.with_query(text.clone()),
            summary_json: None,
            ..self.own.clone()
        };
        let before = match self.baseline {
            [] => before,
            files => WorkFlags { read: files.to_vec(), ..before },
        };
        let own = WorkFlags { text: self.own.text.with_query(text), ..self.own.clone() };
        let periods = self.periods(&query, &own, &before)?;
        let comparison = self.comparison(&query, periods)?;
        begin(&comparison.results())?;
        let shared = Rc::new(RefCell::new(ComparisonState { comparison, periods, tuples: [0; 2] }));
        let telling = if telling == Verbosity::Everything { telling } else { Verbosity::Errors };
        let mut ended = CommandOutcome::Done;
        for (side, flags) in [(ComparisonSide::Baseline, &before), (ComparisonSide::Own, &own)] {
            let one = ComparisonRun {
                side,
                recording: recording_replay::asked(&flags.read)?,
                shared: shared.clone(),
            };
            if work(flags, &one, telling)? != CommandOutcome::Done {
                ended = CommandOutcome::Incomplete;
            }
        }
        let shared = Rc::into_inner(shared).map(RefCell::into_inner);
        let ComparisonState { comparison, tuples, .. } = shared.context("a comparison is still running")?;
        let results = comparison.results();
        let mut rows: Vec<Vec<Batch>> = results.iter().map(|_| Vec::new()).collect();
        comparison.finish(&mut |i, batch| rows[i].push(batch));
        Ok(ComparisonOutcome { results, rows, periods, tuples, names, query, ended })
    }

    /// Comparison of a query's results. Monitors produce tuples for it; period limits are applied here.
    fn comparison(
        &self,
        query: &query::CheckedQuery,
        periods: [TimeBounds; 2],
    ) -> anyhow::Result<PeriodComparison> {
        let [own, baseline] = periods;
        let both = TimeBounds {
            since_ns: own.since_ns.min(baseline.since_ns),
            until_ns: own.until_ns.max(baseline.until_ns),
        };
        let mut plan = planner::within(planner::lower(query), both);
        self.own.limits.bound(&mut plan);
        if let Some(why) = compare::refused(&plan.dataflow) {
            return Err(wrong_flags(why));
        }
        let limits = self.own.limits.of_run();
        let config = MemoryDivision::divide(&limits, &plan, RowWriting::AtOnce).config(&limits).stream;
        Ok(PeriodComparison::new(&plan.dataflow, &config, own, baseline, self.confidence))
    }

    fn refuse(&self) -> anyhow::Result<()> {
        let why = if self.own.live.is_live() {
            "a comparison reads captures or recordings (-r): record live traffic first"
        } else if self.own.write.is_some() {
            "a comparison writes no packets: remove --write"
        } else if self.own.count.is_some() {
            "a comparison reads whole periods: remove --count"
        } else {
            return Ok(());
        };
        Err(wrong_flags(why))
    }

    /// Both periods, with start and end.
    fn periods(
        &self,
        query: &query::CheckedQuery,
        own: &WorkFlags,
        before: &WorkFlags,
    ) -> anyhow::Result<[TimeBounds; 2]> {
        let QueryPeriods { own: bounds, baseline, .. } = period::settle(query, own)?;
        if self.baseline.is_empty() {
            return match baseline {
                Some(baseline) => Ok([bounds, baseline]),
                None => Err(wrong_flags(
                    "nothing to compare with: add BASELINE to the query or use --baseline FILE",
                )),
            };
        }
        if baseline.is_some() {
            return Err(wrong_flags("--baseline and BASELINE cannot be combined"));
        }
        let other = period::settle(query, before)?.own;
        Ok([period::closed(bounds, &own.read)?, period::closed(other, &before.read)?])
    }
}

/// One of the two runs.
struct ComparisonRun {
    side: ComparisonSide,
    recording: bool,
    shared: Rc<RefCell<ComparisonState>>,
}

impl ResultTarget for ComparisonRun {
    type Ready = ();

    fn path(&self) -> Option<&Path> {
        None
    }

    fn files(&self) -> FileAccess {
        FileAccess::ReadOnly
    }

    fn writing(&self) -> RowWriting {
        RowWriting::AtOnce
    }

    fn period(&self, _: &QueryPeriods) -> anyhow::Result<TimeBounds> {
        Ok(self.shared.borrow().periods[place(self.side)])
    }

    /// The runs produce tuples; the comparison computes the results.
    fn fit(&self, plan: &mut Plan) -> anyhow::Result<()> {
        plan.dataflow = compare::tuples_of(&plan.dataflow);
        if !self.recording {
            // Tuples of workers are sorted by these.
            planner::add_columns(plan, &[common::ID, common::TS, common::TS_END]);
        }
        Ok(())
    }

    fn prepare(&self) -> anyhow::Result<()> {
        Ok(())
    }

    fn name(&self, (): &()) -> (String, bool) {
        ("the comparison".into(), false)
    }

    fn open(&self, (): (), _: SinkContext) -> anyhow::Result<Box<dyn Sink>> {
        Ok(Box::new(ComparisonSink { side: self.side, shared: self.shared.clone() }))
    }
}

/// Passes a run's tuples to the comparison.
struct ComparisonSink {
    side: ComparisonSide,
    shared: Rc<RefCell<ComparisonState>>,
}

impl Sink for ComparisonSink {
    fn write(&mut self, _: usize, batch: &Batch) -> io::Result<()> {
        let shared = &mut *self.shared.borrow_mut();
        shared.tuples[place(self.side)] += batch.rows() as u64;
        shared.comparison.push(self.side, batch);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn place(side: ComparisonSide) -> usize {
    match side {
        ComparisonSide::Own => 0,
        ComparisonSide::Baseline => 1,
    }
}
