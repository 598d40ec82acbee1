//! Connections joined midway, and gaps.

use super::*;

/// Connections joined within a message: the next message is found, and nothing is paired wrongly.
#[test]
fn connections_joined_midway() {
    let fields = &["summary", "returned_rows", "stream", "quality"];
    let mut talk = dialogue(fields).midstream();
    talk.server(vec![0x84; 700])
        .client(query(4, 1, "SELECT a FROM t"))
        .server(response(1, codes::RESULT, &rows(false, 3, 10)))
        .client(query(4, 1, "SELECT a FROM u"))
        .server(response(1, codes::RESULT, &rows(false, 4, 10)));
    assert_eq!(
        talk.rows().last().map(String::as_str),
        Some("SELECT u 4 1 exact")
    );
    for pack in [compressed_frame as fn(&[u8]) -> Vec<u8>, |payload| {
        frame(payload, true)
    }] {
        let mut talk = dialogue(fields).midstream();
        talk.server(vec![7; 700]);
        for table in ["t", "u", "v"] {
            let text = format!("SELECT a FROM {table}");
            talk.client(pack(&query(5, 1, &text)))
                .server(pack(&envelope(
                    0x85,
                    0,
                    1,
                    codes::RESULT,
                    &rows(false, 4, 10),
                )));
        }
        let rows = talk.rows();
        assert_eq!(
            rows.last().map(String::as_str),
            Some("SELECT v 4 1 exact"),
            "{rows:?}"
        );
        assert_eq!(rows.len(), 3, "{rows:?}");
    }
}

/// Missing bytes at every position of a conversation with frames and one without: rows are pairs of a request with its own response, or
/// halves.
#[test]
fn gaps_pair_nothing_wrongly() {
    for version in [4, 5] {
        let pack = |payload: Vec<u8>| {
            if version == 5 {
                frame(&payload, true)
            } else {
                payload
            }
        };
        let turns: Vec<[Vec<u8>; 2]> = (0..6)
            .map(|n| {
                let text = format!("SELECT a FROM t{n}");
                let answer = envelope(
                    version | 0x80,
                    0,
                    n % 3,
                    codes::RESULT,
                    &rows(false, 100 + n as u32, 20),
                );
                [pack(query(version, n % 3, &text)), pack(answer)]
            })
            .collect();
        for direction in [C, S] {
            for turn in 0..turns.len() {
                let length = turns[turn][direction as usize].len();
                for (from, to) in (0..length)
                    .step_by(3)
                    .map(|from| (from, length.min(from + 7)))
                {
                    let mut talk = dialogue(&["summary", "returned_rows", "quality"]);
                    talk.client(startup(version, "")).server(envelope(
                        version | 0x80,
                        0,
                        1,
                        codes::READY,
                        b"",
                    ));
                    for (n, messages) in turns.iter().enumerate() {
                        for (side, bytes) in [C, S].into_iter().zip(messages) {
                            if n == turn && side == direction {
                                talk.bytes(side, &bytes[..from]);
                                talk.gap(side, (to - from) as u64);
                                talk.bytes(side, &bytes[to..]);
                            } else {
                                talk.bytes(side, bytes);
                            }
                        }
                    }
                    let rows = talk.rows();
                    let mut pairs = 0;
                    for row in rows
                        .iter()
                        .filter(|row| row.starts_with("SELECT") && !row.contains(" - "))
                    {
                        let number = &row[8..9];
                        assert!(row.contains(&format!(" 10{number} ")), "{row}");
                        pairs += 1;
                    }
                    assert!(
                        pairs >= 3,
                        "{version} {direction:?} {turn} {from} {rows:#?}"
                    );
                }
            }
        }
    }
}
