//! Tests of ring blocks: records, VLAN tags, cooked headers, and impossible lengths.

use super::*;

/// Kernel metadata of a test packet.
#[derive(Clone, Default)]
struct KernelPacketInfo {
    status: u32,
    vlan: (u16, u16),
    packet_type: u8,
    hardware: u16,
    cut: u32,
}

/// A block in the kernel's format.
fn block(packets: &[(KernelPacketInfo, &[u8])]) -> Vec<u8> {
    const FIRST: usize = 48;
    const MAC: usize = 112;
    let mut block = vec![0; FIRST];
    block[field::BLOCK_PACKETS..][..4].copy_from_slice(&(packets.len() as u32).to_ne_bytes());
    block[field::BLOCK_FIRST..][..4].copy_from_slice(&(FIRST as u32).to_ne_bytes());
    for (said, bytes) in packets {
        let next = (MAC + bytes.len()).next_multiple_of(16);
        let mut packet = vec![0; next];
        let mut put = |at: usize, n: u32| packet[at..][..4].copy_from_slice(&n.to_ne_bytes());
        put(field::NEXT, next as u32);
        put(field::SECONDS, 7);
        put(field::NANOSECONDS, 9);
        put(field::CAPTURED_LEN, bytes.len() as u32);
        put(field::ORIGINAL_LEN, bytes.len() as u32 + said.cut);
        put(field::STATUS, said.status);
        put(field::MAC, MAC as u32);
        put(field::VLAN_TCI, said.vlan.1.into());
        put(field::VLAN_TPID, said.vlan.0.into());
        let address = &mut packet[field::HEADER_END..];
        address[field::PROTOCOL..][..2].copy_from_slice(&[8, 0]);
        address[field::INTERFACE] = 3;
        address[field::HARDWARE..][..2].copy_from_slice(&said.hardware.to_ne_bytes());
        address[field::PACKET_TYPE] = said.packet_type;
        address[field::ADDRESS_LEN] = 6;
        packet[MAC..][..bytes.len()].copy_from_slice(bytes);
        block.extend(packet);
    }
    block
}

/// Link type, original length, and bytes of the packets found.
fn found(mut block: Vec<u8>, headers: LinkHeaderKind) -> Vec<(LinkType, u32, Vec<u8>)> {
    let mut records = Vec::new();
    find_packets(&mut block, headers, &mut records);
    let bytes = |r: &PacketRecord| block[r.start as usize..][..r.len as usize].to_vec();
    records
        .iter()
        .map(|r| (r.link_type, r.original_len, bytes(r)))
        .collect()
}

#[test]
fn packets_in_their_order() {
    let said = KernelPacketInfo {
        cut: 40,
        ..KernelPacketInfo::default()
    };
    let packets = block(&[(said, &[1; 20]), (KernelPacketInfo::default(), &[2; 3])]);
    let expected = vec![
        (LinkType::Ethernet, 60, vec![1; 20]),
        (LinkType::Ethernet, 3, vec![2; 3]),
    ];
    assert_eq!(found(packets.clone(), LinkHeaderKind::Ethernet), expected);
    let mut records = Vec::new();
    find_packets(&mut packets.clone(), LinkHeaderKind::Raw, &mut records);
    assert_eq!(
        (records[0].ts, records[0].link_type),
        (Timestamp(7_000_000_009), LinkType::Raw)
    );
}

#[test]
fn vlan_tags_come_back() {
    let frame: Vec<u8> = (0..20).collect();
    for (status, vlan, tag) in [
        (
            libc::TP_STATUS_VLAN_VALID,
            (0, 0x2064),
            [0x81, 0, 0x20, 0x64],
        ),
        (
            libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID,
            (0x88a8, 5),
            [0x88, 0xa8, 0, 5],
        ),
    ] {
        let said = KernelPacketInfo {
            status,
            vlan,
            ..KernelPacketInfo::default()
        };
        let expected = [&frame[..12], &tag, &frame[12..]].concat();
        let packets = block(&[(said, &frame)]);
        assert_eq!(
            found(packets, LinkHeaderKind::Ethernet),
            [(LinkType::Ethernet, 24, expected)]
        );
    }
    let said = KernelPacketInfo {
        status: libc::TP_STATUS_VLAN_VALID,
        ..KernelPacketInfo::default()
    };
    let short = found(block(&[(said, &frame[..11])]), LinkHeaderKind::Ethernet);
    assert_eq!(
        short,
        [(LinkType::Ethernet, 11, frame[..11].to_vec())],
        "too short for one"
    );
}

#[test]
fn cooked_headers_equal_those_of_the_kernel() {
    let said = KernelPacketInfo {
        packet_type: 4,
        hardware: 1,
        ..KernelPacketInfo::default()
    };
    let expected = [
        &[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 0, 0, 0, 0, 0, 0, 0, 0][..],
        &[0x45; 20],
    ]
    .concat();
    let packets = block(&[(said, &[0x45; 20])]);
    assert_eq!(
        found(packets, LinkHeaderKind::Cooked),
        [(LinkType::LinuxSll2, 40, expected)]
    );
}

#[test]
fn a_loopback_packet_comes_once() {
    let out = KernelPacketInfo {
        packet_type: libc::PACKET_OUTGOING,
        hardware: libc::ARPHRD_LOOPBACK,
        ..KernelPacketInfo::default()
    };
    let back = KernelPacketInfo {
        packet_type: libc::PACKET_HOST,
        ..out.clone()
    };
    let sent = KernelPacketInfo {
        hardware: libc::ARPHRD_ETHER,
        ..out.clone()
    };
    for headers in [LinkHeaderKind::Ethernet, LinkHeaderKind::Cooked] {
        let packets = block(&[
            (out.clone(), &[1]),
            (back.clone(), &[2]),
            (sent.clone(), &[3]),
        ]);
        let last: Vec<u8> = found(packets, headers)
            .iter()
            .filter_map(|p| p.2.last().copied())
            .collect();
        assert_eq!(last, [2, 3]);
    }
}

#[test]
fn lengths_that_lie_outside_are_left_out() {
    let good = block(&[
        (KernelPacketInfo::default(), &[1; 20]),
        (KernelPacketInfo::default(), &[2; 20]),
    ]);
    for at in [field::NEXT, field::CAPTURED_LEN, field::MAC] {
        let mut bad = good.clone();
        bad[48 + at..][..2].copy_from_slice(&[0xff; 2]);
        assert!(
            found(bad, LinkHeaderKind::Cooked).len() < 2,
            "field at {at}"
        );
    }
    let mut short = good;
    short.truncate(100);
    assert!(found(short, LinkHeaderKind::Ethernet).is_empty());
}
