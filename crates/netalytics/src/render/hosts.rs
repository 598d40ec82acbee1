//! Host names from files in the syntax of hosts(5): for the addresses of a query, and for tables.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use query::{HostResolver, HostTable};

use crate::process::failure::wrong_flags;

/// The system's hosts file.
const SYSTEM_HOSTS: &str = "/etc/hosts";

/// Host names and addresses.
#[derive(Clone, Debug, Default)]
pub struct HostNames {
    /// Name to addresses, for queries.
    pub addresses: HostTable,
    /// Address to its first name, for tables.
    pub names: HashMap<IpAddr, String>,
}

/// A line with an address.
struct HostsFileLine<'a> {
    address: IpAddr,
    names: Vec<&'a str>,
}

/// Reads `file`, which must be valid, and the system's file, if it exists and is valid. Names in `file` take
/// precedence.
pub fn read(file: Option<&Path>) -> anyhow::Result<HostNames> {
    let own = match file {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?,
        None => String::new(),
    };
    let system = std::fs::read(SYSTEM_HOSTS).unwrap_or_default();
    let name = file.map(|f| f.display().to_string()).unwrap_or_default();
    names(&own, &String::from_utf8_lossy(&system))
        .map_err(|error| wrong_flags(format!("{name}:{error}")))
}

/// A table that notes lookups of missing names.
pub struct TrackedHostTable<'a> {
    table: &'a HostTable,
    /// Whether a name was missing.
    pub missed: Cell<bool>,
}

impl<'a> TrackedHostTable<'a> {
    /// A table without lookups so far.
    pub fn new(table: &'a HostTable) -> TrackedHostTable<'a> {
        TrackedHostTable {
            table,
            missed: Cell::new(false),
        }
    }
}

impl HostResolver for TrackedHostTable<'_> {
    fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let addresses = self.table.addresses(name);
        self.missed.set(self.missed.get() || addresses.is_empty());
        addresses
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        self.table.names()
    }
}

/// Magic numbers of files that may contain names: pcapng, and compressed files (gzip, Zstandard).
const MAY_HOLD_NAMES: [&[u8]; 3] = [b"\x0a\x0d\x0d\x0a", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"];

/// Adds the names contained in captures, which requires reading them completely; skips standard input and pipes.
/// Unreadable parts are reported by the main run.
pub fn add_those_of_captures(captures: &[PathBuf], names: &mut HostNames) {
    let holding: Vec<PathBuf> = captures
        .iter()
        .filter(|path| may_hold_names(path))
        .cloned()
        .collect();
    let mut source = capture::open(&holding);
    let mut block = capture::PacketBlock::default();
    while source.next_block(&mut block) {}
    for (address, name) in source.names() {
        if names.addresses.addresses(name).is_empty() {
            names.insert(
                &HostsFileLine {
                    address: *address,
                    names: vec![name],
                },
                |_| true,
            );
        }
    }
}

fn may_hold_names(path: &Path) -> bool {
    let mut head = Vec::new();
    path.is_file()
        && File::open(path)
            .and_then(|f| f.take(4).read_to_end(&mut head))
            .is_ok()
        && MAY_HOLD_NAMES.iter().any(|magic| head.starts_with(magic))
}

fn names(own: &str, system: &str) -> Result<HostNames, String> {
    let mut names = HostNames::default();
    for (i, text) in own.lines().enumerate() {
        match line(text) {
            None => {}
            Some(Ok(line)) => names.insert(&line, |_| true),
            Some(Err(error)) => return Err(format!("{}: {error}", i + 1)),
        }
    }
    let own = names.addresses.clone();
    for line in system.lines().filter_map(|text| line(text)?.ok()) {
        names.insert(&line, |name| own.addresses(name).is_empty());
    }
    Ok(names)
}

impl HostNames {
    fn insert(&mut self, line: &HostsFileLine<'_>, take: impl Fn(&str) -> bool) {
        for name in line.names.iter().filter(|name| take(name)) {
            self.addresses.insert(name, line.address);
            self.names
                .entry(line.address)
                .or_insert_with(|| (*name).to_owned());
        }
    }
}

/// Parses a line; `None` if it is empty or a comment.
fn line(text: &str) -> Option<Result<HostsFileLine<'_>, String>> {
    let mut words = text
        .split('#')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let first = words.next()?;
    // A zone (fe80::1%eth0) is valid on this machine only.
    let address = first.split('%').next().unwrap_or(first).parse::<IpAddr>();
    let names: Vec<&str> = words.collect();
    Some(match address {
        Err(_) => Err(format!("{first:?} is not an IP address")),
        Ok(_) if names.is_empty() => Err(format!("{first} is not followed by a name")),
        Ok(address) => Ok(HostsFileLine {
            address: address.to_canonical(),
            names,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: &str, system: &str, expected: Result<&[(&str, &str)], &str>) {
        let found = names(own, system);
        match (&found, expected) {
            (Ok(found), Ok(expected)) => {
                for (name, address) in expected {
                    let addresses = found.addresses.addresses(name);
                    let addresses: Vec<String> =
                        addresses.iter().map(ToString::to_string).collect();
                    assert_eq!(addresses.join(" "), *address, "{name}");
                }
            }
            (Err(found), Err(expected)) => assert_eq!(found, expected),
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn own_names_come_first() {
        let own = "10.0.0.1 web www # the shop\n\n# nothing\n2001:db8::1\tweb\n";
        let system = "127.0.0.1 localhost\nrubbish\n192.0.2.1 web other\n";
        check(
            own,
            system,
            Ok(&[
                ("web", "10.0.0.1 2001:db8::1"),
                ("www", "10.0.0.1"),
                ("localhost", "127.0.0.1"),
                ("other", "192.0.2.1"),
                ("no", ""),
            ]),
        );
        let found = names(own, system).expect("good files");
        assert_eq!(found.names[&IpAddr::from([10, 0, 0, 1])], "web");
        assert_eq!(found.names[&IpAddr::from([192, 0, 2, 1])], "other");
    }

    #[test]
    fn a_bad_line_is_named() {
        check(
            "10.0.0.1 a\nweb 10.0.0.2\n",
            "",
            Err("2: \"web\" is not an IP address"),
        );
        check(
            "10.0.0.1\n",
            "",
            Err("1: 10.0.0.1 is not followed by a name"),
        );
    }
}
