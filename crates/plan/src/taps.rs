//! Which of several taps that see a flow tells of it. Each tap decides for itself, from a table of addresses, so that none has to ask
//! another: [`TapTable`] says which are its own and which another's, [`Taps`] which end of a flow counts.

use std::net::IpAddr;

/// Which of the taps of a query tell of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Taps {
    /// The one that is nearest to its server.
    #[default]
    Server,
    /// The one that is nearest to its client.
    Client,
    /// Every one that sees it.
    All,
    /// The one at its client and the one at its server, each of which says which it is ([`tuple::TapEnd`]): who collects joins them.
    Ends,
}

/// Owners of addresses among the taps of a query. An address in neither list belongs to no tap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapTable {
    /// Those of this tap's own host.
    pub own: Vec<IpAddr>,
    /// Those of the hosts of the others.
    pub others: Vec<IpAddr>,
}

impl TapTable {
    /// Whether it decides nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.others.is_empty()
    }
}
