//! Connections in records and the expected turns.

use super::*;
use crate::dialogue::ParserDialogue;
use crate::tls::byte_stream::kind;

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;
const FIELDS: &[&str] = &[
    "certainty",
    "protocol",
    "request_bytes",
    "response_bytes",
    "response_time_ns",
    "uncertain_time_ns",
    "quality",
];

fn record(kind: u8, len: usize) -> Vec<u8> {
    let head = [kind, 3, 3, (len >> 8) as u8, len as u8];
    [&head[..], &vec![0xaa; len]].concat()
}

/// A record of application data with this many bytes, in TLS 1.3.
fn data(bytes: usize) -> Vec<u8> {
    record(kind::DATA, bytes + 17)
}

fn handshake(kind_: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32).to_be_bytes();
    let message = [&[kind_], &len[1..], body].concat();
    let head = [kind::HANDSHAKE, 3, 1];
    [&head[..], &(message.len() as u16).to_be_bytes(), &message].concat()
}

fn extension(number: u16, body: &[u8]) -> Vec<u8> {
    [
        &number.to_be_bytes()[..],
        &(body.len() as u16).to_be_bytes(),
        body,
    ]
    .concat()
}

/// A ClientHello that offers these protocols.
fn client_hello(alpn: &[&str]) -> Vec<u8> {
    let names: Vec<u8> = alpn
        .iter()
        .flat_map(|name| [&[name.len() as u8], name.as_bytes()].concat())
        .collect();
    let alpn = [&(names.len() as u16).to_be_bytes()[..], &names].concat();
    let mut extensions = extension(43, &[2, 3, 4]);
    if !names.is_empty() {
        extensions.extend(extension(16, &alpn));
    }
    let fixed = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    let body = [
        &fixed[..],
        &(extensions.len() as u16).to_be_bytes(),
        &extensions,
    ]
    .concat();
    handshake(1, &body)
}

fn server_hello() -> Vec<u8> {
    let extensions = extension(43, &[3, 4]);
    let fixed = [&[3, 3][..], &[8; 32], &[0, 0x13, 1, 0]].concat();
    let body = [
        &fixed[..],
        &(extensions.len() as u16).to_be_bytes(),
        &extensions,
    ]
    .concat();
    handshake(2, &body)
}

fn dialogue() -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), TURNS, FIELDS)
}

/// A TLS 1.3 connection after the client's Finished, without tickets.
fn finished(alpn: &[&str]) -> ParserDialogue {
    let mut talk = dialogue();
    talk.client(client_hello(alpn));
    talk.server([server_hello(), data(900)].concat());
    talk.client(data(36));
    talk
}

/// A TLS 1.3 connection after the server's ticket.
fn connected(alpn: &[&str]) -> ParserDialogue {
    let mut talk = finished(alpn);
    talk.server(data(240));
    talk
}

#[test]
fn a_turn_is_a_request_with_its_response() {
    let mut talk = connected(&["http/1.1"]);
    talk.client(data(100)).wait_us(500);
    talk.server([data(240), data(5000)].concat());
    talk.wait_us(1000).client(data(90)).wait_us(50);
    talk.server(data(200));
    assert_eq!(
        talk.rows(),
        [
            "turn http/1.1 100 5240 501000 - exact",
            "turn http/1.1 90 200 51000 - exact"
        ]
    );
}

/// Tickets that arrive before the request, or as a pair with the response to it, are no response.
#[test]
fn session_tickets_are_no_response() {
    let mut early = connected(&["http/1.1"]);
    early.client(data(100)).wait_us(500);
    early.server([data(240), data(9)].concat());
    assert_eq!(early.rows(), ["turn http/1.1 100 249 501000 - exact"]);

    let mut pair = finished(&["http/1.1"]);
    pair.client(data(100))
        .server([data(256), data(240)].concat());
    pair.wait_us(500).server([data(300), data(9)].concat());
    assert_eq!(pair.rows(), ["turn http/1.1 100 309 502000 - exact"]);

    // A single one cannot be distinguished from the head of a response.
    let mut single = finished(&["http/1.1"]);
    single.client(data(100)).server(data(240)).wait_us(500);
    single.server(data(300)).client(data(80)).server(data(240));
    assert_eq!(
        single.rows(),
        [
            "burst http/1.1 100 540 - 1000 exact",
            "turn http/1.1 80 240 1000 - exact"
        ]
    );
}

