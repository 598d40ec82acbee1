//! Packets to an sFlow collector: a socket of the test, whose datagrams tshark reads.

use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::Duration;

use capture::PacketSink;
use outlets::address::SystemSecrets;
use outlets::{OutletAddress, SflowWriter};
use testkit::{ByteOrder, TcpDialogue, TimestampPrecision, pcap_bytes};
use wire::{CapturedPacket, FlowSide, LinkType, Timestamp};

const SECOND: i64 = 1_000_000_000;

fn writer(to: &str) -> Result<SflowWriter, String> {
    let address = OutletAddress::read(to, &SystemSecrets)?;
    SflowWriter::open(&address)
}

fn packet(ts: i64, link_type: LinkType, bytes: &[u8]) -> CapturedPacket<'_> {
    CapturedPacket {
        ts: Timestamp(ts),
        link_type,
        original_len: 1500,
        bytes,
    }
}

/// Datagrams sent by the packets.
fn sent(
    packets: &[CapturedPacket<'_>],
    options: &str,
) -> (Vec<Vec<u8>>, capture::PacketFileCounts) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a socket");
    let to = socket.local_addr().expect("an address");
    let reader = thread::spawn(move || {
        let mut datagrams = Vec::new();
        let mut buffer = vec![0; 65_535];
        loop {
            match socket.recv(&mut buffer).expect("a datagram") {
                0 => return datagrams,
                n => datagrams.push(buffer[..n].to_vec()),
            }
        }
    });
    let mut writer = writer(&format!("sflow://{to}{options}")).expect("a writer");
    packets.iter().for_each(|packet| writer.take(packet));
    let (counts, error) = writer.finish();
    assert!(error.is_none(), "{error:?}");
    let end = UdpSocket::bind("127.0.0.1:0").expect("a port");
    end.send_to(&[], to).expect("the end");
    (reader.join().expect("no panic"), counts)
}

/// Values of a field that tshark finds in all datagrams.
fn by_tshark(datagrams: &[Vec<u8>], field: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:6343");
    for datagram in datagrams {
        talk.datagram(FlowSide::A, datagram);
    }
    let path = folder.path().join("in.pcap");
    let bytes = pcap_bytes(&talk.take(), TimestampPrecision::Micros, ByteOrder::Little);
    std::fs::write(&path, bytes).expect("a file");
    let output = Command::new("tshark")
        .args([
            "-n",
            "-T",
            "fields",
            "-e",
            field,
            "-d",
            "udp.port==6343,sflow",
            "-r",
        ])
        .arg(&path)
        .output();
    let text = String::from_utf8(output.expect("tshark runs").stdout).expect("UTF-8");
    let values = text.lines().flat_map(|line| line.split(','));
    values
        .filter(|value| !value.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_packet_is_a_sample_with_its_header() {
    testkit::require!("tshark");
    let frame = [0x5a; 1500];
    let packets: Vec<_> = (0..100)
        .map(|n| packet(n, LinkType::Ethernet, &frame))
        .collect();
    for (options, header) in [("", 128), ("#header=64", 64), ("#header=1300", 1300)] {
        let (datagrams, counts) = sent(&packets, options);
        assert_eq!((counts.packets, counts.packets_lost), (100, 0), "{options}");
        let bytes: usize = datagrams.iter().map(Vec::len).sum();
        assert_eq!(counts.bytes, bytes as u64, "{options}");
        assert!(
            datagrams.iter().all(|datagram| datagram.len() <= 1400),
            "{options}"
        );
        let pools = by_tshark(&datagrams, "sflow.flow_sample.sample_pool");
        let expected: Vec<String> = (1..=100).map(|n: u32| n.to_string()).collect();
        assert_eq!(pools, expected, "{options}");
        let lengths = by_tshark(&datagrams, "sflow_245.header.sampled_header_length");
        assert_eq!(lengths, vec![header.to_string(); 100], "{options}");
    }
}

/// sFlow version 5, section 5: a sample waits for one second at most.
#[test]
fn packets_of_different_seconds_are_in_different_datagrams() {
    testkit::require!("tshark");
    let frame = [0x5a; 60];
    let times = [
        0,
        SECOND - 1,
        SECOND,
        SECOND + 1,
        9 * SECOND,
        3 * SECOND,
        11 * SECOND,
    ];
    let packets = times.map(|ts| packet(ts, LinkType::Ethernet, &frame));
    let (datagrams, counts) = sent(&packets, "");
    // The clock of the capture was set back once.
    assert_eq!(
        by_tshark(&datagrams, "sflow_245.numsamples"),
        ["2", "2", "2", "1"]
    );
    let numbers = by_tshark(&datagrams, "sflow_245.sequence_number");
    let numbers = numbers
        .iter()
        .map(|number| number.parse().expect("a number"));
    let numbers: Vec<u32> = numbers.collect();
    assert!(
        numbers.windows(2).all(|two| two[0] + 1 == two[1]),
        "{numbers:?}"
    );
    assert_eq!(counts.packets, 7);
}

#[test]
fn raw_packets_have_the_protocol_of_their_version() {
    testkit::require!("tshark");
    let [v4, v6] = [[0x45; 40], [0x60; 40]];
    let packets = [
        packet(0, LinkType::Raw, &v4),
        packet(0, LinkType::Raw, &v6),
        packet(0, LinkType::Ipv4, &v4),
        packet(0, LinkType::Ipv6, &v6),
    ];
    let (datagrams, _) = sent(&packets, "");
    let protocols = by_tshark(&datagrams, "sflow_245.header_protocol");
    assert_eq!(protocols, ["11", "12", "11", "12"]);
}

#[test]
fn packets_without_a_protocol_of_sflow_are_lost_and_named() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let to = socket.local_addr().expect("an address");
    let mut writer = writer(&format!("sflow://{to}")).expect("a writer");
    writer.take(&packet(0, LinkType::Raw, &[]));
    writer.take(&packet(0, LinkType::Raw, &[0x10; 20]));
    writer.take(&packet(0, LinkType::Other(105), &[0; 20]));
    let (counts, error) = writer.finish();
    assert_eq!((counts.packets, counts.packets_lost), (0, 3));
    let why = error.expect("a reason").to_string();
    assert_eq!(why, "sFlow has no packets of link type 101");
}

/// The system reports the closed port for the datagram before.
#[test]
fn packets_to_a_closed_port_are_lost() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let to = socket.local_addr().expect("an address");
    drop(socket);
    let frame = [0x5a; 1000];
    let mut writer = writer(&format!("sflow://{to}#header=1300&rate=100")).expect("a writer");
    for n in 0..20 {
        writer.take(&packet(n, LinkType::Ethernet, &frame));
    }
    let (counts, error) = writer.finish();
    assert_eq!(
        (counts.packets, counts.packets_lost, counts.bytes),
        (0, 20, 0)
    );
    assert!(error.is_some());
}

#[test]
fn wrong_options_of_packets_are_named() {
    for (to, why) in [
        ("tcp://h:1", "tcp://h:1 is not an sFlow collector"),
        (
            "sflow://127.0.0.1#header=1301",
            "header=1301 is more than 1300 bytes",
        ),
        (
            "sflow://127.0.0.1#header=0",
            "header=0 is not a number above 0",
        ),
        (
            "sflow://127.0.0.1#agent=host",
            "agent=host is not an address",
        ),
        ("sflow://127.0.0.1#rate=x", "rate=x is not a number above 0"),
    ] {
        assert_eq!(writer(to).expect_err(to), why);
    }
}
