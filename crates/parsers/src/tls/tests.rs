//! Handshakes in bytes and the expected tuples.

use proptest::prelude::*;
use wire::IpProtocol;

use super::byte_stream::kind as record;
use super::messages::kind;
use super::*;
use crate::Direction;
use crate::dialogue::ParserDialogue;
use crate::encrypted::PROTOCOL;
use crate::{ProbeContext, ProbeResult};

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;
const FIELDS: &[&str] = &[
    "sni",
    "version",
    "cipher",
    "resumed",
    "alert",
    "alert_by",
    "handshake_time_ns",
    "quality",
];
/// Created with `openssl req -x509`, which also gave the expected contents.
const CERTIFICATE: &[u8] = include_bytes!("test_certificate.der");
const NOT_AFTER: i64 = 2110730026;
/// Random value of a HelloRetryRequest (RFC 8446 section 4.1.3).
const RETRY: &str = "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c";

fn record_of(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 3, 1], &(body.len() as u16).to_be_bytes()[..], body].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32).to_be_bytes()[1..], body].concat()
}

fn handshake(kind: u8, body: &[u8]) -> Vec<u8> {
    record_of(record::HANDSHAKE, &message(kind, body))
}

fn vector16(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u16).to_be_bytes()[..], body].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [kind.to_be_bytes().to_vec(), vector16(body)].concat()
}

fn client_hello_body(extensions: &[Vec<u8>]) -> Vec<u8> {
    let fixed = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &[0, 4, 0x13, 1, 0xc0, 0x30],
        &[1, 0],
    ]
    .concat();
    [fixed, vector16(&extensions.concat())].concat()
}

fn sni(host: &str) -> Vec<u8> {
    extension(0, &vector16(&[vec![0], vector16(host.as_bytes())].concat()))
}

fn versions(list: &[u8]) -> Vec<u8> {
    extension(43, &[&[list.len() as u8], list].concat())
}

fn alpn(names: &[&str]) -> Vec<u8> {
    let list: Vec<u8> = names
        .iter()
        .flat_map(|n| [&[n.len() as u8], n.as_bytes()].concat())
        .collect();
    extension(16, &vector16(&list))
}

fn client_hello() -> Vec<u8> {
    let extensions = [
        sni("Shop.Example"),
        alpn(&["h2", "http/1.1"]),
        versions(&[0xaa, 0xaa, 3, 4, 3, 3]),
    ];
    handshake(kind::CLIENT_HELLO, &client_hello_body(&extensions))
}

fn server_hello_with(random: &[u8], cipher: u16, extensions: &[Vec<u8>]) -> Vec<u8> {
    let fixed = [&[3, 3], random, &[0], &cipher.to_be_bytes()[..], &[0]].concat();
    handshake(
        kind::SERVER_HELLO,
        &[fixed, vector16(&extensions.concat())].concat(),
    )
}

fn hello12() -> Vec<u8> {
    server_hello_with(&[9; 32], 0xc030, &[alpn(&["h2"])])
}

fn hello13(extensions: &[Vec<u8>]) -> Vec<u8> {
    server_hello_with(
        &[9; 32],
        0x1301,
        &[&[extension(43, &[3, 4])], extensions].concat(),
    )
}

fn certificate() -> Vec<u8> {
    let length = |n: usize| (n as u32).to_be_bytes()[1..].to_vec();
    let one = [length(CERTIFICATE.len()), CERTIFICATE.to_vec()].concat();
    handshake(kind::CERTIFICATE, &[length(one.len()), one].concat())
}

fn done() -> Vec<u8> {
    handshake(kind::SERVER_HELLO_DONE, &[])
}

fn change() -> Vec<u8> {
    record_of(record::CHANGE_CIPHER_SPEC, &[1])
}

/// An encrypted message of TLS 1.2 and before.
fn finished() -> Vec<u8> {
    record_of(record::HANDSHAKE, &[0x5a; 40])
}

fn data(len: usize) -> Vec<u8> {
    record_of(record::DATA, &vec![0xa5; len])
}

fn alert(level: u8, description: u8) -> Vec<u8> {
    record_of(record::ALERT, &[level, description])
}

fn talk() -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), ALL, FIELDS)
}

