//! Conversations in bytes and the expected tuples.

use proptest::prelude::*;
use wire::IpProtocol;

use super::*;
use crate::dialogue::ParserDialogue;
use crate::{ProbeContext, ProbeResult};

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;
const A: u16 = 1;
const FIELDS: &[&str] = &[
    "transaction_id",
    "query_name",
    "query_type",
    "response_code",
    "answers",
    "retries",
    "response_time_ns",
    "quality",
];

/// A name in wire format.
fn name(text: &str) -> Vec<u8> {
    let labels = text.split('.').filter(|label| !label.is_empty());
    let mut name: Vec<u8> = labels
        .flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat())
        .collect();
    name.push(0);
    name
}

fn message(id: u16, flags: u16, counts: [u16; 4], rest: &[u8]) -> Vec<u8> {
    let words = [id, flags, counts[0], counts[1], counts[2], counts[3]];
    words
        .iter()
        .flat_map(|word| word.to_be_bytes())
        .chain(rest.iter().copied())
        .collect()
}

fn question_of(id: u16, text: &str, kind: u16) -> Vec<u8> {
    let rest = [name(text), kind.to_be_bytes().to_vec(), vec![0, 1]].concat();
    message(id, 0x0100, [1, 0, 0, 0], &rest)
}

fn question(id: u16, text: &str) -> Vec<u8> {
    question_of(id, text, A)
}

/// A record of the question's name, or of `owner`.
fn record(kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut record = vec![0xc0, 12];
    record.extend(kind.to_be_bytes());
    record.extend([0, 1]);
    record.extend(ttl.to_be_bytes());
    record.extend((data.len() as u16).to_be_bytes());
    record.extend(data);
    record
}

fn answer_of(id: u16, text: &str, kind: u16, code: u16, records: &[Vec<u8>]) -> Vec<u8> {
    let rest = [
        name(text),
        kind.to_be_bytes().to_vec(),
        vec![0, 1],
        records.concat(),
    ]
    .concat();
    message(id, 0x8180 | code, [1, records.len() as u16, 0, 0], &rest)
}

fn answer(id: u16, text: &str) -> Vec<u8> {
    answer_of(id, text, A, 0, &[record(A, 60, &[10, 0, 0, 9])])
}

/// Adds the length prefix.
fn framed(message: Vec<u8>) -> Vec<u8> {
    [(message.len() as u16).to_be_bytes().to_vec(), message].concat()
}

fn talk() -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), ALL, FIELDS)
}

fn check(talk: &mut ParserDialogue, expected: &[&str]) {
    assert_eq!(talk.rows(), expected);
}

#[test]
fn a_question_and_its_answer() {
    check(
        talk()
            .datagram(C, &question(7, "WWW.example.com"))
            .wait_us(99)
            .datagram(S, &answer(7, "www.Example.com")),
        &["7 www.example.com A NOERROR 10.0.0.9 0 100000 exact"],
    );
    check(
        talk()
            .client(framed(question(7, "a")))
            .server(framed(answer_of(7, "a", A, 3, &[]))),
        &["7 a A NXDOMAIN - 0 1000 exact"],
    );
}

#[test]
fn answers_find_their_questions() {
    // Matched by id, name, and type, in any order.
    let a = question(1, "a");
    let b = question(1, "b");
    check(
        talk()
            .datagram(C, &a)
            .datagram(C, &b)
            .datagram(S, &answer(1, "b"))
            .datagram(S, &answer(1, "a")),
        &[
            "1 b A NOERROR 10.0.0.9 0 1000 exact",
            "1 a A NOERROR 10.0.0.9 0 3000 exact",
        ],
    );
    // A different question does not match, even with the same id.
    check(
        talk()
            .datagram(C, &a)
            .datagram(S, &answer(1, "b"))
            .datagram(S, &answer(2, "a")),
        &[
            "1 b A NOERROR 10.0.0.9 - - half",
            "2 a A NOERROR 10.0.0.9 - - half",
            "1 a A - - 0 - half",
        ],
    );
    check(
        talk()
            .datagram(C, &a)
            .datagram(S, &answer_of(1, "a", 28, 0, &[])),
        &["1 a AAAA NOERROR - - - half", "1 a A - - 0 - half"],
    );
    // Type 65 (HTTPS) is not the upper-case form of type 97.
    check(
        talk()
            .datagram(C, &question_of(1, "a", 65))
            .datagram(S, &answer_of(1, "a", 97, 0, &[])),
        &["1 a TYPE97 NOERROR - - - half", "1 a HTTPS - - 0 - half"],
    );
    // A server that could not parse the question does not repeat it.
    let unread = message(1, 0x8001, [0, 0, 0, 0], &[]);
    check(
        talk().datagram(C, &a).datagram(S, &unread),
        &["1 a A FORMERR - 0 1000 exact"],
    );
    check(
        talk().datagram(C, &a).datagram(C, &b).datagram(S, &unread),
        &[
            "1 - - FORMERR - - - half",
            "1 a A - - 0 - half",
            "1 b A - - 0 - half",
        ],
    );
}

