//! Segment boundaries, and random bytes.

use proptest::prelude::*;

use super::*;

fn talks() -> [[Vec<u8>; 2]; 2] {
    let client = [
        startup(4, "lz4"),
        query(4, 4, "SELECT a FROM t"),
        prepare(2, "SELECT a FROM orders"),
        execute(3, ID),
        query(4, 5, &"UPDATE t SET a = 'long' ".repeat(40)),
    ];
    let server = [
        response(1, codes::READY, b""),
        prepared(2, ID),
        response(4, codes::RESULT, &rows(true, 7, 3000)),
        response(
            -1,
            codes::EVENT,
            &[string("STATUS_CHANGE"), string("UP")].concat(),
        ),
        error(3, 0x2500, &[&[0, 16][..], ID].concat()),
        void(5),
    ];
    [[client.concat(), server.concat()], framed_talk()]
}

/// Bytes in the order of `cuts`, which alternate between both sides.
fn rows_of(talk: &[Vec<u8>; 2], size: usize) -> Vec<String> {
    let mut dialogue = dialogue(&[
        "command",
        "query",
        "result",
        "returned_rows",
        "error",
        "quality",
        "request_bytes",
        "response_bytes",
    ]);
    let start = 9 + usize::from(talk[0][8]);
    for bytes in [&talk[0][..start], &talk[0][start..]] {
        for segment in bytes.chunks(size) {
            dialogue.bytes_unheard(C, segment);
        }
        if bytes.len() == start {
            for segment in talk[1][..9].chunks(size) {
                dialogue.server(segment);
            }
        }
    }
    for segment in talk[1][9..].chunks(size) {
        dialogue.server(segment);
    }
    dialogue.rows()
}

#[test]
fn segment_boundaries_do_not_matter() {
    for talk in talks() {
        let whole = rows_of(&talk, usize::MAX);
        assert!(whole.len() >= 4, "{whole:?}");
        for size in [1, 2, 3, 5, 7, 8, 9, 10, 64, 511, 512, 513, 1448, 70_000] {
            assert_eq!(rows_of(&talk, size), whole, "{size}");
        }
    }
}

/// Every split into two segments.
#[test]
fn splits_at_every_byte() {
    let [talk, _] = talks();
    let fields = &["command", "result", "returned_rows", "error", "quality"];
    let mut whole = Vec::new();
    for side in [C, S] {
        for at in 0..talk[side as usize].len() {
            let mut dialogue = dialogue(fields);
            for direction in [C, S] {
                let bytes = &talk[direction as usize];
                if direction == side {
                    dialogue
                        .bytes(direction, &bytes[..at])
                        .bytes(direction, &bytes[at..]);
                } else {
                    dialogue.bytes(direction, bytes);
                }
            }
            let rows = dialogue.rows();
            if whole.is_empty() {
                whole = rows.clone();
            }
            assert_eq!(rows, whole, "{side:?} {at}");
        }
    }
    assert_eq!(whole.len(), 6);
}

proptest! {
    #[test]
    fn nothing_panics(turns in proptest::collection::vec((any::<bool>(), any::<bool>(), proptest::collection::vec(any::<u8>(), 0..200), 0u64..300), 0..20)) {
        for is_midstream in [false, true] {
            let mut talk = dialogue(MAIN);
            if is_midstream {
                talk = talk.midstream();
            }
            let [conversation, _] = talks();
            for (is_client, is_gap, bytes, length) in &turns {
                let direction = if *is_client { C } else { S };
                if *is_gap {
                    talk.gap(direction, *length);
                } else {
                    talk.bytes(direction, bytes);
                    let real = &conversation[direction as usize];
                    talk.bytes(direction, &real[..real.len().min(*length as usize)]);
                }
            }
            talk.rows();
        }
    }
}
