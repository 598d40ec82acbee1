//! Where packets come from: capture files. A [`Source`] delivers [`Batch`]es of borrowed packets and keeps its
//! errors and counters for whoever asks; [`open()`] makes one of any number of files, [`from_reader`] one of any stream. This crate knows nothing of
//! headers, flows or queries.

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

pub use open::{from_reader, open};
pub use source::{Batch, Counters, Source, SourceError};
