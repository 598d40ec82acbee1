//! First bytes and the expected names. Prefixes of them are either incomplete or rejected, and no input
//! panics.

use proptest::prelude::*;
use wire::IpProtocol;

use super::*;
use crate::Direction;

fn name_of(
    bytes: &[u8],
    transport: IpProtocol,
    port: u16,
    speaker: Direction,
) -> Option<&'static str> {
    let speaker = (transport == IpProtocol::TCP).then_some(speaker);
    let mut fits = NAMED.iter().filter(|signature| {
        let spoken = match signature.over {
            TransportSet::Tcp => transport == IpProtocol::TCP,
            TransportSet::Udp => transport == IpProtocol::UDP,
            TransportSet::Both => true,
        };
        let usual_port = signature.ports.contains(&port);
        let context = ProbeContext {
            transport,
            usual_port,
            midstream: false,
            speaker,
            answers: false,
        };
        spoken
            && matches!(
                (signature.probe)(bytes, context),
                ProbeResult::Request | ProbeResult::Response
            )
    });
    fits.next().map(|signature| signature.name)
}

#[track_caller]
fn check(bytes: &[u8], port: u16, expected: Option<&str>) {
    let got = name_of(bytes, IpProtocol::TCP, port, Direction::ClientToServer);
    assert_eq!(got, expected, "{}", bytes.escape_ascii());
}

#[track_caller]
fn check_server(bytes: &[u8], port: u16, expected: Option<&str>) {
    let got = name_of(bytes, IpProtocol::TCP, port, Direction::ServerToClient);
    assert_eq!(got, expected, "{}", bytes.escape_ascii());
}

#[track_caller]
fn check_datagram(bytes: &[u8], port: u16, expected: Option<&str>) {
    let got = name_of(bytes, IpProtocol::UDP, port, Direction::ClientToServer);
    assert_eq!(got, expected, "{}", bytes.escape_ascii());
}

#[test]
fn clients_on_any_port() {
    check(
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        4444,
        Some("tls"),
    );
    check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 4444, Some("http2"));
    check(b"SSH-2.0-OpenSSH_9.2\r\n", 4444, Some("ssh"));
    check(b"\0\0\0\x08\x04\xd2\x16\x2f", 4444, Some("postgresql"));
    check(
        b"\0\0\0\x29\0\x03\0\0user\0app\0database\0shop\0\0",
        4444,
        Some("postgresql"),
    );
    check(b"*1\r\n$4\r\nPING\r\n", 4444, Some("redis"));
    check(
        b"\x04\0\0\0\x01\0\0\x16\0\x01\0\x0bCQL_VERSION\0\x053.0.0",
        4444,
        Some("cassandra"),
    );
    check(
        b"\0\0\0\x12\0\x12\0\0\0\0\0\x01\0\x08producer",
        4444,
        Some("kafka"),
    );
    check(b"EHLO client.example\r\n", 4444, Some("smtp"));
    check(b"AMQP\0\0\x09\x01", 4444, Some("amqp"));
    check(b"\x10\x14\0\x04MQTT\x04\x02\0\x3c", 4444, Some("mqtt"));
    check(b"\0\0\0\x54\xfeSMB\x40\0", 4444, Some("smb"));
    check(
        b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0",
        4444,
        Some("ldap"),
    );
    check(b"INVITE sip:bob@example.com SIP/2.0\r\n", 4444, Some("sip"));
    check(b"OPTIONS rtsp://h/ RTSP/1.0\r\n", 4444, Some("rtsp"));
    let mongodb = [
        b"\x30\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0".as_slice(),
        &[0; 27],
    ]
    .concat();
    check(&mongodb, 4444, Some("mongodb"));
}

