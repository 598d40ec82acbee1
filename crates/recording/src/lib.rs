//! Tuples kept: data sets of Parquet files, written ([`Recorder`]) and read back ([`DataSet`]).
//!
//! A data set is a folder with a folder for each table; a table's files are numbered, zstd-compressed, and tell in
//! their metadata what they hold and where it came from ([`Head`]). A file appears under its name when it is complete
//! and never before. While it grows it has a hidden name, and beside it lies a journal that says where its finished row
//! groups are (`growing`): whoever finds both after a kill has all but the row group that was open.
//!
//! This crate knows neither packets nor queries.

#![forbid(unsafe_code)]

mod convert;
mod data_set;
mod disk;
mod growing;
mod guard;
mod head;
mod joined;
mod journal;
mod layout;
mod link;
mod linked;
mod reader;
mod recorder;
mod replay;
mod table;
mod thrift;

pub use convert::{arrow_schema, of_record, to_arrow};
pub use data_set::{DataSet, Problem, Table, Unfinished};
pub use guard::guarded;
pub use head::{CaptureFacts, FORMAT, Head, Kind, Link, WATERMARK};
pub use reader::count_rows;
pub use recorder::{Kept, Recorder, Rotation};
pub use replay::{Bound, Counters, Replay, Rows, Wanted};
pub use table::TableWriter;
