//! Gaps, truncated packets, and the search for the next message.

use super::*;

#[test]
fn a_gap_in_data_is_passed_over() {
    let fields = &[
        "xid",
        "result_count",
        "block_checksums",
        "response_time_ns",
        "transfer_time_ns",
        "quality",
    ];
    let data = data(2048);
    let mut t = talk(fields);
    let answer = read_reply(1, &data).record();
    let begin = answer.len() - 2048;
    t.client(read(1, 0, 2048).record())
        .server(&answer[..begin + 600])
        .gap(S, 500)
        .server(&answer[begin + 1100..]);
    t.client(getattr(2).record())
        .server(getattr_reply(2).record());
    let all = sums(&data);
    let all: Vec<_> = all.split(' ').collect();
    assert_eq!(
        t.rows(),
        [
            format!("1 2048 {} - - {} 1000 2000 gap_body", all[0], all[3]),
            "2 - - 1000 0 exact".to_owned()
        ]
    );
    assert_eq!(t.counters.resyncs, 0);
}

#[test]
fn truncated_bytes_count_as_received() {
    let mut t = talk(&[
        "procedure",
        "file_handle",
        "call_time_ns",
        "response_time_ns",
        "transfer_time_ns",
        "quality",
    ]);
    let ask = getattr(1).record();
    let answer = getattr_reply(1).record();
    for (direction, bytes) in [(C, ask), (S, answer)] {
        t.bytes(direction, &bytes[..30]);
        // At the same time.
        t.now_us -= 1;
        t.gap(direction, bytes.len() as u64 - 30);
    }
    assert_eq!(t.rows(), ["GETATTR - 0 1000 0 gap_body"]);
}

#[test]
fn behind_a_loss_the_next_message_is_found() {
    let mut t = talk(SHORT);
    t.client(getattr(1).record())
        .server(getattr_reply(1).record());
    let lost = getattr(2).record();
    let next = getattr(3).record();
    t.gap(C, 30)
        .client(&lost[30..])
        .client(&next[..13])
        .client(&next[13..]);
    t.server(getattr_reply(2).record())
        .server(getattr_reply(3).record());
    t.client(getattr(4).record())
        .server(getattr_reply(4).record());
    assert_eq!(
        t.rows(),
        [
            "1 GETATTR ok 1000 exact",
            "3 GETATTR ok 2000 resync",
            "2 - - - half",
            "4 GETATTR ok 1000 exact"
        ]
    );
    assert_eq!(t.counters.resyncs, 1);
    // A reply without an outstanding call is not accepted as a reply.
    let mut t = talk(SHORT);
    t.client(
        [
            getattr(1).record(),
            getattr(2).record(),
            getattr(3).record(),
        ]
        .concat(),
    );
    t.server(&getattr_reply(1).record()[..50])
        .gap(S, 200)
        .server(getattr_reply(9).record());
    t.server([&b"\0\0"[..], &getattr_reply(3).record()].concat());
    assert_eq!(
        t.rows(),
        [
            "1 GETATTR ok 1000 gap_body",
            "3 GETATTR ok 4000 resync",
            "2 GETATTR - - half"
        ]
    );
}

#[test]
fn false_calls_after_a_gap_are_dropped() {
    let mut t = talk(SHORT);
    let noise = [&getattr(8).record()[..], b"this is not the next record"].concat();
    t.client(getattr(1).record())
        .server(getattr_reply(1).record());
    t.gap(C, 30)
        .client(noise)
        .client(getattr(2).record())
        .server(getattr_reply(2).record());
    assert_eq!(
        t.rows(),
        ["1 GETATTR ok 1000 exact", "2 GETATTR ok 1000 resync"]
    );
}

#[test]
fn midstream() {
    let mut t = talk(SHORT).midstream();
    t.server(&read_reply(1, &data(900)).record()[300..])
        .client([&b"abc"[..], &getattr(2).record()].concat());
    t.server(getattr_reply(2).record())
        .client(getattr(3).record())
        .server(getattr_reply(3).record());
    assert_eq!(
        t.rows(),
        ["2 GETATTR ok 1000 midstream", "3 GETATTR ok 1000 exact"]
    );
}

#[test]
fn replies_alone() {
    let check = |mut t: ParserDialogue, at: usize| {
        let replies: Vec<Vec<u8>> = (1..5)
            .map(|xid| {
                [getattr_reply(xid), read_reply(xid, &data(3000))][xid as usize % 2]
                    .clone()
                    .record()
            })
            .collect();
        t.gap(C, 200);
        t.gap(S, at as u64);
        replies
            .iter()
            .for_each(|reply| reply.chunks(1000).for_each(|piece| _ = t.server(piece)));
        assert_eq!(
            t.rows(),
            [
                "1 - - - half",
                "2 - - - half",
                "3 - - - half",
                "4 - - - half"
            ]
        );
    };
    check(talk(SHORT), 7);
    check(talk(SHORT).midstream(), 7);
}