/// The preface, SETTINGS, and control frames of HTTP/2 are neither requests nor responses.
#[test]
fn http2_is_recognized_by_its_first_records() {
    for has_tickets in [false, true] {
        let mut talk = finished(&["h2", "http/1.1"]);
        talk.client(data(24 + 27 + 13)).client(data(60));
        if has_tickets {
            talk.server([data(240), data(240)].concat());
        }
        talk.server(data(27))
            .client(data(9))
            .server(data(9))
            .wait_us(500);
        talk.server([data(80), data(4000)].concat())
            .client(data(13));
        talk.client(data(40)).server(data(70));
        let [first, second] = &talk.rows()[..] else {
            panic!("two turns");
        };
        assert!(first.starts_with("turn h2 60 4080 50"), "{first}");
        assert_eq!(second, "turn h2 40 70 1000 - exact");
    }
}

#[test]
fn requests_before_the_end_of_the_response_overlap() {
    let mut talk = connected(&["http/1.1"]);
    talk.client(data(100)).server(data(1000)).client(data(100));
    // The server had not received the second request.
    talk.bytes_unheard(S, &data(1000)).server(data(500));
    assert_eq!(
        talk.rows(),
        [
            "overlap http/1.1 100 2000 - 1000 exact",
            "overlap http/1.1 100 500 - 2000 exact"
        ]
    );
}

/// Requests that are sent together are short records.
#[test]
fn several_short_records_are_a_burst() {
    let certainty = |records: &[usize]| {
        let mut talk = connected(&["http/1.1"]);
        let request: Vec<u8> = records.iter().flat_map(|len| data(*len)).collect();
        talk.client(request).server(data(500));
        talk.rows()[0].split(' ').next().expect("a word").to_owned()
    };
    assert_eq!(certainty(&[100, 110]), "burst");
    assert_eq!(certainty(&[100, 300, 30]), "burst");
    assert_eq!(certainty(&[200, 50]), "turn");
    assert_eq!(certainty(&[200, 16_000, 16_000, 16_000, 99]), "turn");
}

/// A request as short as a control frame does not extend the response before it unnoticed.
#[test]
fn a_doubtful_control_frame_is_an_overlap() {
    let mut talk = connected(&["h2"]);
    talk.client(data(64))
        .server(data(40))
        .client(data(44))
        .server(data(200));
    talk.client(data(17)).server(data(300));
    assert_eq!(talk.rows(), ["overlap h2 44 500 - 1000 exact"]);
    let mut long = connected(&["h2"]);
    long.client(data(64)).server(data(40)).client(data(44));
    long.server([data(16_000), data(16_000)].concat())
        .client(data(13));
    long.server(data(300));
    assert_eq!(long.rows(), ["turn h2 44 32300 1000 - exact"]);
}

/// SETTINGS that share a record with the response show neither the protocol nor the end of the preface.
#[test]
fn http2_is_recognized_by_the_client() {
    let mut apart = connected(&["h2", "http/1.1"]);
    apart.client(data(64)).client(data(44)).server(data(169));
    apart.client(data(9)).client(data(30)).server(data(70));
    let mut together = connected(&["h2", "http/1.1"]);
    together.client(data(108)).server(data(169)).client(data(9));
    together.client(data(30)).server(data(70));
    for (mut talk, first) in [(apart, 44), (together, 108)] {
        assert_eq!(
            talk.rows(),
            [
                format!("turn h2 {first} 169 1000 - exact"),
                "turn h2 30 70 1000 - exact".to_owned()
            ]
        );
    }
}

#[test]
fn a_response_cut_by_the_end_has_no_total_time() {
    let mut talk = connected(&["http/1.1"]);
    talk.client(data(100)).server(&data(3000)[..2000]);
    assert_eq!(talk.rows(), ["turn http/1.1 100 3000 1000 - gap_body"]);
}

#[test]
fn a_request_with_a_pause_is_a_burst() {
    let mut talk = connected(&["http/1.1"]);
    talk.client(data(200)).wait_us(3000).client(data(50));
    talk.server(data(500));
    assert_eq!(talk.rows(), ["burst http/1.1 250 500 - 1000 exact"]);
}

