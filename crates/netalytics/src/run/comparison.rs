//! Comparison of two periods: the query runs over the baseline and then over the requested period. If both are in one
//! input, it is read twice, each time within one period; a recording is read only within the periods.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context;
use capture::seccomp::FileAccess;
use plan::{SampleMode, TimeBounds};
use planner::{PlanOptions, PlanOutput};
use query::CheckedQuery;
use runner::{MemoryDivision, RowWriting};
use sinks::Sink;
use stream::compare::{self, ComparedResult, ComparisonSide, PeriodComparison};
use tuple::Batch;

use crate::cli::flags::WorkFlags;
use crate::cli::query_text::{CommandQuery, ResolvedQuery};
use crate::cli::verbosity::Verbosity;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::render::hosts::HostNames;
use crate::run::result_target::{ResultTarget, SinkContext};
use crate::run::run_query::work_resolved;
use crate::source::period::{self, QueryPeriods};

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
    pub query: CheckedQuery,
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
        query: &CommandQuery,
        telling: Verbosity,
        begin: &mut dyn FnMut(&[ComparedResult]) -> anyhow::Result<()>,
    ) -> anyhow::Result<ComparisonOutcome> {
        self.refuse()?;
        let resolved = query.resolve(self.own)?;
        let checked = &resolved.checked;
        if checked.sample != SampleMode::All {
            return Err(wrong_flags("a comparison uses every flow: omit SAMPLE"));
        }
        let before = WorkFlags {
            summary_json: None,
            ..self.own.clone()
        };
        // Host names may be contained in the captures.
        let (before, resolved_before) = match self.baseline {
            [] => (before, resolved.clone()),
            files => {
                let before = WorkFlags {
                    read: files.to_vec(),
                    ..before
                };
                let resolved = query.resolve(&before)?;
                (before, resolved)
            }
        };
        let periods = self.periods(checked, &before)?;
        let comparison = self.comparison(checked, periods)?;
        begin(&comparison.results())?;
        let shared = Rc::new(RefCell::new(ComparisonState {
            comparison,
            periods,
            tuples: [0; 2],
        }));
        let telling = if telling == Verbosity::Everything {
            telling
        } else {
            Verbosity::Errors
        };
        let mut ended = CommandOutcome::Done;
        for (side, flags, query) in [
            (ComparisonSide::Baseline, &before, resolved_before),
            (ComparisonSide::Own, self.own, resolved.clone()),
        ] {
            let one = ComparisonRun {
                side,
                shared: shared.clone(),
            };
            if work_resolved(flags, query, &one, telling)? != CommandOutcome::Done {
                ended = CommandOutcome::Incomplete;
            }
        }
        let shared = Rc::into_inner(shared).map(RefCell::into_inner);
        let ComparisonState {
            comparison, tuples, ..
        } = shared.context("a comparison is still running")?;
        let results = comparison.results();
        let mut rows: Vec<Vec<Batch>> = results.iter().map(|_| Vec::new()).collect();
        comparison.finish(&mut |i, batch| rows[i].push(batch));
        let ResolvedQuery {
            checked: query,
            names,
        } = resolved;
        Ok(ComparisonOutcome {
            results,
            rows,
            periods,
            tuples,
            names,
            query,
            ended,
        })
    }

    /// Comparison of a query's results. Monitors produce tuples for it; period limits are applied here.
    fn comparison(
        &self,
        query: &CheckedQuery,
        periods: [TimeBounds; 2],
    ) -> anyhow::Result<PeriodComparison> {
        let [own, baseline] = periods;
        let both = TimeBounds {
            since_ns: own.since_ns.min(baseline.since_ns),
            until_ns: own.until_ns.max(baseline.until_ns),
        };
        let groups_max = self.own.limits.groups_max;
        let options = PlanOptions {
            bounds: both,
            groups_max,
            ..PlanOptions::default()
        };
        let plan = planner::lower_with(query, &options);
        if let Some(why) = compare::refused(&plan.dataflow) {
            return Err(wrong_flags(why));
        }
        let limits = self.own.limits.of_run();
        let config = MemoryDivision::divide(&limits, &plan, RowWriting::AtOnce)
            .config(&limits)
            .stream;
        Ok(PeriodComparison::new(
            &plan.dataflow,
            &config,
            own,
            baseline,
            self.confidence,
        ))
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
    fn periods(&self, query: &CheckedQuery, before: &WorkFlags) -> anyhow::Result<[TimeBounds; 2]> {
        let QueryPeriods {
            own: bounds,
            baseline,
            ..
        } = period::settle(query, self.own)?;
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
        Ok([
            period::closed(bounds, &self.own.read)?,
            period::closed(other, &before.read)?,
        ])
    }
}

/// One of the two runs.
struct ComparisonRun {
    side: ComparisonSide,
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
    fn options(&self, _: &CheckedQuery, options: PlanOptions) -> anyhow::Result<PlanOptions> {
        Ok(PlanOptions {
            output: PlanOutput::Comparison,
            ..options
        })
    }

    fn prepare(&self, _: &str) -> anyhow::Result<()> {
        Ok(())
    }

    fn name(&self, (): &()) -> (String, bool) {
        ("the comparison".into(), false)
    }

    fn open(&self, (): (), _: SinkContext) -> anyhow::Result<Box<dyn Sink>> {
        Ok(Box::new(ComparisonSink {
            side: self.side,
            shared: self.shared.clone(),
        }))
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
