//! The bytes of a packet with a TCP segment and modifiable headers. IP headers stay consistent; checksums are not
//! updated, except by a router, because captures at a sender have wrong ones anyway.

use wire::LinkType;

use crate::checksums;

/// A packet with a TCP segment.
#[derive(Clone, Debug)]
pub struct EditableSegment {
    bytes: Vec<u8>,
    network: usize,
    transport: usize,
    payload: usize,
}

/// Flags of a TCP header.
pub mod flags {
    /// FIN.
    pub const FIN: u8 = 1;
    /// SYN.
    pub const SYN: u8 = 2;
    /// RST.
    pub const RST: u8 = 4;
    /// ACK.
    pub const ACK: u8 = 16;
}

impl EditableSegment {
    /// Parses an Ethernet or Linux "cooked" packet with TCP directly over IP.
    #[must_use]
    pub fn parse(link_type: LinkType, bytes: &[u8]) -> Option<EditableSegment> {
        let mut network = match link_type {
            LinkType::Ethernet => 14,
            LinkType::LinuxSll => 16,
            LinkType::LinuxSll2 => 20,
            _ => return None,
        };
        while link_type == LinkType::Ethernet
            && matches!(bytes.get(network - 2..network)?, [0x81, 0] | [0x88, 0xa8])
        {
            network += 4;
        }
        let first = *bytes.get(network)?;
        let (transport, protocol, end) = match first >> 4 {
            4 => {
                let total = usize::from(u16::from_be_bytes(
                    bytes.get(network + 2..network + 4)?.try_into().ok()?,
                ));
                (
                    network + 4 * usize::from(first & 15),
                    *bytes.get(network + 9)?,
                    network + total,
                )
            }
            6 => {
                let len = usize::from(u16::from_be_bytes(
                    bytes.get(network + 4..network + 6)?.try_into().ok()?,
                ));
                (network + 40, *bytes.get(network + 6)?, network + 40 + len)
            }
            _ => return None,
        };
        let payload = transport + 4 * usize::from(*bytes.get(transport + 12)? >> 4);
        let complete =
            protocol == 6 && payload <= bytes.len() && end <= bytes.len() && payload <= end;
        complete.then(|| EditableSegment {
            bytes: bytes[..end].to_vec(),
            network,
            transport,
            payload,
        })
    }

    /// The packet.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.payload..]
    }

    /// The modifiable payload, with fixed length.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.payload..]
    }

    /// Replaces the payload.
    pub fn set_payload(&mut self, payload: &[u8]) {
        self.bytes.truncate(self.payload);
        self.bytes.extend_from_slice(payload);
        self.set_ip_payload_len((self.bytes.len() - self.transport) as u16);
    }

    /// Length of transport header and payload.
    #[must_use]
    pub fn ip_payload_len(&self) -> u16 {
        (self.bytes.len() - self.transport) as u16
    }

    /// Sets the length in the IP header.
    pub fn set_ip_payload_len(&mut self, len: u16) {
        let (at, len) = match self.bytes[self.network] >> 4 {
            4 => (
                self.network + 2,
                len + (self.transport - self.network) as u16,
            ),
            _ => (self.network + 4, len),
        };
        self.bytes[at..at + 2].copy_from_slice(&len.to_be_bytes());
    }

    /// The sequence number.
    #[must_use]
    pub fn seq(&self) -> u32 {
        self.word(self.transport + 4)
    }

    /// Sets the sequence number.
    pub fn set_seq(&mut self, seq: u32) {
        self.bytes[self.transport + 4..self.transport + 8].copy_from_slice(&seq.to_be_bytes());
    }

    /// The acknowledgment number.
    #[must_use]
    pub fn ack(&self) -> u32 {
        self.word(self.transport + 8)
    }

    /// Sets the acknowledgment number.
    pub fn set_ack(&mut self, ack: u32) {
        self.bytes[self.transport + 8..self.transport + 12].copy_from_slice(&ack.to_be_bytes());
    }

    /// TCP flags.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.bytes[self.transport + 13]
    }

    /// Sets the flags.
    pub fn set_flags(&mut self, flags: u8) {
        self.bytes[self.transport + 13] = flags;
    }

    /// Decrements the TTL or hop limit.
    pub fn pass_a_router(&mut self) {
        let at = self.network
            + if self.bytes[self.network] >> 4 == 4 {
                8
            } else {
                7
            };
        self.bytes[at] = self.bytes[at].saturating_sub(1).max(1);
        if self.bytes[self.network] >> 4 == 4 {
            checksums::complete_ip_header(&mut self.bytes[self.network..self.transport]);
        }
    }

    /// Replaces the link addresses; no effect for link types other than Ethernet.
    pub fn set_link_addresses(&mut self, link_type: LinkType) {
        if link_type == LinkType::Ethernet {
            self.bytes[..12].copy_from_slice(&[2, 0, 0, 0, 9, 1, 2, 0, 0, 0, 9, 2]);
        }
    }

    /// Adds a VLAN tag; no effect for link types other than Ethernet.
    pub fn add_vlan(&mut self, link_type: LinkType, vlan: u16) {
        if link_type == LinkType::Ethernet {
            let tag = [0x81, 0, (vlan >> 8) as u8, vlan as u8];
            self.bytes.splice(12..12, tag);
            self.network += 4;
            self.transport += 4;
            self.payload += 4;
        }
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{SentPacket, packet::tcp_info};
    use wire::packet::TcpFlags;
    use wire::{CapturedPacket, Packet, Timestamp, TransportHeader};

    #[test]
    fn edited_fields_are_decoded() {
        for (a, b) in [
            ("10.0.0.1:1024", "10.0.0.2:80"),
            ("[2001:db8::1]:1024", "[2001:db8::2]:80"),
        ] {
            let ends = (
                a.parse().expect("an address"),
                b.parse().expect("an address"),
            );
            let sent = SentPacket::tcp(Timestamp(0), ends, tcp_info(5, 6, TcpFlags::ACK), b"hello");
            let mut segment =
                EditableSegment::parse(LinkType::Ethernet, &sent.to_bytes()).expect("a segment");
            assert_eq!(
                (segment.seq(), segment.ack(), segment.payload()),
                (5, 6, &b"hello"[..])
            );
            segment.set_seq(7);
            segment.set_ack(8);
            segment.set_flags(flags::SYN | flags::ACK);
            segment.add_vlan(LinkType::Ethernet, 9);
            segment.pass_a_router();
            segment.set_payload(b"hello world");
            let bytes = segment.into_bytes();
            let link_type = LinkType::Ethernet;
            let captured = CapturedPacket {
                ts: Timestamp(0),
                link_type,
                original_len: bytes.len() as u32,
                bytes: &bytes,
            };
            let packet = Packet::decode(&captured).expect("a good packet");
            let TransportHeader::Tcp(tcp) = packet.transport else {
                panic!("no TCP")
            };
            assert_eq!((tcp.seq.0, tcp.ack.0, tcp.flags.0), (7, 8, 18));
            assert_eq!(
                (packet.payload, packet.vlan, packet.ttl),
                (&b"hello world"[..], Some(9), 63)
            );
        }
    }
}
