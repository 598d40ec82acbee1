//! Interface to a kind of switch.

use mirror::exporter::ExporterSlot;
use mirror::model::{FloodSetting, PortVlans};
use mirror::openflow::FlowRule;
use mirror::ovsdb::{NewPort, PortMirror};
use mirror::{ModelPacket, RuleOperation};
use thiserror::Error;

/// Output port and maximum bytes.
pub type Out = (u32, Option<u32>);

/// A switch.
pub trait SwitchBackend {
    /// Capabilities.
    fn capabilities(&self) -> SwitchCapabilities;

    /// Reads its current state, without a cache.
    ///
    /// # Errors
    /// See [`SwitchError`].
    fn list(&mut self) -> Result<ObservedSwitch, SwitchError>;

    /// Executes all of these operations, or none.
    ///
    /// # Errors
    /// See [`SwitchError`].
    fn apply(&mut self, operations: &[RuleOperation]) -> Result<(), SwitchError>;

    /// Output ports of a packet, each with its maximum bytes, sorted; `None`: not supported.
    ///
    /// # Errors
    /// See [`SwitchError`].
    fn trace(&mut self, packet: &ModelPacket) -> Result<Option<Vec<Out>>, SwitchError>;

    /// Disables flooding to a port.
    ///
    /// # Errors
    /// See [`SwitchError`].
    fn keep_floods_from(&mut self, port: u32) -> Result<(), SwitchError>;

    /// Disables flooding to a port until [`SwitchBackend::release_port`] or the end of this process, and records it on the
    /// switch for later processes.
    ///
    /// # Errors
    /// See [`SwitchError`].
    fn hold_port(&mut self, number: u32, name: &str, server: u16) -> Result<(), SwitchError> {
        let _ = (name, server);
        self.keep_floods_from(number)
    }

    /// Enables flooding to a held port, whichever process holds it.
    ///
    /// # Errors
    /// See [`SwitchError`].
    fn release_port(&mut self, name: &str) -> Result<(), SwitchError> {
        let _ = name;
        Ok(())
    }

    /// Creates a port mirror. Flooding to its output must be disabled first, since before and after the mirror it is a
    /// normal port.
    ///
    /// # Errors
    /// See [`SwitchError`].
    fn add_mirror(&mut self, mirror: &PortMirror) -> Result<(), SwitchError>;

    /// Removes a mirror, if it exists.
    ///
    /// # Errors
    /// See [`SwitchError`].
    fn remove_mirror(&mut self, name: &str) -> Result<(), SwitchError>;

    /// Creates a port for copies without flooding; returns its number. It is removed at any end of this process. The
    /// name must not exist.
    ///
    /// # Errors
    /// See [`SwitchError`].
    fn add_port(&mut self, port: &NewPort) -> Result<u32, SwitchError> {
        Err(SwitchError::Cannot(format!("ports such as {}", port.name)))
    }

    /// Removes a port for copies, if it exists.
    ///
    /// # Errors
    /// See [`SwitchError`].
    fn remove_port(&mut self, name: &str) -> Result<(), SwitchError> {
        Err(SwitchError::Cannot(format!("ports such as {name}")))
    }

    /// Removes sFlow and IPFIX exporters of processes that no longer run; returns their places.
    ///
    /// # Errors
    /// See [`SwitchError`].
    fn remove_stale_exporters(&mut self) -> Result<Vec<ExporterSlot>, SwitchError> {
        Ok(Vec::new())
    }
}

/// Capabilities of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchCapabilities {
    /// Rules expire unless renewed.
    pub leases: bool,
    /// Copies can be truncated.
    pub truncates: bool,
    /// Supports port mirrors.
    pub mirrors: bool,
}

/// State of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedSwitch {
    /// All rules of all owners.
    pub rules: Vec<FlowRule>,
    /// Ports: number, name, flooding, VLANs.
    pub ports: Vec<(u32, String, FloodSetting, PortVlans)>,
    /// Port mirrors.
    pub mirrors: Vec<ObservedMirror>,
    /// Bonds: groups of ports that forwarding treats as one, by name.
    pub bonds: Vec<Vec<String>>,
    /// Records of ports created or held by processes.
    pub records: Vec<CopyPortRecord>,
}

/// Record of a port that a process has created for copies, or to which it has disabled flooding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyPortRecord {
    /// Name of the port.
    pub port: String,
    /// Server number of the process.
    pub server: u16,
    /// Time of the record, in seconds since 1970.
    pub since: u64,
}

/// An existing port mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedMirror {
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
pub struct OwnedRules {
    /// Name of the switch.
    pub switch: String,
    /// Rules.
    pub rules: Vec<FlowRule>,
    /// Port mirrors with the number of their job.
    pub mirrors: Vec<(Option<u32>, ObservedMirror)>,
}

/// Failure of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SwitchError {
    /// A program is missing.
    #[error("cannot run {program}: {why}")]
    NoProgram {
        /// Name of the program.
        program: String,
        /// Error of the system.
        why: String,
    },
    /// Rejected or unreachable.
    #[error("{program} failed: {said}")]
    Refused {
        /// Name of the program.
        program: String,
        /// Message of the program.
        said: String,
    },
    /// Timeout.
    #[error("{program} did not respond for {seconds} s")]
    Silent {
        /// Name of the program.
        program: String,
        /// Duration.
        seconds: u64,
    },
    /// Not supported by this kind of switch.
    #[error("this switch supports only rules, not {0}")]
    Cannot(String),
    /// The response cannot be parsed.
    #[error("{0}")]
    NotUnderstood(String),
}