#[test]
fn a_question_that_is_sent_again() {
    let q = question(1, "a");
    let a = answer(1, "a");
    let mut twice = talk();
    twice
        .datagram(C, &q)
        .wait_us(5_000_000)
        .datagram(C, &q)
        .datagram(S, &a)
        .datagram(S, &a);
    check(&mut twice, &["1 a A NOERROR 10.0.0.9 1 5000002000 exact"]);
    assert_eq!(
        (
            twice.counters.retransmitted_calls,
            twice.counters.repeated_replies
        ),
        (1, 1)
    );
    // Beyond the timeout it is a new query.
    check(
        talk()
            .datagram(C, &q)
            .wait_us(31_000_000)
            .datagram(C, &q)
            .datagram(S, &a),
        &["1 a A - - 0 - half", "1 a A NOERROR 10.0.0.9 0 1000 exact"],
    );
    // A question is answered, and sent again.
    check(
        talk()
            .datagram(C, &q)
            .datagram(S, &a)
            .datagram(C, &q)
            .datagram(S, &a),
        &["1 a A NOERROR 10.0.0.9 0 1000 exact"; 2],
    );
}

#[test]
fn an_answer_captured_before_its_question() {
    let q = question(1, "a");
    let a = answer(1, "a");
    check(
        talk().datagram(S, &a).datagram(C, &q),
        &["1 a A NOERROR 10.0.0.9 0 - untimed"],
    );
    check(
        talk().datagram(S, &a).wait_us(2000).datagram(C, &q),
        &["1 a A NOERROR 10.0.0.9 - - half", "1 a A - - 0 - half"],
    );
}

/// Number of exact rows, and of all rows.
fn exact(talk: &mut ParserDialogue) -> (usize, usize) {
    let rows = talk.rows();
    (
        rows.iter().filter(|row| row.ends_with("exact")).count(),
        rows.len(),
    )
}

#[test]
fn a_hundred_thousand_questions_wait() {
    let mut talk = talk();
    let name = |n: u32| format!("n{}", n >> 16);
    let n = 100_000;
    (0..n).for_each(|n| _ = talk.datagram(C, &question(n as u16, &name(n))));
    (0..n).for_each(|n| _ = talk.datagram(S, &answer(n as u16, &name(n))));
    assert_eq!(talk.counters.evicted_requests, 0);
    assert_eq!(exact(&mut talk), (n as usize, n as usize));
}

