//! The embedded stream engine: runs a [`plan::Dataflow`] over batches of tuples. Filters, joins, groups, aggregates,
//! rankings, and windows, exact within stated memory limits; with sampling every result has a confidence interval. The
//! engine uses no clock, file, or thread: event time is set with [`Engine::advance`].
//!
//! The two busiest hosts of every second:
//!
//! ```
//! use std::sync::Arc;
//! use plan::{AggregateFunction, Column, Dataflow, DataflowInput, GroupBy, Pipeline, ResultSelection, TopK, Window};
//! use stream::{Engine, EngineConfig};
//! use tuple::{DataType, Field, Schema, TupleWriter, Unit, common};
//!
//! let host = [Field::new("host", DataType::Text, Unit::None, "requested host")];
//! let schema = Arc::new(Schema::of_parser("http", 1, "requests", &host, None, None));
//! let column = Column { input: 0, field: schema.find("host").unwrap() };
//! let columns = vec![common::TS_END, column.field];
//! let second = 1_000_000_000;
//! let busiest = Pipeline {
//!     name: "top-k".into(),
//!     values: Vec::new(),
//!     value_required: false,
//!     group: vec![GroupBy { column, name: "host".into() }],
//!     aggregates: vec![AggregateFunction::Count.into()],
//!     top_k: Some(TopK { k: 2, by: 0 }),
//!     window: Some(Window { size_ns: second, slide_ns: second, lateness_ns: 0 }),
//!     groups_max: 100_000,
//!     selection: ResultSelection::default(),
//!     profile: None,
//! };
//! let input = DataflowInput { schema: schema.clone(), columns: columns.clone(), filter: None };
//! let dataflow = Dataflow { inputs: vec![input], filter: None, pipelines: vec![busiest], ..Dataflow::default() };
//!
//! let mut tuples = TupleWriter::new(schema, &columns);
//! for (time, host) in [(1, "b"), (2, "a"), (3, "b"), (4, "c"), (second, "a")] {
//!     tuples.i64(common::TS_END, time);
//!     tuples.text(column.field, host.as_bytes());
//!     tuples.end_row();
//! }
//! let mut engine = Engine::new(&dataflow, EngineConfig::default());
//! let mut out = Vec::new();
//! engine.push(0, &tuples.finish(), &mut out);
//! engine.advance(second, &mut out); // the first second has ended, the next is open
//!
//! let batch = &out[0].batch;
//! let field = |name: &str| batch.schema().find(name).unwrap();
//! assert_eq!(batch.rows(), 2);
//! assert_eq!(batch.i64(field("window_end")).value(0), second);
//! assert_eq!(batch.text(field("host")).value(0), "b");
//! assert_eq!(batch.u64(field("count")).values(), &[2, 1]);
//! assert_eq!(batch.text(field("host")).value(1), "a"); // as many as "c": ties by key
//! ```
#![forbid(unsafe_code)]

pub mod cells;
pub mod compare;
pub mod config;
pub mod engine;
mod engines;
pub mod flink_sql;
pub mod ops;
pub mod rate_control;
pub mod sampling;
pub mod sketch;

mod column;
mod empty_windows;
mod estimate;
mod joined_dataflow;
mod limited_stretches;
mod loss_history;
mod pane;
mod partial;
mod pipeline;
mod precision;
mod processor_work;
mod profile;
mod result_redaction;
mod results;
mod rows;
mod scalar;
mod seed;
mod selected_flows;
mod selection;
mod server_tap;
mod sliding_merge;
mod tap_join;
mod time_order;
mod tuple_projection;
mod weighted_histogram;
mod window;

pub use config::{EngineConfig, EngineCounters};
pub use empty_windows::{EmptyWindows, SILENT_STRETCHES_MAX};
pub use engine::{Engine, EngineOutput, OutputConsumer};
pub use engines::{EngineSet, PartialResultSet};
pub use joined_dataflow::flat;
pub use limited_stretches::{LimitedStretch, LimitedStretches};
pub use loss_history::{LossCount, LossStretch};
pub use partial::{MalformedPartial, PartialResult};
pub use precision::{PrecisionLog, SampledWindow};
pub use results::OTHER;
pub use selected_flows::{MatchedTuple, NEWS_COLUMNS, SelectedFlows};
pub use server_tap::{ServerTap, TapCounts, TapSightings};
pub use tap_join::{TapJoin, TapRowsStatus};
pub use time_order::{in_time_order, split_at_time};
pub use tuple_projection::TupleProjection;
