//! Arbitrary sequences of TCP and UDP segments between a few endpoints: no panic, bounded memory, and for each flow ordered
//! events: contiguous bytes per side, and none before the bytes that its sender had acknowledged.
#![no_main]

use std::collections::HashMap;

use flow::{FlowBudget, FlowEvent, FlowEvents, FlowTable, FlowTableConfig};
use libfuzzer_sys::fuzz_target;
use wire::packet::TcpFlags;
use wire::{
    Addr, Endpoint, FiveTuple, FlowSide, IpProtocol, Packet, TcpInfo, TcpSeq, Timestamp,
    TransportHeader,
};

const HELD_MAX: usize = 1 << 16;

fuzz_target!(|input: &[u8]| {
    let config = FlowTableConfig {
        room: FlowBudget::of_flows(8),
        held_bytes_max: HELD_MAX,
        held_bytes_max_per_direction: 1 << 14,
        ..FlowTableConfig::default()
    };
    let mut table = FlowTable::<()>::new(config);
    let mut events = FlowEvents::default();
    let mut open = HashMap::<u32, Open>::new();
    let mut now = 0i64;
    let bytes = [0u8; 256];
    for step in input.chunks_exact(8) {
        let [ends, flags, seq_low, seq_high, ack_low, ack_high, len, time] =
            step.try_into().expect("8 bytes");
        // Time advances by a little, sometimes by much, sometimes backward.
        now += match time {
            0..200 => i64::from(time) * 100_000,
            200..250 => i64::from(time) * 1_000_000_000,
            _ => -i64::from(time) * 1_000_000,
        };
        let end = |n: u8| Endpoint {
            addr: Addr::v4([10, 0, 0, n >> 2]),
            port: 80 + u16::from(n & 3),
        };
        let udp = ends & 0x88 == 0x88;
        let protocol = if udp {
            IpProtocol::UDP
        } else {
            IpProtocol::TCP
        };
        let far = u32::from(seq_high & 0x80) << 24;
        let packet = Packet {
            ts: Timestamp(now),
            original_len: 54 + u32::from(len),
            five_tuple: FiveTuple {
                src: end(ends & 7),
                dst: end(ends >> 4 & 7),
                protocol,
            },
            ttl: 64,
            ip_id: u16::from(time & 7),
            macs: None,
            vlan: None,
            tunnel: wire::Tunnel::default(),
            transport: if udp {
                TransportHeader::Udp
            } else {
                TransportHeader::Tcp(TcpInfo {
                    seq: TcpSeq(far | u32::from(seq_low) * 16 | u32::from(seq_high & 3) << 12),
                    ack: TcpSeq(u32::from(ack_low) * 16 | u32::from(ack_high & 3) << 12),
                    flags: TcpFlags(flags),
                    window: u16::from(ack_high) << 8,
                })
            },
            checksum: u16::from(len) << 8 | u16::from(flags),
            ip_header: &[],
            segment: &[],
            payload: &bytes[..usize::from(len) / 2 + usize::from(len & 1)],
            payload_original_len: u32::from(len),
        };
        table.process(&packet, &mut events);
        check(&events, packet.payload, &mut open);
        table.expire(Timestamp(now), &mut events);
        check(&events, &[], &mut open);
        assert!(table.held_bytes() <= HELD_MAX && table.len() <= 8);
    }
    while table.close_all(Timestamp(now), &mut events) {
        check(&events, &[], &mut open);
    }
    check(&events, &[], &mut open);
    assert!(open.is_empty(), "every flow is closed at the end");
});

/// A flow in the table.
#[derive(Default)]
struct Open {
    has_terminated: bool,
    /// Number of bytes delivered per side.
    delivered: [Option<TcpSeq>; 2],
    /// Whether each side has sent bytes: a side without captured bytes delays nothing.
    spoke: [bool; 2],
}

impl Open {
    fn advance(&mut self, side: FlowSide, seq: TcpSeq, bytes: u64) {
        assert!(!self.has_terminated);
        let delivered = &mut self.delivered[side.index()];
        assert!(
            delivered.is_none_or(|before| before == seq),
            "{delivered:?}, then {seq:?}"
        );
        *delivered = Some(seq.plus(bytes as u32));
    }
}

/// `Opened` first, only records after `Terminated`, `Closed` last.
fn check(events: &FlowEvents, payload: &[u8], open: &mut HashMap<u32, Open>) {
    for event in events.list() {
        if event.what == FlowEvent::Opened {
            assert!(
                open.insert(event.flow.0, Open::default()).is_none(),
                "opened twice"
            );
            continue;
        }
        let flow = open.get_mut(&event.flow.0).expect("it is open");
        match event.what {
            FlowEvent::Opened | FlowEvent::Resumed { .. } | FlowEvent::ActiveTimeout => {}
            FlowEvent::Closed { .. } => _ = open.remove(&event.flow.0),
            FlowEvent::Terminated { .. } => {
                assert!(
                    !std::mem::replace(&mut flow.has_terminated, true),
                    "terminated twice"
                );
            }
            FlowEvent::Bytes {
                side, chunk, place, ..
            } => {
                flow.advance(side, place.seq, events.bytes(chunk, payload).len() as u64);
                flow.spoke[side.index()] = true;
                let other = side.other().index();
                if let (Some(ack), Some(delivered), true) =
                    (place.ack, flow.delivered[other], flow.spoke[other])
                {
                    // A FIN is acknowledged as well.
                    assert!(
                        ack.distance(delivered) <= 1,
                        "{ack:?} was heard, {delivered:?} delivered"
                    );
                }
            }
            FlowEvent::Gap { side, seq, len, .. } => flow.advance(side, seq, len),
            FlowEvent::Datagram { chunk, .. } => {
                assert!(!flow.has_terminated);
                let _ = events.bytes(chunk, payload);
            }
            FlowEvent::End { .. } => assert!(!flow.has_terminated),
        }
    }
}