#[test]
fn calls_in_file_data_are_none() {
    let inner = |xid| call(xid, 12).opaque(b"ROOT").opaque(b"never sent").record();
    // The mark of the last one includes the bytes after it.
    let mut stored = [inner(7777), getattr(7778).record(), inner(7779)].concat();
    let last = stored.len() - inner(7779).len();
    stored[last..last + 4].copy_from_slice(&0x8400_0000u32.to_be_bytes());
    let lost = write(1, 0, &stored).record();
    let begin = lost.len() - stored.len();
    let mut t = talk(&["xid", "procedure", "name", "status", "quality"]);
    t.client(getattr(9).record())
        .server(getattr_reply(9).record());
    t.gap(C, begin as u64)
        .client(&lost[begin..])
        .server(write_reply(1, stored.len() as u32).record());
    for xid in 2..5 {
        t.client(getattr(xid).record())
            .server(getattr_reply(xid).record());
    }
    let expected = [
        "9 GETATTR - ok exact",
        "1 - - - half",
        "2 GETATTR - ok resync",
    ];
    assert_eq!(
        t.rows(),
        [
            &expected[..],
            &["3 GETATTR - ok exact", "4 GETATTR - ok exact"]
        ]
        .concat()
    );
}

/// File data may contain a copy of a reply that is missing in the capture.
#[test]
fn copies_of_replies_in_file_data_are_none() {
    let copies = [
        &[7; 100][..],
        &getattr_reply(1).record(),
        &getattr(1).record(),
        &[7; 100],
    ]
    .concat();
    let reply = read_reply(2, &copies).record();
    let mut t = talk(SHORT);
    t.client(getattr(1).record())
        .gap(S, getattr_reply(1).record().len() as u64);
    // The client has received the reply, so it can have written the copy that it reads.
    t.client(read(2, 0, 4096).record())
        .gap(S, 40)
        .server(&reply[40..]);
    t.client(getattr(3).record())
        .server(getattr_reply(3).record());
    assert_eq!(
        t.rows(),
        [
            "3 GETATTR ok 1000 resync",
            "1 GETATTR - - half",
            "2 READ - - half"
        ]
    );
    // The client has not received anything since it called, so this is no copy.
    let mut t = talk(SHORT);
    t.client([read(1, 0, 4096).record(), getattr(2).record()].concat());
    t.gap(S, 40)
        .server([&reply[40..], &getattr_reply(2).record()].concat());
    assert_eq!(t.rows(), ["2 GETATTR ok 2000 resync", "1 READ - - half"]);
}

#[test]
fn confirmed_calls_confirm_later_ones() {
    // Three calls after a loss: the reply to the last one comes first, the one to the second never.
    let mut t = talk(SHORT);
    t.client(getattr(1).record())
        .server(getattr_reply(1).record())
        .gap(C, 50);
    t.client(
        [
            getattr(2).record(),
            getattr(3).record(),
            getattr(4).record(),
        ]
        .concat(),
    );
    t.server(getattr_reply(2).record())
        .client(getattr(5).record())
        .server(getattr_reply(4).record());
    let rows = [
        "1 GETATTR ok 1000 exact",
        "2 GETATTR ok 1000 resync",
        "4 GETATTR ok 3000 exact",
    ];
    assert_eq!(
        t.rows(),
        [&rows[..], &["3 GETATTR - - half", "5 GETATTR - - half"]].concat()
    );
}

#[test]
fn a_second_reply_is_counted() {
    let mut t = talk(SHORT);
    t.client(getattr(1).record())
        .server(getattr_reply(1).record())
        .server(getattr_reply(1).record());
    t.client(getattr(2).record())
        .server(getattr_reply(2).record());
    assert_eq!(
        t.rows(),
        ["1 GETATTR ok 1000 exact", "2 GETATTR ok 1000 exact"]
    );
    assert_eq!(t.counters.repeated_replies, 1);
}

#[test]
fn details_of_a_cut_call() {
    let settings = |x: XdrWriter| x.words(&[1, 0o600, 1, 5, 1, 6, 0, 0, 0]);
    let whole = settings(call(1, 11).opaque(b"ROOT").opaque(b"disk").u32(3))
        .words(&[8, 9])
        .record();
    let check = |len: usize, expected: &str| {
        let mut t = talk(&["procedure", "details", "quality"]);
        t.client(&whole[..len]);
        if len < whole.len() {
            t.gap(C, (whole.len() - len) as u64);
        }
        t.server(reply(1).u32(13).words(&[0, 0]).record());
        assert_eq!(t.rows(), [expected]);
    };
    check(
        whole.len(),
        "MKNOD major=8 minor=9 set_uid=5 set_gid=6 exact",
    );
    check(whole.len() - 4, "MKNOD - gap_body");
    check(whole.len() - 8, "MKNOD - gap_body");
}
