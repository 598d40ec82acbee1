//! Arbitrary bytes as a packet of any link type: no panic, tunneled packets decode equally, and a packet that the quick
//! check calls whole is not a fragment.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{CapturedPacket, IpFragment, LinkType, Packet, Timestamp};

fuzz_target!(|input: (u16, u16, &[u8])| {
    let (link_type, extra, bytes) = input;
    let captured = CapturedPacket {
        ts: Timestamp(0),
        link_type: LinkType::from(link_type % 300),
        original_len: bytes.len() as u32 + u32::from(extra),
        bytes,
    };
    let packet = Packet::decode(&captured);
    let inner = wire::innermost(&captured);
    if let Ok(packet) = &packet {
        let (key, side) = packet.five_tuple.flow_key();
        assert_eq!(key.end(side), packet.five_tuple.src);
        assert!(packet.payload.len() <= bytes.len());
        assert!(inner.is_some() || packet.tunnel.is_none());
        assert!(packet.tunnel.layers().count() <= wire::tunnel::LAYERS_MAX);
        if let Some(inner) = inner {
            let inner = Packet::decode(&inner).expect("it was decoded as a part of all");
            assert_eq!(
                (inner.five_tuple, inner.payload),
                (packet.five_tuple, packet.payload)
            );
        }
    }
    assert!(packet.is_err() || wire::unread_protocol(&captured).is_none());
    let fragment = IpFragment::of(&captured);
    assert!(!(fragment.is_some() && (packet.is_ok() || Packet::is_surely_whole(&captured))));
    if let Some(fragment) = fragment {
        let mut head = fragment.head.to_vec();
        let _ = fragment.repair.apply(&mut head, 1480);
        assert!(bytes.starts_with(fragment.head));
    }
});