#[test]
fn a_question_that_is_given_up_is_counted_once() {
    // Exceeds the total limit.
    let name = |n: u32| format!("n{}", n >> 16);
    let n = pending_queries::QUESTIONS_MAX as u32 + 10;
    let mut many = talk();
    (0..n).for_each(|n| _ = many.datagram(C, &question(n as u16, &name(n))));
    (0..n).for_each(|n| _ = many.datagram(S, &answer(n as u16, &name(n))));
    assert_eq!(
        (
            many.counters.evicted_requests,
            many.counters.separated_halves
        ),
        (10, 10)
    );
    assert_eq!(exact(&mut many), (n as usize - 10, n as usize));
    // Exceeds the limit for one id.
    let name = |n: usize| format!("n{n}");
    let n = pending_queries::SAME_ID_MAX + 2;
    let mut same_id = talk();
    (0..n).for_each(|n| _ = same_id.datagram(C, &question(7, &name(n))));
    (0..n).for_each(|n| _ = same_id.datagram(S, &answer(7, &name(n))));
    assert_eq!(
        (
            same_id.counters.evicted_requests,
            same_id.counters.separated_halves
        ),
        (2, 2)
    );
    assert_eq!(exact(&mut same_id), (n - 2, n));
    // A late response, twice.
    let q = question(1, "a");
    let a = answer(1, "a");
    let mut late = talk();
    late.datagram(C, &q)
        .wait_us(31_000_000)
        .datagram(S, &a)
        .datagram(S, &a);
    check(&mut late, &["1 a A - - 0 - half"]);
    assert_eq!(
        (
            late.counters.separated_halves,
            late.counters.repeated_replies
        ),
        (1, 1)
    );
    // Too many responses before their questions.
    let mut early = talk();
    let n = 40;
    (0..n).for_each(|id| _ = early.datagram(S, &answer(id, "a")));
    (0..n).for_each(|id| _ = early.datagram(C, &question(id, "a")));
    assert_eq!(
        (
            early.counters.evicted_requests,
            early.counters.separated_halves
        ),
        (8, 8)
    );
    assert_eq!(early.rows().len(), 40);
}

#[test]
fn unusual_headers() {
    let asked = [name("a"), vec![0, 1, 0, 1]].concat();
    let other = [name("b"), vec![0, 1, 0, 1]].concat();
    let a = record(A, 60, &[10, 0, 0, 9]);
    let both = [&asked[..], &other].concat();
    // Reserved bit; response code in a question, and unnamed codes; records in a question's answer section;
    // two questions; unnamed opcode.
    let cases = [
        (
            (0x0140, [1, 0, 0, 0], asked.clone()),
            (0x81c0, [1, 0, 0, 0], asked.clone()),
            "NOERROR",
        ),
        (
            (0x0105, [1, 0, 0, 0], asked.clone()),
            (0x818c, [1, 0, 0, 0], asked.clone()),
            "RCODE12",
        ),
        (
            (0x0100, [1, 1, 0, 0], [&asked[..], &a].concat()),
            (0x8180, [1, 0, 0, 0], asked.clone()),
            "NOERROR",
        ),
        (
            (0x0300, [1, 0, 0, 0], asked.clone()),
            (0x8180, [1, 0, 0, 0], asked.clone()),
            "NOERROR",
        ),
        (
            (0x0100, [2, 0, 0, 0], both.clone()),
            (0x8181, [0; 4], Vec::new()),
            "FORMERR",
        ),
        (
            (0x0100, [2, 0, 0, 0], both.clone()),
            (0x8180, [2, 0, 0, 0], both),
            "NOERROR",
        ),
        (
            (0x1900, [1, 0, 0, 0], asked.clone()),
            (0x9984, [1, 0, 0, 0], asked.clone()),
            "NOTIMP",
        ),
    ];
    for ((flags, counts, rest), (flags2, counts2, rest2), code) in cases {
        let q = message(9, flags, counts, &rest);
        let a = message(9, flags2, counts2, &rest2);
        let expected = [format!("9 a A {code} - 0 1000 exact")];
        // The flow does not begin with the unusual message.
        let mut udp = talk();
        let mut tcp = talk();
        assert_eq!(
            udp.datagram(C, &q).datagram(S, &a).rows(),
            expected,
            "{q:x?}"
        );
        assert_eq!(
            tcp.client(framed(q.clone()))
                .server(framed(a.clone()))
                .rows(),
            expected,
            "{q:x?}"
        );
        assert_eq!(
            udp.counters.malformed_messages + tcp.counters.malformed_messages,
            0
        );
        if flags & 0x7800 == 0 {
            for (bytes, transport) in [(q.clone(), IpProtocol::UDP), (framed(q), IpProtocol::TCP)] {
                let context = ProbeContext {
                    transport,
                    usual_port: false,
                    midstream: false,
                    speaker: None,
                    answers: false,
                };
                assert_eq!(
                    (PROTOCOL.probe)(&bytes, context),
                    ProbeResult::Request,
                    "{bytes:x?}"
                );
            }
        }
    }
    // Without a question: cookie only.
    let opt = vec![0, 0, 41, 4, 0, 0, 0, 0, 0, 0, 0];
    let q = message(3, 0, [0, 0, 0, 1], &opt);
    let a = message(3, 0x8000, [0, 0, 0, 1], &opt);
    check(
        talk().datagram(C, &q).datagram(C, &q).datagram(S, &a),
        &["3 - - NOERROR - 1 2000 exact"],
    );
    // Counts beyond the end of the message are malformed.
    let mut short = talk();
    short.datagram(C, &message(1, 0x0140, [2, 0, 0, 0], &asked));
    assert_eq!(
        (short.rows().len(), short.counters.malformed_messages),
        (0, 1)
    );
}

