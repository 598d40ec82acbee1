//! Queries of stored data: SINCE, UNTIL, and BASELINE over stored rows, and queries of recordings.

pub(crate) mod past;
pub(crate) mod recordings;
