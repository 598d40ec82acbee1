//! Handshakes in datagrams and the expected tuples. `captures/quic` and tshark judge the keys.

use proptest::prelude::*;

use super::crypto_stream::QuicCryptoStream;
use super::header::{QuicVersion, next};
use super::keys::{QuicInitialKeys, complete_number};
use super::*;
use crate::dialogue::ParserDialogue;
use crate::{ProbeContext, ProbeResult};

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;
const FIRST_ID: &[u8] = &[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
const CLIENT_ID: &[u8] = b"client";
const SERVER_ID: &[u8] = b"server";
/// First packet with 1-RTT protection.
const SHORT: &[u8] = &[0x41; 40];
const FIELDS: &[&str] = &[
    "sni",
    "version",
    "cipher",
    "handshake_time_ns",
    "response_time_ns",
    "quality",
];

fn talk_with(fields: &[&'static str]) -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), ALL, fields)
}

fn talk() -> ParserDialogue {
    talk_with(FIELDS)
}

fn vector16(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u16).to_be_bytes()[..], body].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [kind.to_be_bytes().to_vec(), vector16(body)].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32).to_be_bytes()[1..], body].concat()
}

fn client_hello() -> Vec<u8> {
    let name = vector16(&[&[0], &vector16(b"Shop.Test")[..]].concat());
    let extensions = [
        extension(0, &name),
        extension(16, &vector16(b"\x02h3")),
        extension(43, &[2, 3, 4]),
    ];
    let fixed = [&[3, 3][..], &[7; 32], &[0], &vector16(&[0x13, 1]), &[1, 0]].concat();
    message(1, &[fixed, vector16(&extensions.concat())].concat())
}

fn server_hello() -> Vec<u8> {
    let fixed = [&[3, 3][..], &[9; 32], &[0], &[0x13, 2], &[0]].concat();
    message(2, &[fixed, vector16(&extension(43, &[3, 4]))].concat())
}

fn varint(n: usize) -> Vec<u8> {
    (n as u32 | 0x8000_0000).to_be_bytes().to_vec()
}

fn crypto(offset: usize, data: &[u8]) -> Vec<u8> {
    [vec![6], varint(offset), varint(data.len()), data.to_vec()].concat()
}

const ACK: &[u8] = &[2, 0, 0, 0, 0];

/// Sender of Initial packets.
struct Sender {
    version: QuicVersion,
    keys: QuicInitialKeys,
    to: Vec<u8>,
    from: Vec<u8>,
    token: Vec<u8>,
    number: u32,
}

impl Sender {
    fn new(direction: Direction, version: QuicVersion, id: &[u8]) -> Sender {
        let [to, from] = match direction {
            C => [id, CLIENT_ID],
            S => [CLIENT_ID, SERVER_ID],
        };
        Sender {
            version,
            keys: QuicInitialKeys::derive(version, id, direction),
            to: to.to_vec(),
            from: from.to_vec(),
            token: Vec::new(),
            number: 0,
        }
    }

    fn client() -> Sender {
        Sender::new(C, QuicVersion::V1, FIRST_ID)
    }

    fn server() -> Sender {
        Sender::new(S, QuicVersion::V1, FIRST_ID)
    }

    /// A packet of 1,200 bytes.
    fn packet(&mut self, frames: &[&[u8]]) -> Vec<u8> {
        let mut payload = frames.concat();
        payload.resize(1150, 0);
        let kind = match self.version {
            QuicVersion::V1 => 0,
            QuicVersion::V2 => 1,
        };
        let mut header = long_header(self.version, kind, &self.to, &self.from);
        header.extend(varint(self.token.len()));
        header.extend(&self.token);
        header.extend(varint(4 + payload.len() + 16));
        header.extend(self.number.to_be_bytes());
        let packet = self.keys.seal(&header, self.number, &payload);
        self.number += 1;
        packet
    }

    fn hello(&mut self) -> Vec<u8> {
        self.packet(&[&crypto(0, &client_hello())])
    }

    fn answer(&mut self) -> Vec<u8> {
        self.packet(&[ACK, &crypto(0, &server_hello())])
    }
}

