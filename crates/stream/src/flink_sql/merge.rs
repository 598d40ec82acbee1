//! Cells merged by pane, and marks with the number of rows per pane.
//!
//! Rows and marks share one table and one statement: two sinks for one topic would conflict over its transactions.

use super::cells::pane_ms;
use super::job::{FlinkSqlJob, FlinkTopic};
use super::lexical::{cell_type, floor_to, interval, name};
use crate::cells::{CellColumn, CellColumnRole, CellMerge, CellOrigin, CellTable};

/// The source table of a pipeline's cells.
pub fn table(place: usize, table: &CellTable, source: &FlinkTopic, job: &FlinkSqlJob) -> String {
    let columns: String = table
        .columns_of(CellOrigin::Sent)
        .map(|c| format!("{},\n", declared(c)))
        .collect();
    let late = if source.lateness_ms > 0 {
        format!(" - {}", source.lateness_ms)
    } else {
        String::new()
    };
    format!(
        "CREATE TEMPORARY TABLE `sent_{place}` (\n{columns}  \
         `_et` AS TO_TIMESTAMP_LTZ(COALESCE(`et_ms`, `wm_ms`), 3),\n  \
         WATERMARK FOR `_et` AS TO_TIMESTAMP_LTZ(`wm_ms`{late}, 3)\n) {}",
        job.reading(source),
    )
}

/// The view of these cells, without beats.
pub fn of_topic(place: usize, table: &CellTable) -> String {
    let columns = table
        .columns_of(CellOrigin::Sent)
        .filter(|column| column.role != CellColumnRole::Promise);
    let lines: Vec<String> = columns
        .map(|column| match column.role {
            CellColumnRole::Time => {
                format!(
                    "  {} AS {}",
                    floor_to("`et_ms`", pane_ms(table)),
                    name(&column.name)
                )
            }
            _ => format!("  {}", name(&column.name)),
        })
        .collect();
    format!(
        "SELECT\n  `_et`,\n{}\nFROM `sent_{place}`\nWHERE `pane` IS NOT NULL",
        lines.join(",\n")
    )
}

/// The views that merge `rows_PLACE`, the sink table, and the query that fills it. `ranked` creates a view with the
/// rows left by a ranking, if any are removed.
pub fn merged(
    place: usize,
    table: &CellTable,
    origin: CellOrigin,
    ranked: Option<String>,
    job: &FlinkSqlJob,
) -> (Vec<String>, String) {
    let columns: Vec<&CellColumn> = table.columns_of(origin).collect();
    let size = interval(pane_ms(table));
    let mut keys = vec!["`window_start`", "`window_end`", "`window_time`"];
    let mut lines = Vec::new();
    let names: Vec<String> = columns.iter().map(|column| name(&column.name)).collect();
    for (column, quoted) in columns.iter().zip(&names) {
        match column.role {
            CellColumnRole::Merge(merge) => {
                lines.push(format!("  {}({quoted}) AS {quoted}", function(merge)))
            }
            CellColumnRole::Mark | CellColumnRole::Promise => {}
            CellColumnRole::Time | CellColumnRole::Key | CellColumnRole::Value => {
                lines.push(format!("  {quoted}"));
                keys.push(quoted);
            }
        }
    }
    let panes = format!(
        "CREATE TEMPORARY VIEW `panes_{place}` AS\nSELECT\n  `window_start` AS `_start`,\n  `window_end` AS `_end`,\n  `window_time` AS `_time`,\n{}\n\
         FROM TABLE(TUMBLE(TABLE `rows_{place}`, DESCRIPTOR(`_et`), {size}))\nGROUP BY {}",
        lines.join(",\n"),
        keys.join(", ")
    );
    let left = if ranked.is_some() {
        format!("`ranked_{place}`")
    } else {
        format!("`panes_{place}`")
    };
    let marks = format!(
        "CREATE TEMPORARY VIEW `marks_{place}` AS\nSELECT MIN(`et_ms`) AS `et_ms`, COUNT(*) AS `mark`\n\
         FROM TABLE(TUMBLE(TABLE {left}, DESCRIPTOR(`_time`), {size}))\nGROUP BY `window_start`, `window_end`"
    );
    let sink: Vec<String> = columns.iter().map(|c| declared(c)).collect();
    let sink = format!(
        "CREATE TEMPORARY TABLE `merged_{place}` (\n{}\n) {}",
        sink.join(",\n"),
        job.writing(place)
    );
    let rows = told(&columns, |column| column.role != CellColumnRole::Mark);
    let counts = told(&columns, |column| {
        matches!(column.role, CellColumnRole::Time | CellColumnRole::Mark)
    });
    let insert = format!(
        "INSERT INTO `merged_{place}`\nSELECT {rows} FROM {left}\nUNION ALL\nSELECT {counts} FROM `marks_{place}`"
    );
    (
        std::iter::once(panes)
            .chain(ranked)
            .chain([marks, sink])
            .collect(),
        insert,
    )
}

/// A select list in which missing columns are null.
fn told(columns: &[&CellColumn], is_there: impl Fn(&CellColumn) -> bool) -> String {
    let one = |column: &&CellColumn| {
        if is_there(column) {
            name(&column.name)
        } else {
            format!("CAST(NULL AS {})", cell_type(column.data))
        }
    };
    columns.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn declared(column: &CellColumn) -> String {
    format!("  {} {}", name(&column.name), cell_type(column.data))
}

fn function(merge: CellMerge) -> &'static str {
    match merge {
        CellMerge::Sum => "SUM",
        CellMerge::Min => "MIN",
        CellMerge::Max => "MAX",
    }
}
