//! Mirroring by the kernel's traffic control, for hosts without Open vSwitch: filters as arguments of `tc`. They hang on the `clsact`
//! that may be there for others, so each has a priority and a handle of its own, and only it is taken away.

use crate::openflow::Match;
use crate::packets::field::{IPV4, IPV6};
use crate::packets::{Cube, Field, without_all};

/// Which way packets pass the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// In.
    Ingress,
    /// Out.
    Egress,
}

/// A filter that copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The interface.
    pub interface: String,
    /// The direction.
    pub direction: Direction,
    /// Its priority, which tells it from filters of others.
    pub priority: u16,
    /// Which packets; of a port's bits, addresses and TCP flags as `u32` sees them.
    pub matched: Cube,
    /// The interface to which copies go.
    pub target: String,
}

/// For all these packets, both ways, filters that copy each of them once, with priorities from `first` on, one a protocol.
///
/// A packet from an address to itself is not looked for: it passes no interface.
#[must_use]
pub fn filters(interface: &str, asked: &[Cube], target: &str, first: u16) -> Vec<Filter> {
    let is_to_itself = |cube: &Cube| {
        let ends = [cube.get(Field::Source), cube.get(Field::Destination)];
        ends[0] == ends[1] && ends[0].mask == Field::Source.full()
    };
    let mut apart: Vec<Cube> = Vec::new();
    for cube in asked {
        let meets = |known: &&Cube| cube.and(known).is_some_and(|both| !is_to_itself(&both.canonical()));
        let others: Vec<Cube> = apart.iter().filter(meets).copied().collect();
        apart.extend(without_all(vec![*cube], &others));
    }
    let filter = |matched: &Cube, direction| Filter {
        interface: interface.to_owned(),
        direction,
        priority: first.saturating_add(protocol(matched)),
        matched: *matched,
        target: target.to_owned(),
    };
    let both = [Direction::Ingress, Direction::Egress];
    apart.iter().flat_map(|cube| both.map(|direction| filter(cube, direction))).collect()
}

/// So many priorities are used.
pub const PRIORITIES: u16 = 3;

/// Filters of one priority are of one protocol.
fn protocol(cube: &Cube) -> u16 {
    match cube.get(Field::EthType).value {
        IPV4 => 0,
        IPV6 => 1,
        _ => 2,
    }
}

/// The arguments that make the place where filters hang; that it is there already is no fault.
#[must_use]
pub fn clsact(interface: &str) -> Vec<String> {
    words(&format!("qdisc add dev {interface} clsact"))
}

impl Filter {
    /// The arguments that add it. Behind it filters of others go on as if it were not there, and so do ours: of filters of ours that match
    /// one packet each copies it.
    ///
    /// # Errors
    /// What `u32` cannot say.
    pub fn add(&self) -> Result<Vec<String>, String> {
        let (protocol, terms) = terms(&self.matched)?;
        let at = self.place();
        Ok(words(&format!(
            "filter add {at} protocol {protocol} u32 {terms} action mirred egress mirror dev {} continue",
            self.target
        )))
    }

    /// The arguments that take it away, with all others of its priority.
    #[must_use]
    pub fn delete(&self) -> Vec<String> {
        words(&format!("filter del {}", self.place()))
    }

    fn place(&self) -> String {
        let direction = if self.direction == Direction::Ingress { "ingress" } else { "egress" };
        format!("dev {} {direction} prio {}", self.interface, self.priority)
    }
}

/// The protocol and the selectors. Ports are looked for behind an IPv4 header of 20 bytes, which is all that `u32` can.
fn terms(cube: &Cube) -> Result<(&'static str, String), String> {
    let refuse = || format!("tc's u32 cannot match {}", Match::from(*cube));
    let kind = cube.get(Field::EthType);
    let (protocol, header) = match kind.value {
        _ if kind.mask == 0 => ("all", 0),
        IPV4 => ("ip", 20),
        IPV6 => ("ipv6", 40),
        _ => return Err(refuse()),
    };
    let mut terms = Vec::new();
    for (field, v4, v6) in [(Field::Source, 12, 8), (Field::Destination, 16, 24)] {
        let bits = cube.get(field);
        let words = if header == 20 { 3..4 } else { 0..4 };
        for word in words {
            let part = |number: u128| (number >> (96 - 32 * word)) as u32;
            let (value, mask, at) =
                (part(bits.value), part(bits.mask), if header == 20 { v4 } else { v6 + 4 * word });
            if mask != 0 {
                terms.push(format!("match u32 {value:#x} {mask:#x} at {at}"));
            }
        }
    }
    let small = [
        (Field::Protocol, if header == 20 { 9 } else { 6 }, "u8"),
        (Field::SourcePort, header, "u16"),
        (Field::DestinationPort, header + 2, "u16"),
        (Field::TcpFlags, header + 13, "u8"),
    ];
    for (field, at, width) in small {
        let bits = cube.get(field);
        if bits.mask == 0 {
            continue;
        }
        if header == 0 || width == "u8" && bits.mask > 0xff {
            return Err(refuse());
        }
        terms.push(format!("match {width} {:#x} {:#x} at {at}", bits.value, bits.mask));
        // No options, and no later fragment, before what is read behind the header.
        if header == 20 && field != Field::Protocol {
            terms.extend(["match u8 0x45 0xff at 0".to_owned(), "match u16 0 0x1fff at 6".to_owned()]);
        }
    }
    for field in [Field::InPort, Field::MacSource, Field::MacDestination, Field::Vlan, Field::Other] {
        if cube.get(field).mask != 0 {
            return Err(refuse());
        }
    }
    terms.dedup();
    let all = if terms.is_empty() { "match u32 0 0".to_owned() } else { terms.join(" ") };
    Ok((protocol, all))
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}