#[test]
fn weak_evidence_counts_on_the_usual_port_only() {
    check(b"USER anonymous\r\n", 21, Some("ftp"));
    check(b"USER anonymous\r\n", 2100, None);
    check(b"PING\r\n", 6379, Some("redis"));
    check(b"PING\r\n", 7000, None);
    check_server(b"220 mail.example ESMTP Postfix\r\n", 4444, Some("smtp"));
    check_server(b"220 ready\r\n", 25, Some("smtp"));
    check_server(b"220 ready\r\n", 4444, None);
    check_server(b"220 FTP server ready\r\n", 4444, Some("ftp"));
    check_server(b"+OK POP3 ready\r\n", 110, Some("pop3"));
    check_server(
        b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80\0\x04\0\x01\0\0\0\x05\0\xff\xff\xff",
        4444,
        Some("http2"),
    );
}

#[test]
fn datagrams() {
    let query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01";
    check_datagram(query, 53, Some("dns"));
    check_datagram(query, 4444, Some("dns"));
    check(&[b"\0\x1d".as_slice(), query].concat(), 4444, Some("dns"));
    check_datagram(b"\x23\0\x06\xec", 123, None);
    check_datagram(
        &[b"\x23\0\x06\xec".as_slice(), &[0; 44]].concat(),
        123,
        Some("ntp"),
    );
    check_datagram(
        &[b"\xc3\0\0\0\x01\x08".as_slice(), &[7; 60]].concat(),
        443,
        Some("quic"),
    );
    check_datagram(
        b"\0\x01\0\0\x21\x12\xa4\x42\0\0\0\0\0\0\0\0\0\0\0\0",
        4444,
        Some("stun"),
    );
    check_datagram(
        b"\x30\x0c\x02\x01\x01\x04\x06public\xa0",
        4444,
        Some("snmp"),
    );
    check_datagram(b"<34>Oct 11 22:14:15 host su: text", 514, Some("syslog"));
}

#[test]
fn unknown_protocols_have_no_name() {
    for bytes in [
        b"".as_slice(),
        b"\0",
        b"hello, world\r\n",
        b"{\"a\": 1}\n",
        &[0; 64],
        &[0xff; 15],
        &[0x41; 64],
    ] {
        check(bytes, 4444, None);
        check_server(bytes, 4444, None);
        check_datagram(bytes, 4444, None);
    }
}

#[test]
fn names_are_distinct_and_places_fit() {
    let all = signatures(&[]);
    assert!(all.len() < 200, "a place is kept in a byte");
    let mut keys: Vec<_> = NAMED.iter().map(|s| (s.name, s.ports)).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), NAMED.len());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), port in any::<u16>(), known in any::<bool>()) {
        for signature in NAMED {
            for transport in [IpProtocol::TCP, IpProtocol::UDP] {
                let port = if known { signature.ports.first().copied().unwrap_or(port) } else { port };
                let usual_port = signature.ports.contains(&port);
                for speaker in [None, Some(Direction::ClientToServer), Some(Direction::ServerToClient)] {
                    let context = ProbeContext { transport, usual_port, midstream: known, speaker, answers: false };
                    let _ = (signature.probe)(&bytes, context);
                }
            }
        }
    }

    /// Truncated messages do not panic.
    #[test]
    fn no_cut_panics(first in prop::sample::select(vec![
        b"\x16\x03\x01\x02\x00\x01".as_slice(), b"PRI * HTTP/2.0", b"\0\0\0\x29\0\x03\0\0user", b"*1\r\n$4\r\n", b"\x30\x84\0\0",
        b"\x04\0\0\0\x01", b"\0\0\x06\x04\0\0\0\0\0", b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x3f", b"\xc3\0\0\0\x01", b"\x05\0\x0b\x03\x10",
        b"\x12\x01\0\x34\0\0\0\0\0", b"\x80\x2e\x01\x03\x01", b"220 ", b"\0\x0a\0\x20", b"\0\x05\0\x01",
    ]), rest in prop::collection::vec(any::<u8>(), 0..80)) {
        let bytes = [first, &rest].concat();
        for n in 0..=bytes.len() {
            for transport in [IpProtocol::TCP, IpProtocol::UDP] {
                let _ = name_of(&bytes[..n], transport, 4444, Direction::ClientToServer);
            }
        }
    }
}
