//! Dataflows without pipelines: the tuples, and marks with the number of tuples per second.

use plan::Dataflow;
use tuple::FieldId;

use super::job::FlinkSqlJob;
use super::lexical::{avro_name, cell_type, floor_to, interval, name};
use super::tuples::TupleView;
use crate::cells::CellType;
use crate::ops::join::SAME_IN_ALL;

/// Interval between marks.
pub const MARKED_MS: i64 = 1000;

/// A column of the tuple topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TupleColumn {
    /// Column name.
    pub name: String,
    /// Value type.
    pub data: CellType,
    /// Position in the tuples emitted by an [`crate::Engine`] of the dataflow; `None` for `_second_ms`, the start of
    /// the second in which the tuple ends, and `_mark`.
    pub field: Option<FieldId>,
}

/// The columns of the topic for tuples of a dataflow without pipelines. Rows with `_mark` contain the number of
/// tuples of a second; all others are tuples.
#[must_use]
pub fn tuple_columns(dataflow: &Dataflow) -> Vec<TupleColumn> {
    columns(&TupleView::of(dataflow))
}

fn columns(tuples: &TupleView) -> Vec<TupleColumn> {
    let own = |name: &str| TupleColumn {
        name: name.into(),
        data: CellType::Long,
        field: None,
    };
    let field = |id: &FieldId| TupleColumn {
        name: avro_name(&tuples.names[usize::from(id.0)], id.0.into()),
        data: CellType::of(tuples.schema.field(*id).data_type),
        field: Some(*id),
    };
    // Repeated flow columns of further inputs are skipped.
    let is_news = |id: &&FieldId| {
        !tuples.starts[1..]
            .iter()
            .any(|start| SAME_IN_ALL.iter().any(|f| f.0 + start == id.0))
    };
    let fields = tuples.present.iter().filter(is_news).map(field);
    [own("_second_ms")]
        .into_iter()
        .chain(fields)
        .chain([own("_mark")])
        .collect()
}

/// The view that counts the tuples, the sink table, and the query that fills it.
pub fn written(tuples: &TupleView, job: &FlinkSqlJob) -> (Vec<String>, String) {
    let columns = columns(tuples);
    let view = name(&tuples.view);
    let size = interval(MARKED_MS);
    let second = floor_to("`_ms`", MARKED_MS);
    let marks = format!(
        "CREATE TEMPORARY VIEW `marks_0` AS\nSELECT MIN({second}) AS `_second_ms`, COUNT(*) AS `_mark`\n\
         FROM TABLE(TUMBLE(TABLE {view}, DESCRIPTOR(`_et`), {size}))\nGROUP BY `window_start`, `window_end`"
    );
    let declared: Vec<String> = columns
        .iter()
        .map(|c| format!("  {} {}", name(&c.name), cell_type(c.data)))
        .collect();
    let sink = format!(
        "CREATE TEMPORARY TABLE `merged_0` (\n{}\n) {}",
        declared.join(",\n"),
        job.writing(0)
    );
    let list = |said: &dyn Fn(&TupleColumn) -> Option<String>| -> String {
        let null = |c: &TupleColumn| format!("CAST(NULL AS {})", cell_type(c.data));
        let all: Vec<String> = columns
            .iter()
            .map(|c| said(c).unwrap_or_else(|| null(c)))
            .collect();
        all.join(", ")
    };
    let rows = list(&|c| match (c.field, &*c.name) {
        (Some(id), _) => Some(name(&tuples.names[usize::from(id.0)])),
        (None, "_mark") => None,
        (None, _) => Some(second.clone()),
    });
    let counts = list(&|c| c.field.is_none().then(|| name(&c.name)));
    let insert = format!(
        "INSERT INTO `merged_0`\nSELECT {rows} FROM {view}\nUNION ALL\nSELECT {counts} FROM `marks_0`"
    );
    (vec![marks, sink], insert)
}
