//! Missing bytes, other segment boundaries, and hostile bytes.

use proptest::prelude::*;

use super::binary::{ask, hit, store, tell};
use super::*;

#[test]
fn a_gap_in_a_value_is_skipped() {
    let mut d = dialogue(FIELDS);
    d.client("set a 0 0 100\r\nab")
        .gap(C, 90)
        .client("12345678\r\nget a\r\n")
        .server("STORED\r\nVALUE a 0 100\r\n")
        .gap(S, 100)
        .server("\r\nEND\r\n");
    d.client("set b 0 0 100\r\n")
        .gap(C, 102)
        .server("STORED\r\n")
        .client("get a\r\n")
        .server("VALUE a 0 100\r\n")
        .gap(S, 107)
        .client("get b\r\n")
        .server("END\r\n");
    assert_eq!(
        d.rows(),
        [
            "set a - 100 stored gap_body",
            "get a true 100 hit gap_body",
            "set b - 100 stored gap_body",
            "get a true 100 hit gap_body",
            "get b false - miss exact"
        ]
    );
    let mut d = dialogue(FIELDS);
    d.client(&store(1, 1, "k", &"v".repeat(50))[..40])
        .gap(C, 43)
        .server(tell(1, 0, 1, ""))
        .client(ask(0, 2, "k"));
    d.server(&hit(0, 2, "", "0123456789")[..30])
        .gap(S, 8)
        .client(ask(0x0a, 3, ""))
        .server(tell(0x0a, 0, 3, ""));
    assert_eq!(
        d.rows(),
        [
            "set k - 50 stored gap_body",
            "get k true 10 hit gap_body",
            "noop - - - ok exact"
        ]
    );
}

#[test]
fn after_a_lost_request_order_proves_nothing() {
    let (mut d, n) = waiting_client(FIELDS);
    d.client("get a\r\n")
        .server("END\r\n")
        .gap(C, 7)
        .server("VALUE b 0 1\r\nb\r\nEND\r\n")
        .client("get c\r\n")
        .server("END\r\n")
        .client("get d\r\n")
        .server("END\r\n");
    assert_eq!(
        d.rows()[n..],
        [
            "get a false - miss exact",
            "- b true 1 hit half",
            "get c false - miss resync",
            "get d false - miss exact"
        ]
    );
    // Requests sent before the gap are still answered first.
    let (mut d, n) = waiting_client(FIELDS);
    d.client("get a\r\nget b\r\n")
        .gap(C, 7)
        .client("get d\r\n")
        .server("END\r\nEND\r\nEND\r\nEND\r\n");
    assert_eq!(
        d.rows()[n..],
        [
            "get a false - miss exact",
            "get b false - miss exact",
            "- - - - - half",
            "get d - - - half",
            "- - - - - half"
        ]
    );
}

#[test]
fn after_a_lost_response_order_proves_nothing() {
    let (mut d, n) = waiting_client(FIELDS);
    d.client("get a\r\n")
        .gap(S, 5)
        .client("get b\r\n")
        .server("END\r\n")
        .client("get c\r\n")
        .server("END\r\n")
        .client("get d\r\n")
        .server("END\r\n");
    assert_eq!(
        d.rows()[n..],
        [
            "get a - - - half",
            "get b false - miss resync",
            "get c false - miss exact",
            "get d false - miss exact"
        ]
    );
    // A client that sends several requests at once may have sent the next ones before all were answered.
    let (mut d, n) = waiting_client(FIELDS);
    d.client("get a\r\n")
        .client("get b\r\n")
        .gap(S, 5)
        .server("END\r\n")
        .client("get c\r\n")
        .server("END\r\n")
        .client("get d\r\n")
        .server("END\r\n");
    assert_eq!(
        d.rows()[n..],
        [
            "get a - - - half",
            "get b - - - half",
            "get c - - - half",
            "- - - - - half",
            "get d - - - half",
            "- - - - - half"
        ]
    );
    // Part of the response was seen: its contents are kept.
    let (mut d, n) = waiting_client(FIELDS);
    d.client("get a b\r\n")
        .server("VALUE a 0 1\r\nx\r\nVAL")
        .gap(S, 20);
    assert_eq!(
        d.rows()[n..],
        ["get a true 1 hit gap_body", "get b - - - gap_body"]
    );
}

#[test]
fn rising_opaques_prove_pairs_after_a_gap() {
    let mut d = dialogue(FIELDS);
    for i in 1..3 {
        d.client(ask(0, i, "0")).server(hit(0, i, "", "0"));
    }
    d.client(ask(0, 3, "a"))
        .server(hit(0, 3, "", "a"))
        .client(ask(0, 4, "b"))
        .gap(S, 29)
        .client(ask(0, 5, "c"))
        .server(hit(0, 5, "", "c"));
    assert_eq!(
        d.rows()[2..],
        [
            "get a true 1 hit exact",
            "get b - - - half",
            "get c true 1 hit resync"
        ]
    );
    // Constant opaques prove nothing, but the client waited for each response.
    let mut d = dialogue(FIELDS);
    d.client(ask(0, 0, "a"))
        .server(hit(0, 0, "", "a"))
        .client(ask(0, 0, "b"))
        .gap(S, 29)
        .client(ask(0, 0, "c"))
        .server(hit(0, 0, "", "c"));
    assert_eq!(
        d.rows()[1..],
        ["get b - - - half", "get c true 1 hit resync"]
    );
}

