//! Translates a dataflow to Flink SQL statements, which the caller submits. Flink merges, and an engine computes the
//! final results.
//!
//! # Printed statements
//!
//! Tables over Kafka topics in Avro without a registry: tuples by input (`tuples_0`, …), or cells by pipeline
//! (`sent_0`, …). For tuples, views filter (`input_0`), join (`joined_1`), compute (`computed_0` for columns that
//! depend on no other computed column, then `computed_1`, …), and filter again (`kept`). View `rows_0` converts them
//! to cells as defined in [`crate::cells`]. `panes_0` merges cells by key in tumbling windows of the pane length, or
//! of ten seconds without windows. `ranked_0` contains the rows left by the first stage of a ranking. `marks_0`
//! counts the remaining rows per pane. `merged_0` is the sink topic, read by [`crate::Engine::partial_of_cells`].
//! Dataflows without pipelines emit their tuples ([`tuple_columns`]) and a mark per second.
//!
//! A mark states that a pane is complete. Panes without rows have no mark. Records after the watermark,
//! which Flink drops silently, are in no pane; dataflows without pipelines emit them uncounted.
//!
//! # Time
//!
//! The rowtime of a tuple is its `ts_end` in milliseconds, rounded down. The watermark is derived from a lane's
//! promise: the promise excludes only older records, Flink's watermark also records of the same time. Beats have no
//! time other than the promise.
//! The time of a joined tuple is the later of its parts' times and must be the rowtime of one input: the two cases
//! are joined separately by intervals and combined with UNION. Tuples more than [`FlinkSqlJob::join_span_ms`] apart are not
//! joined, and joined tuples are delayed by this time, because Flink holds back watermarks.
//!
//! # Unsupported
//!
//! - Regular expressions: Java's match the same texts only in simple cases, and they backtrack: crafted input could
//!   stall a job.
//! - `subnet`: Flink has no function to format an address. `url_query`: invalid UTF-8 is decoded differently.
//! - Bit operations on two columns: Flink has no bit operators. With a constant they are computed by division.
//! - The remainder of floating point numbers: MOD is only for integers.
//! - LIKE on checksums, which are bytes in Flink.
//! - Profiles and standard deviations of floating point numbers, from tuples: their sketches are not sums. From cells
//!   they are passed on as whole rows.
//! - Panes that are not a multiple of 1 ms.
//! - Columns added by a query to those of a parser (`label.…`, headers): the topic does not contain them.
//!
//! # Pitfalls, each tested with Flink 2.2
//!
//! - BIGINT wraps, even in a cast from decimal. Only TRY_CAST from *text* returns null for an overflow.
//! - Division by zero fails the job, even for floating point. Division by a constant null fails the planner, so
//!   expressions without columns are evaluated here.
//! - MOD has the type of its second argument: an uncast literal would make it a 32-bit integer.
//! - `x IN (…)` on bytes is never true. `=`, `<`, and GROUP BY on bytes work, unsigned. MIN and MAX on bytes do not
//!   exist.
//! - Texts compare by UTF-16 if both are Java strings, otherwise by bytes: their UTF-8 is compared. Equality is
//!   correct.
//! - LIKE's `_` does not match a line break; its `%` does. Patterns with `_` are printed as regular expressions
//!   without backtracking.
//! - SPLIT_INDEX returns null for an empty text, and splits at blanks if the separator is empty.
//! - CHAR_LENGTH, REVERSE, and TRANSLATE count characters, including those beyond 16 bits. LOWER and UPPER are
//!   Java's: letters added after Unicode 13 are translated separately, and its final sigma rule differs. The locale
//!   of the TaskManagers must not be Turkish or Lithuanian.
//! - A decimal sum beyond 38 digits becomes null and restarts with the next row: values too large to be squared are
//!   written to separate rows, which the reader rejects.
//! - An uncast text literal has a type of its own length, and CASE pads to the longer one: values are cast to STRING.
//! - Floating point: −0.0 and 0.0 are separate groups. Infinity is a value; in the engine it is null.
//! - Only ROW_NUMBER ranks streams; ties are broken by the key, as in the engine.
//! - Two INSERTs into one topic would share their transactional IDs: rows and marks use one INSERT.
//! - `GROUP BY window_start, window_end` drops the rowtime; `window_time` must be a key.

