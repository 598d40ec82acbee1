//! Where packets come from: capture files. A [`Source`] fills [`Block`]s with packets and keeps its
//! errors and counters for whoever asks; [`open()`] makes one of any number of files, [`from_reader`] one of any stream. This crate knows nothing of
//! headers, flows or queries.

pub mod block;
mod files;
mod foreign;
mod format;
mod input;
mod open;
mod pcap_file;
mod pcapng;
pub mod source;
mod sys;
mod window;

pub use block::{Block, Record};
pub use open::{from_reader, open};
pub use source::{Counters, Source, SourceError};
