//! The tap that reports a flow seen by several taps. Each tap decides independently from a table of addresses,
//! without communication: [`TapTable`] lists its own addresses and those of other taps, [`TapSelection`] selects the end of a
//! flow.

use std::net::IpAddr;

/// The taps of a query that report a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TapSelection {
    /// The tap nearest to the server.
    #[default]
    Server,
    /// The tap nearest to the client.
    Client,
    /// All taps that see the flow.
    All,
    /// The taps at the client and at the server, each of which reports its end ([`tuple::TapEnd`]); the collector
    /// joins them.
    Ends,
}

/// Assignment of addresses to the taps of a query. An address in neither list belongs to no tap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapTable {
    /// Addresses of this tap's host.
    pub own: Vec<IpAddr>,
    /// Addresses of the hosts of other taps.
    pub others: Vec<IpAddr>,
}

impl TapTable {
    /// Whether the table has no effect.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.others.is_empty()
    }
}
