//! Fields common to all tuples of a flow, computed only for tuples that contain them.

use std::sync::Arc;

use tuple::TapEnd;
use wire::{Endpoint, IpProtocol, Tunnel};

use crate::proxy_header::ProxiedEndpoints;

/// Names in the hellos of a decrypted TLS connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsNames {
    /// Server name sent by the client, in lower case.
    pub sni: Option<Vec<u8>>,
    /// Application protocol chosen by the server.
    pub alpn: Option<Vec<u8>>,
}

/// Fields common to the tuples of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowContext {
    /// The flow's id.
    pub id: u64,
    /// The endpoint that opened the flow or sends requests.
    pub client: Endpoint,
    /// The endpoint that sends responses.
    pub server: Endpoint,
    /// Transport protocol.
    pub protocol: IpProtocol,
    /// Set if neither a SYN nor a parser determined the client.
    pub client_guessed: bool,
    /// The connection was joined after its start.
    pub midstream: bool,
    /// Sampling rate of the flow, 0 < p ≤ 1.
    pub sample_rate: f64,
    /// Tunnel of its first packet.
    pub tunnel: Tunnel,
    /// The VLAN of its first packet.
    pub vlan: Option<u16>,
    /// Contents of the PROXY protocol header at its start.
    pub proxied: Option<ProxiedEndpoints>,
    /// Names of its TLS connection, if it is decrypted.
    pub decrypted: Option<Arc<TlsNames>>,
}

/// Source of a flow's common fields, evaluated when a tuple is written.
pub trait FlowFacts {
    /// All common fields.
    fn context(&self) -> FlowContext;

    /// The flow's end at which this tap captures, if the query needs it.
    fn tap_end(&self) -> Option<TapEnd> {
        None
    }
}

impl FlowFacts for FlowContext {
    fn context(&self) -> FlowContext {
        self.clone()
    }
}

/// A flow during one parser call: one field that parsers use, and lazy access to the rest.
#[derive(Clone, Copy)]
pub struct FlowRef<'a> {
    /// The connection was joined after its start.
    pub midstream: bool,
    pub(crate) facts: &'a dyn FlowFacts,
}

impl<'a> FlowRef<'a> {
    /// Creates a reference to the flow described by `facts`.
    #[must_use]
    pub fn new(midstream: bool, facts: &'a dyn FlowFacts) -> Self {
        FlowRef { midstream, facts }
    }

    /// All common fields. Too expensive for every message.
    #[must_use]
    pub fn context(&self) -> FlowContext {
        self.facts.context()
    }
}

impl<'a> From<&'a FlowContext> for FlowRef<'a> {
    fn from(flow: &'a FlowContext) -> Self {
        FlowRef::new(flow.midstream, flow)
    }
}
