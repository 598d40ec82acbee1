//! Decides whether this tap reports a flow that several taps capture: by the flow's endpoints and a table of
//! tap addresses, which is replaced when taps are added, removed, or change their addresses.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plan::{TapSelection, TapTable};
use tuple::TapEnd;
use wire::{Addr, Endpoint};

/// The current address table, shared by all workers of a job and replaced on updates.
#[derive(Clone, Debug, Default)]
pub struct SharedTaps(Arc<TapTableState>);

#[derive(Debug, Default)]
struct TapTableState {
    /// Incremented with every change.
    version: AtomicU64,
    table: Mutex<TapTable>,
}

impl SharedTaps {
    /// Creates the shared table.
    #[must_use]
    pub fn new(table: TapTable) -> SharedTaps {
        SharedTaps(Arc::new(TapTableState {
            version: AtomicU64::new(0),
            table: Mutex::new(table),
        }))
    }

    /// Replaces the table; workers apply it at the end of an epoch.
    pub fn set(&self, table: TapTable) {
        *self.0.table.lock().unwrap_or_else(PoisonError::into_inner) = table;
        self.0.version.fetch_add(1, Ordering::Release);
    }

    fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }
}

/// Owner of an endpoint's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointOwner {
    Own,
    Other,
    Nobody,
}

/// One worker's copy of the table, prepared for lookups.
#[derive(Debug)]
pub struct TapFilter {
    taps: TapSelection,
    owners: AddressOwners,
    shared: SharedTaps,
    version: u64,
}

#[derive(Debug, Default)]
struct AddressOwners {
    own: HashSet<Addr>,
    others: HashSet<Addr>,
}

impl TapFilter {
    /// Creates the filter of a plan.
    #[must_use]
    pub fn new(taps: TapSelection, shared: &SharedTaps) -> TapFilter {
        let mut filter = TapFilter {
            taps,
            owners: AddressOwners::default(),
            shared: shared.clone(),
            version: 0,
        };
        filter.read();
        filter
    }

    /// Reads the table if it has changed; returns whether it has.
    pub fn refresh(&mut self) -> bool {
        let is_new = self.shared.version() != self.version;
        if is_new {
            self.read();
        }
        is_new
    }

    fn read(&mut self) {
        // Reads the version first, so that a concurrent change is read again.
        self.version = self.shared.version();
        let table = self
            .shared
            .0
            .table
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let all = |list: &[IpAddr]| list.iter().copied().map(Addr::from).collect();
        self.owners = AddressOwners {
            own: all(&table.own),
            others: all(&table.others),
        };
    }

    /// Whether this tap reports every flow.
    #[must_use]
    pub fn tells_all(&self) -> bool {
        self.taps == TapSelection::All || self.owners.others.is_empty()
    }

    /// Whether this tap reports a flow between these endpoints. The end asked for decides; if its address belongs to no
    /// tap, the other end decides; if neither does, every tap that captures the flow reports it.
    #[must_use]
    pub fn tells(&self, client: Endpoint, server: Endpoint) -> bool {
        if self.tells_all() {
            return true;
        }
        let (first, second) = match self.taps {
            TapSelection::Ends => return self.owners.end(client, server).is_some(),
            TapSelection::Client => (client, server),
            TapSelection::Server | TapSelection::All => (server, client),
        };
        match (self.owners.of(first.addr), self.owners.of(second.addr)) {
            (EndpointOwner::Own, _)
            | (EndpointOwner::Nobody, EndpointOwner::Own | EndpointOwner::Nobody) => true,
            (EndpointOwner::Other, _) | (EndpointOwner::Nobody, EndpointOwner::Other) => false,
        }
    }

    /// The end of a flow at which this tap is, if both ends are needed. `None`: at neither end, or not needed.
    #[must_use]
    pub fn end(&self, client: Endpoint, server: Endpoint) -> Option<TapEnd> {
        (self.taps == TapSelection::Ends)
            .then(|| self.owners.end(client, server))
            .flatten()
    }
}

impl AddressOwners {
    /// An end whose address belongs to no tap is assigned to the tap that is not at the other end: a mirror in front of
    /// the servers captures at the client's side. `None`: both ends belong to other taps.
    fn end(&self, client: Endpoint, server: Endpoint) -> Option<TapEnd> {
        match (self.of(client.addr), self.of(server.addr)) {
            (EndpointOwner::Own, _)
            | (EndpointOwner::Nobody, EndpointOwner::Other | EndpointOwner::Nobody) => {
                Some(TapEnd::Client)
            }
            (_, EndpointOwner::Own) | (EndpointOwner::Other, EndpointOwner::Nobody) => {
                Some(TapEnd::Server)
            }
            (EndpointOwner::Other, EndpointOwner::Other) => None,
        }
    }

