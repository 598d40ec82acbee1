//! Divides a capture among several hosts by flow: address and port of both endpoints.

use std::fs;

use wire::{CapturedPacket, LinkType, Packet, Timestamp};

use crate::Folder;

/// Bytes of a pcap file's header, and of a packet's.
pub const HEAD: usize = 24;
const RECORD: usize = 16;

/// Files with the flows of each host, named after `name`.
pub fn deal(capture: &str, hosts: usize, folder: &Folder, name: &str) -> Vec<String> {
    let (head, records) = read(capture);
    let mut parts = vec![head; hosts];
    for record in records {
        let packet = CapturedPacket {
            ts: Timestamp(0),
            link_type: LinkType::Ethernet,
            original_len: (record.len() - RECORD) as u32,
            bytes: &record[RECORD..],
        };
        let flow = Packet::decode(&packet).map_or(0, |packet| packet.five_tuple.flow_hash(7));
        parts[(flow % hosts as u64) as usize].extend(record);
    }
    let file =
        |(host, bytes): (usize, &Vec<u8>)| folder.file(&format!("{name}-{host}.pcap"), bytes);
    parts.iter().enumerate().map(file).collect()
}

/// Whether that is possible: Ethernet frames in an uncompressed file, without fragments.
pub fn can_deal(capture: &str) -> bool {
    let bytes = fs::read(capture).expect("a capture");
    let is_ethernet = bytes.len() > HEAD && bytes[20..HEAD] == [1, 0, 0, 0];
    let is_whole =
        |records: &[Vec<u8>]| !records.iter().any(|record| is_fragment(&record[RECORD..]));
    is_ethernet && split(&bytes).is_some_and(|records| is_whole(&records))
}

fn is_fragment(frame: &[u8]) -> bool {
    let is_ipv4 = frame.len() > 22 && frame[12..14] == [8, 0];
    let is_ipv6 = frame.len() > 22 && frame[12..14] == [0x86, 0xdd];
    (is_ipv4 && (frame[20] & 0x3f, frame[21]) != (0, 0)) || (is_ipv6 && frame[20] == 44)
}

/// A file without one packet in `every`.
pub fn lossy(capture: &str, every: usize, folder: &Folder) -> String {
    let (mut bytes, records) = read(capture);
    records
        .iter()
        .enumerate()
        .filter(|(place, _)| place % every > 0)
        .for_each(|(_, record)| bytes.extend(record));
    folder.file("lossy.pcap", &bytes)
}

/// File header and packets.
fn read(capture: &str) -> (Vec<u8>, Vec<Vec<u8>>) {
    let bytes = fs::read(capture).expect("a capture");
    let records = split(&bytes).unwrap_or_else(|| panic!("{capture}"));
    (bytes[..HEAD].to_vec(), records)
}

/// Packets of a little-endian pcap file; `None`: another format, or truncated.
fn split(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let is_little = matches!(
        bytes.get(..4)?,
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]
    );
    let mut records = Vec::new();
    let mut rest = bytes.get(HEAD..).filter(|_| is_little)?;
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest.get(8..12)?.try_into().ok()?);
        let (record, behind) = rest.split_at_checked(RECORD + length as usize)?;
        records.push(record.to_vec());
        rest = behind;
    }
    Some(records)
}
