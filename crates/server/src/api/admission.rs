//! Admission of connections: limits for unauthenticated connections, in total and per network, so that they never
//! displace authenticated ones. Beyond a limit, the least recently used connection of the network with the most is
//! closed.
//!
//! It does not accept, read or close connections: [`CloseSignal`] signals the task of a connection to end.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Minimum number of unauthenticated connections per network, if the total allows it: a browser opens six.
const NETWORK_LEAST: usize = 16;

/// Open unauthenticated connections and their limits.
pub struct ConnectionAdmission {
    total_max: usize,
    network_max: usize,
    table: Mutex<AdmissionTable>,
}

/// Resolves when the connection is evicted.
pub struct CloseSignal(oneshot::Receiver<()>);

/// An open connection.
pub struct AdmittedConnection {
    admission: Arc<ConnectionAdmission>,
    id: u64,
}

#[derive(Default)]
struct AdmissionTable {
    /// Open unauthenticated connections.
    open: HashMap<u64, UnauthenticatedConnection>,
    /// Counter of uses; a lower number means less recently used.
    uses: u64,
    evicted: u64,
}

struct UnauthenticatedConnection {
    network: IpAddr,
    /// Value of the counter at its last use.
    used: u64,
    close: oneshot::Sender<()>,
}

impl ConnectionAdmission {
    /// Limits for a server with `connections_max` connections: three quarters may be unauthenticated, a quarter from
    /// one network.
    pub fn new(connections_max: usize) -> Arc<ConnectionAdmission> {
        let total_max = (connections_max - connections_max / 4).max(1);
        let network_max = (connections_max / 4).max(NETWORK_LEAST).min(total_max);
        Arc::new(ConnectionAdmission {
            total_max,
            network_max,
            table: Mutex::default(),
        })
    }

    /// Registers a new connection; evicts others if it exceeds a limit.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> (AdmittedConnection, CloseSignal) {
        let network = network_of(address);
        let mut table = self.table();
        if table
            .open
            .values()
            .filter(|one| one.network == network)
            .count()
            >= self.network_max
        {
            table.evict(Some(network));
        }
        if table.open.len() >= self.total_max {
            table.evict(None);
        }
        let id = table.next_use();
        let (close, closing) = oneshot::channel();
        table.open.insert(
            id,
            UnauthenticatedConnection {
                network,
                used: id,
                close,
            },
        );
        (
            AdmittedConnection {
                admission: self.clone(),
                id,
            },
            CloseSignal(closing),
        )
    }

    /// Evicts an unauthenticated connection, if there is one.
    pub fn make_room(&self) {
        self.table().evict(None);
    }

    /// Number of evicted connections.
    pub fn evicted(&self) -> u64 {
        self.table().evicted
    }

    fn table(&self) -> MutexGuard<'_, AdmissionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdmissionTable {
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    /// Evicts the least recently used connection of this network, or of the one with the most.
    fn evict(&mut self, network: Option<IpAddr>) {
        let mut counts = HashMap::<IpAddr, usize>::new();
        for one in self.open.values() {
            *counts.entry(one.network).or_default() += 1;
        }
        let candidates = self
            .open
            .iter()
            .filter(|(_, one)| network.is_none_or(|only| one.network == only));
        let victim = candidates.max_by_key(|(_, one)| (counts[&one.network], Reverse(one.used)));
        let Some(id) = victim.map(|(id, _)| *id) else {
            return;
        };
        if let Some(one) = self.open.remove(&id) {
            self.evicted += 1;
            // The connection may be ending by itself.
            let _ = one.close.send(());
        }
    }
}

impl AdmittedConnection {
    /// Records a request.
    pub fn record_request(&self) {
        let mut table = self.admission.table();
        let used = table.next_use();
        if let Some(one) = table.open.get_mut(&self.id) {
            one.used = used;
        }
    }

    /// Records a valid token or certificate: the connection is no longer evicted.
    pub fn record_token(&self) {
        self.admission.table().open.remove(&self.id);
    }
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        self.admission.table().open.remove(&self.id);
    }
}

impl CloseSignal {
    /// Waits for the eviction of the connection, if ever.
    pub async fn wait(self) {
        if self.0.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Network of a client: its IPv4 address, or the first 64 bits of its IPv6 address, since a host may use all addresses
/// of that prefix.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Admits connections in order, given by the last byte of their address; returns which remain open.
    fn remain(admission: &Arc<ConnectionAdmission>, from: &[u8]) -> Vec<bool> {
        let admit = |last: &u8| admission.admit(IpAddr::from([10, 0, 0, *last]));
        let mut all: Vec<_> = from.iter().map(admit).collect();
        all.iter_mut()
            .map(|(_, closing)| closing.0.try_recv().is_err())
            .collect()
    }

    #[test]
    fn one_network_has_a_quarter_and_all_have_three_quarters() {
        let admission = ConnectionAdmission::new(64);
        assert_eq!((admission.total_max, admission.network_max), (48, 16));
        let one = remain(&admission, &[1; 600]);
        assert_eq!(one.iter().filter(|open| **open).count(), 16);
        assert!(
            one[600 - 16..].iter().all(|open| *open),
            "the newest remain"
        );
        assert_eq!(admission.evicted(), 600 - 16);
        assert!(
            admission.table().open.is_empty(),
            "connections that ended are not counted"
        );
        let many: Vec<u8> = (0..200).collect();
        assert_eq!(
            remain(&admission, &many)
                .iter()
                .filter(|open| **open)
                .count(),
            48
        );
    }

    #[test]
    fn the_network_with_the_most_makes_room() {
        let admission = ConnectionAdmission::new(64);
        let mut from = vec![9];
        from.extend([[1; 16], [2; 16], [3; 16]].concat());
        from.extend([4, 5]);
        let open = remain(&admission, &from);
        let closed: Vec<_> = from
            .iter()
            .zip(&open)
            .filter(|(_, open)| !**open)
            .map(|(from, _)| *from)
            .collect();
        assert_eq!(closed.len(), 3);
        assert!(open[0] && open[49] && open[50], "{closed:?}");
    }

    #[test]
    fn connections_with_a_token_stay_and_requests_are_counted() {
        let admission = ConnectionAdmission::new(4);
        let mut all: Vec<_> = (0..3)
            .map(|_| admission.admit(IpAddr::from([10, 0, 0, 1])))
            .collect();
        all[0].0.record_token();
        all[1].0.record_request();
        for _ in 0..2 {
            all.push(admission.admit(IpAddr::from([10, 0, 0, 1])));
        }
        admission.make_room();
        let open: Vec<_> = all
            .iter_mut()
            .map(|(_, closing)| closing.0.try_recv())
            .collect();
        let closed: Vec<_> = (0..)
            .zip(&open)
            .filter(|(_, open)| open.is_ok())
            .map(|(at, _)| at)
            .collect();
        assert_eq!(closed, [1, 2]);
    }

    #[test]
    fn networks_are_addresses_or_64_bits() {
        for (address, network) in [
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("::1", "::"),
        ] {
            let [address, network] =
                [address, network].map(|text| text.parse::<IpAddr>().expect("an address"));
            assert_eq!(network_of(address), network);
        }
    }
}
