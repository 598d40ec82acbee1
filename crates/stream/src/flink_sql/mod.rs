//! A dataflow as Flink SQL: text, which somebody else sends. Flink merges, and an engine of ours finishes.
//!
//! # What is printed
//!
//! Tables of Kafka topics, in Avro without a registry: tuples by input (`tuples_0`, …), or cells by pipeline (`sent_0`, …). Of tuples, views
//! filter (`input_0`), join (`joined_1`), compute (`computed_0`: those that need no other, `computed_1` …) and filter again (`kept`). The view `rows_0` makes cells of
//! them, as [`crate::cells`] says; `panes_0` merges cells by key in tumbling windows, of a pane's length or without windows of ten seconds; `ranked_0` is what the first stage of a ranking
//! leaves; `marks_0` counts what is left of each. `merged_0` is the topic of what comes out: [`crate::Engine::partial_of_cells`] reads it. Dataflows
//! without pipelines give their tuples ([`tuple_columns`]), and a mark for each second.
//!
//! A mark is for whoever knows by it that a pane is complete. Panes without a row have none. Records that come after the watermark, which Flink drops
//! unseen, are in no pane; of dataflows without pipelines they are there, and not counted.
//!
//! # Time
//!
//! A tuple's rowtime is its `ts_end` in milliseconds, rounded down. A lane's promise is the watermark: that nothing older follows,
//! where Flink's says that nothing as old does. Beats have no time of their own but the promise.
//! Joined tuples are as old as the later of their parts, which is the rowtime of either: both halves are joined by intervals and put together. Tuples further apart than
//! [`Job::join_span_ms`] are not joined, and what is joined waits for so long, as Flink holds watermarks back.
//!
//! # What cannot be printed
//!
//! - Regular expressions: those of Java find the same only in simple cases, and backtrack: bytes from outside could stop a job.
//! - `subnet`: there is no function that writes an address as text. `url_query`: bytes that are no UTF-8 are decoded otherwise.
//! - Bits of two columns: there are no operators of bits. With a constant they are cut out by division.
//! - The remainder of real numbers: MOD is for whole ones.
//! - LIKE on check-sums, which are bytes in Flink.
//! - Profiles and standard deviations of real numbers, of tuples: their sketches are no sums. Of cells they go as whole rows.
//! - Panes that are not whole milliseconds.
//! - Columns that a query adds to a parser's own (`label.…`, headers): the topic has none.
//!
//! # Traps, each tried with Flink 2.2
//!
//! - BIGINT wraps, also where a decimal becomes one; TRY_CAST of a *text* is what says null of a number that is too large.
//! - Division by zero ends the job, of real numbers too. Division by a constant null makes the planner fail: what reads no column is computed here.
//! - MOD has the type of its second argument: a bare literal would make it one of 32 bits.
//! - `x IN (…)` of bytes is never true; `=`, `<` and GROUP BY of bytes are right, without a sign. MIN and MAX of bytes do not exist.
//! - Texts compare by UTF-16 where both are Java's, else by bytes: their UTF-8 is compared. Equality is right.
//! - LIKE's `_` is no line break; its `%` is. Patterns with `_` are printed as regular expressions, of which no part is tried twice.
//! - SPLIT_INDEX says null of an empty text, and splits by blanks where the separator is empty.
//! - CHAR_LENGTH, REVERSE and TRANSLATE count characters, beyond the 16-bit ones, too. LOWER and UPPER are Java's: the letters that came after Unicode 13 are translated
//!   besides, and small sigmas are not its. The TaskManagers' locale must not be Turkish or Lithuanian.
//! - A sum of decimals that leaves 38 digits is null, and begins anew with the next row: values too large to be squared go in
//!   rows of their own that are refused by who reads them.
//! - A bare text literal has a type of its own length, of which CASE makes the longer: among values it is a STRING.
//! - Real numbers: −0.0 and 0.0 are two groups. Infinity is a value; here it is null.
//! - Only ROW_NUMBER ranks streams, so that ties are broken by the key as here.
//! - Two INSERTs into one topic would share the names of their transactions: rows and marks are one.
//! - `GROUP BY window_start, window_end` keeps no rowtime; `window_time` has to be among the keys.

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

