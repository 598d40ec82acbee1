//! A capture as several hosts would have captured it: its flows are dealt among them, by address and port of both ends.

use std::fs;

use testkit::pcap::ByteOrder;
use wire::{Captured, LinkType, Packet, Timestamp};

use crate::Folder;

/// What stands before the first packet of a pcap file, and before each.
const HEAD: usize = 24;
const RECORD: usize = 16;

/// Files with the flows that each of so many hosts has seen, called after `name`.
pub fn deal(capture: &str, hosts: usize, folder: &Folder, name: &str) -> Vec<String> {
    let bytes = fs::read(capture).expect("a capture");
    let order = match &bytes[..4] {
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => ByteOrder::Little,
        _ => ByteOrder::Big,
    };
    assert_eq!(order, ByteOrder::Little, "{capture}");
    let mut parts = vec![bytes[..HEAD].to_vec(); hosts];
    let mut at = HEAD;
    while at < bytes.len() {
        let captured = at + 8..at + 12;
        let length = u32::from_le_bytes(bytes[captured].try_into().expect("four bytes")) as usize;
        let record = &bytes[at..at + RECORD + length];
        let packet = Captured {
            ts: Timestamp(0),
            link_type: LinkType::Ethernet,
            original_len: length as u32,
            bytes: &record[RECORD..],
        };
        let flow = Packet::decode(&packet).map_or(0, |packet| packet.five_tuple.flow_hash(7));
        parts[(flow % hosts as u64) as usize].extend(record);
        at += record.len();
    }
    let file = |(host, bytes): (usize, &Vec<u8>)| folder.file(&format!("{name}-{host}.pcap"), bytes);
    parts.iter().enumerate().map(file).collect()
}
