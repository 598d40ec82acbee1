//! Any bytes as a packet of any link type.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Captured, LinkType, Packet, Timestamp};

fuzz_target!(|input: (u16, u16, &[u8])| {
    let (link_type, extra, bytes) = input;
    let captured = Captured {
        ts: Timestamp(0),
        link_type: LinkType::from(link_type % 300),
        original_len: bytes.len() as u32 + u32::from(extra),
        bytes,
    };
    if let Ok(packet) = Packet::decode(&captured) {
        let (key, side) = packet.five_tuple.flow_key();
        assert_eq!(key.end(side), packet.five_tuple.src);
        assert!(packet.payload.len() <= bytes.len());
    }
});
