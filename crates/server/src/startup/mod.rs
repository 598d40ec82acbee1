//! Start of the service: the data directory with its lock, construction of all parts and their shutdown, the listening
//! server, backup and restore, and the data of demonstrations.

pub(crate) mod backup;
pub(crate) mod data_directory;
mod demo;
pub(crate) mod run;
