//! Requirements of a run on the plan of its query: input, output, limits, and additional columns.

use plan::{Column, ComputedField, Pipeline, QueryLimit, TimeBounds};
use query::CheckedQuery;
use tuple::{AgentOrigin, FieldId};

use crate::query_dataflow::dataflow;

/// Options of [`crate::lower_with`].
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Input of the plan.
    pub input: PlanInput,
    /// Rows that the plan returns.
    pub output: PlanOutput,
    /// Restricts `ts_end` of the tuples, as for windows. All packets are read, because earlier packets may be part of
    /// these tuples.
    pub bounds: TimeBounds,
    /// Upper bounds of LIMIT.
    pub limit: QueryLimit,
    /// Upper bound of `groups_max` of the query's processors.
    pub groups_max: Option<usize>,
    /// Seed of SAMPLE.
    pub sample_seed: u64,
    /// Additional columns of the first input.
    pub columns: Vec<FieldId>,
    /// Additional results, after those of the query.
    pub pipelines: Vec<Pipeline>,
    /// Field whose columns are omitted, unless the query [reads](PlanOptions::reads) one.
    pub omitted: Option<&'static str>,
}

/// Input of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlanInput {
    /// Packets, selected by the monitor.
    #[default]
    Packets,
    /// Recorded or published tuples, selected by the dataflow.
    Tuples {
        /// Start of a time limit, in ns since 1970.
        first_ts: Option<i64>,
    },
}

/// Rows that a plan returns.
#[derive(Clone, Debug, Default)]
pub enum PlanOutput {
    /// Results of the query.
    #[default]
    Results,
    /// Whole tuples for later queries, with columns for their origin; SELECT only names the stored fields. With PROCESS
    /// the results of the query.
    Recording(AgentOrigin),
    /// Tuples from which a comparison computes the results.
    Comparison,
}

impl PlanOptions {
    /// Whether the query reads a column named `field`, other than to output all columns.
    #[must_use]
    pub fn reads(&self, query: &CheckedQuery, field: &str) -> bool {
        let dataflow = dataflow(query);
        let select = match self.output {
            PlanOutput::Recording(_) => None,
            PlanOutput::Results | PlanOutput::Comparison => dataflow.rows.select.as_ref(),
        };
        let shown = select
            .into_iter()
            .flatten()
            .chain(dataflow.rows.order.iter().map(|(column, _)| column));
        let shown: Vec<Column> = shown.copied().collect();
        dataflow.inputs.iter().zip(0_u16..).any(|(input, i)| {
            let Some(id) = input
                .schema
                .find(field)
                .filter(|id| input.columns.contains(id))
            else {
                return false;
            };
            // With processors, an input has only the columns that are read.
            let mut is_read = !dataflow.pipelines.is_empty();
            let mut read = |column: Column| is_read |= (column.input, column.field) == (i, id);
            let mut read = |column| ComputedField::sources(&dataflow.computed, column, &mut read);
            input
                .filter
                .iter()
                .chain(&dataflow.filter)
                .for_each(|filter| filter.columns(&mut read));
            shown.iter().for_each(|column| read(*column));
            is_read
        })
    }
}
