//! Compares the values of tuples with the truth.

mod damaged;
mod embedded;
mod found;
mod generated;
mod many;
mod models;
mod nfs_fields;
mod server_logs;
