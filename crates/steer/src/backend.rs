//! Interface to a kind of switch.

use mirror::model::{Flooded, Vlans};
use mirror::openflow::Rule;
use mirror::ovsdb::{NewPort, PortMirror};
use mirror::{Operation, Packet};
use thiserror::Error;

/// Output port and maximum bytes.
pub type Out = (u32, Option<u32>);

/// A switch.
pub trait Backend {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Reads its current state, without a cache.
    ///
    /// # Errors
    /// See [`Failed`].
    fn list(&mut self) -> Result<Observed, Failed>;

    /// Executes all of these operations, or none.
    ///
    /// # Errors
    /// See [`Failed`].
    fn apply(&mut self, operations: &[Operation]) -> Result<(), Failed>;

    /// Output ports of a packet, each with its maximum bytes, sorted; `None`: not supported.
    ///
    /// # Errors
    /// See [`Failed`].
    fn trace(&mut self, packet: &Packet) -> Result<Option<Vec<Out>>, Failed>;

    /// Disables flooding to a port.
    ///
    /// # Errors
    /// See [`Failed`].
    fn keep_floods_from(&mut self, port: u32) -> Result<(), Failed>;

    /// Disables flooding to a port until [`Backend::release_port`] or the end of this process, and records it on the
    /// switch for later processes.
    ///
    /// # Errors
    /// See [`Failed`].
    fn hold_port(&mut self, number: u32, name: &str, server: u16) -> Result<(), Failed> {
        let _ = (name, server);
        self.keep_floods_from(number)
    }

    /// Enables flooding to a held port, whichever process holds it.
    ///
    /// # Errors
    /// See [`Failed`].
    fn release_port(&mut self, name: &str) -> Result<(), Failed> {
        let _ = name;
        Ok(())
    }

    /// Creates a port mirror. Flooding to its output must be disabled first, since before and after the mirror it is a
    /// normal port.
    ///
    /// # Errors
    /// See [`Failed`].
    fn add_mirror(&mut self, mirror: &PortMirror) -> Result<(), Failed>;

    /// Removes a mirror, if it exists.
    ///
    /// # Errors
    /// See [`Failed`].
    fn remove_mirror(&mut self, name: &str) -> Result<(), Failed>;

    /// Creates a port for copies without flooding; returns its number. It is removed at any end of this process. The
    /// name must not exist.
    ///
    /// # Errors
    /// See [`Failed`].
    fn add_port(&mut self, port: &NewPort) -> Result<u32, Failed> {
        Err(Failed::Cannot(format!("ports such as {}", port.name)))
    }

    /// Removes a port for copies, if it exists.
    ///
    /// # Errors
    /// See [`Failed`].
    fn remove_port(&mut self, name: &str) -> Result<(), Failed> {
        Err(Failed::Cannot(format!("ports such as {name}")))
    }
}

/// Capabilities of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Rules expire unless renewed.
    pub leases: bool,
    /// Copies can be truncated.
    pub truncates: bool,
    /// Supports port mirrors.
    pub mirrors: bool,
}

/// State of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// All rules of all owners.
    pub rules: Vec<Rule>,
    /// Ports: number, name, flooding, VLANs.
    pub ports: Vec<(u32, String, Flooded, Vlans)>,
    /// Port mirrors.
    pub mirrors: Vec<Mirrored>,
    /// Bonds: groups of ports that forwarding treats as one, by name.
    pub bonds: Vec<Vec<String>>,
    /// Records of ports created or held by processes.
    pub records: Vec<Record>,
}

/// Record of a port that a process has created for copies, or to which it has disabled flooding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Name of the port.
    pub port: String,
    /// Server number of the process.
    pub server: u16,
    /// Time of the record, in seconds since 1970.
    pub since: u64,
}

/// An existing port mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrored {
    /// Name.
    pub name: String,
    /// Names of the ports whose incoming packets are copied.
    pub entering: Vec<String>,
    /// Names of the ports whose outgoing packets are copied.
    pub leaving: Vec<String>,
    /// Whether all ports are selected, in both directions.
    pub selects_all: bool,
    /// Name of the output port.
    pub output: Option<String>,
    /// Maximum bytes per copy; 0: all.
    pub snaplen: u32,
}

/// Objects of a fabric's jobs on a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// Name of the switch.
    pub switch: String,
    /// Rules.
    pub rules: Vec<Rule>,
    /// Port mirrors with the number of their job.
    pub mirrors: Vec<(Option<u32>, Mirrored)>,
}

/// Failure of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failed {
    /// A program is missing.
    #[error("{program} does not run: {why}")]
    NoProgram {
        /// Name of the program.
        program: String,
        /// Error of the system.
        why: String,
    },
    /// Rejected or unreachable.
    #[error("{program} says: {said}")]
    Refused {
        /// Name of the program.
        program: String,
        /// Its message.
        said: String,
    },
    /// Timeout.
    #[error("{program} has not answered for {seconds} s")]
    Silent {
        /// Name of the program.
        program: String,
        /// Duration.
        seconds: u64,
    },
    /// Not supported by this kind of switch.
    #[error("this switch can only be given rules, not {0}")]
    Cannot(String),
    /// The response cannot be parsed.
    #[error("{0}")]
    NotUnderstood(String),
}
