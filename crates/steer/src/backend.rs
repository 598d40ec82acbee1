//! What a kind of switch has to be able to do.

use mirror::model::{Flooded, Vlans};
use mirror::openflow::Rule;
use mirror::ovsdb::{NewPort, PortMirror};
use mirror::{Operation, Packet};
use thiserror::Error;

/// A port, and at most how many bytes of a packet leave by it.
pub type Out = (u32, Option<u32>);

/// A switch, however it is reached.
pub trait Backend {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// What it has now. Nothing of it is remembered from before.
    ///
    /// # Errors
    /// See [`Failed`].
    fn list(&mut self) -> Result<Observed, Failed>;

    /// Changes rules: all of these operations, or none.
    ///
    /// # Errors
    /// See [`Failed`].
    fn apply(&mut self, operations: &[Operation]) -> Result<(), Failed>;

    /// By which ports a packet would leave that entered, each with how much of it, sorted; `None`: the switch cannot say.
    ///
    /// # Errors
    /// See [`Failed`].
    fn trace(&mut self, packet: &Packet) -> Result<Option<Vec<Out>>, Failed>;

    /// Has a port left out when packets go everywhere.
    ///
    /// # Errors
    /// See [`Failed`].
    fn keep_floods_from(&mut self, port: u32) -> Result<(), Failed>;

    /// Has a port left out when packets go everywhere, until [`Backend::release_port`] or the end of this process, and records it on the
    /// switch, so that a later process finds it.
    ///
    /// # Errors
    /// See [`Failed`].
    fn hold_port(&mut self, number: u32, name: &str, server: u16) -> Result<(), Failed> {
        let _ = (name, server);
        self.keep_floods_from(number)
    }

    /// Sends floods to a held port again, whichever process holds it.
    ///
    /// # Errors
    /// See [`Failed`].
    fn release_port(&mut self, name: &str) -> Result<(), Failed> {
        let _ = name;
        Ok(())
    }

    /// Makes a mirror of ports. Floods are to be kept from its output first: before and after, it is a port like others.
    ///
    /// # Errors
    /// See [`Failed`].
    fn add_mirror(&mut self, mirror: &PortMirror) -> Result<(), Failed>;

    /// Takes a mirror away. It may be gone already.
    ///
    /// # Errors
    /// See [`Failed`].
    fn remove_mirror(&mut self, name: &str) -> Result<(), Failed>;

    /// Makes a port for copies, to which nothing is flooded, and gives its number. It goes with this process, however that ends. One of
    /// that name must not be there.
    ///
    /// # Errors
    /// See [`Failed`].
    fn add_port(&mut self, port: &NewPort) -> Result<u32, Failed> {
        Err(Failed::Cannot(format!("ports such as {}", port.name)))
    }

    /// Takes a port away that was made for copies. It may be gone already.
    ///
    /// # Errors
    /// See [`Failed`].
    fn remove_port(&mut self, name: &str) -> Result<(), Failed> {
        Err(Failed::Cannot(format!("ports such as {name}")))
    }
}

/// What can be done with a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Rules expire unless renewed.
    pub leases: bool,
    /// Copies may be cut.
    pub truncates: bool,
    /// It has mirrors of ports.
    pub mirrors: bool,
}

/// What a switch has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// All rules of all owners.
    pub rules: Vec<Rule>,
    /// The ports: number, name, whether they are flooded to, VLANs.
    pub ports: Vec<(u32, String, Flooded, Vlans)>,
    /// The mirrors.
    pub mirrors: Vec<Mirrored>,
    /// Ports that are one port to what forwards, by name.
    pub bonds: Vec<Vec<String>>,
    /// Ports that processes have made or hold.
    pub records: Vec<Record>,
}

/// A port that a process has made for copies, or from which it withholds floods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The port's name.
    pub port: String,
    /// The process's server number.
    pub server: u16,
    /// Time of the record, in seconds since 1970.
    pub since: u64,
}

/// A mirror that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrored {
    /// Its name.
    pub name: String,
    /// The ports, by name, at which packets that enter are copied.
    pub entering: Vec<String>,
    /// Those that leave.
    pub leaving: Vec<String>,
    /// All of both.
    pub selects_all: bool,
    /// Where copies go.
    pub output: Option<String>,
    /// Maximum bytes per copy; 0: all.
    pub snaplen: u32,
}

/// What a switch has of a fabric's jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// The switch.
    pub switch: String,
    /// Rules.
    pub rules: Vec<Rule>,
    /// Mirrors of ports, each with the number of its job.
    pub mirrors: Vec<(Option<u32>, Mirrored)>,
}

/// Why a switch did not do it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failed {
    /// There is no such program.
    #[error("{program} does not run: {why}")]
    NoProgram {
        /// The program.
        program: String,
        /// What the system says.
        why: String,
    },
    /// It refuses, or cannot be reached.
    #[error("{program} says: {said}")]
    Refused {
        /// The program.
        program: String,
        /// What it says.
        said: String,
    },
    /// It does not answer.
    #[error("{program} has not answered for {seconds} s")]
    Silent {
        /// The program.
        program: String,
        /// For how long.
        seconds: u64,
    },
    /// It is of a kind that has no such thing.
    #[error("this switch can only be given rules, not {0}")]
    Cannot(String),
    /// Its answer is not understood.
    #[error("{0}")]
    NotUnderstood(String),
}
