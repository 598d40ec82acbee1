//! Two-stage rankings. The groups of each window are partitioned by a hash of their key, the first k of each
//! partition are kept, and the engine ranks these again. They include the overall first k, because both stages use
//! the same order: by value, null last, then by key, null first, texts by bytes.
//!
//! This is used where it is exact: a window is one pane, a group is one row of it (no sampling, and no entries of
//! histograms or distinct values, which would have to follow their group), no column is a share of the total, and the
//! ranking value is one integer of the row. Otherwise all groups are merged, and only the engine ranks.

use plan::{AggregateFunction, Column, Pipeline};
use tuple::DataType;

use super::lexical::{LEAST, name};
use super::value::bytes_of;
use crate::cells::{AccumulatorSpec, CellTable, ExtremeEnd};

/// Number of partitions.
const PARTS: u32 = 8;

/// The view with the remaining rows of `panes_PLACE`, if any are removed.
pub fn first_stage(place: usize, pipeline: &Pipeline, table: &CellTable) -> Option<String> {
    let top = pipeline.top_k?;
    let is_tumbling = pipeline
        .window
        .is_some_and(|window| window.slide_ns >= window.size_ns);
    let has_entries = table.accumulators.iter().any(|a| {
        matches!(
            a,
            AccumulatorSpec::Histogram(..) | AccumulatorSpec::Distinct(_)
        )
    });
    let has_shares = pipeline
        .aggregates
        .iter()
        .any(|a| matches!(a.aggregate, AggregateFunction::Share(_)));
    if !is_tumbling || has_entries || has_shares || table.rates.is_some() || table.replicates > 1 {
        return None;
    }
    let weight = weight(pipeline, table, top.by)?;
    let mut order = vec![format!("{weight} DESC NULLS LAST")];
    let mut texts = Vec::new();
    for (i, key) in table.keys.iter().enumerate() {
        let of = name(&format!("k{i}"));
        texts.push(format!("CAST({of} AS STRING)"));
        let ordered = match key.data_type {
            DataType::Text | DataType::Json => bytes_of(&of),
            DataType::U64 => format!("{of} + ({LEAST})"),
            _ => of,
        };
        order.push(format!("{ordered} ASC NULLS FIRST"));
    }
    let part = if texts.is_empty() {
        String::new()
    } else {
        format!(
            ", MOD(HASH_CODE(CONCAT_WS(',', {})), {PARTS})",
            texts.join(", ")
        )
    };
    Some(format!(
        "CREATE TEMPORARY VIEW `ranked_{place}` AS\nSELECT * FROM (\n  SELECT *, ROW_NUMBER() OVER (\n    \
         PARTITION BY `_start`, `_end`{part}\n    ORDER BY {}\n  ) AS `_rank` FROM `panes_{place}`\n) WHERE `_rank` <= {}",
        order.join(", "),
        top.k
    ))
}

/// The ranking column.
fn weight(pipeline: &Pipeline, table: &CellTable, by: usize) -> Option<String> {
    let ranked = &pipeline.aggregates[by];
    let is_value = |of: Column| {
        pipeline
            .values
            .get(ranked.value)
            .is_some_and(|value| value.column == of)
    };
    let place = |is: &dyn Fn(&AccumulatorSpec) -> bool| table.accumulators.iter().position(is);
    let is_whole = |data_type| data_type != DataType::F64;
    let extreme = |wanted: ExtremeEnd| {
        place(
            &|a| matches!(a, AccumulatorSpec::Extreme(of, end) if *end == wanted && is_whole(of.data_type) && is_value(of.column)),
        )
    };
    Some(match ranked.aggregate {
        AggregateFunction::Count => format!("`a{}_n`", place(&|a| *a == AccumulatorSpec::Count)?),
        AggregateFunction::Sum => {
            let is_sum = |a: &AccumulatorSpec| matches!(a, AccumulatorSpec::Sum(of) if is_whole(of.data_type) && is_value(of.column));
            format!("`a{}_sum`", place(&is_sum)?)
        }
        AggregateFunction::Min => format!("`a{}`", extreme(ExtremeEnd::Min)?),
        AggregateFunction::Max => format!("`a{}`", extreme(ExtremeEnd::Max)?),
        _ => return None,
    })
}
