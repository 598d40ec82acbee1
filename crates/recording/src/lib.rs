//! Recordings of tuples: data sets of Parquet files, written ([`Recorder`]) and read ([`DataSet`]).
//!
//! A data set is a folder with a folder per table. A table's files are numbered, compressed with zstd, and describe
//! their content and origin in their metadata ([`FileMetadata`]). A file gets its final name when it is complete. A growing
//! file has a hidden name and a journal with the positions of its finished row groups (`growing`), so that a kill
//! loses only the open row group.
//!
//! This crate does not depend on packets and queries.

#![forbid(unsafe_code)]

mod convert;
mod data_set;
mod disk;
mod file_metadata;
mod growing_file;
mod joined_tables;
mod journal;
mod layout;
mod linked_tables;
mod panic_guard;
mod pending_rows;
mod reader;
mod recorder;
mod replay;
mod table;
mod table_chain;
mod thrift;

pub use convert::{arrow_schema, of_record, to_arrow};
pub use data_set::{DataSet, ReadProblem, RecordedTable, UnfinishedFile};
pub use file_metadata::{CaptureFacts, CapturedLink, FORMAT, FileMetadata, TableKind, WATERMARK};
pub use panic_guard::guarded;
pub use pending_rows::PendingRows;
pub use reader::{ColumnBound, count_rows};
pub use recorder::{Recorder, RecordingRotation, RecordingTotals};
pub use replay::{RecordingReplay, ReplayedRows, TableRequest};
pub use table::TableWriter;
pub use table_chain::ReplayCounters;
