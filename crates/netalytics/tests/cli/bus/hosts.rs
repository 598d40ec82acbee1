//! A capture as several hosts would have captured it: its flows are dealt among them, by address and port of both ends.

use std::fs;

use wire::{Captured, LinkType, Packet, Timestamp};

use crate::Folder;

/// What stands before the first packet of a pcap file, and before each.
const HEAD: usize = 24;
const RECORD: usize = 16;

/// Files with the flows that each of so many hosts has seen, called after `name`.
pub fn deal(capture: &str, hosts: usize, folder: &Folder, name: &str) -> Vec<String> {
    let (head, records) = read(capture);
    let mut parts = vec![head; hosts];
    for record in records {
        let packet = Captured {
            ts: Timestamp(0),
            link_type: LinkType::Ethernet,
            original_len: (record.len() - RECORD) as u32,
            bytes: &record[RECORD..],
        };
        let flow = Packet::decode(&packet).map_or(0, |packet| packet.five_tuple.flow_hash(7));
        parts[(flow % hosts as u64) as usize].extend(record);
    }
    let file = |(host, bytes): (usize, &Vec<u8>)| folder.file(&format!("{name}-{host}.pcap"), bytes);
    parts.iter().enumerate().map(file).collect()
}

/// A file that lacks one packet in `every`.
pub fn lossy(capture: &str, every: usize, folder: &Folder) -> String {
    let (mut bytes, records) = read(capture);
    records
        .iter()
        .enumerate()
        .filter(|(place, _)| place % every > 0)
        .for_each(|(_, record)| bytes.extend(record));
    folder.file("lossy.pcap", &bytes)
}

/// What stands before the packets, and these.
fn read(capture: &str) -> (Vec<u8>, Vec<Vec<u8>>) {
    let bytes = fs::read(capture).expect("a capture");
    let is_little = matches!(bytes[..4], [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]);
    assert!(is_little, "{capture}");
    let (mut records, mut at) = (Vec::new(), HEAD);
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("four bytes"));
        records.push(bytes[at..at + RECORD + length as usize].to_vec());
        at += RECORD + length as usize;
    }
    (bytes[..HEAD].to_vec(), records)
}
