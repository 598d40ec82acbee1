//! The network interfaces of this machine, or of its network namespace: names, states, addresses, and packets dropped
//! by their adapters.

use std::fmt;
use std::io;
use std::net::IpAddr;

use crate::sys::interfaces::{InterfaceFact, entries};

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkInterface {
    /// Name of the interface.
    pub name: String,
    /// Interface index.
    pub index: u32,
    /// Administrative state and carrier.
    pub state: InterfaceState,
    /// Hardware type (`ARPHRD_ETHER` …).
    pub kind: u16,
    /// Addresses of the interface.
    pub addresses: Vec<IpAddr>,
    /// Packets dropped before any capture since the interface was created; wraps.
    pub(crate) drops: u32,
}

/// Whether an interface can carry packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceState {
    /// On, and connected.
    Up,
    /// Up, but without a carrier.
    NoCarrier,
    /// Switched off.
    Down,
}

impl InterfaceState {
    fn of(flags: u32) -> InterfaceState {
        let has = |flag: i32| flags & flag.cast_unsigned() != 0;
        match (has(libc::IFF_UP), has(libc::IFF_RUNNING)) {
            (false, _) => InterfaceState::Down,
            (true, false) => InterfaceState::NoCarrier,
            (true, true) => InterfaceState::Up,
        }
    }
}

impl fmt::Display for InterfaceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            InterfaceState::Up => "up",
            InterfaceState::NoCarrier => "no carrier",
            InterfaceState::Down => "down",
        })
    }
}

/// All interfaces, by index.
///
/// # Errors
/// The kernel's error.
pub fn interfaces() -> io::Result<Vec<NetworkInterface>> {
    let entries = entries()?;
    let mut interfaces = Vec::new();
    for entry in &entries {
        if let InterfaceFact::Link {
            index,
            kind,
            drops: [dropped, fifo, missed],
        } = entry.what
        {
            interfaces.push(NetworkInterface {
                name: entry.name.clone(),
                index,
                state: InterfaceState::of(entry.flags),
                kind,
                addresses: Vec::new(),
                // Drivers count a full receive queue as one or the other, some as both.
                drops: dropped.wrapping_add(fifo.max(missed)),
            });
        }
    }
    for entry in &entries {
        // An address may have its own label: eth0:1.
        let name = entry.name.split(':').next().unwrap_or_default();
        let interface = interfaces.iter_mut().find(|i| i.name == name);
        if let (InterfaceFact::Address(address), Some(interface)) = (&entry.what, interface) {
            interface.addresses.push(*address);
        }
    }
    interfaces.sort_by_key(|i| i.index);
    Ok(interfaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there() {
        let interfaces = interfaces().expect("a list");
        let lo = interfaces
            .iter()
            .find(|i| i.name == "lo")
            .expect("every machine has it");
        assert_eq!(lo.kind, libc::ARPHRD_LOOPBACK);
        if lo.state == InterfaceState::Up {
            assert!(lo.addresses.iter().all(IpAddr::is_loopback), "{lo:?}");
        }
    }

    #[test]
    fn states() {
        for (flags, state) in [
            (0, InterfaceState::Down),
            (libc::IFF_RUNNING, InterfaceState::Down),
            (libc::IFF_UP, InterfaceState::NoCarrier),
            (libc::IFF_UP | libc::IFF_RUNNING, InterfaceState::Up),
        ] {
            assert_eq!(InterfaceState::of(flags.cast_unsigned()), state);
        }
    }
}
