//! FROM and TO: a packet filter that is independent of direction, and a flow filter by client and server.

use plan::{AddressMatch, MonitorSpec};
use wire::{Addr, Endpoint, FiveTuple};

/// Compiled FROM and TO lists; an empty list matches every endpoint.
#[derive(Clone, Debug, Default)]
pub struct AddressFilter {
    clients: Vec<CompiledEndMatch>,
    servers: Vec<CompiledEndMatch>,
}

/// One address of a list, prepared for comparison: address and mask as 128-bit numbers.
#[derive(Clone, Copy, Debug)]
struct CompiledEndMatch {
    mask: u128,
    net: u128,
    port: Option<u16>,
}

impl AddressFilter {
    /// Compiles FROM and TO of a plan.
    #[must_use]
    pub fn new(spec: &MonitorSpec) -> AddressFilter {
        AddressFilter::of(&spec.clients, &spec.servers)
    }

    /// Compiles lists of clients and servers.
    #[must_use]
    pub fn of(clients: &[AddressMatch], servers: &[AddressMatch]) -> AddressFilter {
        let compile = |list: &[AddressMatch]| -> Vec<CompiledEndMatch> {
            let list: Vec<_> = list.iter().map(CompiledEndMatch::new).collect();
            // An entry that matches everything makes the list match everything.
            if list.iter().any(|m| m.mask == 0 && m.port.is_none()) {
                Vec::new()
            } else {
                list
            }
        };
        AddressFilter {
            clients: compile(clients),
            servers: compile(servers),
        }
    }

    /// Whether both lists are empty.
    #[inline]
    #[must_use]
    pub fn passes_all(&self) -> bool {
        self.clients.is_empty() && self.servers.is_empty()
    }

    /// Whether a packet may belong to a matching flow, in either direction.
    #[inline]
    #[must_use]
    pub fn passes(&self, five: &FiveTuple) -> bool {
        self.passes_all() || self.matches(five.src, five.dst) || self.matches(five.dst, five.src)
    }

    /// Whether a flow from `client` to `server` matches.
    #[inline]
    #[must_use]
    pub fn matches(&self, client: Endpoint, server: Endpoint) -> bool {
        let any =
            |list: &[CompiledEndMatch], end| list.is_empty() || list.iter().any(|m| m.matches(end));
        any(&self.clients, client) && any(&self.servers, server)
    }
}

impl CompiledEndMatch {
    fn new(m: &AddressMatch) -> CompiledEndMatch {
        let (mask, net) = match m.net {
            None => (0, 0),
            Some((ip, prefix)) => {
                // IPv4 addresses are the last 32 bits of the IPv4-mapped form.
                let prefix = u32::from(prefix) + if ip.is_ipv4() { 96 } else { 0 };
                let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
                (mask, u128::from_be_bytes(Addr::from(ip).0) & mask)
            }
        };
        CompiledEndMatch {
            mask,
            net,
            port: m.port,
        }
    }

    #[inline]
    fn matches(&self, end: Endpoint) -> bool {
        self.port.is_none_or(|p| p == end.port)
            && u128::from_be_bytes(end.addr.0) & self.mask == self.net
    }
}

#[cfg(test)]
mod tests {
    use wire::IpProtocol;

    use super::*;

    fn end(text: &str) -> Endpoint {
        let addr: std::net::SocketAddr = text.parse().expect("an address with a port");
        Endpoint {
            addr: addr.ip().into(),
            port: addr.port(),
        }
    }

    fn filter(
        clients: &[(&str, u8, Option<u16>)],
        servers: &[(&str, u8, Option<u16>)],
    ) -> AddressFilter {
        let list = |l: &[(&str, u8, Option<u16>)]| {
            l.iter()
                .map(|(ip, prefix, port)| AddressMatch {
                    net: (!ip.is_empty()).then(|| (ip.parse().expect("an address"), *prefix)),
                    port: *port,
                })
                .collect()
        };
        AddressFilter::new(&MonitorSpec {
            clients: list(clients),
            servers: list(servers),
            ..MonitorSpec::default()
        })
    }

    fn check(f: &AddressFilter, src: &str, dst: &str, passes: bool, src_is_client: bool) {
        let five = FiveTuple {
            src: end(src),
            dst: end(dst),
            protocol: IpProtocol::TCP,
        };
        assert_eq!(f.passes(&five), passes, "{src} > {dst}");
        assert_eq!(
            f.matches(five.src, five.dst),
            src_is_client,
            "{src} > {dst}"
        );
    }

    #[test]
    fn both_directions_pass_and_only_one_matches() {
        let f = filter(&[], &[("10.0.0.9", 32, Some(80)), ("fd00::", 8, None)]);
        check(&f, "10.0.0.1:5000", "10.0.0.9:80", true, true);
        check(&f, "10.0.0.9:80", "10.0.0.1:5000", true, false);
        check(&f, "10.0.0.1:80", "10.0.0.2:80", false, false);
        check(&f, "[fe80::1]:5", "[fd77::1]:1", true, true);
        check(&f, "[fe80::1]:5", "[fe77::1]:1", false, false);
    }

    #[test]
    fn client_and_server_must_both_match() {
        let f = filter(&[("10.1.0.0", 16, None)], &[("", 0, Some(3306))]);
        check(&f, "10.1.2.3:4000", "10.9.9.9:3306", true, true);
        check(&f, "10.2.2.3:4000", "10.9.9.9:3306", false, false);
        check(&f, "10.9.9.9:3306", "10.1.2.3:4000", true, false);
    }

    #[test]
    fn star_in_a_list_matches_everything() {
        assert!(filter(&[("", 0, None)], &[("", 0, None), ("10.0.0.1", 32, None)]).passes_all());
    }
}
