//! Test support: two small queries, and reporting workers.

use std::sync::Arc;

use plan::{
    AggregateFunction, Column, Dataflow, DataflowInput, GroupBy, Pipeline, ResultSelection, TopK,
    Window,
};
use stream::{EngineOutput, EngineSet, LossCount, PartialResultSet};
use tuple::{DataType, Field, FieldId, Schema, TupleWriter, Unit, common};
use wire::Timestamp;

use crate::report::{ReportPart, WorkerReport};

/// Query on the tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixtureQuery {
    /// The tuples.
    Raw,
    /// Count in windows of ten, by name and in total.
    Windows,
    /// Count in windows of twenty that start every ten.
    Sliding,
    /// Count over the whole run.
    Whole,
}

/// A tuple: name, time, and flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixtureTuple {
    pub name: u8,
    pub time: i64,
    pub flow: u64,
}

/// A query.
pub struct QueryFixture {
    pub schema: Arc<Schema>,
    pub columns: Vec<FieldId>,
    dataflow: Dataflow,
}

impl QueryFixture {
    pub fn new(query: FixtureQuery) -> QueryFixture {
        let name = [Field::new("name", DataType::Text, Unit::None, "a name")];
        let schema = Arc::new(Schema::of_parser("test", 1, "tests", &name, None, None));
        let name = schema.find("name").expect("it was just made");
        let columns = vec![common::ID, common::TS, common::TS_END, name];
        let input = DataflowInput {
            schema: schema.clone(),
            columns: columns.clone(),
            filter: None,
        };
        let column = |field| Column { input: 0, field };
        let window = match query {
            FixtureQuery::Raw | FixtureQuery::Windows => Some(Window {
                size_ns: 10,
                slide_ns: 10,
                lateness_ns: 0,
            }),
            FixtureQuery::Sliding => Some(Window {
                size_ns: 20,
                slide_ns: 10,
                lateness_ns: 0,
            }),
            FixtureQuery::Whole => None,
        };
        let pipeline = |group: Vec<GroupBy>, top_k| Pipeline {
            name: "count".into(),
            values: Vec::new(),
            value_required: false,
            group,
            aggregates: vec![AggregateFunction::Count.into()],
            top_k,
            window,
            groups_max: 1000,
            selection: ResultSelection::default(),
            profile: None,
        };
        let by_name = vec![GroupBy {
            column: column(name),
            name: "name".into(),
        }];
        let pipelines = match query {
            FixtureQuery::Raw => Vec::new(),
            FixtureQuery::Windows | FixtureQuery::Sliding | FixtureQuery::Whole => {
                vec![
                    pipeline(by_name, Some(TopK { k: 3, by: 0 })),
                    pipeline(Vec::new(), None),
                ]
            }
        };
        let dataflow = Dataflow {
            inputs: vec![input],
            filter: None,
            pipelines,
            ..Dataflow::default()
        };
        QueryFixture {
            schema,
            columns,
            dataflow,
        }
    }

    /// Engines that emit rows.
    pub fn engines(&self) -> EngineSet {
        EngineSet::new(
            std::slice::from_ref(&self.dataflow),
            &stream::EngineConfig::default(),
        )
    }

    /// Engines of a relaying collector.
    pub fn relaying(&self) -> EngineSet {
        EngineSet::worker(
            std::slice::from_ref(&self.dataflow),
            &stream::EngineConfig::default(),
        )
    }

    /// A worker.
    pub fn lane(&self) -> FixtureLane {
        let config = stream::EngineConfig::default();
        FixtureLane {
            engines: EngineSet::worker(std::slice::from_ref(&self.dataflow), &config),
            writer: TupleWriter::new(self.schema.clone(), &self.columns),
            name: self.columns[3],
        }
    }
}

/// A worker of a lane.
pub struct FixtureLane {
    engines: EngineSet,
    writer: TupleWriter,
    name: FieldId,
}

impl FixtureLane {
    /// Content of its open windows.
    pub fn peek(&self) -> Option<PartialResultSet> {
        self.engines.peek(usize::MAX)
    }

    /// Report on tuples with this watermark.
    pub fn report(&mut self, watermark: i64, tuples: &[FixtureTuple]) -> WorkerReport {
        for tuple in tuples {
            self.writer.u64(common::ID, tuple.flow);
            self.writer.i64(common::TS, 0);
            self.writer.i64(common::TS_END, tuple.time);
            self.writer.text(self.name, &[tuple.name]);
            self.writer.end_row();
        }
        let mut part = ReportPart::default();
        let mut rows = Vec::new();
        self.engines.push(0, &self.writer.finish(), &mut rows);
        rows.into_iter()
            .for_each(|output: EngineOutput| part.add_rows(output.batch));
        self.engines
            .detach(watermark)
            .into_iter()
            .for_each(|windows| part.add_windows(windows));
        let loss = LossCount::default();
        let watermark = Timestamp(watermark);
        WorkerReport {
            epoch: 0,
            watermark,
            part,
            loss,
            lost: None,
            limited: None,
            open: None,
        }
    }

    /// Final report with this watermark.
    pub fn last(&mut self, watermark: i64) -> WorkerReport {
        let mut part = ReportPart::default();
        part.add_windows(self.engines.detach_all());
        let loss = LossCount::default();
        let watermark = Timestamp(watermark);
        WorkerReport {
            epoch: 0,
            watermark,
            part,
            loss,
            lost: None,
            limited: None,
            open: None,
        }
    }
}
