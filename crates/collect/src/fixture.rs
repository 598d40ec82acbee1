//! Test support: two small queries, and reporting workers.

use std::sync::Arc;

use plan::{Aggregate, Column, Dataflow, GroupBy, Input, Pipeline, Selection, TopK, Window};
use stream::{Engines, Loss, Output, Partials};
use tuple::{DataType, Field, FieldId, Schema, TupleWriter, Unit, common};
use wire::Timestamp;

use crate::report::{Part, Report};

/// Query on the tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// The tuples.
    Raw,
    /// Count in windows of ten, by name and in total.
    Windows,
    /// The same in windows of twenty, starting every ten.
    Sliding,
    /// The same over the whole run.
    Whole,
}

/// A tuple: name, time, and flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    pub name: u8,
    pub time: i64,
    pub flow: u64,
}

/// A query.
pub struct Fixture {
    pub schema: Arc<Schema>,
    pub columns: Vec<FieldId>,
    dataflow: Dataflow,
}

impl Fixture {
    pub fn new(query: Query) -> Fixture {
        let name = [Field::new("name", DataType::Text, Unit::None, "a name")];
        let schema = Arc::new(Schema::of_parser("test", 1, "tests", &name, None, None));
        let name = schema.find("name").expect("it was just made");
        let columns = vec![common::ID, common::TS, common::TS_END, name];
        let input = Input { schema: schema.clone(), columns: columns.clone(), filter: None };
        let column = |field| Column { input: 0, field };
        let window = match query {
            Query::Raw | Query::Windows => Some(Window { size_ns: 10, slide_ns: 10, lateness_ns: 0 }),
            Query::Sliding => Some(Window { size_ns: 20, slide_ns: 10, lateness_ns: 0 }),
            Query::Whole => None,
        };
        let pipeline = |group: Vec<GroupBy>, top_k| Pipeline {
            name: "count".into(),
            values: Vec::new(),
            value_required: false,
            group,
            aggregates: vec![Aggregate::Count.into()],
            top_k,
            window,
            groups_max: 1000,
            selection: Selection::default(),
            profile: None,
        };
        let by_name = vec![GroupBy { column: column(name), name: "name".into() }];
        let pipelines = match query {
            Query::Raw => Vec::new(),
            Query::Windows | Query::Sliding | Query::Whole => {
                vec![pipeline(by_name, Some(TopK { k: 3, by: 0 })), pipeline(Vec::new(), None)]
            }
        };
        let dataflow = Dataflow { inputs: vec![input], filter: None, pipelines, ..Dataflow::default() };
        Fixture { schema, columns, dataflow }
    }

    /// Engines that emit rows.
    pub fn engines(&self) -> Engines {
        Engines::new(std::slice::from_ref(&self.dataflow), &stream::Config::default())
    }

    /// Engines of a relaying collector.
    pub fn relaying(&self) -> Engines {
        Engines::worker(std::slice::from_ref(&self.dataflow), &stream::Config::default())
    }

    /// A worker.
    pub fn lane(&self) -> Lane {
        let config = stream::Config::default();
        Lane {
            engines: Engines::worker(std::slice::from_ref(&self.dataflow), &config),
            writer: TupleWriter::new(self.schema.clone(), &self.columns),
            name: self.columns[3],
        }
    }
}

/// A worker of a lane.
pub struct Lane {
    engines: Engines,
    writer: TupleWriter,
    name: FieldId,
}

impl Lane {
    /// Content of its open windows.
    pub fn peek(&self) -> Option<Partials> {
        self.engines.peek(usize::MAX)
    }

    /// Report on tuples with this watermark.
    pub fn report(&mut self, watermark: i64, tuples: &[Tuple]) -> Report {
        for tuple in tuples {
            self.writer.u64(common::ID, tuple.flow);
            self.writer.i64(common::TS, 0);
            self.writer.i64(common::TS_END, tuple.time);
            self.writer.text(self.name, &[tuple.name]);
            self.writer.end_row();
        }
        let (mut part, mut rows) = (Part::default(), Vec::new());
        self.engines.push(0, &self.writer.finish(), &mut rows);
        rows.into_iter().for_each(|output: Output| part.add_rows(output.batch));
        self.engines.detach(watermark).into_iter().for_each(|windows| part.add_windows(windows));
        let (loss, watermark) = (Loss::default(), Timestamp(watermark));
        Report { epoch: 0, watermark, part, loss, lost: None, limited: None, open: None }
    }

    /// Final report with this watermark.
    pub fn last(&mut self, watermark: i64) -> Report {
        let mut part = Part::default();
        part.add_windows(self.engines.detach_all());
        let (loss, watermark) = (Loss::default(), Timestamp(watermark));
        Report { epoch: 0, watermark, part, loss, lost: None, limited: None, open: None }
    }
}
