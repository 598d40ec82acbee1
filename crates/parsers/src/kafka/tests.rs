//! Requests and responses of several versions as tuples, acknowledgments, fetch sessions, tokens, gaps, and segment boundaries.

use proptest::prelude::*;

use super::*;
use crate::dialogue::ParserDialogue;

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;
const ORDERS: [u8; 16] = *b"0123456789abcdef";

fn dialogue(fields: &[&'static str]) -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), ALL, fields)
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Text or array with a compact length.
fn compact(length: usize, inside: &[u8]) -> Vec<u8> {
    [&[length as u8 + 1], inside].concat()
}

fn frame(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}

fn request(key: i16, version: i16, id: u32, body: &[u8]) -> Vec<u8> {
    let head = [
        &key.to_be_bytes()[..],
        &version.to_be_bytes(),
        &id.to_be_bytes(),
        &text("app"),
    ];
    frame(&[&head.concat(), body].concat())
}

fn response(id: u32, body: &[u8]) -> Vec<u8> {
    frame(&[&id.to_be_bytes()[..], body].concat())
}

/// A batch of version 2.
fn batch(base: i64, records: u32, compression: u8, data: usize) -> Vec<u8> {
    let mut batch = vec![0; 61 + data];
    batch[..8].copy_from_slice(&base.to_be_bytes());
    batch[8..12].copy_from_slice(&(49 + data as u32).to_be_bytes());
    batch[16] = 2;
    batch[22] = compression;
    batch[23..27].copy_from_slice(&(records - 1).to_be_bytes());
    batch[57..61].copy_from_slice(&records.to_be_bytes());
    batch
}

/// Produce of version 7.
fn produce(id: u32, acks: i16, batches: &[u8]) -> Vec<u8> {
    let parts = [
        &b"\xff\xff"[..],
        &acks.to_be_bytes(),
        &1000u32.to_be_bytes(),
        &1u32.to_be_bytes(),
        &text("orders"),
        &1u32.to_be_bytes(),
        &3u32.to_be_bytes(),
        &(batches.len() as u32).to_be_bytes(),
        batches,
    ];
    request(0, 7, id, &parts.concat())
}

fn produced(id: u32, error: i16, base: i64) -> Vec<u8> {
    let parts = [
        &1u32.to_be_bytes()[..],
        &text("orders"),
        &1u32.to_be_bytes(),
        &3u32.to_be_bytes(),
        &error.to_be_bytes(),
        &base.to_be_bytes(),
        &[0xff; 8],
        &[0; 8],
        &7u32.to_be_bytes(),
    ];
    response(id, &parts.concat())
}

/// Partitions of `orders` by its identifier.
fn fetched(partitions: &[(i32, i64)]) -> Vec<u8> {
    let mut bytes = [compact(1, &ORDERS), vec![partitions.len() as u8 + 1]].concat();
    for (partition, offset) in partitions {
        bytes.extend(partition.to_be_bytes());
        bytes.extend([0xff; 4]);
        bytes.extend(offset.to_be_bytes());
        bytes.extend([0xff; 12]);
        bytes.extend([0, 1, 0, 0, 0]);
    }
    bytes.push(0);
    bytes
}

/// Fetch of version 13, with 500 ms and 1 byte.
fn fetch(id: u32, session: (i32, i32), topics: &[u8]) -> Vec<u8> {
    let parts = [
        &[0][..],
        &[0xff; 4],
        &500u32.to_be_bytes(),
        &1u32.to_be_bytes(),
        &[0, 1, 0, 0, 0],
        &session.0.to_be_bytes(),
        &session.1.to_be_bytes(),
        topics,
        &[1, 1, 0],
    ];
    request(1, 13, id, &parts.concat())
}

fn answer(id: u32, session: i32, partitions: &[(i32, i64, Vec<u8>)]) -> Vec<u8> {
    let mut body = [&[0; 7][..], &session.to_be_bytes()].concat();
    if partitions.is_empty() {
        body.extend([1, 0]);
        return response(id, &body);
    }
    body.extend(compact(1, &ORDERS));
    body.push(partitions.len() as u8 + 1);
    for (partition, high, batches) in partitions {
        body.extend(partition.to_be_bytes());
        body.extend([0; 2]);
        body.extend(high.to_be_bytes());
        body.extend([0; 16]);
        body.extend([0, 0xff, 0xff, 0xff, 0xff]);
        let length = batches.len() + 1;
        body.extend([
            length as u8 | 0x80,
            (length >> 7) as u8 | 0x80,
            (length >> 14) as u8,
        ]);
        body.extend(batches);
        body.push(0);
    }
    body.extend([0, 0]);
    response(id, &body)
}

/// Metadata of version 12, with its response.
fn metadata(talk: &mut ParserDialogue, id: u32) {
    let topic = [&[0; 16][..], &compact(6, b"orders"), &[0]].concat();
    let body = [&[0][..], &compact(1, &topic), &[0, 0, 0]].concat();
    talk.client(request(3, 12, id, &body));
    let broker = [&[0, 0, 0, 1][..], &compact(1, b"b"), &[0, 0, 35, 132, 0, 0]].concat();
    let topic = [
        &[0; 2][..],
        &compact(6, b"orders"),
        &ORDERS,
        &[0, 1, 0, 0, 0, 0, 0],
    ]
    .concat();
    let body = [
        &[0; 5][..],
        &compact(1, &broker),
        &[0, 0, 0, 0, 1],
        &compact(1, &topic),
        &[0],
    ];
    talk.server(response(id, &body.concat()));
}

#[test]
fn produce_requests() {
    let fields = [
        "api",
        "api_version",
        "topic",
        "topics",
        "partition",
        "partitions",
        "client_id",
        "records",
        "record_bytes",
        "compression",
        "acks",
        "base_offset",
        "last_offset",
        "ok",
        "error",
        "throttle_time_ns",
        "response_time_ns",
        "quality",
    ];
    let mut talk = dialogue(&fields);
    talk.client(produce(1, -1, &batch(0, 5, 4, 100)))
        .server(produced(1, 0, 40))
        .client(produce(2, 1, &batch(0, 1, 0, 30)))
        .server(produced(2, 6, -1));
    assert_eq!(
        talk.rows(),
        [
            "Produce 7 orders 1 3 1 app 5 161 zstd -1 40 44 true - 7000000 1000 exact",
            "Produce 7 orders 1 3 1 app 1 91 none 1 - - false NOT_LEADER_OR_FOLLOWER 7000000 1000 exact",
        ]
    );
}

#[test]
fn messages_before_batches() {
    let message = |compression: u8| {
        let body = [
            &[0; 4][..],
            &[1, compression],
            &[0; 8],
            &[0xff; 4],
            &[0, 0, 0, 1, 65],
        ]
        .concat();
        [&[0; 8][..], &(body.len() as u32).to_be_bytes(), &body].concat()
    };
    let mut talk = dialogue(&["records", "compression", "acks", "quality"]);
    let plain = [message(0), message(0)].concat();
    talk.client(produce(1, 1, &plain)).server(produced(1, 0, 0));
    talk.client(produce(2, 1, &message(2)))
        .server(produced(2, 0, 0));
    assert_eq!(talk.rows(), ["2 none 1 exact", "- snappy 1 exact"]);
}

/// Without acknowledgments there is no response: no later pair moves, and the tuple is complete.
#[test]
fn no_acknowledgments() {
    let mut talk = dialogue(&["api", "acks", "ok", "response_time_ns", "quality"]);
    let silent = produce(1, 0, &batch(0, 5, 0, 70_000));
    talk.client(&silent[..1400]).client(&silent[1400..]);
    talk.client(produce(2, 1, &batch(0, 1, 0, 30)))
        .server(produced(2, 0, 0));
    assert_eq!(
        talk.rows(),
        ["Produce 0 - - exact", "Produce 1 true 1000 exact"]
    );
}

#[test]
fn fetch_sessions_and_names_of_topics() {
    let fields = [
        "api",
        "topic",
        "topic_id",
        "topics",
        "partition",
        "partitions",
        "records",
        "base_offset",
        "last_offset",
        "high_watermark",
        "lag",
        "waiting",
        "response_time_ns",
        "waited_ns",
    ];
    let mut talk = dialogue(&fields);
    talk.client(fetch(1, (0, 0), &fetched(&[(0, 10)])))
        .server(answer(1, 77, &[(0, 30, batch(10, 8, 0, 9))]));
    metadata(&mut talk, 2);
    // Both partitions belong to the session, of which the request lists the one that has moved.
    talk.client(fetch(3, (77, 1), &fetched(&[(0, 18), (1, 5)])))
        .server(answer(
            3,
            77,
            &[(0, 30, batch(18, 4, 0, 9)), (1, 9, batch(5, 1, 0, 9))],
        ));
    talk.client(fetch(4, (77, 2), &[1]))
        .wait_us(480_000)
        .server(answer(4, 77, &[]));
    talk.client(fetch(5, (78, 9), &[1]))
        .server(answer(5, 78, &[(0, 30, batch(22, 8, 0, 9))]));
    let id = "MDEyMzQ1Njc4OWFiY2RlZg";
    assert_eq!(
        talk.rows(),
        [
            format!("Fetch {id} {id} 1 0 1 8 10 17 30 12 false 1000 -"),
            "Metadata orders - 1 - - - - - - - false 1000 -".into(),
            format!("Fetch orders {id} 1 - 2 5 - - - 8 false 1000 -"),
            format!("Fetch orders {id} 1 - 2 - - - - - true - 480001000"),
            format!("Fetch orders {id} - 0 - 8 22 29 30 0 false 1000 -"),
        ]
    );
}

#[test]
fn long_responses_are_walked() {
    let mut talk = dialogue(&["partitions", "records", "record_bytes", "lag", "quality"]);
    let sets: Vec<u8> = (0..20).flat_map(|n| batch(10 * n, 10, 0, 9000)).collect();
    talk.client(fetch(1, (0, -1), &fetched(&[(0, 0), (1, 0)])));
    let bytes = answer(1, 0, &[(0, 250, sets.clone()), (1, 201, sets)]);
    bytes.chunks(1448).for_each(|part| {
        talk.server(part);
    });
    assert_eq!(talk.rows(), ["2 400 362440 50 exact"]);
}

#[test]
fn a_gap_inside_of_records_hides_no_field() {
    let mut talk = dialogue(&["partitions", "records", "lag", "quality"]);
    let bytes = answer(
        1,
        0,
        &[(0, 12, batch(0, 10, 0, 9000)), (1, 12, batch(0, 3, 0, 60))],
    );
    talk.client(fetch(1, (0, -1), &fetched(&[(0, 0), (1, 0)])))
        .server(&bytes[..1448])
        .gap(S, 1448)
        .server(&bytes[2896..]);
    assert_eq!(talk.rows(), ["2 13 9 gap_body"]);
}

/// An unknown version of ApiVersions is answered in version 0.
#[test]
fn api_versions() {
    let mut talk = dialogue(&["api", "api_version", "ok", "error", "quality"]);
    let body = [&[0][..], &compact(3, b"lib"), &compact(1, b"1"), &[0]].concat();
    talk.client(request(18, 4, 1, &body))
        .server(response(1, &[0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 3]))
        .client(request(18, 3, 2, &body))
        .server(response(2, &[0, 0, 2, 0, 18, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0]));
    assert_eq!(
        talk.rows(),
        [
            "ApiVersions 4 false UNSUPPORTED_VERSION exact",
            "ApiVersions 3 true - exact"
        ]
    );
}

#[test]
fn groups() {
    let mut talk = dialogue(&["api", "group", "transactional_id"]);
    let heartbeat = [&text("billing")[..], &[0, 0, 0, 1], &text("m")].concat();
    talk.client(request(12, 0, 1, &heartbeat))
        .server(response(1, &[0, 0]));
    talk.client(fetch(2, (0, -1), &fetched(&[(0, 0)])))
        .server(answer(2, 0, &[]));
    talk.client(request(10, 1, 3, &[&text("pay")[..], &[1]].concat()));
    talk.client(request(10, 1, 4, &[&text("stock")[..], &[0]].concat()));
    assert_eq!(
        talk.rows(),
        [
            "Heartbeat billing -",
            "Fetch billing -",
            "FindCoordinator - pay",
            "FindCoordinator stock -"
        ]
    );
}

/// SaslHandshake of version 0 is followed by tokens without a header.
#[test]
fn raw_tokens() {
    let mut talk = dialogue(&["api", "ok", "quality"]);
    talk.client(request(17, 0, 1, &text("PLAIN")))
        .server(response(
            1,
            &[0, 0, 0, 0, 0, 1, 0, 5, b'P', b'L', b'A', b'I', b'N'],
        ))
        .client(frame(b"\0user\0secret"))
        .server(frame(b""))
        .client(produce(2, 1, &batch(0, 1, 0, 30)))
        .server(produced(2, 0, 0));
    assert_eq!(
        talk.rows(),
        ["SaslHandshake true exact", "Produce true exact"]
    );
    assert_eq!(talk.counters.malformed_messages, 0);
}

#[test]
fn responses_to_requests_before_the_capture_are_halves() {
    let mut talk = dialogue(&["api", "ok", "quality"]).midstream();
    talk.server(produced(8, 0, 0))
        .client(produce(9, 1, &batch(0, 1, 0, 30)))
        .server(produced(9, 0, 0));
    assert_eq!(talk.rows(), ["Produce true midstream"]);
}

#[test]
fn recognition() {
    let context = |usual_port| ProbeContext {
        transport: wire::IpProtocol::TCP,
        usual_port,
        midstream: false,
        speaker: None,
        answers: false,
    };
    let produce = produce(1, 1, &batch(0, 1, 0, 30));
    assert_eq!(probe(&produce, context(false)), ProbeResult::Request);
    assert_eq!(probe(&produce[..9], context(false)), ProbeResult::NeedMore);
    assert_eq!(
        probe(&produced(1, 0, 0), context(false)),
        ProbeResult::NotForUs
    );
    assert_eq!(
        probe(&produced(1, 0, 0), context(true)),
        ProbeResult::Response
    );
    assert_eq!(
        probe(b"GET / HTTP/1.1\r\n", context(true)),
        ProbeResult::NotForUs
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tuples_do_not_depend_on_segmentation(
        messages in proptest::collection::vec((0..4u8, 0..3000usize), 1..6),
        n in 1..1500usize,
    ) {
        let fields = ["api", "topic", "records", "lag", "acks", "base_offset", "error", "quality"];
        let mut whole = dialogue(&fields);
        let mut cut = dialogue(&fields);
        for (id, (kind, size)) in messages.iter().enumerate() {
            let id = id as u32;
            let records = batch(7, 3, 0, *size);
            let exchange = match kind {
                0 => (produce(id, 0, &records), Vec::new()),
                1 => (produce(id, 1, &records), produced(id, 3, -1)),
                2 => (fetch(id, (0, 0), &fetched(&[(0, 7)])), answer(id, 5, &[(0, 19, records)])),
                _ => (fetch(id, (5, 1), &[1]), answer(id, 5, &[(0, 19, [records.clone(), records].concat())])),
            };
            for (direction, bytes) in [(C, exchange.0), (S, exchange.1)] {
                if !bytes.is_empty() {
                    whole.bytes(direction, &bytes);
                }
                bytes.chunks(n).for_each(|part| { cut.bytes(direction, part); });
            }
        }
        prop_assert_eq!(whole.rows(), cut.rows());
    }

    #[test]
    fn nothing_panics(steps in proptest::collection::vec((any::<bool>(), 0..6u8, proptest::collection::vec(any::<u8>(), 0..60), 0..200u64), 0..20)) {
        let mut talk = dialogue(&["api"]);
        for (client, kind, noise, gap) in steps {
            let bytes = match kind {
                0 => produce(1, 1, &noise),
                1 => fetch(1, (0, 0), &noise),
                2 => request(i16::from(noise.len() as u8), 3, 1, &noise),
                3 => response(1, &noise),
                _ => noise,
            };
            let direction = if client { C } else { S };
            talk.bytes(direction, &bytes);
            if gap < 40 {
                talk.gap(direction, gap.max(1));
            }
        }
        talk.rows();
    }
}