mod arithmetic;
mod cells;
mod expression;
mod job;
mod lexical;
mod merge;
mod predicate;
mod printer;
mod ranking;
mod raw;
mod text;
mod tuples;
mod value;

use plan::{Column, Dataflow, Expr, Predicate};
use tuple::DataType;

use crate::cells::{CellOrigin, CellTable};
use crate::config::EngineConfig;

use printer::SqlPrinter;

pub use job::{
    FlinkJobInput, FlinkSqlJob, FlinkStartOffset, FlinkStopMode, FlinkTopic, slot_memory_bytes,
};
pub use printer::UnprintablePart;
pub use raw::{MARKED_MS, TupleColumn, tuple_columns};

/// The statements of a job that merges the data of a dataflow, in the order of submission: settings, tables, views,
/// and the statement that starts the job.
///
/// # Errors
/// All unsupported parts.
pub fn print(
    dataflow: &Dataflow,
    config: &EngineConfig,
    job: &FlinkSqlJob,
) -> Result<Vec<String>, Vec<UnprintablePart>> {
    let mut refused = Vec::new();
    let mut statements = job.settings();
    let mut inserts = Vec::new();
    let tables: Vec<CellTable> = (0..dataflow.pipelines.len())
        .map(|place| CellTable::new(dataflow, place, config))
        .collect();
    for table in tables
        .iter()
        .filter(|table| table.pane_ns.is_some_and(|ns| ns % 1_000_000 != 0))
    {
        let what = format!("panes of {} ns", table.pane_ns.unwrap_or_default());
        refused.push(UnprintablePart {
            what,
            why: "Flink has a resolution of milliseconds".into(),
        });
    }
    match &job.from {
        FlinkJobInput::Tuples(sources) => {
            let tuples = tuples::TupleView::new(dataflow, sources, job, &mut refused);
            statements.extend(tuples.statements.iter().cloned());
            for (place, table) in tables.iter().enumerate() {
                let rows = cells::of_tuples(table, &tuples, &mut refused);
                statements.push(format!("CREATE TEMPORARY VIEW `rows_{place}` AS\n{rows}"));
                let ranked = ranking::first_stage(place, &dataflow.pipelines[place], table);
                let (more, insert) = merge::merged(place, table, CellOrigin::OfTuples, ranked, job);
                statements.extend(more);
                inserts.push(insert);
            }
            if tables.is_empty() {
                let (more, insert) = raw::written(&tuples, job);
                statements.extend(more);
                inserts.push(insert);
            }
        }
        FlinkJobInput::Cells(sources) => {
            for (place, (table, source)) in tables.iter().zip(sources).enumerate() {
                statements.push(merge::table(place, table, source, job));
                let rows = merge::of_topic(place, table);
                statements.push(format!("CREATE TEMPORARY VIEW `rows_{place}` AS\n{rows}"));
                let (more, insert) = merge::merged(place, table, CellOrigin::Merged, None, job);
                statements.extend(more);
                inserts.push(insert);
            }
        }
    }
    if !refused.is_empty() {
        return Err(refused);
    }
    let inserts: Vec<String> = inserts
        .iter()
        .map(|insert| format!("{insert};\n"))
        .collect();
    statements.push(format!(
        "EXECUTE STATEMENT SET\nBEGIN\n{}END",
        inserts.concat()
    ));
    Ok(statements)
}

/// Prints an expression; `scope` returns the SQL and the type of a column.
///
/// # Errors
/// All unsupported parts.
pub fn expression(
    expr: &Expr,
    scope: &dyn Fn(Column) -> (String, DataType),
) -> Result<String, Vec<UnprintablePart>> {
    let mut printer = SqlPrinter::new(scope);
    let value = printer.expression(expr);
    let data_type = value.data_type.unwrap_or(DataType::I64);
    let sql = value.of(data_type).finite();
    if printer.refused.is_empty() {
        Ok(sql)
    } else {
        Err(printer.refused)
    }
}

/// Prints a condition; see [`expression`].
///
/// # Errors
/// All unsupported parts.
pub fn condition(
    predicate: &Predicate,
    scope: &dyn Fn(Column) -> (String, DataType),
) -> Result<String, Vec<UnprintablePart>> {
    let mut printer = SqlPrinter::new(scope);
    let sql = printer.predicate(predicate);
    if printer.refused.is_empty() {
        Ok(sql)
    } else {
        Err(printer.refused)
    }
}
