//! Errors when opening DPDK.

use std::io;

/// Errors when opening DPDK.
#[derive(Debug, thiserror::Error)]
pub enum DpdkError {
    /// DPDK's environment is already started.
    #[error("DPDK is already in use in this process: it can be started once only")]
    AlreadyStarted,
    /// DPDK's environment did not start.
    #[error(
        "DPDK cannot be started ({0}): its output above gives the reason; --dpdk-args sets its arguments"
    )]
    Start(io::Error),
    /// No port has this name.
    #[error("DPDK has no port {name:?}; {}", listed(.available))]
    NoSuchPort {
        /// Name from the options.
        name: String,
        /// Existing ports.
        available: Vec<String>,
    },
    /// DPDK has too little memory.
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
        [] => "--dpdk-args names devices by -a or --vdev".to_owned(),
        names => format!("available: {}", names.join(", ")),
    }
}
