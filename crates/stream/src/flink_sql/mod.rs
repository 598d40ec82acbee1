//! A dataflow as Flink SQL.
mod arithmetic;
mod cells;
mod expression;
mod job;
mod lexical;
mod merge;
mod predicate;
mod ranking;
mod raw;
mod text;
mod tuples;

use plan::{Column, Dataflow, Expr, Predicate};
use tuple::DataType;

use crate::cells::{CellTable, Origin};
use crate::config::Config;

pub use job::{End, From, Job, Source, Start};
pub use raw::{TupleColumn, tuple_columns};

/// Where there are no windows Flink merges by these all the same.
const TEN_SECONDS_MS: i64 = 10_000;

/// A part of a query that cannot be said in Flink SQL so that it means the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprintable {
    /// Which.
    pub what: String,
    /// What stands against it.
    pub why: String,
}

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
    let sql = printer.expression(expr).finite();
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

/// Prints values and conditions.
struct Printer<'a> {
    scope: &'a dyn Fn(Column) -> (String, DataType),
    refused: Vec<Unprintable>,
}

impl<'a> Printer<'a> {
    fn new(scope: &'a dyn Fn(Column) -> (String, DataType)) -> Printer<'a> {
        Printer { scope, refused: Vec::new() }
    }

    fn column(&self, column: Column) -> (String, DataType) {
        (self.scope)(column)
    }

    fn refuse(&mut self, what: &str, why: &str) {
        let one = Unprintable { what: what.into(), why: why.into() };
        if !self.refused.contains(&one) {
            self.refused.push(one);
        }
    }
}