#[test]
fn records_are_printed_in_presentation_format() {
    let check = |kind: u16, data: &[u8], expected: &str| {
        let answer = answer_of(1, "a.b", kind, 0, &[record(kind, 60, data)]);
        let mut talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, &["answers"]);
        assert_eq!(talk.datagram(S, &answer).rows(), [expected], "{data:?}");
    };
    let with_name = |head: &[u8], text: &str| [head, &name(text)].concat();
    check(
        28,
        &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        "2001:db8::1",
    );
    check(2, &name("Ns.b"), "ns.b");
    check(5, b"\x01x\xc0\x0c", "x.a.b");
    check(15, &with_name(&[0, 10], "mx.b"), "10 mx.b");
    check(16, b"\x03a,b\x02\"\xff", r#""a,b" "\"\255""#);
    check(
        33,
        &with_name(&[0, 1, 0, 2, 0x13, 0xc4], "sip.b"),
        "1 2 5060 sip.b",
    );
    let soa = [
        name("ns.b"),
        name("me.b"),
        [1u32, 2, 3, 4, 5].map(u32::to_be_bytes).concat(),
    ]
    .concat();
    check(6, &soa, "ns.b me.b 1 2 3 4 5");
    check(
        65,
        b"\0\x01\0\0\x01\0\x06\x02h2\x02h3\0\x03\0\x02\x01\xbb\0\x04\0\x04\x0a\0\0\x01",
        r#"1 . alpn="h2,h3" port=443 ipv4hint="10.0.0.1""#,
    );
    check(43, b"\x01\0\x08\x02\xab\xcd", "256 8 2 abcd");
    check(257, b"\0\x05issuele.org", r#"0 issue "le.org""#);
    check(46, b"\0\x01", "RRSIG");
    check(1, &[1, 2, 3], "-");
    check(5, b"\xc0\xff", "-");
    check(16, b"\x09a", "-");
    check(65, b"\0\x01\0\0\x01\0\xff", "-");
}

#[test]
fn the_header_and_the_records_together() {
    let fields = &[
        "answer_count",
        "ttl_min",
        "truncated",
        "authoritative",
        "recursion_desired",
        "response_code",
        "opcode",
    ];
    let records = [record(A, 300, &[1, 2, 3, 4]), record(A, 20, &[1, 2, 3, 5])].concat();
    let rest = [name("a"), vec![0, 1, 0, 1], records].concat();
    let mut talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, fields);
    talk.datagram(C, &question(1, "a"))
        .datagram(S, &message(1, 0x8600, [1, 2, 0, 0], &rest));
    assert_eq!(talk.rows(), ["2 20 true true true NOERROR query"]);
    // BADVERS: the OPT record has the upper bits.
    let opt = [vec![0, 0, 41, 4, 0, 1, 0, 0, 0, 0, 0]].concat();
    let rest = [name("a"), vec![0, 1, 0, 1], opt].concat();
    let mut talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, fields);
    talk.datagram(C, &question(1, "a"))
        .datagram(S, &message(1, 0x8000, [1, 0, 0, 1], &rest));
    assert_eq!(talk.rows(), ["0 - false false true BADVERS query"]);
    // The records of an UPDATE are not answers.
    let mut talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, fields);
    let rest = [name("a"), vec![0, 6, 0, 1], record(A, 0, &[])].concat();
    talk.datagram(C, &message(1, 0x2800, [1, 1, 0, 0], &rest));
    talk.datagram(S, &message(1, 0xa805, [1, 1, 0, 0], &rest));
    assert_eq!(talk.rows(), ["- - false false false REFUSED update"]);
}

