//! Real exporters against the packets that they export, and a second collector (nfdump).

use std::io::Read;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use telemetry::{ExportDecoder, ExportEvent, ExportLimits, PacketSection, SectionStart};
use testkit::{ByteOrder, SeededRng, TcpDialogue, TimestampPrecision, pcap_bytes};
use wire::ipfix::split_messages;
use wire::{CapturedPacket, LinkType, Packet, Timestamp};

/// Records, packets, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    records: u64,
    packets: u64,
    bytes: u64,
}

/// A capture of 40 connections, and its packets and IP bytes.
fn capture(path: &Path) -> Totals {
    let mut rng = SeededRng::new(3);
    let mut totals = Totals::default();
    let mut packets = Vec::new();
    for n in 0..40 {
        let mut talk = TcpDialogue::new(&format!("10.0.0.{n}:{}", 40_000 + n), "10.0.1.1:80");
        talk.advance(1_000_000);
        talk.handshake();
        for _ in 0..20 {
            talk.client().send(&vec![1; 1 + rng.below(1400) as usize]);
            talk.server().send(&vec![2; 1 + rng.below(1400) as usize]);
        }
        talk.close();
        packets.extend(talk.take());
    }
    packets.sort_by_key(|sent| sent.ts);
    for sent in &packets {
        totals.packets += 1;
        totals.bytes += u64::from(sent.packet().original_len) - 14;
    }
    let bytes = pcap_bytes(&packets, TimestampPrecision::Micros, ByteOrder::Little);
    std::fs::write(path, bytes).expect("a capture");
    totals
}

/// Datagrams that `export` sends to the address it gets.
fn exported(export: impl FnOnce(SocketAddr)) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .expect("a timeout");
    let to = socket.local_addr().expect("an address");
    let (done, is_done) = mpsc::channel();
    let receiver = thread::spawn(move || {
        let mut datagrams = Vec::new();
        let mut buffer = vec![0; 65_536];
        loop {
            match socket.recv(&mut buffer) {
                Ok(len) => datagrams.push(buffer[..len].to_vec()),
                Err(_) if is_done.try_recv().is_ok() => return datagrams,
                Err(_) => {}
            }
        }
    });
    export(to);
    done.send(()).expect("a receiver");
    receiver.join().expect("datagrams")
}

/// IPFIX messages that `export` sends over TCP to the address it gets.
fn exported_by_tcp(export: impl FnOnce(SocketAddr)) -> Vec<Vec<u8>> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let to = listener.local_addr().expect("an address");
    let receiver = thread::spawn(move || {
        let mut stream = Vec::new();
        listener
            .accept()
            .expect("a connection")
            .0
            .read_to_end(&mut stream)
            .expect("a stream");
        stream
    });
    export(to);
    let stream = receiver.join().expect("a stream");
    let mut messages = Vec::new();
    split_messages(&stream, |message| messages.push(message.to_vec())).expect("IPFIX");
    messages
}

#[test]
fn softflowd_exports_every_packet() {
    testkit::require!("softflowd");
    let file = std::env::temp_dir().join(format!("exporters-{}.pcap", std::process::id()));
    let sent = capture(&file);
    for version in ["5", "9", "10", "psamp"] {
        // A message per packet is too fast for the receive buffer of a datagram socket.
        let protocol = if version == "psamp" { "tcp" } else { "udp" };
        let export = |to: SocketAddr| {
            let mut command = Command::new("softflowd");
            command
                .args([
                    "-v",
                    version,
                    "-P",
                    protocol,
                    "-c",
                    "none",
                    "-d",
                    "-n",
                    &to.to_string(),
                    "-r",
                ])
                .arg(&file);
            assert!(command.output().expect("softflowd runs").status.success());
        };
        let datagrams = if version == "psamp" {
            exported_by_tcp(export)
        } else {
            exported(export)
        };
        let mut decoder = ExportDecoder::new(ExportLimits::default());
        let mut received = Totals::default();
        for datagram in &datagrams {
            let exporter = SocketAddr::from(([127, 0, 0, 1], 1));
            decoder.decode(exporter, Timestamp(0), datagram, |event| {
                let ExportEvent::Flow(record, _) = event else {
                    return;
                };
                received.records += 1;
                received.packets += record.packets.unwrap_or(0);
                received.bytes += record
                    .bytes
                    .or_else(|| record.section.map(ip_bytes))
                    .unwrap_or(0);
            });
        }
        assert_eq!(
            (received.packets, received.bytes),
            (sent.packets, sent.bytes),
            "version {version}"
        );
        let records = if version == "psamp" { sent.packets } else { 80 };
        assert_eq!(received.records, records, "version {version}");
        let counters = decoder.counters();
        assert_eq!(
            (counters.malformed, counters.not_export, counters.sets_held),
            (0, 0, 0),
            "{counters:?}"
        );
        let lost: u64 = decoder
            .losses()
            .map(|(_, losses)| losses.lost + losses.repeated)
            .sum();
        assert_eq!(
            lost,
            0,
            "version {version}: {:?}",
            decoder.losses().collect::<Vec<_>>()
        );
    }
    std::fs::remove_file(&file).expect("a capture");
}

/// Bytes of the IP packet whose beginning a record has.
fn ip_bytes(section: PacketSection<'_>) -> u64 {
    let link_type = match section.start {
        SectionStart::DataLink => LinkType::Ethernet,
        SectionStart::Network => LinkType::Raw,
    };
    let captured = CapturedPacket {
        ts: Timestamp(0),
        link_type,
        original_len: 0,
        bytes: section.bytes,
    };
    let packet = Packet::decode(&captured).expect("a packet");
    u64::from(packet.payload_original_len) + 40
}
