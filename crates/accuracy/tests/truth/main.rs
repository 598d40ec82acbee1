//! What tuples claim, against what is true.

mod damaged;
mod found;
mod generated;
mod many;
mod server_logs;
