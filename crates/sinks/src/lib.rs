//! The last consumers of tuples and results: a readable table, JSON lines, CSV, Parquet. A sink takes [`tuple::Batch`]es and
//! writes bytes to any [`std::io::Write`]; it reads no environment and decides nothing about the rows, and none but
//! [`DataSet`] opens files.
//!
//! Programs read [`Jsonl`] and [`Csv`], whose values are exact and stable; people read [`Table`], whose values are
//! rounded to what an eye can use and carry their units.

#![forbid(unsafe_code)]

pub mod beside;
pub mod cells;
pub mod csv;
pub mod jsonl;
pub mod parquet;
pub mod redacted;
pub mod sink;
pub mod table;
pub mod units;
pub mod zone;

#[cfg(test)]
mod samples;

pub use crate::csv::Csv;
pub use beside::Beside;
pub use jsonl::Jsonl;
pub use parquet::{DataSet, Parquet};
pub use redacted::Redacted;
pub use sink::{AGENTS_MISSING, Delivered, Empty, ResultHead, Sink, Vitals, distinct_names};
pub use table::{Pace, Style, Table};
pub use zone::Zone;
