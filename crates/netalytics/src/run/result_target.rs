//! Destination of the rows of a run, and the properties of its results.

use std::path::Path;

use capture::seccomp::FileAccess;
use plan::{Plan, TimeBounds};
use planner::PlanOptions;
use query::CheckedQuery;
use runner::{RowWriting, RunResultTable, RunSummary};
use sinks::{ResultHead, Sink, WindowPace};

use crate::cli::flags::WorkFlags;
use crate::cli::verbosity::Verbosity;
use crate::render::hosts::HostNames;
use crate::source::period::QueryPeriods;

/// Flags, destination, and messages of a run.
pub struct RunRequest<'a, T> {
    /// Flags.
    pub flags: &'a WorkFlags,
    /// Destination of the rows.
    pub target: &'a T,
    /// Messages.
    pub telling: Verbosity,
}

impl<T> Clone for RunRequest<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for RunRequest<'_, T> {}

/// Destination of a verb's rows.
pub trait ResultTarget {
    /// State opened before privileges are dropped.
    type Ready;

    /// Output file, if any.
    fn path(&self) -> Option<&Path>;

    /// Files opened after the first row.
    fn files(&self) -> FileAccess;

    /// Kind of output writes.
    fn writing(&self) -> RowWriting;

    /// Options of the plan with the requirements of this verb; rejects queries that it does not support.
    fn options(&self, _query: &CheckedQuery, options: PlanOptions) -> anyhow::Result<PlanOptions> {
        Ok(options)
    }

    /// Whether its rows are displayed as they arrive.
    fn is_watched(&self, _ready: &Self::Ready) -> bool {
        false
    }

    /// Period of the query that is read.
    fn period(&self, periods: &QueryPeriods) -> anyhow::Result<TimeBounds> {
        periods.only()
    }

    /// Opens files that need privileges. `query`: its text.
    fn prepare(&self, query: &str) -> anyhow::Result<Self::Ready>;

    /// Starts additional threads; privileges have been dropped.
    fn start(&self, _ready: &mut Self::Ready) -> anyhow::Result<()> {
        Ok(())
    }

    /// Completes the summary after all rows have been written.
    fn conclude(&self, _plan: &Plan, _summary: &mut RunSummary) {}

    /// Name for messages, and whether it is a terminal.
    fn name(&self, ready: &Self::Ready) -> (String, bool);

    /// Opens the sink.
    fn open(&self, ready: Self::Ready, opened: SinkContext) -> anyhow::Result<Box<dyn Sink>>;
}

/// Properties of the results, known before the first row.
pub struct SinkContext {
    /// The results.
    pub heads: Vec<ResultHead>,
    /// The results as tables, for sinks that store them.
    pub tables: Vec<RunResultTable>,
    /// Host names.
    pub names: HostNames,
    /// Time at which rows of windows are shown.
    pub pace: WindowPace,
    /// Memory for row groups of Parquet, in bytes.
    pub row_group_bytes: usize,
}