#[test]
fn silence_after_a_gap_is_silence_only_if_the_responses_were_seen() {
    let quiet = [ask(0x09, 0, "a"), ask(0x0a, 0, "")].concat();
    let mut d = dialogue(FIELDS);
    for _ in 0..4 {
        d.client(ask(0, 0, "x")).server(hit(0, 0, "", "x"));
    }
    d.client(&quiet)
        .gap(S, 30)
        .server(tell(0x0a, 0, 0, ""))
        .client(&quiet)
        .server(tell(0x0a, 0, 0, ""));
    assert_eq!(
        d.rows()[4..],
        [
            "getq a - - - half",
            "noop - - - ok resync",
            "getq a false - miss exact",
            "noop - - - ok exact"
        ]
    );
}

#[test]
fn a_connection_joined_midway() {
    let mut d = dialogue(FIELDS).midstream();
    d.server("rest of a value\r\nEND\r\n")
        .client("xyz\r\nget a\r\n")
        .server("END\r\n")
        .client("get b\r\n")
        .server("END\r\n")
        .client("get c\r\n")
        .server("END\r\n");
    // `get a` may be a part of the message that ends with `xyz`.
    assert_eq!(
        d.rows(),
        ["get b false - miss midstream", "get c false - miss exact"]
    );
}

/// One transaction of a generated connection: request and response.
fn transaction(form: u8, i: u32, opaques: u8) -> (Vec<u8>, Vec<u8>) {
    let key = format!("key{}", i % 3);
    let value = "v".repeat(i as usize % 50);
    let opaque = if opaques == 0 { 0 } else { i };
    match form % 8 {
        0 => (format!("get {key}\r\n").into(), b"END\r\n".into()),
        1 => (
            format!("get {key}\r\n").into(),
            format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len()).into(),
        ),
        2 => (
            format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()).into(),
            b"STORED\r\n".into(),
        ),
        3 => (
            format!("incr {key} 1\r\n").into(),
            format!("{i}\r\n").into(),
        ),
        4 => (
            format!("mg {key} v\r\n").into(),
            format!("VA {}\r\n{value}\r\n", value.len()).into(),
        ),
        5 => (
            b"stats\r\n".into(),
            b"STAT a b\r\nSTAT c d\r\nEND\r\n".into(),
        ),
        6 => (
            format!("get {key} other\r\n").into(),
            format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len()).into(),
        ),
        _ => (format!("bogus {opaque}\r\n").into(), b"ERROR\r\n".into()),
    }
}

fn binary_transaction(form: u8, i: u32, opaques: u8) -> (Vec<u8>, Vec<u8>) {
    let key = format!("key{}", i % 3);
    let value = "v".repeat(i as usize % 50);
    let opaque = if opaques == 0 { 0 } else { i };
    match form % 4 {
        0 => (ask(0, opaque, &key), hit(0, opaque, "", &value)),
        1 => (ask(0, opaque, &key), tell(0, 1, opaque, "Not found")),
        2 => (store(1, opaque, &key, &value), tell(1, 0, opaque, "")),
        _ => (ask(0x0a, opaque, ""), tell(0x0a, 0, opaque, "")),
    }
}

/// Plays transactions, `batch` in flight, in segments of `cut` bytes; `lost` segments are missing. The
/// response time of transaction i is 1 + i microseconds; returns the response times found, with the send
/// times of the requests.
fn play_lossy(
    transactions: &[(Vec<u8>, Vec<u8>)],
    batch: usize,
    cut: usize,
    lost: &[bool],
) -> Vec<(i64, i64)> {
    let mut segments: Vec<(Direction, Vec<u8>, i64)> = Vec::new();
    let mut now = 0;
    for (b, group) in transactions.chunks(batch).enumerate() {
        for (q, _) in group {
            now += 1_000_000;
            q.chunks(cut)
                .for_each(|c| segments.push((C, c.to_vec(), now)));
        }
        for (i, (_, r)) in group.iter().enumerate() {
            now += 100_000 + ((b * batch + i) as i64 + 1) * 1000;
            r.chunks(cut)
                .for_each(|c| segments.push((S, c.to_vec(), now)));
        }
    }
    let mut d = dialogue(&["response_time_ns", "ts", "quality"]);
    for (at, (side, bytes, ts)) in segments.into_iter().enumerate() {
        d.now_us = ts / 1000 - 1;
        if lost[at % lost.len()] {
            d.gap(side, bytes.len() as u64)
        } else {
            d.bytes(side, &bytes)
        };
    }
    d.rows()
        .iter()
        .filter_map(|row| {
            let mut words = row.split(' ');
            let response = words.next()?.parse().ok()?;
            let sent = words.next()?.parse().ok()?;
            // If a gap contains the end of a message, its time is that of the gap.
            (words.next()? != "gap_body").then_some((sent, response))
        })
        .collect()
}

