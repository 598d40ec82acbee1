//! Mirroring by the kernel's traffic control, for hosts without Open vSwitch: filters as arguments of `tc`. They hang on the `clsact`
//! that may be there for others, so each has a priority and a handle of its own, and only it is taken away.

use crate::openflow::Match;
use crate::packets::field::{IPV4, IPV6};
use crate::packets::{Cube, Field};

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

/// The arguments that make the place where filters hang; that it is there already is no fault.
#[must_use]
pub fn clsact(interface: &str) -> Vec<String> {
    words(&format!("qdisc add dev {interface} clsact"))
}

impl Filter {
    /// The arguments that add it.
    ///
    /// # Errors
    /// What `u32` cannot say.
    pub fn add(&self) -> Result<Vec<String>, String> {
        let (protocol, terms) = terms(&self.matched)?;
        let at = self.place();
        Ok(words(&format!(
            "filter add {at} protocol {protocol} u32 {terms} action mirred egress mirror dev {}",
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
