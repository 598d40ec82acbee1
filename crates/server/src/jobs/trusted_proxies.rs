//! The client's address behind proxies: that of the connection, or the one in `X-Forwarded-For` if trusted proxies have
//! sent it.
//!
//! Entries are read from the right while the address to the right is a trusted proxy's. A client can send any header,
//! so entries to the left of the first address that is not trusted are ignored.

use std::net::{IpAddr, SocketAddr};

use crate::store::access::{lies_in, network};

/// The networks of proxies that name their clients: in `X-Forwarded-For`, and by the PROXY protocol where that is configured.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<(IpAddr, u8)>);

impl TrustedProxies {
    /// Reads networks in CIDR notation.
    ///
    /// # Errors
    /// The first text that is not a network.
    pub fn of<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<TrustedProxies, String> {
        texts
            .into_iter()
            .map(network)
            .collect::<Result<_, _>>()
            .map(TrustedProxies)
    }

    /// The client's address by the lines of the header, last line first; if an entry is unreadable, the address of the
    /// proxy that sent it.
    pub fn client<'h>(&self, peer: IpAddr, lines: impl Iterator<Item = &'h str>) -> IpAddr {
        let mut entries = lines.flat_map(|line| line.rsplit(','));
        let mut address = peer.to_canonical();
        while self.holds(address) {
            match entries.next().and_then(|entry| read(entry.trim())) {
                Some(before) => address = before,
                None => break,
            }
        }
        address
    }

    /// Whether it is the address of a trusted proxy.
    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let whole = if address.is_ipv4() { 32 } else { 128 };
        self.0.iter().any(|net| lies_in((address, whole), *net))
    }
}

/// Parses an address with optional port and, for IPv6, brackets.
fn read(entry: &str) -> Option<IpAddr> {
    let bare = entry
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(entry);
    let address = bare.parse().ok().or_else(|| {
        entry
            .parse()
            .ok()
            .map(|with_port: SocketAddr| with_port.ip())
    });
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_most_address_that_is_no_trusted_proxy_is_the_clients() {
        let trusted = TrustedProxies::of(["10.0.0.0/8", "2001:db8::/64"]).expect("networks");
        for (peer, lines, client) in [
            // An untrusted address.
            ("192.0.2.1", &["198.51.100.7"][..], "192.0.2.1"),
            ("192.0.2.1", &["198.51.100.7, 10.0.0.1"], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("::ffff:10.0.0.1", &["::ffff:198.51.100.7"], "198.51.100.7"),
            // Several hops; entries on the left may be forged.
            (
                "10.0.0.1",
                &["203.0.113.9, 198.51.100.7, 10.0.0.3, 10.0.0.2"],
                "198.51.100.7",
            ),
            (
                "10.0.0.1",
                &["203.0.113.9", "198.51.100.7", "10.0.0.3,10.0.0.2"],
                "198.51.100.7",
            ),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            // Ports and brackets.
            ("10.0.0.1", &["198.51.100.7:50312"], "198.51.100.7"),
            ("2001:db8::1", &["[2001:db8:1::7]:50312"], "2001:db8:1::7"),
            ("2001:db8::1", &["[2001:db8:1::7]"], "2001:db8:1::7"),
            ("2001:db8::1", &["2001:db8:1::7"], "2001:db8:1::7"),
            // Unreadable entry: the address of the proxy that sent it.
            ("10.0.0.1", &["198.51.100.7, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["unknown, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &["198.51.100.7,"], "10.0.0.1"),
            ("10.0.0.1", &[""], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7\u{e4}"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7; 10.0.0.2"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.300"], "10.0.0.1"),
        ] {
            let found = trusted.client(
                peer.parse().expect("an address"),
                lines.iter().rev().copied(),
            );
            assert_eq!(found.to_string(), client, "{peer} {lines:?}");
        }
    }

    #[test]
    fn forwarded_header_is_ignored_without_trusted_proxies() {
        let peer = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(
            TrustedProxies::default().client(peer, ["10.0.0.1"].into_iter()),
            peer
        );
        assert!(TrustedProxies::of(["10.0.0.0/33"]).is_err());
    }
}
