//! Recordings of tuples: data sets of Parquet files, written ([`Recorder`]) and read ([`DataSet`]).
//!
//! A data set is a folder with a folder per table. A table's files are numbered, compressed with zstd, and describe
//! their content and origin in their metadata ([`Head`]). A file gets its final name when it is complete. A growing
//! file has a hidden name and a journal with the positions of its finished row groups (`growing`), so that a kill
//! loses only the open row group.
//!
//! This crate does not depend on packets and queries.

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