fn long_header(version: QuicVersion, kind: u8, to: &[u8], from: &[u8]) -> Vec<u8> {
    let number = match version {
        QuicVersion::V1 => 1,
        QuicVersion::V2 => 0x6b33_43cf_u32,
    };
    [
        &[0xc3 | kind << 4][..],
        &number.to_be_bytes(),
        &[to.len() as u8],
        to,
        &[from.len() as u8],
        from,
    ]
    .concat()
}

fn retry() -> Vec<u8> {
    let header = long_header(QuicVersion::V1, 3, CLIENT_ID, b"retried!");
    [header, b"token".to_vec(), vec![0; 16]].concat()
}

fn version_negotiation() -> Vec<u8> {
    let ids = [&[6][..], CLIENT_ID, &[8], FIRST_ID].concat();
    [&[0x80, 0, 0, 0, 0][..], &ids, &[0x6b, 0x33, 0x43, 0xcf]].concat()
}

#[test]
fn handshake_ends_with_the_first_short_packet_of_the_client() {
    let mut talk = talk();
    talk.datagram(C, &Sender::client().hello())
        .wait_us(9)
        .datagram(S, &Sender::server().answer())
        .datagram(S, SHORT)
        .wait_us(4)
        .datagram(C, SHORT)
        .datagram(C, SHORT);
    let row = "shop.test v1 TLS_AES_256_GCM_SHA384 16000 10000 exact";
    assert_eq!(talk.rows(), [row]);
    assert_eq!(talk.counters.protected_messages, 0);
}

#[test]
fn hello_may_come_in_pieces_and_an_acknowledgment_is_no_answer() {
    let hello = client_hello();
    let mut client = Sender::client();
    let ping: &[u8] = &[1, 0, 0];
    let pieces = [30, 60, 5, 0].map(|from| match from {
        0 => crypto(0, &hello[..5]),
        5 => crypto(5, &hello[5..40]),
        30 => crypto(30, &hello[30..60]),
        _ => crypto(60, &hello[60..]),
    });
    let first = client.packet(&[&pieces[0], ping, &pieces[1]]);
    let second = client.packet(&[&pieces[2], ping, &pieces[3]]);
    let mut server = Sender::server();
    let mut talk = talk();
    talk.datagram(C, &first)
        .datagram(S, &server.packet(&[ACK]))
        .datagram(C, &second)
        .wait_us(6)
        .datagram(S, &server.answer())
        .datagram(C, SHORT);
    let row = "shop.test v1 TLS_AES_256_GCM_SHA384 10000 7000 exact";
    assert_eq!(talk.rows(), [row]);
}

#[test]
fn server_may_choose_the_other_version() {
    let mut talk = talk_with(&["sni", "version", "version_offered", "cipher", "quality"]);
    talk.datagram(C, &Sender::client().hello())
        .datagram(S, &Sender::new(S, QuicVersion::V2, FIRST_ID).answer())
        .datagram(C, &Sender::new(C, QuicVersion::V2, FIRST_ID).packet(&[ACK]))
        .datagram(C, SHORT);
    assert_eq!(
        talk.rows(),
        ["shop.test v2 v1 TLS_AES_256_GCM_SHA384 exact"]
    );
}

#[test]
fn version_negotiation_continues_the_handshake() {
    for id in [&b"otherids"[..], FIRST_ID] {
        let mut talk = talk_with(&[
            "version",
            "version_offered",
            "handshake_time_ns",
            "retransmissions",
            "quality",
        ]);
        talk.datagram(C, &Sender::client().hello())
            .datagram(S, &version_negotiation())
            .datagram(C, &Sender::new(C, QuicVersion::V2, id).hello())
            .datagram(S, &Sender::new(S, QuicVersion::V2, id).answer())
            .datagram(C, SHORT);
        assert_eq!(talk.rows(), ["v2 v1 4000 0 exact"]);
    }
}