/// A full handshake of TLS 1.2, direction by direction.
fn full12() -> Vec<(Direction, Vec<u8>)> {
    let greeting = [hello12(), certificate(), handshake(12, &[1; 99]), done()].concat();
    let key = [handshake(16, &[2; 66]), change(), finished()].concat();
    vec![
        (C, client_hello()),
        (S, greeting),
        (C, key),
        (S, [change(), finished()].concat()),
    ]
}

fn full13() -> Vec<(Direction, Vec<u8>)> {
    let greeting = [hello13(&[]), change(), data(900)].concat();
    vec![
        (C, client_hello()),
        (S, greeting),
        (C, [change(), data(69)].concat()),
        (C, data(500)),
    ]
}

fn said(messages: &[(Direction, Vec<u8>)]) -> ParserDialogue {
    let mut talk = talk();
    for (direction, bytes) in messages {
        talk.bytes(*direction, bytes);
    }
    talk
}

fn check(messages: &[(Direction, Vec<u8>)], expected: &[&str]) {
    assert_eq!(said(messages).rows(), expected);
}

const RSA: &str = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384";

#[test]
fn handshakes_in_full() {
    check(
        &full12(),
        &[&format!("shop.example TLS 1.2 {RSA} false - - 3000 exact")],
    );
    check(
        &full13(),
        &["shop.example TLS 1.3 TLS_AES_128_GCM_SHA256 false - - 2000 exact"],
    );
    // The client's first bytes are early data, sent before it received the server's.
    let early = extension(42, &[]);
    let body = client_hello_body(&[versions(&[3, 4]), early]);
    let mut talk = talk();
    talk.client(handshake(kind::CLIENT_HELLO, &body))
        .server(hello13(&[extension(41, &[0, 0])]));
    talk.bytes_unheard(C, &data(300)).client(data(69));
    assert_eq!(
        talk.rows(),
        ["- TLS 1.3 TLS_AES_128_GCM_SHA256 true - - 3000 exact"]
    );
}

#[test]
fn all_of_the_fields() {
    let fields = &[
        "alpn",
        "alpn_offered",
        "version_offered",
        "hello_retry",
        "client_certificate",
        "certificate_subject",
        "certificate_names",
        "certificate_issuer",
        "certificate_not_after",
        "response_time_ns",
    ];
    let mut talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, fields);
    for (direction, bytes) in full12() {
        talk.bytes(direction, &bytes);
    }
    let expected = format!(
        "h2 h2,http/1.1 TLS 1.3 false false shop.example shop.example,*.shop.example,10.0.0.1,2001:db8::1 shop.example {}",
        NOT_AFTER * 1_000_000_000
    );
    assert_eq!(talk.rows(), [format!("{expected} 1000")]);
}

#[test]
fn a_session_that_is_resumed() {
    let short = [
        (C, client_hello()),
        (S, [hello12(), change(), finished()].concat()),
        (C, [change(), finished()].concat()),
    ];
    check(
        &short,
        &[&format!("shop.example TLS 1.2 {RSA} true - - 1000 exact")],
    );
    let psk = [
        (C, client_hello()),
        (S, hello13(&[extension(41, &[0, 0])])),
        (C, data(69)),
    ];
    check(
        &psk,
        &["shop.example TLS 1.3 TLS_AES_128_GCM_SHA256 true - - 2000 exact"],
    );
}

#[test]
fn hello_retry_request() {
    let random: Vec<u8> = (0..64)
        .step_by(2)
        .map(|at| u8::from_str_radix(&RETRY[at..at + 2], 16).expect("digits"))
        .collect();
    let retry = [
        server_hello_with(&random, 0x1301, &[extension(43, &[3, 4])]),
        change(),
    ]
    .concat();
    let again = [change(), client_hello()].concat();
    let messages = [
        (C, client_hello()),
        (S, retry),
        (C, again),
        (S, hello13(&[])),
        (S, data(900)),
        (C, data(69)),
    ];
    check(
        &messages,
        &["shop.example TLS 1.3 TLS_AES_128_GCM_SHA256 false - - 5000 exact"],
    );
    let mut talk = ParserDialogue::new(
        &PROTOCOL,
        schema(),
        ALL,
        &["hello_retry", "response_time_ns"],
    );
    for (direction, bytes) in &messages {
        talk.bytes(*direction, bytes);
    }
    assert_eq!(talk.rows(), ["true 1000"]);
}