#[test]
fn missing_bytes_of_a_stream() {
    let [q, a] = [question(1, "aa"), answer(1, "aa")].map(framed);
    let [q2, a2] = [question(2, "bb"), answer(2, "bb")].map(framed);
    let late = a.len() - 4;
    // The last bytes of a response are missing: its code is known, its contents are not.
    let mut talk1 = talk();
    talk1
        .client(&q)
        .server(&a[..late])
        .gap(S, 4)
        .client(&q2)
        .server(&a2);
    check(
        &mut talk1,
        &[
            "1 aa A NOERROR - 0 1000 gap_body",
            "2 bb A NOERROR 10.0.0.9 0 1000 exact",
        ],
    );
    // The first bytes of a message are missing: the next message is found.
    let mut talk2 = talk();
    talk2
        .client(&q)
        .client(&q2)
        .gap(S, 6)
        .server(&a[6..])
        .server(&a2);
    check(
        &mut talk2,
        &[
            "2 bb A NOERROR 10.0.0.9 0 3000 resync",
            "1 aa A - - 0 - half",
        ],
    );
    // The question was not captured.
    let mut talk3 = talk();
    talk3
        .gap(C, q.len() as u64)
        .server(&a)
        .client(&q2)
        .server(&a2);
    check(
        &mut talk3,
        &[
            "1 aa A NOERROR 10.0.0.9 - - half",
            "2 bb A NOERROR 10.0.0.9 0 1000 resync",
        ],
    );
    // Joined midway.
    let mut talk4 = talk().midstream();
    talk4.server(&a[9..]).client(&q2).server(&a2);
    check(&mut talk4, &["2 bb A NOERROR 10.0.0.9 0 1000 midstream"]);
}

#[test]
fn messages_that_are_none() {
    let mut junk = talk();
    junk.client([0, 3, 1, 2, 3])
        .client(framed(question(1, "a")))
        .server(framed(answer(1, "a")));
    check(&mut junk, &["1 a A NOERROR 10.0.0.9 0 1000 resync"]);
    assert_eq!(
        (junk.counters.malformed_messages, junk.counters.resyncs),
        (1, 1)
    );
}

#[test]
fn probe_recognizes_messages() {
    let check = |bytes: &[u8], transport, usual_port, expected| {
        let context = ProbeContext {
            transport,
            usual_port,
            midstream: false,
            speaker: None,
            answers: false,
        };
        assert_eq!((PROTOCOL.probe)(bytes, context), expected, "{bytes:?}");
    };
    let q = question(1, "a.b");
    let a = answer(1, "a.b");
    for usual in [false, true] {
        check(&q, IpProtocol::UDP, usual, ProbeResult::Request);
        check(&a, IpProtocol::UDP, usual, ProbeResult::Response);
        check(
            &framed(q.clone()),
            IpProtocol::TCP,
            usual,
            ProbeResult::Request,
        );
        check(
            &framed(a.clone())[..9],
            IpProtocol::TCP,
            usual,
            ProbeResult::NeedMore,
        );
        check(
            &framed(a.clone())[..25],
            IpProtocol::TCP,
            usual,
            ProbeResult::Response,
        );
    }
    // Truncated or with trailing bytes: only on the usual port.
    check(
        &a[..a.len() - 2],
        IpProtocol::UDP,
        false,
        ProbeResult::NotForUs,
    );
    check(
        &a[..a.len() - 2],
        IpProtocol::UDP,
        true,
        ProbeResult::Response,
    );
    check(
        &[q.clone(), vec![0]].concat(),
        IpProtocol::UDP,
        false,
        ProbeResult::NotForUs,
    );
    check(
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        IpProtocol::TCP,
        true,
        ProbeResult::NotForUs,
    );
    check(&[0; 40], IpProtocol::UDP, true, ProbeResult::NotForUs);
}

