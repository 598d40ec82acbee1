//! What an sFlow agent adds to a sampled packet: interfaces, and the extended data of sFlow version 5 (section 5,
//! "extended_…") and its extensions "sFlow Tunnel Structures" and "sFlow Transit Delay Structures".

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::Timestamp;

use crate::ExportDomain;
use crate::cursor::Cursor;

/// An interface in a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleInterface {
    /// Not reported.
    #[default]
    Unknown,
    /// Sent or received by the agent itself.
    Internal,
    /// SNMP `ifIndex`.
    Index(u32),
    /// The packet was discarded, for this reason.
    Discarded(u32),
    /// The packet was sent to several interfaces; 0 if their number is unknown.
    Multiple(u32),
}

/// Data that the agent adds to a packet; `None`: not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampleContext<'a> {
    /// Exporting domain.
    pub domain: ExportDomain,
    /// Time of the datagram by the receiver's clock; sFlow datagrams have no time.
    pub received: Timestamp,
    /// Type of the data source: 0 interface, 1 VLAN, 2 physical entity.
    pub source_type: u32,
    /// Index of the data source.
    pub source_index: u32,
    /// Interface that received the packet.
    pub input: SampleInterface,
    /// Interface that sends the packet.
    pub output: SampleInterface,
    /// VLAN on reception.
    pub input_vlan: Option<u32>,
    /// VLAN on transmission.
    pub output_vlan: Option<u32>,
    /// VLAN tags that the agent removed from the packet.
    pub vlan_stack: Option<VlanStack<'a>>,
    /// The route to the receiver.
    pub route: Option<SampleRoute>,
    /// Autonomous systems.
    pub gateway: Option<SampleGateway<'a>>,
    /// Tunnel that the packet came from.
    pub input_tunnel: SampleTunnel,
    /// Tunnel that the packet goes to.
    pub output_tunnel: SampleTunnel,
    /// Selected egress queue.
    pub queue: Option<u32>,
    /// Time in the switch (record 0:1039).
    pub transit_delay_ns: Option<u32>,
    /// Bytes in the egress queue on arrival (record 0:1040).
    pub queue_bytes: Option<u32>,
}

/// Routing of a packet (`extended_router`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRoute {
    /// Address of the next router.
    pub next_hop: Option<IpAddr>,
    /// Length of the prefix that matches the sender, in bits.
    pub source_prefix_len: u32,
    /// Length of the prefix that matches the receiver, in bits.
    pub destination_prefix_len: u32,
}

/// Autonomous systems of a packet (`extended_gateway`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleGateway<'a> {
    /// Address of the border router that the packet should go to.
    pub next_hop: Option<IpAddr>,
    /// Autonomous system of the agent.
    pub agent_as: u32,
    /// Autonomous system of the sender.
    pub source_as: u32,
    /// The neighbor by which packets to the sender go.
    pub source_peer_as: u32,
    /// Path to the receiver.
    pub path: AsPath<'a>,
}

/// Outer header of a tunnel (`extended_ipv4_tunnel_ingress` and others).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleTunnel {
    /// Sender and receiver.
    pub ends: Option<[IpAddr; 2]>,
    /// Virtual network identifier.
    pub vni: Option<u32>,
}

/// Tags as four bytes each, the outermost first: TPID, priority, and VLAN.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VlanStack<'a>(&'a [u8]);

/// Segments of a path of autonomous systems (BGP, RFC 4271 section 4.3): type (1 set, 2 sequence), number, and members
/// of four bytes each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AsPath<'a> {
    segments: &'a [u8],
    /// The first system: the neighbor.
    pub first: Option<u32>,
    /// The last system: that of the receiver.
    pub last: Option<u32>,
}

impl SampleInterface {
    pub(crate) fn read(cursor: &mut Cursor<'_>, is_expanded: bool) -> Option<SampleInterface> {
        let first = cursor.u32()?;
        let (format, value) = if is_expanded {
            (first, cursor.u32()?)
        } else {
            (first >> 30, first & 0x3fff_ffff)
        };
        Some(match format {
            // The sFlow specification has 0x3fffffff, its expanded form 0xffffffff.
            0 if value == 0x3fff_ffff || value == u32::MAX => SampleInterface::Internal,
            0 => SampleInterface::from_index(value),
            1 => SampleInterface::Discarded(value),
            2 => SampleInterface::Multiple(value),
            _ => SampleInterface::Unknown,
        })
    }

    pub(crate) fn from_index(index: u32) -> SampleInterface {
        if index == 0 {
            SampleInterface::Unknown
        } else {
            SampleInterface::Index(index)
        }
    }
}