#[test]
fn handshakes_that_fail() {
    check(
        &[(C, client_hello()), (S, alert(2, 40))],
        &["shop.example - - - handshake_failure server - exact"],
    );
    let refused = [
        (C, client_hello()),
        (S, hello12()),
        (S, certificate()),
        (S, done()),
        (C, alert(2, 48)),
    ];
    check(
        &refused,
        &[&format!(
            "shop.example TLS 1.2 {RSA} - unknown_ca client - exact"
        )],
    );
    // In TLS 1.3 only the length identifies it.
    let hidden = [
        (C, client_hello()),
        (S, hello13(&[])),
        (S, data(900)),
        (C, change()),
        (C, data(19)),
    ];
    check(
        &hidden,
        &["shop.example TLS 1.3 TLS_AES_128_GCM_SHA256 false encrypted client - exact"],
    );
    // A warning does not end the handshake, and is reported.
    let mut warned = full12();
    warned.insert(1, (S, alert(1, 112)));
    check(
        &warned,
        &[&format!(
            "shop.example TLS 1.2 {RSA} false unrecognized_name server 4000 exact"
        )],
    );
    // No response.
    check(&[(C, client_hello())], &["shop.example - - - - - - half"]);
    check(
        &[(S, hello12()), (S, certificate())],
        &[&format!("- TLS 1.2 {RSA} - - - - half")],
    );
}

#[test]
fn messages_and_records_are_cut_anyhow() {
    // A ClientHello in records of ten bytes.
    let hello = client_hello();
    let small: Vec<u8> = hello[5..]
        .chunks(10)
        .flat_map(|piece| record_of(record::HANDSHAKE, piece))
        .collect();
    let mut messages = full12();
    messages[0].1 = small;
    // The server's complete first flight in one record.
    let body = [&hello12()[5..], &certificate()[5..], &done()[5..]].concat();
    messages[1].1 = record_of(record::HANDSHAKE, &body);
    check(
        &messages,
        &[&format!("shop.example TLS 1.2 {RSA} false - - 3000 exact")],
    );
}

#[test]
fn missing_bytes() {
    let hello = client_hello();
    let greeting = full12()[1].1.clone();
    let certificate_at = hello12().len() + 50;
    // Part of the certificate is missing.
    let mut talk1 = talk();
    talk1
        .client(&hello)
        .server(&greeting[..certificate_at])
        .gap(S, 60)
        .server(&greeting[certificate_at + 60..]);
    for (direction, bytes) in &full12()[2..] {
        talk1.bytes(*direction, bytes);
    }
    assert_eq!(
        talk1.rows(),
        [format!(
            "shop.example TLS 1.2 {RSA} false - - 5000 gap_body"
        )]
    );
    // The gap crosses message boundaries: later bytes cannot be parsed.
    let mut talk2 = talk();
    talk2
        .client(&hello)
        .server(&greeting[..certificate_at])
        .gap(S, 2000);
    assert_eq!(
        talk2.rows(),
        [format!("shop.example TLS 1.2 {RSA} - - - - gap_body")]
    );
    // Cut after the name in the ClientHello.
    let behind_name = 5 + 4 + 2 + 32 + 1 + 6 + 2 + 2 + sni("Shop.Example").len();
    let mut talk3 = talk();
    talk3
        .client(&hello[..behind_name])
        .gap(C, (hello.len() - behind_name) as u64)
        .server(hello13(&[]))
        .client(data(69));
    assert_eq!(
        talk3.rows(),
        ["shop.example TLS 1.3 TLS_AES_128_GCM_SHA256 false - - 3000 gap_body"]
    );
    // The client is not captured.
    let mut talk4 = talk();
    talk4
        .server(&greeting)
        .server([change(), finished()].concat());
    assert_eq!(talk4.rows(), [format!("- TLS 1.2 {RSA} false - - - half")]);
    // The server is not captured.
    let mut talk5 = talk();
    talk5
        .client(&hello)
        .client([handshake(16, &[2; 66]), change(), finished(), data(99)].concat());
    assert_eq!(talk5.rows(), ["shop.example - - - - - - half"]);
}

