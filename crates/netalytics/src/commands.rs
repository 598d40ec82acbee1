//! What the program does: one verb a file.

pub mod access;
pub mod agent;
pub mod alerts;
pub mod check;
pub mod compare;
pub mod complete;
pub mod completions;
pub mod explain;
pub mod follow;
pub mod interfaces;
pub mod introduction;
mod job_rows;
mod job_sheet;
pub mod jobs;
pub mod listing;
pub mod man;
pub mod monitor;
pub mod overview;
pub mod parsers;
pub mod processors;
pub mod query;
pub mod query_past;
pub mod query_served;
pub mod record;
pub mod remote;
pub mod serve;
pub mod work;
