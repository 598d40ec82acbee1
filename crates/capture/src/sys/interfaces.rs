//! The kernel's list of network interfaces, through `getifaddrs`: covers the process's own network namespace and
//! needs no privilege. Raw entries; `interfaces` merges those of one interface.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One entry; an interface has several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceEntry {
    pub name: String,
    /// `IFF_UP` …
    pub flags: u32,
    pub what: InterfaceFact,
}

/// Content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InterfaceFact {
    /// The interface itself.
    Link {
        index: u32,
        kind: u16,
        drops: [u32; 3],
    },
    /// An address of the interface.
    Address(IpAddr),
    /// Anything else.
    Other,
}

/// Indices of dropped packets in `struct rtnl_link_stats`, in 32-bit words: `rx_dropped`, `rx_fifo_errors`,
/// `rx_missed_errors`.
const DROP_COUNTERS: [usize; 3] = [6, 14, 15];

/// All entries.
pub(crate) fn entries() -> io::Result<Vec<InterfaceEntry>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the call leaves a list there, or fails.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut entries = Vec::new();
    let mut at: *const libc::ifaddrs = first;
    // SAFETY: every entry of the list is valid until the list is freed, below.
    while let Some(raw) = unsafe { at.as_ref() } {
        // SAFETY: the name ends with a zero and lives as long as its entry.
        let name = unsafe { CStr::from_ptr(raw.ifa_name) }
            .to_string_lossy()
            .into_owned();
        entries.push(InterfaceEntry {
            name,
            flags: raw.ifa_flags,
            what: entity(raw),
        });
        at = raw.ifa_next;
    }
    // SAFETY: the list that was made above, freed once.
    unsafe { libc::freeifaddrs(first) };
    Ok(entries)
}

fn entity(raw: &libc::ifaddrs) -> InterfaceFact {
    if raw.ifa_addr.is_null() {
        return bare_link(raw).unwrap_or(InterfaceFact::Other);
    }
    // SAFETY: a non-null address starts with its family, and has the length of that family's addresses.
    unsafe {
        match i32::from((*raw.ifa_addr).sa_family) {
            libc::AF_PACKET => {
                let link = raw.ifa_addr.cast::<libc::sockaddr_ll>().read_unaligned();
                let index = link.sll_ifindex.cast_unsigned();
                InterfaceFact::Link {
                    index,
                    kind: link.sll_hatype,
                    drops: drops(raw),
                }
            }
            libc::AF_INET => {
                let address = raw.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                InterfaceFact::Address(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let address = raw.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                InterfaceFact::Address(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
            }
            _ => InterfaceFact::Other,
        }
    }
}

/// An interface without a link address: a tunnel.
fn bare_link(raw: &libc::ifaddrs) -> Option<InterfaceFact> {
    // Only links have data.
    let drops = if raw.ifa_data.is_null() {
        return None;
    } else {
        drops(raw)
    };
    // SAFETY: the name ends with a zero.
    let index = unsafe { libc::if_nametoindex(raw.ifa_name) };
    // SAFETY: as before.
    let kind =
        super::packet_socket::kind(unsafe { CStr::from_ptr(raw.ifa_name) }.to_str().ok()?).ok()?;
    (index != 0).then_some(InterfaceFact::Link { index, kind, drops })
}

/// The dropped packets of a link's entry.
fn drops(raw: &libc::ifaddrs) -> [u32; 3] {
    if raw.ifa_data.is_null() {
        return [0; 3];
    }
    let statistics = raw.ifa_data.cast::<u32>();
    // SAFETY: the data of a link is its statistics, which are longer than that.
    DROP_COUNTERS.map(|i| unsafe { statistics.add(i).read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_loopback_interface() {
        let entries = entries().expect("a list");
        let link = |e: &InterfaceEntry| {
            matches!(
                e.what,
                InterfaceFact::Link {
                    index: 1..,
                    kind: libc::ARPHRD_LOOPBACK,
                    ..
                }
            )
        };
        assert!(
            entries.iter().any(|e| e.name == "lo" && link(e)),
            "{entries:?}"
        );
    }
}
