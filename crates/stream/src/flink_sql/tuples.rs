//! The tuples of all topics as one view: filtered, joined, and with computed columns. In addition to the dataflow's
//! columns it has
//!
//! - `_et`: the rowtime, in milliseconds; `_ms` and `_end_ns`: the same as integers, the latter with full precision,
//! - `_replicate`.
//!
//! Flink supports interval joins before windows only with the rowtime of an input, but the time of a joined tuple is
//! the later of its parts' times. Pairs with a later left part and pairs with a later right part are therefore joined
//! separately and combined.

use std::collections::BTreeSet;
use std::sync::Arc;

use plan::{Column, ComputedField, Dataflow, DataflowInput};
use tuple::{DataType, FieldId, Schema, common};

use super::job::{FlinkSqlJob, FlinkTopic};
use super::lexical::{column_type, floor_ms, interval, name};
use super::printer::{SqlPrinter, UnprintablePart};
use crate::ops::join::joined_schema;

/// The view and its columns.
pub struct TupleView {
    /// Statements that create the table.
    pub statements: Vec<String>,
    /// Name of the view.
    pub view: String,
    /// The columns of the inputs, then the computed columns.
    pub schema: Schema,
    /// Column names in the view.
    pub names: Vec<String>,
    /// Columns present in the view.
    pub present: Vec<FieldId>,
    /// First field of each input.
    pub starts: Vec<u16>,
    base: u16,
}

impl TupleView {
    /// The columns for a dataflow, without a view.
    pub fn of(dataflow: &Dataflow) -> TupleView {
        let (mut schema, starts) = match &dataflow.inputs[..] {
            [only] => (Schema::clone(&only.schema), vec![0]),
            inputs => joined_schema(inputs),
        };
        let base = schema.fields.len() as u16;
        let of_inputs = |(input, start): (&DataflowInput, &u16)| -> Vec<FieldId> {
            input
                .columns
                .iter()
                .map(|field| FieldId(start + field.0))
                .collect()
        };
        let mut present: Vec<FieldId> = dataflow
            .inputs
            .iter()
            .zip(&starts)
            .flat_map(of_inputs)
            .collect();
        present.extend((0..dataflow.computed.len() as u16).map(|i| FieldId(base + i)));
        schema.fields.extend(
            dataflow
                .computed
                .iter()
                .map(|computed| computed.field.clone()),
        );
        let names = unique_names(&schema);
        TupleView {
            statements: Vec::new(),
            view: String::new(),
            schema,
            names,
            present,
            starts,
            base,
        }
    }

    /// The view for a dataflow.
    pub fn new(
        dataflow: &Dataflow,
        sources: &[FlinkTopic],
        job: &FlinkSqlJob,
        refused: &mut Vec<UnprintablePart>,
    ) -> TupleView {
        let mut tuples = TupleView::of(dataflow);
        for (place, (input, source)) in dataflow.inputs.iter().zip(sources).enumerate() {
            tuples
                .statements
                .push(table(place, &input.schema, source, job));
            tuples.input(place, input, refused);
        }
        tuples.view = "input_0".into();
        for place in 1..dataflow.inputs.len() {
            tuples.join(place, dataflow, job);
        }
        tuples.compute(&dataflow.computed, refused);
        if let Some(filter) = &dataflow.filter {
            let from = name(&tuples.view);
            let filter = tuples.printed(refused, |printer| printer.predicate(filter));
            tuples.make_view("kept", &format!("SELECT * FROM {from}\nWHERE {filter}"));
        }
        tuples
    }

    /// Position of a column in the schema.
    pub fn place(&self, column: Column) -> FieldId {
        match column.computed_place() {
            Some(place) => FieldId(self.base + place as u16),
            None => FieldId(self.starts[usize::from(column.input)] + column.field.0),
        }
    }