#[test]
fn plaintext_before_and_after_tls() {
    let mut behind_starttls = talk();
    behind_starttls.server("220 ready\r\n");
    for (direction, bytes) in full12() {
        behind_starttls.bytes(direction, &bytes);
    }
    behind_starttls
        .client("anything")
        .server("at all")
        .gap(C, 7);
    assert_eq!(
        behind_starttls.rows(),
        [format!("shop.example TLS 1.2 {RSA} false - - 3000 exact")]
    );
    // A hello of an unsupported version.
    let mut old = talk();
    old.client([0x80, 0x2e, 1, 3, 0, 0, 9, 0]);
    for (direction, bytes) in &full12()[1..] {
        old.bytes(*direction, bytes);
    }
    assert_eq!(old.rows(), [format!("- TLS 1.2 {RSA} false - - - half")]);
}

#[test]
fn probe_recognizes_handshakes() {
    let check = |bytes: &[u8], expected| {
        let context = ProbeContext {
            transport: IpProtocol::TCP,
            usual_port: false,
            midstream: false,
            speaker: None,
            answers: false,
        };
        assert_eq!((PROTOCOL.probe)(bytes, context), expected, "{bytes:?}");
    };
    let hello = client_hello();
    for n in 1..11 {
        check(&hello[..n], ProbeResult::NeedMore);
    }
    check(&hello[..11], ProbeResult::Request);
    check(&hello, ProbeResult::Request);
    check(&hello12(), ProbeResult::Response);
    check(
        &record_of(record::HANDSHAKE, &hello[5..8]),
        ProbeResult::Request,
    );
    for other in [
        data(50),
        alert(2, 40),
        finished(),
        b"GET / HTTP/1.1\r\n".to_vec(),
        vec![22, 3, 9],
        vec![22, 3, 1, 0, 0],
    ] {
        check(&other, ProbeResult::NotForUs);
    }
}

proptest! {
    #[test]
    fn tuples_do_not_depend_on_segmentation(
        tls13 in any::<bool>(),
        sizes in prop::collection::vec(1..200usize, 1..8),
        hole in prop::option::of((0..4usize, 0..1500usize, 1..300usize)),
    ) {
        let messages = if tls13 { full13() } else { full12() };
        let told = |sizes: &[usize]| {
            let mut talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, &[&FIELDS[..6], &["certificate_names", "quality"]].concat());
            let mut sizes = sizes.iter().cycle();
            for (i, (direction, bytes)) in messages.iter().enumerate() {
                let (from, to) = match hole {
                    Some((at, from, len)) if at == i => (from.min(bytes.len()), (from + len).min(bytes.len())),
                    _ => (bytes.len(), bytes.len()),
                };
                for (j, part) in [&bytes[..from], &bytes[to..]].into_iter().enumerate() {
                    if j == 1 && to > from {
                        talk.gap(*direction, (to - from) as u64);
                    }
                    let mut part = part;
                    while !part.is_empty() {
                        let n = (*sizes.next().expect("a cycle")).min(part.len());
                        talk.bytes(*direction, &part[..n]);
                        part = &part[n..];
                    }
                }
            }
            talk.rows()
        };
        prop_assert_eq!(told(&sizes), told(&[100_000]));
    }

    #[test]
    fn nothing_panics(
        tls13 in any::<bool>(),
        changes in prop::collection::vec((0..4usize, any::<prop::sample::Index>(), any::<u8>()), 0..6),
        pieces in prop::collection::vec((any::<bool>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..10),
    ) {
        let mut messages = if tls13 { full13() } else { full12() };
        for (message, at, byte) in changes {
            let bytes = &mut messages[message].1;
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
        }
        let mut talk = said(&messages[..3]);
        for (client, gap, bytes) in pieces {
            let direction = if client { C } else { S };
            if gap { talk.gap(direction, bytes.len() as u64) } else { talk.bytes(direction, &bytes) };
        }
        assert!(talk.rows().len() <= 1);
    }

    #[test]
    fn certificates_of_any_bytes(at in any::<prop::sample::Index>(), byte in any::<u8>(), len in any::<prop::sample::Index>()) {
        let mut der = CERTIFICATE.to_vec();
        let at = at.index(der.len());
        der[at] = byte;
        let _ = certificate::read(&der);
        let _ = certificate::read(&der[..len.index(der.len())]);
    }
}