/// Expected response times by the send time of the request, for requests of one segment.
fn right_times(n: usize, batch: usize) -> std::collections::HashMap<i64, i64> {
    let mut right = std::collections::HashMap::new();
    let mut now = 0i64;
    for b in 0..n.div_ceil(batch) {
        let group = b * batch..n.min((b + 1) * batch);
        let mut sent = Vec::new();
        for _ in group.clone() {
            now += 1_000_000;
            sent.push(now);
        }
        for i in group.clone() {
            now += 100_000 + (i as i64 + 1) * 1000;
            right.insert(sent[i - group.start], now - sent[i - group.start]);
        }
    }
    right
}

/// One request and the last response of the same batch are missing; the response is shorter than any other.
#[test]
fn a_lost_request_and_a_lost_short_response_leave_no_pair() {
    let mut forms = [0u8; 10];
    forms[7] = 3;
    forms[8] = 3;
    let all: Vec<_> = (0..)
        .zip(forms)
        .map(|(i, form)| transaction(form, i, 0))
        .collect();
    let mut lost = [false; 30];
    for at in [4, 13, 17] {
        lost[at] = true;
    }
    let right = right_times(all.len(), 3);
    for (sent, response) in play_lossy(&all, 3, 4096, &lost) {
        assert_eq!(right.get(&sent), Some(&response), "request sent at {sent}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn tuples_do_not_depend_on_segmentation(
        forms in prop::collection::vec((0u8..8, 0u32..200), 1..20), cuts in prop::collection::vec(1usize..40, 1..20), binary: bool, pipelined: bool,
    ) {
        let make = if binary { binary_transaction } else { transaction };
        let all: Vec<_> = forms.iter().map(|(form, i)| make(*form, *i, 1)).collect();
        let mut whole = dialogue(FIELDS);
        let mut pieces = dialogue(FIELDS);
        let mut cut = cuts.iter().cycle();
        let mut play = |side, bytes: &[u8]| {
            whole.bytes(side, bytes);
            let mut rest = bytes;
            while !rest.is_empty() {
                let (head, tail) = rest.split_at((*cut.next().expect("endless")).min(rest.len()));
                pieces.bytes(side, head);
                rest = tail;
            }
        };
        if pipelined {
            let (q, r): (Vec<_>, Vec<_>) = all.into_iter().unzip();
            play(C, &q.concat());
            play(S, &r.concat());
        } else {
            for (q, r) in all {
                play(C, &q);
                play(S, &r);
            }
        }
        prop_assert_eq!(whole.rows(), pieces.rows());
    }

    #[test]
    fn nothing_is_mispaired_after_losses(
        forms in prop::collection::vec((0u8..8, 0u32..200), 4..40), lost in prop::collection::vec(prop::bool::weighted(0.08), 30..120),
        binary: bool, batch in prop_oneof![3 => Just(1usize), 1 => 2usize..4], opaques in 0u8..2,
    ) {
        let make = if binary { binary_transaction } else { transaction };
        let all: Vec<_> = forms.iter().enumerate().map(|(i, (form, _))| make(*form, i as u32, opaques)).collect();
        let right = right_times(all.len(), batch);
        for (sent, response) in play_lossy(&all, batch, 4096, &lost) {
            prop_assert_eq!(right.get(&sent), Some(&response), "request sent at {}", sent);
        }
    }

    #[test]
    fn hostile_bytes_do_no_harm(
        steps in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 1..200), 0u64..3000), 1..60), binary: bool, midstream: bool,
    ) {
        let mut d = dialogue(FIELDS);
        if midstream {
            d = d.midstream();
        }
        d.client(if binary { ask(0, 1, "k") } else { b"get k\r\n".to_vec() });
        for (client, bytes, gap) in steps {
            let side = if client { C } else { S };
            if gap > 2000 {
                d.gap(side, gap - 2000);
            }
            d.bytes(side, &bytes);
            d.datagram(side, &bytes);
        }
        d.rows();
    }

    #[test]
    fn hostile_words_do_no_harm(
        steps in prop::collection::vec((any::<bool>(), prop::sample::select(vec![
            "get ", "get k\r\n", "set k 0 0 3\r\n", "abc\r\n", "mg k q\r\n", "mg k q O1\r\n", "VALUE k 0 3\r\n", "END\r\n", "VA 3 O1\r\n", "\n", "stats\r\n", "STAT a\r\n",
            "watch\r\n", "OK\r\n", "noreply", " ", "ms k 4294967296\r\n", "set k 0 0 2147483645 noreply\r\n", "MN\r\n", "mn\r\n", "ERROR\r\n", "HD\r\n", "VALUE k 0 18446744073709551615\r\n",
        ]), 0u64..40), 1..100), midstream: bool,
    ) {
        let mut d = dialogue(FIELDS);
        if midstream {
            d = d.midstream();
        }
        for (client, bytes, gap) in steps {
            let side = if client { C } else { S };
            if gap > 30 {
                d.gap(side, gap);
            }
            d.bytes(side, bytes.as_bytes());
        }
        d.rows();
    }
}