    /// A tap's own address takes precedence over the other taps' lists.
    fn of(&self, addr: Addr) -> EndpointOwner {
        if self.own.contains(&addr) {
            EndpointOwner::Own
        } else if self.others.contains(&addr) {
            EndpointOwner::Other
        } else {
            EndpointOwner::Nobody
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: &str = "10.0.0.1";
    const THEM: &str = "10.0.0.2";
    const NOBODY: &str = "192.0.2.9";

    fn table(own: &[&str], others: &[&str]) -> TapTable {
        let all = |list: &[&str]| {
            list.iter()
                .map(|ip| ip.parse().expect("an address"))
                .collect()
        };
        TapTable {
            own: all(own),
            others: all(others),
        }
    }

    fn end(ip: &str) -> Endpoint {
        Endpoint {
            addr: ip.parse::<IpAddr>().expect("an address").into(),
            port: 1,
        }
    }

    /// Checks this tap and the other tap, which has the same table with sides exchanged.
    fn check(taps: TapSelection, client: &str, server: &str, ours: bool, theirs: bool) {
        let tells = |own: &[&str], others: &[&str]| {
            let filter = TapFilter::new(taps, &SharedTaps::new(table(own, others)));
            filter.tells(end(client), end(server))
        };
        let told = (tells(&[US], &[THEM]), tells(&[THEM], &[US]));
        assert_eq!(told, (ours, theirs), "{taps:?}: {client} > {server}");
    }

    #[test]
    fn flows_are_reported_by_one_tap() {
        for (client, server, by_server, by_client) in [
            (THEM, US, (true, false), (false, true)),
            (US, THEM, (false, true), (true, false)),
            (US, US, (true, false), (true, false)),
            (NOBODY, US, (true, false), (true, false)),
            (US, NOBODY, (true, false), (true, false)),
            (NOBODY, NOBODY, (true, true), (true, true)),
        ] {
            check(
                TapSelection::Server,
                client,
                server,
                by_server.0,
                by_server.1,
            );
            check(
                TapSelection::Client,
                client,
                server,
                by_client.0,
                by_client.1,
            );
            check(TapSelection::All, client, server, true, true);
        }
    }

    #[test]
    fn each_end_has_its_tap() {
        let at_client = Some(TapEnd::Client);
        let at_server = Some(TapEnd::Server);
        for (client, server, ours, theirs) in [
            (US, THEM, at_client, at_server),
            (THEM, US, at_server, at_client),
            // Both ends on one host: other taps do not report.
            (US, US, at_client, None),
            // An end without a tap is assigned to the tap that is not at the other end.
            (NOBODY, US, at_server, at_client),
            (US, NOBODY, at_client, at_server),
            (NOBODY, NOBODY, at_client, at_client),
        ] {
            let told = |own: &[&str], others: &[&str]| {
                let filter =
                    TapFilter::new(TapSelection::Ends, &SharedTaps::new(table(own, others)));
                let client = end(client);
                let server = end(server);
                assert_eq!(
                    filter.tells(client, server),
                    filter.end(client, server).is_some()
                );
                filter.end(client, server)
            };
            assert_eq!(
                (told(&[US], &[THEM]), told(&[THEM], &[US])),
                (ours, theirs),
                "{client} > {server}"
            );
        }
        // A single tap knows its end as well.
        let alone = |taps| TapFilter::new(taps, &SharedTaps::new(table(&[US], &[])));
        assert_eq!(alone(TapSelection::Server).end(end(NOBODY), end(US)), None);
        assert_eq!(
            alone(TapSelection::Ends).end(end(NOBODY), end(US)),
            at_server
        );
    }

    #[test]
    fn another_table_is_taken_over() {
        let shared = SharedTaps::default();
        let mut filter = TapFilter::new(TapSelection::Server, &shared);
        assert!(filter.tells_all() && !filter.refresh());
        shared.set(table(&[US], &[THEM]));
        assert!(
            filter.tells(end(US), end(THEM)),
            "not before it is taken over"
        );
        assert!(filter.refresh() && !filter.refresh());
        assert!(!filter.tells(end(US), end(THEM)));
        // Without other taps everything is reported; IPv4-mapped addresses equal IPv4 addresses.
        shared.set(table(&[US], &[]));
        assert!(filter.refresh() && filter.tells_all());
        shared.set(table(&[US], &["::ffff:10.0.0.2"]));
        assert!(filter.refresh() && !filter.tells(end(US), end(THEM)));
    }
}
