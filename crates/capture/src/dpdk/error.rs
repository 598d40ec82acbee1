//! Errors when opening DPDK.

use std::io;

/// Errors when opening DPDK.
#[derive(Debug, thiserror::Error)]
pub enum DpdkError {
    /// Its environment is already started.
    #[error("DPDK is already in use in this process: it can be started once only")]
    AlreadyStarted,
    /// Its environment did not start.
    #[error(
        "DPDK cannot be started ({0}): see its output above for the reason; its arguments are those of --dpdk-args"
    )]
    Start(io::Error),
    /// There is no port with this name.
    #[error("DPDK has no port {name:?}; there {}", listed(.available))]
    NoSuchPort {
        /// Name from the options.
        name: String,
        /// Existing ports.
        available: Vec<String>,
    },
    /// Its memory is too small.
    #[error(
        "DPDK has too little memory for port {0}: give it more (-m in --dpdk-args, or hugepages), or ask for less by \
         --buffer-size"
    )]
    NoMemory(String),
    /// The port did not start.
    #[error("DPDK's port {name} cannot be started: {error}")]
    Port {
        /// Name of the port.
        name: String,
        /// The error.
        error: io::Error,
    },
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "is none at all: --dpdk-args names devices by -a or --vdev".to_owned(),
        names => format!(
            "{} {}",
            if names.len() == 1 { "is" } else { "are" },
            names.join(", ")
        ),
    }
}
