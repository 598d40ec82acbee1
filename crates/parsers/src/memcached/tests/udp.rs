//! Frames over UDP.

use super::binary::{ask, hit};
use super::*;

fn framed(id: u16, number: u16, total: u16, payload: &[u8]) -> Vec<u8> {
    let mut d = Vec::new();
    [id, number, total, 0]
        .iter()
        .for_each(|w| d.extend(w.to_be_bytes()));
    d.extend_from_slice(payload);
    d
}

#[test]
fn udp_messages_are_matched_by_id() {
    let mut d = dialogue(FIELDS);
    d.datagram(C, &framed(1, 0, 1, b"get a b\r\n"))
        .datagram(C, &framed(2, 0, 1, b"get c\r\n"));
    d.datagram(C, &framed(3, 0, 1, &ask(0, 9, "k")))
        .datagram(C, &framed(4, 0, 1, b"get lost\r\n"));
    d.datagram(S, &framed(2, 1, 2, b"cc\r\nEND\r\n"))
        .datagram(S, &framed(3, 0, 1, &hit(0, 9, "", "kkk")));
    // One message per value, as sent by 1.6.
    d.datagram(S, &framed(1, 0, 1, b"VALUE b 0 1\r\nb\r\n"))
        .datagram(S, &framed(2, 0, 2, b"VALUE c 0 4\r\ncc"))
        .datagram(S, &framed(1, 0, 1, b"END\r\n"));
    d.datagram(C, &framed(5, 0, 1, b"set n 0 0 1 noreply\r\nx\r\n"))
        .datagram(S, &[1, 2, 3])
        .datagram(S, &framed(9, 0, 1, b"END\r\n"));
    assert_eq!(
        d.rows(),
        [
            "get k true 3 hit exact",
            "get c true 4 hit exact",
            "get a false - miss exact",
            "get b true 1 hit exact",
            "set n - 1 - exact",
            "get lost - - - half",
            "- - - - - half",
        ]
    );
    assert_eq!(d.counters.malformed_messages, 1);
}

#[test]
fn udp_requests_are_bounded() {
    let mut d = dialogue(&["quality"]);
    for id in 0..2000 {
        d.datagram(C, &framed(id, 0, 1, b"get a\r\n"));
    }
    assert_eq!(
        (d.rows().len(), d.counters.evicted_requests),
        (2000, 2000 - 256)
    );
}

/// Plays datagrams of one key each: `q` and `r` with the request id, `.` for two seconds. Checks the tuples'
/// values and qualities.
#[track_caller]
fn check_ids(script: &str, expected: &str) {
    let mut d = dialogue(&["value_bytes", "quality"]);
    for (i, step) in script.split(' ').enumerate() {
        let id = step
            .get(1..)
            .and_then(|id| id.parse().ok())
            .unwrap_or_default();
        match &step[..1] {
            "q" => d.datagram(C, &framed(id, 0, 1, b"get a\r\n")),
            // The value length identifies the response.
            "r" => {
                let answer = format!("VALUE a 0 {i}\r\n{}\r\nEND\r\n", "x".repeat(i));
                d.datagram(S, &framed(id, 0, 1, answer.as_bytes()))
            }
            _ => d.wait_us(2_000_000),
        };
    }
    assert_eq!(d.rows().join(", "), expected, "{script}");
}

#[test]
fn a_response_captured_before_its_request_is_paired_if_ids_tell() {
    let begin = "q1 r1 q2 r2 q3 r3 q4 r4";
    let pairs = "1 exact, 3 exact, 5 exact, 7 exact";
    check_ids(begin, pairs);
    check_ids(
        &format!("{begin} r5 q5 q6 r6"),
        &format!("{pairs}, 8 untimed, 11 exact"),
    );
    check_ids(
        &format!("{begin} r6 r5 q5 q6"),
        &format!("{pairs}, 9 untimed, 8 untimed"),
    );
    // The request does not follow.
    check_ids(
        &format!("{begin} r9 q5 r5"),
        &format!("{pairs}, 10 exact, 8 half"),
    );
    // If ids repeat, it may be the response to an earlier request.
    check_ids(
        "q1 r1 q1 r1 q1 r1 q1 r1 q1 r1 r1 q1",
        "1 exact, 3 exact, 5 exact, 7 exact, 9 exact, 10 half, - half",
    );
    // Same if the client's behavior is unknown.
    check_ids("r1 q1", "0 half, - half");
}

#[test]
fn reused_ids_are_ambiguous() {
    check_ids("q1 q1 r1 r1", "- half, - half, 2 half, 3 half");
    check_ids("q1 q1 r1 q1 r1", "- half, - half, 2 half, - half, 4 half");
    // No datagram is in flight any more.
    check_ids("q1 . q1 r1", "- half, 3 exact");
    check_ids("q1 q1 r1 . q1 r1", "- half, - half, 2 half, 5 exact");
}