    /// SQL and type of a column in the view.
    pub fn column(&self, column: Column) -> (String, DataType) {
        let id = self.place(column);
        (
            name(&self.names[usize::from(id.0)]),
            self.schema.field(id).data_type,
        )
    }

    /// Runs `print` with a printer for the view's columns.
    pub fn printed<T>(
        &self,
        refused: &mut Vec<UnprintablePart>,
        print: impl FnOnce(&mut SqlPrinter<'_>) -> T,
    ) -> T {
        let scope = |column| self.column(column);
        let mut printer = SqlPrinter::new(&scope);
        let printed = print(&mut printer);
        refused.extend(printer.refused);
        printed
    }

    fn make_view(&mut self, view: &str, query: &str) {
        self.statements
            .push(format!("CREATE TEMPORARY VIEW {} AS\n{query}", name(view)));
        self.view = view.into();
    }

    /// Adds the view of an input's tuples, without beats. Conditions on this input alone use the topic's column
    /// names.
    fn input(&mut self, place: usize, input: &DataflowInput, refused: &mut Vec<UnprintablePart>) {
        let own = |id: FieldId| name(&input.schema.field(id).name);
        let renamed = |id: &FieldId| {
            let here = name(&self.names[usize::from(self.starts[place] + id.0)]);
            if own(*id) == here {
                here
            } else {
                format!("{} AS {here}", own(*id))
            }
        };
        for (id, ..) in input
            .schema
            .members()
            .filter(|(id, ..)| input.columns.contains(id))
        {
            let field = &input.schema.field(id).name;
            refused.push(UnprintablePart {
                what: field.to_string(),
                why: "the topic has no such column".into(),
            });
        }
        let mut columns: Vec<String> = input.columns.iter().map(renamed).collect();
        let end = own(common::TS_END);
        columns.push(format!("{end} AS `_end_ns`"));
        columns.push(format!("{} AS `_ms`", floor_ms(&end)));
        columns.push("COALESCE(`replicate`, 0) AS `_replicate`".into());
        columns.push("`_et`".into());
        let mut conditions = vec![format!("{end} IS NOT NULL")];
        if let Some(filter) = &input.filter {
            let scope = |column: Column| {
                (
                    own(column.field),
                    input.schema.field(column.field).data_type,
                )
            };
            let mut printer = SqlPrinter::new(&scope);
            conditions.push(printer.predicate(filter));
            refused.extend(printer.refused);
        }
        let query = format!(
            "SELECT\n  {}\nFROM `tuples_{place}`\nWHERE {}",
            columns.join(",\n  "),
            conditions.join(" AND ")
        );
        self.make_view(&format!("input_{place}"), &query);
    }

    /// Joins the preceding inputs with the next one.
    fn join(&mut self, place: usize, dataflow: &Dataflow, job: &FlinkSqlJob) {
        let before = if place == 1 {
            "input_0".to_owned()
        } else {
            format!("joined_{}", place - 1)
        };
        let id = |input: usize| name(&self.names[usize::from(self.starts[input] + common::ID.0)]);
        let of = |side: char, inputs: std::ops::Range<usize>| -> Vec<String> {
            let of_input = |input: usize| {
                let start = self.starts[input];
                dataflow.inputs[input]
                    .columns
                    .iter()
                    .map(move |field| FieldId(start + field.0))
            };
            let all = inputs.flat_map(of_input).filter(|id| *id != common::TS_END);
            all.map(|id| format!("{side}.{}", name(&self.names[usize::from(id.0)])))
                .collect()
        };
        let mut columns = of('a', 0..place);
        columns.extend(of('b', place..place + 1));
        let end = name(&self.names[usize::from(common::TS_END.0)]);
        columns.push(format!("GREATEST(a.`_end_ns`, b.`_end_ns`) AS {end}"));
        columns.push("GREATEST(a.`_end_ns`, b.`_end_ns`) AS `_end_ns`".into());
        columns.push("GREATEST(a.`_ms`, b.`_ms`) AS `_ms`".into());
        columns.push("a.`_replicate`".into());
        let span = interval(job.join_span_ms);
        let least = interval(1);
        let half = |later: char, when: String| {
            format!(
                "SELECT\n  {},\n  {later}.`_et`\nFROM {} a JOIN `input_{place}` b ON a.{} = b.{}\n  AND {when}",
                columns.join(",\n  "),
                name(&before),
                id(0),
                id(place),
            )
        };
        let query = [
            half('a', format!("b.`_et` BETWEEN a.`_et` - {span} AND a.`_et`")),
            half(
                'b',
                format!("a.`_et` BETWEEN b.`_et` - {span} AND b.`_et` - {least}"),
            ),
        ];
        self.make_view(&format!("joined_{place}"), &query.join("\nUNION ALL\n"));
    }

    /// Adds computed columns in levels, those without dependencies first.
    fn compute(&mut self, all: &[ComputedField], refused: &mut Vec<UnprintablePart>) {
        let mut levels: Vec<usize> = Vec::new();
        for computed in all {
            let mut level = 0;
            computed.expr.columns(&mut |column| {
                let below = column.computed_place().map(|place| levels[place] + 1);
                level = level.max(below.unwrap_or(0));
            });
            levels.push(level);
        }
        for level in levels.iter().copied().collect::<BTreeSet<usize>>() {
            let mut columns = String::new();
            for (place, computed) in all
                .iter()
                .enumerate()
                .filter(|(place, _)| levels[*place] == level)
            {
                let sql = self.printed(refused, |printer| computed_column(printer, computed));
                let id = usize::from(self.base) + place;
                columns.push_str(&format!(",\n  {sql} AS {}", name(&self.names[id])));
            }
            let from = name(&self.view);
            self.make_view(
                &format!("computed_{level}"),
                &format!("SELECT\n  *{columns}\nFROM {from}"),
            );
        }
    }
}

/// The value of a computed column. A renamed column is unchanged.
fn computed_column(printer: &mut SqlPrinter<'_>, computed: &ComputedField) -> String {
    match &computed.expr {
        plan::Expr::Column(column) => printer.column(*column).0,
        expr => printer
            .expression(expr)
            .of(computed.field.data_type)
            .finite(),
    }
}

/// The source table of an input. All fields are declared, in the order of the record.
fn table(place: usize, schema: &Arc<Schema>, source: &FlinkTopic, job: &FlinkSqlJob) -> String {
    let members: BTreeSet<u16> = schema.members().map(|(id, ..)| id.0).collect();
    let own = schema
        .ids()
        .filter(|id| !members.contains(&id.0))
        .map(|id| schema.field(id));
    let columns: String = own
        .map(|field| {
            format!(
                "  {} {},\n",
                name(&field.name),
                column_type(field.data_type)
            )
        })
        .collect();
    let end = format!(
        "COALESCE({}, `wm_ns`)",
        name(&schema.field(common::TS_END).name)
    );
    format!(
        "CREATE TEMPORARY TABLE `tuples_{place}` (\n  `wm_ns` BIGINT,\n  `replicate` BIGINT,\n{columns}  \
         `_et` AS TO_TIMESTAMP_LTZ({}, 3),\n  \
         WATERMARK FOR `_et` AS TO_TIMESTAMP_LTZ({} - {}, 3)\n) {}",
        floor_ms(&end),
        floor_ms("`wm_ns`"),
        // Flink's watermark also excludes records of the same time; a lane's promise excludes only older ones.
        source.lateness_ms + 1,
        job.reading(source),
    )
}

/// Unique field names; repeated names get their position as a suffix.
fn unique_names(schema: &Schema) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (place, field) in schema.fields.iter().enumerate() {
        let is_taken = names.iter().any(|name| *name == field.name);
        names.push(if is_taken {
            format!("{}#{place}", field.name)
        } else {
            field.name.to_string()
        });
    }
    names
}
