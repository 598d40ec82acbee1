//! Host names in queries. Names and addresses are provided by the caller, since this crate does no I/O.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// A source of host names.
pub trait HostResolver {
    /// The addresses of a name, case-insensitive; empty if unknown.
    fn addresses(&self, name: &str) -> Vec<IpAddr>;

    /// All names, for hints.
    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_>;
}

/// No names.
impl HostResolver for () {
    fn addresses(&self, _: &str) -> Vec<IpAddr> {
        Vec::new()
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(std::iter::empty())
    }
}

/// Names with their addresses, from a hosts file or a capture's name resolution blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostTable {
    /// By lowercase name.
    by_name: BTreeMap<String, Vec<IpAddr>>,
}

impl HostTable {
    /// Creates an empty table.
    #[must_use]
    pub fn new() -> HostTable {
        HostTable::default()
    }

    /// Adds an address to a name.
    pub fn insert(&mut self, name: &str, address: IpAddr) {
        let addresses = self.by_name.entry(name.to_lowercase()).or_default();
        let address = address.to_canonical();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }

    /// Adds the content of a hosts file (hosts(5)): an address and its names per line, with comments after `#`. Lines
    /// without an address are ignored, as by the system's resolver.
    pub fn insert_hosts_file(&mut self, content: &str) {
        for line in content.lines() {
            let mut words = line.split('#').next().unwrap_or("").split_whitespace();
            let Some(address) = words.next().and_then(|a| a.split('%').next()?.parse().ok()) else {
                continue;
            };
            words.for_each(|name| self.insert(name, address));
        }
    }

    /// Whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

impl HostResolver for HostTable {
    fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let name = name.strip_suffix('.').unwrap_or(name);
        self.by_name
            .get(&name.to_lowercase())
            .cloned()
            .unwrap_or_default()
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.by_name.keys().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_file_is_read_as_the_system_does() {
        let mut table = HostTable::new();
        assert!(table.is_empty());
        table.insert_hosts_file(
            "# comment\n127.0.0.1\tlocalhost  Loop # more\n::1 localhost\nnonsense x\n\nfe80::1%eth0 gw\n\
             10.0.0.1 h1\n10.0.0.1 h1\n",
        );
        let addresses = |name| {
            table
                .addresses(name)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(addresses("LOCALHOST"), ["127.0.0.1", "::1"]);
        assert_eq!(addresses("loop"), ["127.0.0.1"]);
        assert_eq!(addresses("h1."), ["10.0.0.1"]);
        assert_eq!(addresses("gw"), ["fe80::1"]);
        assert!(addresses("x").is_empty());
        assert_eq!(
            table.names().collect::<Vec<_>>(),
            ["gw", "h1", "localhost", "loop"]
        );
        assert_eq!(().addresses("h1").len() + ().names().count(), 0);
    }
}
