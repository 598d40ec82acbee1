//! Random conversations: any division into segments gives the same tuples, and exact tuples stay true after losses.

use proptest::prelude::*;

use super::*;

/// One operation of a random conversation: call and reply; `len` is the data length.
fn operation(xid: u32, kind: u8, len: usize) -> (XdrWriter, XdrWriter) {
    let data = data(len);
    match kind {
        0 => (read(xid, 100 * len as u64, 4096), read_reply(xid, &data)),
        1 => (write(xid, 512, &data), write_reply(xid, len as u32)),
        2 => (lookup(xid, b"ROOT", "name"), lookup_reply(xid, b"FILE")),
        _ => (getattr(xid), getattr_reply(xid)),
    }
}

type NfsTestMessage = (Direction, Vec<u8>);

fn conversation(operations: &[(u8, usize, usize)]) -> Vec<NfsTestMessage> {
    let each = operations
        .iter()
        .enumerate()
        .flat_map(|(i, (kind, len, fragment))| {
            let (ask, answer) = operation(i as u32, *kind, *len);
            [
                (C, ask.fragments(*fragment)),
                (S, answer.fragments(*fragment)),
            ]
        });
    each.collect()
}

const ALL_BUT_TIMES: &[&str] = &[
    "xid",
    "procedure",
    "status",
    "path",
    "offset",
    "count",
    "result_count",
    "block_checksums",
    "file_size",
    "request_bytes",
    "response_bytes",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tuples_do_not_depend_on_segmentation(
        operations in proptest::collection::vec((0..4u8, 0..3000usize, 40..4000usize), 1..12),
        n in 1..1500usize,
    ) {
        let mut whole = talk(ALL_BUT_TIMES);
        let mut cut = talk(ALL_BUT_TIMES);
        for (direction, bytes) in conversation(&operations) {
            whole.bytes(direction, &bytes);
            bytes.chunks(n).for_each(|piece| _ = cut.bytes(direction, piece));
        }
        let rows = whole.rows();
        prop_assert_eq!(rows.len(), operations.len());
        prop_assert_eq!(rows, cut.rows());
        prop_assert_eq!(cut.counters.resyncs + cut.counters.malformed_messages, 0);
    }

    #[test]
    fn exact_tuples_are_correct_after_losses(
        operations in proptest::collection::vec((0..4u8, 0..3000usize, 400..4000usize), 1..20),
        n in 1..1500usize,
        lost in proptest::collection::vec(any::<u16>(), 0..6),
    ) {
        let sent = conversation(&operations);
        let pieces: Vec<(Direction, &[u8])> =
            sent.iter().flat_map(|(d, bytes)| bytes.chunks(n).map(|piece| (*d, piece))).collect();
        let fields = [ALL_BUT_TIMES, &["response_time_ns", "transfer_time_ns", "total_time_ns", "call_time_ns", "quality"]].concat();
        let fields: Vec<_> = fields.into_iter().filter(|f| *f != "path").collect();
        let mut whole = talk(&fields);
        let mut holed = talk(&fields);
        for (i, (direction, piece)) in pieces.iter().enumerate() {
            whole.bytes(*direction, piece);
            if lost.iter().any(|l| usize::from(*l) % pieces.len() == i) {
                holed.gap(*direction, piece.len() as u64);
            } else {
                holed.bytes(*direction, piece);
            }
        }
        let whole = whole.rows();
        let holed = holed.rows();
        prop_assert_eq!(whole.len(), operations.len());
        let exact = |row: &&String| row.ends_with("exact");
        prop_assert!(holed.iter().filter(exact).all(|row| whole.contains(row)), "{:#?}\n{:#?}", whole, holed);
        // No pair is wrong.
        let named = |row: &String| row.split(' ').take(2).collect::<Vec<_>>().join(" ");
        for row in holed.iter().map(named).filter(|row| !row.ends_with('-')) {
            prop_assert!(whole.iter().any(|was| named(was) == row), "{:#?}\n{}", whole, row);
        }
    }

    #[test]
    fn nothing_panics(
        steps in proptest::collection::vec((any::<bool>(), 0..7u8, 0..2000usize, any::<u32>()), 0..40),
        midstream in any::<bool>(),
    ) {
        let t = talk(ALL_BUT_TIMES);
        let mut t = if midstream { t.midstream() } else { t };
        for (client, kind, len, noise) in steps {
            let direction = if client { C } else { S };
            let (ask, answer) = operation(noise % 8, kind % 4, len);
            let mut bytes = if noise & 8 == 0 { ask } else { answer }.record();
            let at = noise as usize / 16 % bytes.len();
            match kind {
                5 => _ = t.gap(direction, noise.into()),
                6 => _ = t.datagram(direction, &bytes[4..at.max(4)]),
                4 => {
                    bytes[at] ^= 1 << (noise % 8);
                    t.bytes(direction, &bytes);
                }
                _ => _ = t.bytes(direction, &bytes[..at]),
            }
        }
        t.rows();
    }
}
