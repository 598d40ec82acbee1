//! Packets not sent, or sent differently: strays, copies, and connections with TCP Fast Open.

use std::collections::{HashMap, HashSet};

use testkit::SeededRng;
use wire::Endpoint;

use super::{ImpairmentContext, PacketDirection, StraySegment};
use crate::segment::{EditableSegment, flags};
use crate::{ObservedPacket, PacketDamage, PacketRecording};

/// Adds strays after a share of the segments, within the same microsecond.
pub fn stray(
    scene: &ImpairmentContext<'_>,
    seen: &[ObservedPacket],
    stray: StraySegment,
    p: f64,
    rng: &mut SeededRng,
) -> Vec<ObservedPacket> {
    let mut out = Vec::with_capacity(seen.len());
    for one in seen {
        let segment = EditableSegment::parse(
            scene.recording.link_type(one.packet),
            scene.recording.bytes_of(one.packet),
        );
        out.push(one.clone());
        let Some(segment) = segment.filter(|_| rng.chance(p)) else {
            continue;
        };
        if let Some(segment) = strayed(segment, stray, rng) {
            let ts = one.ts.plus(1 + rng.below(998) as i64);
            let bytes = Some(segment.into_bytes().into());
            out.push(ObservedPacket {
                packet: one.packet,
                ts,
                kind: PacketDamage::Forged,
                bytes,
            });
        }
    }
    out
}

/// A stray that seems to belong to the same direction.
fn strayed(
    mut segment: EditableSegment,
    stray: StraySegment,
    rng: &mut SeededRng,
) -> Option<EditableSegment> {
    let next = segment.seq().wrapping_add(segment.payload().len() as u32);
    let opening = segment.flags() & flags::SYN != 0;
    match stray {
        StraySegment::Syn if opening && segment.flags() & flags::ACK != 0 => {
            segment.set_seq(rng.next_u64() as u32);
            segment.set_ack(rng.next_u64() as u32);
        }
        StraySegment::Syn => {
            segment.set_seq(if rng.chance(0.5) {
                next
            } else {
                rng.next_u64() as u32
            });
            segment.set_ack(0);
            segment.set_flags(flags::SYN);
            segment.set_payload(b"");
        }
        StraySegment::Reset => {
            segment.set_seq(outside(next, rng));
            segment.set_flags(flags::RST);
            segment.set_payload(b"");
        }
        StraySegment::Data | StraySegment::Forged if opening || segment.payload().is_empty() => {
            return None;
        }
        StraySegment::Data => segment.set_seq(outside(next, rng)),
        StraySegment::Forged => {
            segment.set_seq(outside(next, rng));
            segment.set_ack(rng.next_u64() as u32);
        }
    }
    Some(segment)
}

/// A number outside any window around `next`.
fn outside(next: u32, rng: &mut SeededRng) -> u32 {
    const AWAY_MIN: u64 = 1 << 26;
    next.wrapping_add((AWAY_MIN + rng.below((1 << 32) - 2 * AWAY_MIN)) as u32)
}

/// Adds a copy of every segment as seen by another mirror: after a router, in a VLAN, or both.
pub fn mirror(
    recording: &PacketRecording,
    seen: &mut Vec<ObservedPacket>,
    by: i64,
    rng: &mut SeededRng,
) {
    let (routed, tagged) = [(true, false), (false, true), (true, true)][rng.below(3) as usize];
    let mut copies = Vec::with_capacity(seen.len());
    for one in seen.iter() {
        let link_type = recording.link_type(one.packet);
        let Some(mut copy) = EditableSegment::parse(link_type, recording.bytes_of(one.packet))
        else {
            continue;
        };
        if routed {
            copy.pass_a_router();
            copy.set_link_addresses(link_type);
        }
        if tagged {
            copy.add_vlan(link_type, 77);
        }
        let ts = one.ts.plus(rng.below(by as u64) as i64 / 1000 * 1000 + 500);
        copies.push(ObservedPacket {
            ts,
            bytes: Some(copy.into_bytes().into()),
            ..one.clone()
        });
    }
    seen.extend(copies);
    seen.sort_by_key(|one| one.ts);
}

/// Moves the first request of every connection into its SYN, if the client sends first.
pub fn fast_open(scene: &ImpairmentContext<'_>, seen: &mut Vec<ObservedPacket>) {
    let mut opening: HashMap<(Endpoint, Endpoint), HandshakePackets> = HashMap::new();
    let mut gone = HashSet::new();
    for i in 0..seen.len() {
        let packet = seen[i].packet;
        let Some(segment) = EditableSegment::parse(
            scene.recording.link_type(packet),
            scene.recording.bytes_of(packet),
        ) else {
            continue;
        };
        let Some((src, dst)) = scene.recording.ends(packet) else {
            continue;
        };
        let Some(side) = scene.side(packet) else {
            continue;
        };
        let ends = if side == PacketDirection::ToServer {
            (src, dst)
        } else {
            (dst, src)
        };
        match (segment.flags() & (flags::SYN | flags::ACK), side) {
            (flags::SYN, PacketDirection::ToServer) => {
                opening.insert(
                    ends,
                    HandshakePackets {
                        syn: i,
                        syn_ack: None,
                        ack: None,
                    },
                );
            }
            (0x12, PacketDirection::ToClient) => {
                if let Some(opening) = opening.get_mut(&ends) {
                    opening.syn_ack = Some(i);
                }
            }
            (_, PacketDirection::ToServer) if segment.payload().is_empty() => {
                if let Some(opening) = opening.get_mut(&ends) {
                    opening.ack = Some(i);
                }
            }
            _ => {
                let Some(opened) = opening
                    .remove(&ends)
                    .filter(|_| side == PacketDirection::ToServer)
                else {
                    continue;
                };
                gone.extend(opened.carry(scene.recording, seen, segment.payload(), packet));
            }
        }
    }
    let mut i = 0;
    seen.retain(|_| {
        i += 1;
        !gone.contains(&(i - 1))
    });
}

/// Positions of the packets of a handshake.
struct HandshakePackets {
    syn: usize,
    syn_ack: Option<usize>,
    ack: Option<usize>,
}

impl HandshakePackets {
    /// Moves the data of a later packet into the SYN, and removes that packet.
    fn carry(
        &self,
        recording: &PacketRecording,
        seen: &mut [ObservedPacket],
        payload: &[u8],
        packet: usize,
    ) -> Option<usize> {
        let mut edit = |i: usize, f: &dyn Fn(&mut EditableSegment)| {
            let of = seen[i].packet;
            let mut segment =
                EditableSegment::parse(recording.link_type(of), recording.bytes_of(of))?;
            f(&mut segment);
            seen[i].bytes = Some(segment.into_bytes().into());
            Some(())
        };
        let n = payload.len() as u32;
        edit(self.syn_ack?, &|s| s.set_ack(s.ack().wrapping_add(n)))?;
        edit(self.syn, &|s| s.set_payload(payload))?;
        if let Some(ack) = self.ack {
            edit(ack, &|s| s.set_seq(s.seq().wrapping_add(n)))?;
        }
        seen[self.syn].packet = packet;
        seen.iter()
            .enumerate()
            .skip(self.syn + 1)
            .find(|(_, one)| one.packet == packet)
            .map(|(i, _)| i)
    }
}