/// What the server sends after half a second of silence is not part of the response.
#[test]
fn a_silent_server_has_responded() {
    let mut talk = connected(&["http/1.1"]);
    talk.client(data(100)).server(data(1000));
    talk.wait_us(600_000).server(data(50));
    talk.wait_us(600_000).client(data(70)).server(data(30));
    assert_eq!(
        talk.rows(),
        [
            "turn http/1.1 100 1000 1000 - exact",
            "push http/1.1 - 50 - - exact",
            "turn http/1.1 70 30 1000 - exact"
        ]
    );
}

/// Missing bytes within a record change nothing but the quality; a hidden header or a whole record make times unknown.
#[test]
fn times_at_gaps_are_unknown() {
    let mut within = connected(&["http/1.1"]);
    within.client(data(100));
    let response = data(3000);
    within.server(&response[..1000]).gap(S, 1000);
    within
        .server(&response[2000..])
        .client(data(80))
        .server(data(90));
    assert_eq!(
        within.rows(),
        [
            "turn http/1.1 100 3000 1000 - gap_body",
            "turn http/1.1 80 90 1000 - exact"
        ]
    );

    let mut hidden = connected(&["http/1.1"]);
    hidden.client(data(100)).server(data(300));
    hidden.gap(C, 117 + 5).server(data(400));
    hidden.client(data(80)).server(data(90));
    assert_eq!(
        hidden.rows(),
        [
            "turn http/1.1 100 300 1000 - exact",
            "turn http/1.1 122 400 - - half",
            "turn http/1.1 80 90 1000 - exact"
        ]
    );
}

#[test]
fn a_connection_joined_midway_has_turns_on_a_usual_port() {
    let context = |speaker| ProbeContext {
        transport: wire::IpProtocol::TCP,
        usual_port: true,
        midstream: true,
        speaker,
        answers: false,
    };
    let bytes = [data(300), data(40)].concat();
    assert_eq!(
        (PROTOCOL.probe)(&bytes, context(Some(C))),
        ProbeResult::Request
    );
    assert_eq!(
        (PROTOCOL.probe)(&bytes, context(Some(S))),
        ProbeResult::Response
    );
    assert_eq!(
        (PROTOCOL.probe)(&bytes, context(None)),
        ProbeResult::NotForUs
    );
    let other = [&data(300)[..], b"GET / HTTP/1.1\r\n"].concat();
    assert_eq!(
        (PROTOCOL.probe)(&other, context(Some(C))),
        ProbeResult::NotForUs
    );

    let mut talk = dialogue().midstream();
    talk.client(data(100)).server(data(900));
    talk.client(data(100)).server(data(900));
    assert_eq!(
        talk.rows(),
        [
            "turn - 100 900 1000 - midstream",
            "turn - 100 900 1000 - exact"
        ]
    );
}

/// The rows are the same for every division of the bytes into segments of one time.
#[test]
fn segments_do_not_matter() {
    let parts = [
        (C, client_hello(&["h2", "http/1.1"])),
        (S, [server_hello(), data(900), data(60)].concat()),
        (C, [data(36), data(64), data(60)].concat()),
        (
            S,
            [data(240), data(240), data(27), data(9), data(500)].concat(),
        ),
        (C, [data(9), data(70)].concat()),
        (S, data(300)),
    ];
    let whole = |cut: usize| {
        let mut talk = dialogue();
        for (direction, bytes) in &parts {
            for piece in bytes.chunks(cut) {
                talk.now_us -= 1;
                talk.bytes(*direction, piece);
            }
            talk.wait_us(10);
        }
        talk.rows()
    };
    let expected = whole(usize::MAX);
    assert_eq!(expected.len(), 2, "{expected:?}");
    for cut in [1, 2, 3, 4, 5, 6, 7, 50, 100, 255] {
        assert_eq!(whole(cut), expected, "{cut}");
    }
}

/// A query of handshakes only does not read records after them.
#[test]
fn turns_are_read_only_if_a_query_needs_them() {
    let mut talk = ParserDialogue::new(&PROTOCOL, tls::schema(), tls::ALL, &["version"]);
    talk.client(client_hello(&[]));
    talk.server([server_hello(), data(900)].concat());
    assert!(!talk.is_done());
    talk.client(data(36));
    assert!(talk.is_done());
    assert_eq!(talk.rows(), ["TLS 1.3"]);
}
