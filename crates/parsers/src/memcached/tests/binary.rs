//! The binary protocol.

use super::*;

/// A message: magic, opcode, status or bucket, opaque, extras, key, value.
pub fn message(magic: u8, op: u8, status: u16, opaque: u32, parts: [&[u8]; 3]) -> Vec<u8> {
    let [extras, key, value] = parts;
    let mut m = vec![magic, op];
    m.extend((key.len() as u16).to_be_bytes());
    m.extend([extras.len() as u8, 0]);
    m.extend(status.to_be_bytes());
    m.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    m.extend(opaque.to_be_bytes());
    m.extend([0; 8]);
    [m.as_slice(), extras, key, value].concat()
}

pub fn ask(op: u8, opaque: u32, key: &str) -> Vec<u8> {
    message(0x80, op, 0, opaque, [b"", key.as_bytes(), b""])
}

pub fn store(op: u8, opaque: u32, key: &str, value: &str) -> Vec<u8> {
    message(
        0x80,
        op,
        0,
        opaque,
        [&[0; 8], key.as_bytes(), value.as_bytes()],
    )
}

pub fn tell(op: u8, status: u16, opaque: u32, value: &str) -> Vec<u8> {
    message(0x81, op, status, opaque, [b"", b"", value.as_bytes()])
}

pub fn hit(op: u8, opaque: u32, key: &str, value: &str) -> Vec<u8> {
    message(
        0x81,
        op,
        0,
        opaque,
        [&[0; 4], key.as_bytes(), value.as_bytes()],
    )
}

#[track_caller]
fn check_binary(steps: &[(Direction, Vec<u8>)], rows: &[&str]) {
    let mut d = dialogue(FIELDS);
    for (side, bytes) in steps {
        d.bytes(*side, bytes);
    }
    d.end(C).end(S);
    assert_eq!(d.rows(), rows);
}

#[test]
fn binary_commands() {
    check_binary(
        &[
            (C, store(1, 7, "k", "hello")),
            (S, tell(1, 0, 7, "")),
            (C, ask(0, 8, "k")),
            (S, hit(0, 8, "", "hello")),
            (C, ask(0x0c, 9, "x")),
            (S, tell(0x0c, 1, 9, "Not found")),
            (C, store(2, 10, "k", "x")),
            (S, tell(2, 2, 10, "exists")),
            (C, ask(4, 11, "k")),
            (S, tell(4, 0, 11, "")),
            (C, ask(4, 12, "k")),
            (S, tell(4, 1, 12, "Not found")),
            (C, ask(0x0b, 13, "")),
            (S, tell(0x0b, 0, 13, "1.6")),
            (C, ask(0x42, 14, "k")),
            (S, tell(0x42, 0x81, 14, "")),
            (C, ask(0x21, 15, "PLAIN")),
            (S, tell(0x21, 0x20, 15, "")),
            (C, store(1, 16, "k", "x")),
            (S, tell(1, 0x99, 16, "")),
            (C, ask(7, 17, "")),
            (S, tell(7, 0, 17, "")),
        ],
        &[
            "set k - 5 stored exact",
            "get k true 5 hit exact",
            "getk x false - miss exact",
            "add k - 1 exists exact",
            "delete k - - deleted exact",
            "delete k - - not_found exact",
            "version - - - ok exact",
            "0x42 k - - unknown_command exact",
            "sasl_auth - - - auth_error exact",
            "set k - 1 0x99 exact",
            "quit - - - ok exact",
        ],
    );
}

#[test]
fn binary_quiet_commands_are_resolved_by_later_responses() {
    let asked = [
        ask(0x0d, 0, "a"),
        ask(0x0d, 0, "b"),
        ask(0x0d, 0, "c"),
        store(0x11, 3, "s", "xyz"),
        ask(0x0a, 4, ""),
    ]
    .concat();
    let told = [hit(0x0d, 0, "b", "bb"), tell(0x0a, 0, 4, "")].concat();
    let rows = [
        "getkq a false - miss exact",
        "getkq b true 2 hit exact",
        "getkq c false - miss exact",
        "setq s - 3 stored exact",
        "noop - - - ok exact",
    ];
    check_binary(&[(C, asked), (S, told)], &rows);
    // A quitq is never answered, and the end of the server's stream resolves the rest.
    check_binary(
        &[(C, [store(0x11, 1, "s", "x"), ask(0x17, 2, "")].concat())],
        &["quitq - - - - exact", "setq s - 1 stored exact"],
    );
    let mut d = dialogue(FIELDS);
    d.client(store(0x11, 1, "s", "x"));
    assert_eq!(d.rows(), ["setq s - 1 - half"]);
}

