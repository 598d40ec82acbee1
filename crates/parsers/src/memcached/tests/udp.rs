//! Frames over UDP.

use super::binary::{ask, hit};
use super::*;

fn framed(id: u16, number: u16, total: u16, payload: &[u8]) -> Vec<u8> {
    let mut d = Vec::new();
    [id, number, total, 0].iter().for_each(|w| d.extend(w.to_be_bytes()));
    d.extend_from_slice(payload);
    d
}

#[test]
fn udp_messages_are_matched_by_id() {
    let mut d = dialogue(FIELDS);
    d.datagram(C, &framed(1, 0, 1, b"get a b\r\n")).datagram(C, &framed(2, 0, 1, b"get c\r\n"));
    d.datagram(C, &framed(3, 0, 1, &ask(0, 9, "k"))).datagram(C, &framed(4, 0, 1, b"get lost\r\n"));
    d.datagram(S, &framed(2, 1, 2, b"cc\r\nEND\r\n")).datagram(S, &framed(3, 0, 1, &hit(0, 9, "", "kkk")));
    // One message for each value, as 1.6 sends.
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
    assert_eq!((d.rows().len(), d.counters.evicted_requests), (2000, 2000 - 256));
}
