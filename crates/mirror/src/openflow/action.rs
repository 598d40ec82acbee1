//! What a rule does with a packet. Of other people's rules only so much is understood as is needed to know where packets go: what an
//! action changes that is not modelled is kept as text, and what may send a packet anywhere is kept as a doubt.

use std::fmt;

use crate::packets::Field;

/// OpenFlow's number of the switch's own port.
pub const LOCAL: u32 = 0xffff_fffe;

/// One action.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Out of a port, whole or the first bytes of it.
    Output {
        /// The port.
        port: u32,
        /// Maximum bytes.
        max_len: Option<u32>,
    },
    /// As a switch that learns addresses would do.
    Normal,
    /// Out of all ports but the one it came from and those that are not flooded to.
    Flood,
    /// Out of all ports but the one it came from.
    All,
    /// Out of the port it came from.
    InPort,
    /// To the controller; the text.
    Controller(String),
    /// What another table says, as if it had come from another port; then what follows.
    Resubmit {
        /// The port; none: the one it came from.
        port: Option<u32>,
        /// The table; none: the one of the rule.
        table: Option<u8>,
    },
    /// What a later table says; nothing follows.
    Goto(u8),
    /// Gives a field a value.
    Set {
        /// The field.
        field: Field,
        /// The value.
        value: u128,
        /// As it was written.
        text: String,
    },
    /// Changes something that no match here can see.
    Change(String),
    /// Something else, which may send the packet anywhere.
    Unknown(String),
}

impl Action {
    /// The whole packet out of a port.
    #[must_use]
    pub fn output(port: u32) -> Action {
        Action::Output { port, max_len: None }
    }
}

/// A port by its number, or LOCAL.
pub(super) struct PortName(pub u32);

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == LOCAL { f.write_str("LOCAL") } else { write!(f, "{}", self.0) }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Output { port, max_len: None } if *port == LOCAL => f.write_str("LOCAL"),
            Action::Output { port, max_len: None } => write!(f, "output:{port}"),
            Action::Output { port, max_len: Some(bytes) } => {
                write!(f, "output(port={},max_len={bytes})", PortName(*port))
            }
            Action::Normal => f.write_str("NORMAL"),
            Action::Flood => f.write_str("FLOOD"),
            Action::All => f.write_str("ALL"),
            Action::InPort => f.write_str("IN_PORT"),
            Action::Resubmit { port: Some(port), table: None } => write!(f, "resubmit:{}", PortName(*port)),
            Action::Resubmit { port, table } => {
                let port = port.map(|port| PortName(port).to_string()).unwrap_or_default();
                let table = table.map(|table| table.to_string()).unwrap_or_default();
                write!(f, "resubmit({port},{table})")
            }
            Action::Goto(table) => write!(f, "goto_table:{table}"),
            Action::Controller(text)
            | Action::Set { text, .. }
            | Action::Change(text)
            | Action::Unknown(text) => f.write_str(text),
        }
    }
}
