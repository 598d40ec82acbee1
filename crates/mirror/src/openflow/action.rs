//! Actions of a rule. Rules of others are modeled only as far as needed to follow packets: an action on fields outside
//! the model is kept as text, and one that may forward a packet anywhere is an unknown.

use std::fmt;

use crate::packets::MatchField;

/// OpenFlow number of the local port.
pub const LOCAL: u32 = 0xffff_fffe;

/// One action.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowAction {
    /// Output to a port, whole or truncated.
    Output {
        /// Port number.
        port: u32,
        /// Maximum bytes.
        max_len: Option<u32>,
    },
    /// Forwarding by learned addresses.
    Normal,
    /// Output to all ports except the input port and those without flooding.
    Flood,
    /// Output to all ports except the input port.
    All,
    /// Output to the input port.
    InPort,
    /// Send to the controller; text of the action.
    Controller(String),
    /// Actions of another table, as if the packet had another input port; then the following ones.
    Resubmit {
        /// Input port; none: unchanged.
        port: Option<u32>,
        /// Table; none: the current one.
        table: Option<u8>,
    },
    /// Continue in a later table; no actions follow.
    Goto(u8),
    /// Set a field.
    Set {
        /// The field.
        field: MatchField,
        /// The value.
        value: u128,
        /// Original text.
        text: String,
    },
    /// A change outside the model; text of the action.
    Change(String),
    /// Unknown; may forward the packet anywhere.
    Unknown(String),
}

impl FlowAction {
    /// Output of the whole packet to a port.
    #[must_use]
    pub fn output(port: u32) -> FlowAction {
        FlowAction::Output {
            port,
            max_len: None,
        }
    }
}

/// Displays a port number, or LOCAL.
pub(super) struct PortName(pub u32);

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == LOCAL {
            f.write_str("LOCAL")
        } else {
            write!(f, "{}", self.0)
        }
    }
}

impl fmt::Display for FlowAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowAction::Output {
                port,
                max_len: None,
            } if *port == LOCAL => f.write_str("LOCAL"),
            FlowAction::Output {
                port,
                max_len: None,
            } => write!(f, "output:{port}"),
            FlowAction::Output {
                port,
                max_len: Some(bytes),
            } => {
                write!(f, "output(port={},max_len={bytes})", PortName(*port))
            }
            FlowAction::Normal => f.write_str("NORMAL"),
            FlowAction::Flood => f.write_str("FLOOD"),
            FlowAction::All => f.write_str("ALL"),
            FlowAction::InPort => f.write_str("IN_PORT"),
            FlowAction::Resubmit {
                port: Some(port),
                table: None,
            } => {
                write!(f, "resubmit:{}", PortName(*port))
            }
            FlowAction::Resubmit { port, table } => {
                let port = port
                    .map(|port| PortName(port).to_string())
                    .unwrap_or_default();
                let table = table.map(|table| table.to_string()).unwrap_or_default();
                write!(f, "resubmit({port},{table})")
            }
            FlowAction::Goto(table) => write!(f, "goto_table:{table}"),
            FlowAction::Controller(text)
            | FlowAction::Set { text, .. }
            | FlowAction::Change(text)
            | FlowAction::Unknown(text) => f.write_str(text),
        }
    }
}
