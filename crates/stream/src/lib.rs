//! The embedded stream engine: runs a [`plan::Dataflow`] over batches of tuples. Filters, joins, groups, aggregates,
//! rankings, and windows, exact within stated memory limits; with sampling every result has a confidence interval. The
//! engine uses no clock, file, or thread: event time is set with [`Engine::advance`].
//!
//! The two busiest hosts of every second:
//!
//! ```
//! use std::sync::Arc;
//! use plan::{Aggregate, Column, Dataflow, GroupBy, Input, Pipeline, Selection, TopK, Window};
//! use stream::{Config, Engine};
//! use tuple::{DataType, Field, Schema, TupleWriter, Unit, common};
//!
//! let host = [Field::new("host", DataType::Text, Unit::None, "who is asked")];
//! let schema = Arc::new(Schema::of_parser("http", 1, "requests", &host, None, None));
//! let column = Column { input: 0, field: schema.find("host").unwrap() };
//! let columns = vec![common::TS_END, column.field];
//! let second = 1_000_000_000;
//! let busiest = Pipeline {
//!     name: "top-k".into(),
//!     values: Vec::new(),
//!     value_required: false,
//!     group: vec![GroupBy { column, name: "host".into() }],
//!     aggregates: vec![Aggregate::Count.into()],
//!     top_k: Some(TopK { k: 2, by: 0 }),
//!     window: Some(Window { size_ns: second, slide_ns: second, lateness_ns: 0 }),
//!     groups_max: 100_000,
//!     selection: Selection::default(),
//!     profile: None,
//! };
//! let input = Input { schema: schema.clone(), columns: columns.clone(), filter: None };
//! let dataflow = Dataflow { inputs: vec![input], filter: None, pipelines: vec![busiest], ..Dataflow::default() };
//!
//! let mut tuples = TupleWriter::new(schema, &columns);
//! for (time, host) in [(1, "b"), (2, "a"), (3, "b"), (4, "c"), (second, "a")] {
//!     tuples.i64(common::TS_END, time);
//!     tuples.text(column.field, host.as_bytes());
//!     tuples.end_row();
//! }
//! let mut engine = Engine::new(&dataflow, Config::default());
//! let mut out = Vec::new();
//! engine.push(0, &tuples.finish(), &mut out);
//! engine.advance(second, &mut out); // the first second is over, the next is open
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
pub mod sampling;
pub mod sketch;

mod chosen;
mod column;
mod estimate;
mod flat;
mod folding;
mod in_time_order;
mod limited;
mod losses;
mod pane;
mod partial;
mod pipeline;
mod profile;
mod results;
mod rows;
mod scalar;
mod selection;
mod server_tap;
mod shown;
mod silence;
mod sliding;
mod spectrum;
mod tap_join;
mod window;
mod work;

pub use chosen::{Chosen, NEWS_COLUMNS, Passed};
pub use config::{Config, Counters};
pub use engine::{Engine, Output, TakeOutput};
pub use engines::{Engines, Partials};
pub use flat::flat;
pub use in_time_order::{in_time_order, split_at_time};
pub use limited::{Limitations, Limited};
pub use losses::{Loss, Stretch};
pub use partial::{Malformed, Partial};
pub use results::OTHER;
pub use server_tap::{ServerTap, Sightings, TapCounts};
pub use shown::Shown;
pub use silence::{SILENT_STRETCHES_MAX, Silence};
pub use tap_join::{Taken, TapJoin};