impl<'a> SampleContext<'a> {
    pub(crate) fn new(domain: ExportDomain, received: Timestamp) -> SampleContext<'a> {
        SampleContext {
            domain,
            received,
            source_type: 0,
            source_index: 0,
            input: SampleInterface::Unknown,
            output: SampleInterface::Unknown,
            input_vlan: None,
            output_vlan: None,
            vlan_stack: None,
            route: None,
            gateway: None,
            input_tunnel: SampleTunnel::default(),
            output_tunnel: SampleTunnel::default(),
            queue: None,
            transit_delay_ns: None,
            queue_bytes: None,
        }
    }

    pub(crate) fn read_source(&mut self, cursor: &mut Cursor<'_>, is_expanded: bool) -> Option<()> {
        let first = cursor.u32()?;
        if is_expanded {
            self.source_type = first;
            self.source_index = cursor.u32()?;
        } else {
            self.source_type = first >> 24;
            self.source_index = first & 0x00ff_ffff;
        }
        Some(())
    }

    /// Takes a record of enterprise 0; returns whether its format is known, and `None` if it ends too early.
    pub(crate) fn take(&mut self, format: u32, bytes: &'a [u8]) -> Option<bool> {
        let mut cursor = Cursor::new(bytes);
        match format {
            1001 => {
                self.input_vlan = Some(cursor.u32()?);
                // Priority on reception.
                cursor.u32()?;
                self.output_vlan = Some(cursor.u32()?);
            }
            1002 => self.route = Some(SampleRoute::read(&mut cursor)?),
            1003 => self.gateway = Some(SampleGateway::read(&mut cursor)?),
            1012 => self.vlan_stack = Some(VlanStack::read(&mut cursor)?),
            1023 | 1025 => {
                self.output_tunnel.ends = Some(tunnel_ends(&mut cursor, format == 1025)?)
            }
            1024 | 1026 => self.input_tunnel.ends = Some(tunnel_ends(&mut cursor, format == 1026)?),
            1029 => self.output_tunnel.vni = Some(cursor.u32()?),
            1030 => self.input_tunnel.vni = Some(cursor.u32()?),
            1036 => self.queue = Some(cursor.u32()?),
            1039 => self.transit_delay_ns = Some(cursor.u32()?),
            1040 => self.queue_bytes = Some(cursor.u32()?),
            _ => return Some(false),
        }
        Some(true)
    }
}

impl SampleRoute {
    fn read(cursor: &mut Cursor<'_>) -> Option<SampleRoute> {
        Some(SampleRoute {
            next_hop: address(cursor)?,
            source_prefix_len: cursor.u32()?,
            destination_prefix_len: cursor.u32()?,
        })
    }
}

impl<'a> SampleGateway<'a> {
    /// Reads the structure up to the path; communities and the local preference follow.
    fn read(cursor: &mut Cursor<'a>) -> Option<SampleGateway<'a>> {
        Some(SampleGateway {
            next_hop: address(cursor)?,
            agent_as: cursor.u32()?,
            source_as: cursor.u32()?,
            source_peer_as: cursor.u32()?,
            path: AsPath::read(cursor)?,
        })
    }
}

impl<'a> AsPath<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Option<AsPath<'a>> {
        let segments = cursor.u32()?;
        let start = cursor.rest();
        let mut first = None;
        let mut last = None;
        for _ in 0..segments {
            cursor.u32()?;
            for _ in 0..cursor.u32()? {
                last = Some(cursor.u32()?);
                first = first.or(last);
            }
        }
        Some(AsPath {
            segments: &start[..start.len() - cursor.len()],
            first,
            last,
        })
    }
}

/// As in BGP tools: `64500 64501 {64502,64503}`, with sets in braces.
impl fmt::Display for AsPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SET: u32 = 1;
        let mut cursor = Cursor::new(self.segments);
        let mut before = "";
        while let Some((kind, len)) = cursor.u32().zip(cursor.u32()) {
            let (between, last) = if kind == SET { (",", "}") } else { (" ", "") };
            let mut next = if kind == SET { "{" } else { "" };
            write!(f, "{before}")?;
            before = " ";
            for number in (0..len).map_while(|_| cursor.u32()) {
                write!(f, "{next}{number}")?;
                next = between;
            }
            write!(f, "{last}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for AsPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsPath({self})")
    }
}

impl<'a> VlanStack<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Option<VlanStack<'a>> {
        let tags = cursor.u32()? as usize;
        cursor.take(tags.checked_mul(4)?).map(VlanStack)
    }
}

/// VLAN identifiers with commas between them, the outermost first.
impl fmt::Display for VlanStack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cursor = Cursor::new(self.0);
        let mut before = "";
        while let Some(tag) = cursor.u32() {
            write!(f, "{before}{}", tag & 0xfff)?;
            before = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for VlanStack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VlanStack({self})")
    }
}

/// An address with its type; the inner `None` is the type "unknown".
pub(crate) fn address(cursor: &mut Cursor<'_>) -> Option<Option<IpAddr>> {
    Some(match cursor.u32()? {
        0 => None,
        1 => Some(ipv4(cursor)?),
        2 => Some(ipv6(cursor)?),
        _ => return None,
    })
}

/// Sender and receiver of the structures `sampled_ipv4` and `sampled_ipv6`, which follow a length and a protocol.
fn tunnel_ends(cursor: &mut Cursor<'_>, is_v6: bool) -> Option<[IpAddr; 2]> {
    cursor.u64()?;
    let mut end = || if is_v6 { ipv6(cursor) } else { ipv4(cursor) };
    Some([end()?, end()?])
}

fn ipv4(cursor: &mut Cursor<'_>) -> Option<IpAddr> {
    cursor
        .array::<4>()
        .map(|bytes| Ipv4Addr::from(bytes).into())
}

fn ipv6(cursor: &mut Cursor<'_>) -> Option<IpAddr> {
    cursor
        .array::<16>()
        .map(|bytes| Ipv6Addr::from(bytes).into())
}
