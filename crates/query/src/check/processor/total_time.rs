//! P99 of the total time after the statistics of a difference, because `diff` ends at the first byte of a response.

use plan::{AggregateColumn, AggregateFunction, AggregatedValue, Column, Pipeline, result};
use tuple::Unit;

use super::ProcessorReader;
use crate::blocks::ProcessorBlock;

/// Fields with the time up to the first and up to the last byte of the response.
const RESPONSE_TIME: &str = "response_time_ns";
const TOTAL_TIME: &str = "total_time_ns";

impl ProcessorReader<'_> {
    /// Adds p99 of the total time, `p99_total_time_ns`, to the default statistics of a response time. Names and order
    /// of the other columns do not change.
    pub(super) fn add_total_time(&self, processor: &mut Pipeline) {
        let is_default =
            self.has(ProcessorBlock::Diff) && self.has_statistics() && self.arg("value").is_none();
        let [difference] = processor.values[..] else {
            return;
        };
        if !is_default || Some(difference.column) != self.scope.exact(RESPONSE_TIME) {
            return;
        }
        let of_same_tuple = |total: &Column| total.input == difference.column.input;
        let Some(total) = self.scope.exact(TOTAL_TIME).filter(of_same_tuple) else {
            return;
        };
        let named = result::schema(processor, result::IntervalMode::None, &|column| {
            self.scope.field(column).clone()
        });
        let names = &named.fields[result::first_aggregate(processor)..];
        for (aggregate, field) in processor.aggregates.iter_mut().zip(names) {
            let is_of_value = aggregate.aggregate.takes_value();
            aggregate.name = is_of_value.then(|| field.name.to_string());
        }
        let value = processor.values.len();
        processor.values.push(AggregatedValue {
            column: total,
            unit: Unit::Nanoseconds,
        });
        processor.aggregates.push(AggregateColumn {
            aggregate: AggregateFunction::Quantile(0.99),
            value,
            name: None,
        });
    }
}
