//! Decodes link, network, and transport headers, and defines the basic types of packets: [`Packet`], [`Tunnel`],
//! [`FiveTuple`], [`FlowKey`], [`TcpSeq`], [`Timestamp`].
//!
//! Every header is a checked *view*: its `new_checked` checks the length once, and from then on no accessor can
//! panic. Views borrow; nothing here allocates, reads a clock, or accesses a file. Independent of flows, directions,
//! and protocols above UDP and TCP.

#![forbid(unsafe_code)]

pub mod ah;
pub mod captured_packet;
mod checksum;
mod decode;
pub mod decode_error;
pub mod erspan;
pub mod ethernet;
pub mod extent;
mod fast_path;
pub mod five_tuple;
pub mod fragment;
pub mod frame_relay;
pub mod geneve;
pub mod gre;
pub mod gtp;
pub mod hdlc;
pub mod icmp;
pub mod ieee80211;
pub mod ipfix;
pub mod ipv4;
pub mod ipv6;
pub mod l2tp;
pub mod link;
mod link_layer;
pub mod llc;
pub mod monitor_header;
pub mod mpls;
pub mod nflog;
pub mod nsh;
pub mod packet;
pub mod pbb;
pub mod ppp;
pub mod pppoe;
pub mod seq;
pub mod sll;
pub mod tag;
pub mod tcp;
pub mod time;
pub mod tunnel;
pub mod udp;
pub mod unread_protocol;
pub mod vlan;
pub mod vxlan;
mod walk;

pub use captured_packet::CapturedPacket;
pub use checksum::ChecksumStatus;
pub use decode_error::DecodeError;
pub use extent::Extent;
pub use five_tuple::{Addr, Endpoint, FiveTuple, FlowKey, FlowSide, IpProtocol, V4Key};
pub use fragment::IpFragment;
pub use link::LinkType;
pub use packet::{Packet, PacketConsumer, TcpInfo, TransportHeader};
pub use seq::TcpSeq;
pub use time::Timestamp;
pub use tunnel::Tunnel;
pub use unread_protocol::UnreadProtocol;
pub use walk::{innermost, is_tunnel_port, unread_protocol};