#[test]
fn retry_continues_the_handshake_also_if_it_was_not_captured() {
    for is_captured in [true, false] {
        let mut talk = talk_with(&["retry", "retransmissions", "connection_id", "quality"]);
        talk.datagram(C, &Sender::client().hello());
        if is_captured {
            talk.datagram(S, &retry());
        }
        let mut again = Sender::new(C, QuicVersion::V1, b"retried!");
        again.token = b"token".to_vec();
        talk.datagram(C, &again.hello())
            .datagram(S, &Sender::new(S, QuicVersion::V1, b"retried!").answer())
            .datagram(C, SHORT);
        assert_eq!(talk.rows(), ["true 0 8394c8f03e515708 exact"]);
    }
}

#[test]
fn unanswered_handshake_is_half() {
    let mut client = Sender::client();
    let mut talk = talk_with(&["sni", "retransmissions", "retry", "quality"]);
    talk.datagram(C, &client.hello())
        .datagram(C, &client.hello())
        .datagram(C, &client.hello());
    assert_eq!(talk.rows(), ["shop.test 2 - half"]);
}

#[test]
fn error_ends_the_handshake() {
    let close = [&[0x1c, 0x41, 0x28, 6, 9][..], b"no suites"].concat();
    let mut talk = talk_with(&["sni", "error", "error_by", "handshake_time_ns", "quality"]);
    talk.datagram(C, &Sender::client().hello())
        .datagram(S, &Sender::server().packet(&[&close]))
        .datagram(C, SHORT);
    let row = "shop.test CRYPTO_ERROR handshake_failure server - exact";
    assert_eq!(talk.rows(), [row]);
    assert_eq!(talk.counters.malformed_messages, 0);
}

#[test]
fn connections_of_one_flow_have_a_tuple_each() {
    let mut client = Sender::client();
    let other = b"otherids";
    let mut talk = talk();
    talk.datagram(C, &client.hello())
        .datagram(S, &Sender::server().answer())
        .datagram(C, SHORT)
        // Late copies.
        .datagram(C, &client.hello())
        .datagram(S, &Sender::server().answer())
        .datagram(C, &Sender::new(C, QuicVersion::V1, other).hello())
        .datagram(S, &Sender::new(S, QuicVersion::V1, other).answer())
        .datagram(C, SHORT);
    let row = "shop.test v1 TLS_AES_256_GCM_SHA384 2000 1000 exact";
    assert_eq!(talk.rows(), [row, row]);
    assert_eq!(talk.counters.protected_messages, 0);
}

#[test]
fn truncated_datagrams_have_times_but_no_names() {
    let hello = Sender::client().hello();
    let answer = [
        Sender::server().answer(),
        long_header(QuicVersion::V1, 2, CLIENT_ID, SERVER_ID),
    ]
    .concat();
    let mut talk = talk();
    let cut = |bytes: &[u8]| bytes.len() as u32 - 60;
    talk.cut_datagram(C, &hello[..60], cut(&hello))
        .cut_datagram(S, &answer[..60], cut(&answer))
        .datagram(C, SHORT);
    assert_eq!(talk.rows(), ["- v1 - 2000 - gap_body"]);
    assert_eq!(talk.counters.protected_messages, 1);
}

#[test]
fn connection_without_its_first_packet_has_no_tuple() {
    let mut talk = talk();
    let mut late = Sender::client();
    late.to = SERVER_ID.to_vec();
    talk.datagram(C, &late.packet(&[ACK]))
        .datagram(S, &Sender::server().answer())
        .datagram(C, SHORT);
    assert_eq!(talk.rows(), [""; 0]);
    assert_eq!(talk.counters.protected_messages, 2);
}

#[test]
fn packet_numbers_are_those_closest_to_the_expected_one() {
    // The example of RFC 9000 appendix A.3.
    assert_eq!(complete_number(0x9b32, 2, Some(0xa82f_30ea)), 0xa82f_9b32);
    assert_eq!(complete_number(0, 1, None), 0);
    assert_eq!(complete_number(45, 1, Some(300)), 301);
    assert_eq!(complete_number(250, 1, Some(300)), 250);
}