use crate::cells::{CellTable, Origin};
use crate::config::Config;

use printer::Printer;

pub use job::{End, From, Job, Source, Start, slot_memory_bytes};
pub use printer::Unprintable;
pub use raw::{MARKED_MS, TupleColumn, tuple_columns};

/// The statements of a job that merges what a dataflow needs, in the order in which they are to be sent: settings, tables and views,
/// then one that starts the job.
///
/// # Errors
/// All that cannot be printed.
pub fn print(dataflow: &Dataflow, config: &Config, job: &Job) -> Result<Vec<String>, Vec<Unprintable>> {
    let mut refused = Vec::new();
    let (mut statements, mut inserts) = (job.settings(), Vec::new());
    let tables: Vec<CellTable> =
        (0..dataflow.pipelines.len()).map(|place| CellTable::new(dataflow, place, config)).collect();
    for table in tables.iter().filter(|table| table.pane_ns.is_some_and(|ns| ns % 1_000_000 != 0)) {
        let what = format!("panes of {} ns", table.pane_ns.unwrap_or_default());
        refused.push(Unprintable { what, why: "Flink knows milliseconds".into() });
    }
    match &job.from {
        From::Tuples(sources) => {
            let tuples = tuples::Tuples::new(dataflow, sources, job, &mut refused);
            statements.extend(tuples.statements.iter().cloned());
            for (place, table) in tables.iter().enumerate() {
                let rows = cells::of_tuples(table, &tuples, &mut refused);
                statements.push(format!("CREATE TEMPORARY VIEW `rows_{place}` AS\n{rows}"));
                let ranked = ranking::first_stage(place, &dataflow.pipelines[place], table);
                let (more, insert) = merge::merged(place, table, Origin::OfTuples, ranked, job);
                statements.extend(more);
                inserts.push(insert);
            }
            if tables.is_empty() {
                let (more, insert) = raw::written(&tuples, job);
                statements.extend(more);
                inserts.push(insert);
            }
        }
        From::Cells(sources) => {
            for (place, (table, source)) in tables.iter().zip(sources).enumerate() {
                statements.push(merge::table(place, table, source, job));
                let rows = merge::of_topic(place, table);
                statements.push(format!("CREATE TEMPORARY VIEW `rows_{place}` AS\n{rows}"));
                let (more, insert) = merge::merged(place, table, Origin::Merged, None, job);
                statements.extend(more);
                inserts.push(insert);
            }
        }
    }
    if !refused.is_empty() {
        return Err(refused);
    }
    let inserts: Vec<String> = inserts.iter().map(|insert| format!("{insert};\n")).collect();
    statements.push(format!("EXECUTE STATEMENT SET\nBEGIN\n{}END", inserts.concat()));
    Ok(statements)
}

/// An expression, where `scope` says what stands for a column and what it holds.
///
/// # Errors
/// All that cannot be printed.
pub fn expression(
    expr: &Expr,
    scope: &dyn Fn(Column) -> (String, DataType),
) -> Result<String, Vec<Unprintable>> {
    let mut printer = Printer::new(scope);
    let value = printer.expression(expr);
    let data_type = value.data_type.unwrap_or(DataType::I64);
    let sql = value.of(data_type).finite();
    if printer.refused.is_empty() { Ok(sql) } else { Err(printer.refused) }
}

/// A condition; see [`expression`].
///
/// # Errors
/// All that cannot be printed.
pub fn condition(
    predicate: &Predicate,
    scope: &dyn Fn(Column) -> (String, DataType),
) -> Result<String, Vec<Unprintable>> {
    let mut printer = Printer::new(scope);
    let sql = printer.predicate(predicate);
    if printer.refused.is_empty() { Ok(sql) } else { Err(printer.refused) }
}
