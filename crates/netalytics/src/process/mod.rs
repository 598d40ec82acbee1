//! The process: exit status, messages on standard error, output files, signals, panics, secrets on disk.

pub mod color;
pub mod exit_status;
pub mod failure;
pub mod file_owner;
pub mod logging;
pub mod machine_name;
pub mod order_input;
pub mod output;
pub mod panics;
pub mod secret_file;
pub mod signals;
pub mod version;