#[test]
fn initial_packets_are_recognized() {
    let context = |answers| ProbeContext {
        transport: wire::IpProtocol::UDP,
        usual_port: false,
        midstream: false,
        speaker: None,
        answers,
    };
    let hello = Sender::client().hello();
    let answer = Sender::server().answer();
    let seen = |bytes: &[u8], answers| header::probe(bytes, context(answers));
    assert_eq!(seen(&hello, false), ProbeResult::Request);
    assert_eq!(seen(&hello[..60], false), ProbeResult::Request);
    assert_eq!(seen(&answer, true), ProbeResult::Response);
    assert_eq!(
        seen(&answer, false),
        ProbeResult::Response,
        "its ID is short"
    );
    assert_eq!(seen(&retry(), true), ProbeResult::Response);
    assert_eq!(seen(SHORT, false), ProbeResult::NotForUs);
    assert_eq!(seen(b"", false), ProbeResult::NotForUs);
}

proptest! {
    /// A changed byte never changes a value: the packet is not read, or the byte is outside of it.
    #[test]
    fn damaged_packet_is_not_read(at in 0usize..1200, change in 1u8..) {
        let mut client = Sender::client();
        let mut hello = client.hello();
        let at = at.min(hello.len() - 1);
        hello[at] ^= change;
        let mut talk = talk_with(&["sni"]);
        talk.datagram(C, &hello).datagram(S, &Sender::server().answer()).datagram(C, SHORT);
        prop_assert!(talk.rows().iter().all(|row| row == "-"));
    }

    #[test]
    fn any_datagrams_are_parsed(
        datagrams in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..80), 0u32..9), 0..9),
        head in any::<bool>(),
    ) {
        let mut talk = talk();
        for (is_client, bytes, cut) in datagrams {
            let direction = if is_client { C } else { S };
            let header = long_header(QuicVersion::V1, 0, FIRST_ID, CLIENT_ID);
            let bytes = if head { [header, bytes].concat() } else { bytes };
            talk.cut_datagram(direction, &bytes, cut);
            let mut rest = &bytes[..];
            while next(&mut rest, cut).is_some() {}
        }
        talk.rows();
    }

    /// Messages in any pieces, in any order, with repetitions, are those of the contiguous stream.
    #[test]
    fn pieces_are_reassembled(
        lengths in prop::collection::vec(0usize..50, 1..5),
        pieces in prop::collection::vec((0usize..200, 0usize..60), 0..30),
        shift in 0usize..30,
    ) {
        let stream: Vec<u8> = lengths
            .iter()
            .enumerate()
            .flat_map(|(kind, length)| message(kind as u8, &vec![*length as u8; *length]))
            .collect();
        let mut collected = QuicCryptoStream::default();
        let mut read = Vec::new();
        // At the end the whole stream, in pieces that begin with the last.
        let rest = (0..stream.len()).step_by(30).rev().map(|at| (at, 30 + shift));
        for (at, length) in pieces.into_iter().chain(rest) {
            let at = at.min(stream.len());
            let end = (at + length).min(stream.len());
            collected.add(at as u64, &stream[at..end]).expect("within the limits");
            while let Some(message) = collected.next() {
                read.push((usize::from(message.kind), message.body.len()));
            }
        }
        let expected: Vec<_> = lengths.into_iter().enumerate().collect();
        prop_assert_eq!(read, expected);
        prop_assert!(collected.incomplete().is_none());
    }
}

#[test]
fn limits_hold() {
    let mut stream = QuicCryptoStream::default();
    assert!(stream.add(u64::MAX, &[1]).is_err());
    assert!(stream.add(64 << 10, &[1]).is_err());
    for at in 1..65 {
        assert!(stream.add(at, &[1]).is_ok());
        assert!(stream.add(at, &[1]).is_ok(), "a copy");
    }
    assert!(stream.add(200, &[1]).is_err(), "too many pieces");
    assert!(stream.add(0, &[1]).is_ok(), "the missing piece");
    assert!(stream.add(200, &[1]).is_ok());
    assert!(stream.add(300, &[1; 65_000]).is_ok());
    assert!(stream.add(301, &[1; 65_000]).is_err(), "too many bytes");
}