#[test]
fn binary_stat_has_many_responses() {
    let stat = |k: &str, v: &str| message(0x81, 0x10, 0, 5, [b"", k.as_bytes(), v.as_bytes()]);
    check_binary(
        &[
            (C, ask(0x10, 5, "items")),
            (S, [stat("pid", "1"), stat("x", "")].concat()),
            (S, stat("", "")),
            (C, ask(0x0a, 6, "")),
            (S, tell(0x0a, 0, 6, "")),
        ],
        &["stat - - - ok exact", "noop - - - ok exact"],
    );
}

#[test]
fn binary_responses_may_come_out_of_order() {
    check_binary(
        &[
            (C, [ask(0, 1, "a"), ask(0, 2, "b")].concat()),
            (S, hit(0, 2, "", "bb")),
            (S, hit(0, 1, "", "a")),
        ],
        &["get a true 1 hit exact", "get b true 2 hit exact"],
    );
    check_binary(&[(S, hit(0x0c, 9, "k", "v"))], &["getk k true 1 hit half"]);
}

/// Quiet sets and a final noop, with opaques `opaque(i)`.
fn quiet_sets(n: usize, opaque: impl Fn(u32) -> u32) -> (Vec<String>, crate::ParserCounters) {
    let mut requests: Vec<u8> = (0..n as u32)
        .flat_map(|i| store(0x11, opaque(i), &format!("k{i}"), "v"))
        .collect();
    requests.extend(ask(0x0a, opaque(n as u32), ""));
    let mut d = dialogue(&["command", "cache_key", "status", "quality"]);
    (
        d.pipeline(&requests, &tell(0x0a, 0, opaque(n as u32), ""))
            .rows(),
        d.counters,
    )
}

#[test]
fn long_pipelines_of_quiet_sets() {
    for n in [300, 100_000] {
        for opaque in [|i| i + 1, |_| 0, |i: u32| i.swap_bytes()] {
            let (rows, counters) = quiet_sets(n, opaque);
            assert_eq!(
                (rows.len(), counters),
                (n + 1, crate::ParserCounters::default())
            );
            let is_right = |(i, row): (usize, &String)| *row == format!("setq k{i} stored exact");
            assert!(
                rows[..n].iter().enumerate().all(is_right),
                "{:?}",
                &rows[..3]
            );
            assert_eq!(rows[n], "noop - ok exact");
        }
    }
}

#[test]
fn long_pipelines_of_gets() {
    for (n, max, evicted) in [(100_000, 131_072, 0..=0), (5000, 2000, 3000..=3001)] {
        for step in [1, 0] {
            let requests: Vec<u8> = (0..n)
                .flat_map(|i| ask(0, 1 + i * step, &format!("k{i}")))
                .collect();
            let responses: Vec<u8> = (0..n)
                .flat_map(|i| hit(0, 1 + i * step, "", &"v".repeat(1 + i as usize % 5)))
                .collect();
            let mut d = dialogue(&["cache_key", "value_bytes", "quality"]);
            d.limits.outstanding_max = max;
            let rows = d.pipeline(&requests, &responses).rows();
            let crate::ParserCounters {
                evicted_requests,
                separated_halves,
                ..
            } = d.counters;
            assert_eq!(
                (rows.len(), separated_halves),
                (n as usize, evicted_requests),
                "{step}"
            );
            assert!(evicted.contains(&evicted_requests), "{evicted_requests}");
            for (i, row) in rows.iter().enumerate().skip(evicted_requests as usize) {
                assert_eq!(*row, format!("k{i} {} exact", 1 + i % 5));
            }
        }
    }
}