fn conversation() -> impl Strategy<Value = Vec<(Direction, Vec<u8>)>> {
    let name = prop::sample::select(vec![
        "a",
        "b.c",
        "a.very.long.name.that.goes.over.segments.example",
    ]);
    let message = (any::<bool>(), 0..3u16, name).prop_map(|(asks, id, name)| {
        if asks {
            (C, question(id, name))
        } else {
            (S, answer(id, name))
        }
    });
    prop::collection::vec(message, 0..12)
}

proptest! {
    #[test]
    fn tuples_do_not_depend_on_segmentation(messages in conversation(), sizes in prop::collection::vec(1..40usize, 1..8), lost in 0..30usize) {
        let lost = lost..lost + 7;
        let told = |sizes: &[usize]| {
            let mut talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, &FIELDS[..6]);
            let mut sizes = sizes.iter().cycle();
            for (i, (direction, message)) in messages.iter().enumerate() {
                let mut bytes = &framed(message.clone())[..];
                if i == 3 {
                    // Bytes are lost at the same position.
                    let from = lost.start.min(bytes.len());
                    let to = lost.end.min(bytes.len());
                    let before = &bytes[..from];
                    let behind = &bytes[to..];
                    for piece in before.chunks(*sizes.next().expect("a cycle")) {
                        talk.bytes(*direction, piece);
                    }
                    if to > from {
                        talk.gap(*direction, (to - from) as u64);
                    }
                    for piece in behind.chunks(*sizes.next().expect("a cycle")) {
                        talk.bytes(*direction, piece);
                    }
                    continue;
                }
                while !bytes.is_empty() {
                    let n = (*sizes.next().expect("a cycle")).min(bytes.len());
                    talk.bytes(*direction, &bytes[..n]);
                    bytes = &bytes[n..];
                }
            }
            talk.rows()
        };
        prop_assert_eq!(told(&sizes), told(&[1000]));
    }

    /// Reference implementation: a response answers the first waiting question with its id and name.
    #[test]
    fn answers_are_given_to_their_own_questions(messages in conversation()) {
        let mut talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, &["transaction_id", "query_name", "retries", "quality"]);
        let mut waiting = Vec::<(Vec<u8>, u32)>::new();
        let mut answered = 0;
        let mut expected = Vec::new();
        for (direction, message) in &messages {
            talk.bytes(*direction, &framed(message.clone()));
            let key = [&message[..2], &message[12..message.len() - if *direction == S { 16 } else { 0 }]].concat();
            let at = waiting.iter().position(|(asked, _)| *asked == key);
            match (direction, at) {
                (Direction::ClientToServer, Some(at)) => waiting[at].1 += 1,
                (Direction::ClientToServer, None) => waiting.push((key, 0)),
                (Direction::ServerToClient, Some(at)) => {
                    expected.push(waiting.remove(at).1);
                    answered += 1;
                }
                (Direction::ServerToClient, None) => {}
            }
        }
        let rows = talk.rows();
        let exact: Vec<_> = rows.iter().filter(|row| row.ends_with("exact")).collect();
        prop_assert_eq!(exact.len(), answered);
        for (row, retries) in exact.iter().zip(expected) {
            prop_assert_eq!(row.split(' ').nth(2), Some(&*retries.to_string()));
        }
    }

    #[test]
    fn nothing_panics(
        pieces in prop::collection::vec((any::<bool>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..60)), 0..20),
        head in conversation(),
        at in 0..200usize,
        udp in any::<bool>(),
    ) {
        let mut talk = talk();
        for (direction, message) in head {
            let mut message = if udp { message } else { framed(message) };
            let at = at % message.len();
            message[at] ^= 0x55;
            if udp { talk.datagram(direction, &message) } else { talk.bytes(direction, &message) };
        }
        for (client, gap, bytes) in pieces {
            let direction = if client { C } else { S };
            match (udp, gap) {
                (true, _) => talk.datagram(direction, &bytes),
                (_, true) => talk.gap(direction, bytes.len() as u64 + 1),
                (_, false) => talk.bytes(direction, &bytes),
            };
        }
        talk.rows();
    }
}
