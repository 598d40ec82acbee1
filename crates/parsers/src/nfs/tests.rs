//! Conversations in bytes and the expected tuples.

mod losses;
mod properties;

use testkit::XdrWriter;
use xxhash_rust::xxh3::xxh3_64;

use super::*;
use crate::dialogue::ParserDialogue;
use crate::{ProbeContext, ProbeResult};

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;

fn call_of(xid: u32, program: u32, version: u32, procedure: u32) -> XdrWriter {
    let sys = XdrWriter::default()
        .u32(1)
        .opaque(b"box")
        .words(&[10, 20, 0]);
    XdrWriter::default()
        .words(&[xid, 0, 2, program, version, procedure])
        .u32(1)
        .opaque(&sys.0)
        .words(&[0, 0])
}

fn call(xid: u32, procedure: u32) -> XdrWriter {
    call_of(xid, programs::NFS, 3, procedure)
}

fn reply(xid: u32) -> XdrWriter {
    XdrWriter::default().words(&[xid, 1, 0, 0, 0, 0])
}

fn read(xid: u32, offset: u64, count: u32) -> XdrWriter {
    call(xid, 6).opaque(b"FILE").u64(offset).u32(count)
}

fn read_reply(xid: u32, data: &[u8]) -> XdrWriter {
    reply(xid)
        .words(&[0, 1])
        .attributes(1 << 20)
        .words(&[data.len() as u32, 0])
        .opaque(data)
}

fn write(xid: u32, offset: u64, data: &[u8]) -> XdrWriter {
    call(xid, 7)
        .opaque(b"FILE")
        .u64(offset)
        .words(&[data.len() as u32, 2])
        .opaque(data)
}

fn write_reply(xid: u32, count: u32) -> XdrWriter {
    reply(xid)
        .words(&[0, 1])
        .u64(5)
        .words(&[1, 2, 3, 4, 1])
        .attributes(6)
        .words(&[count, 2])
        .u64(0)
}

fn getattr(xid: u32) -> XdrWriter {
    call(xid, 1).opaque(b"FILE")
}

fn getattr_reply(xid: u32) -> XdrWriter {
    reply(xid).u32(0).attributes(3)
}

fn lookup(xid: u32, directory: &[u8], name: &str) -> XdrWriter {
    call(xid, 3).opaque(directory).opaque(name.as_bytes())
}

fn lookup_reply(xid: u32, handle: &[u8]) -> XdrWriter {
    reply(xid).u32(0).opaque(handle).words(&[0, 0])
}

fn talk(fields: &[&'static str]) -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema_rpc(), ALL, fields)
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * i / 7) as u8).collect()
}

fn sums(data: &[u8]) -> String {
    data.chunks_exact(512)
        .map(|b| format!("{:016x}", xxh3_64(b)))
        .collect::<Vec<_>>()
        .join(" ")
}

const SHORT: &[&str] = &["xid", "procedure", "status", "response_time_ns", "quality"];

#[test]
fn a_call_and_its_reply() {
    let mut t = talk(&[
        "xid",
        "program",
        "version",
        "procedure",
        "auth",
        "uid",
        "gid",
        "machine",
        "file_handle",
        "rpc_status",
        "status",
        "file_type",
        "file_size",
        "mtime",
        "call_time_ns",
        "response_time_ns",
        "transfer_time_ns",
        "request_bytes",
        "response_bytes",
    ]);
    let ask = getattr(7).record();
    let answer = getattr_reply(7).record();
    t.client(&ask[..30])
        .client(&ask[30..])
        .server(&answer[..9])
        .server(&answer[9..]);
    let n = ask.len() - 4;
    let m = answer.len() - 4;
    assert_eq!(
        t.rows(),
        [format!(
            "7 nfs 3 GETATTR sys 10 20 box 46494c45 success ok file 3 3000000004 1000 1000 1000 {n} {m}"
        )]
    );
}

#[test]
fn replies_in_any_order_and_several_messages_in_a_segment() {
    let mut t = talk(SHORT);
    t.client(
        [
            getattr(1).record(),
            read(2, 0, 9).record(),
            getattr(3).record(),
        ]
        .concat(),
    );
    t.server([getattr_reply(3).record(), getattr_reply(1).record()].concat());
    t.server(read_reply(2, b"123456789").record());
    assert_eq!(
        t.rows(),
        [
            "3 GETATTR ok 1000 exact",
            "1 GETATTR ok 1000 exact",
            "2 READ ok 2000 exact"
        ]
    );
}

#[test]
fn a_reply_comes_while_a_call_is_under_way() {
    let mut t = talk(SHORT);
    let long = write(3, 0, &data(3000)).record();
    t.client([getattr(1).record(), getattr(2).record()].concat())
        .client(&long[..1000]);
    t.server(getattr_reply(1).record())
        .client(&long[1000..2000])
        .server(getattr_reply(2).record());
    t.client(&long[2000..])
        .server(write_reply(3, 3000).record());
    assert_eq!(
        t.rows(),
        [
            "1 GETATTR ok 2000 exact",
            "2 GETATTR ok 4000 exact",
            "3 WRITE ok 1000 exact"
        ]
    );
}

#[test]
fn data_are_checked_on_the_way() {
    let fields = &[
        "procedure",
        "offset",
        "count",
        "result_count",
        "aligned",
        "stable",
        "committed",
        "block_checksums",
    ];
    let data = data(2000);
    let mut t = talk(fields);
    for piece in write(1, 1024, &data).fragments(700).chunks(333) {
        t.client(piece);
    }
    t.server(write_reply(1, 2000).record());
    t.client(read(2, 500, 2048).record());
    for piece in read_reply(2, &data).fragments(900).chunks(100) {
        t.server(piece);
    }
    let all = sums(&data);
    let inner = sums(&data[12..]);
    assert_eq!(
        t.rows(),
        [
            format!("WRITE 1024 2000 2000 false file_sync file_sync {all}"),
            format!("READ 500 2048 2000 false - - {inner}")
        ]
    );
}

#[test]
fn unrequested_data_is_not_checked() {
    let schema = std::sync::Arc::new(schema_rpc());
    let wanted = [schema.find("xid").expect("a field")];
    let mut taps = [crate::ParserSubscription::new(
        ALL,
        tuple::TupleWriter::new(schema, &wanted),
    )];
    let end = |n| wire::Endpoint {
        addr: wire::Addr::v4([10, 0, 0, n]),
        port: 2049,
    };
    let flow = crate::FlowContext {
        id: 1,
        client: end(1),
        server: end(2),
        protocol: wire::IpProtocol::TCP,
        client_guessed: false,
        midstream: false,
        sample_rate: 1.0,
        tunnel: wire::Tunnel::default(),
        vlan: None,
        proxied: None,
        decrypted: None,
    };
    let mut counters = crate::ParserCounters::default();
    let mut out = ParserOutput::new(&flow, Timestamp(1), &mut counters, &mut taps);
    let mut parser = NfsParser::default();
    parser.on_bytes(
        C,
        crate::StreamSegment {
            bytes: &write(1, 0, &data(60_000)).record(),
            ts: Timestamp(1),
            place: flow::StreamPlace::default(),
        },
        &mut out,
    );
    parser.on_bytes(
        S,
        crate::StreamSegment {
            bytes: &write_reply(1, 60_000).record(),
            ts: Timestamp(1),
            place: flow::StreamPlace::default(),
        },
        &mut out,
    );
    assert_eq!(taps[0].writer.rows(), 1);
    assert!(counters.copied_bytes < 200, "{counters:?}");
}

#[test]
fn names_are_learned() {
    let mut t = talk(&["procedure", "name", "to_name", "path"]);
    let rename = call(4, 14)
        .opaque(b"ROOT")
        .opaque(b"a")
        .opaque(b"ROOT")
        .opaque(b"z");
    let list = reply(6)
        .words(&[0, 0])
        .u64(0)
        .words(&[1])
        .u64(5)
        .opaque(b"x")
        .u64(1)
        .words(&[0, 1])
        .opaque(b"XX");
    t.client(
        call_of(9, programs::MOUNT, 3, 1)
            .opaque(b"/export")
            .record(),
    );
    t.server(reply(9).u32(0).opaque(b"ROOT").words(&[1, 1]).record());
    t.client(lookup(1, b"ROOT", "a").record())
        .server(lookup_reply(1, b"DIR1").record());
    t.client(lookup(2, b"DIR1", "b").record())
        .server(lookup_reply(2, b"FILE").record());
    t.client(read(3, 0, 1).record())
        .server(read_reply(3, b"1").record());
    t.client(rename.record())
        .server(reply(4).words(&[0, 0, 0, 0, 0]).record());
    t.client(read(5, 0, 1).record())
        .server(read_reply(5, b"1").record());
    t.client(
        call(6, 17)
            .opaque(b"DIR1")
            .u64(0)
            .u64(0)
            .words(&[1, 1])
            .record(),
    );
    t.server(list.words(&[0, 1]).record());
    t.client(call(7, 1).opaque(b"XX").record())
        .server(getattr_reply(7).record());
    assert_eq!(
        t.rows(),
        [
            "MNT /export - /export",
            "LOOKUP a - /export/a",
            "LOOKUP b - /export/a/b",
            "READ - - /export/a/b",
            "RENAME a z /export/a",
            "READ - - /export/z/b",
            "READDIRPLUS - - /export/z",
            "GETATTR - - /export/z/x",
        ]
    );
}

#[test]
fn rejected_calls() {
    let mut t = talk(&["procedure", "rpc_status", "status", "quality"]);
    t.client(getattr(1).record())
        .server(XdrWriter::default().words(&[1, 1, 1, 1, 5]).record());
    t.client(call_of(2, 100_227, 3, 1).record())
        .server(XdrWriter::default().words(&[2, 1, 0, 0, 0, 1]).record());
    t.client(getattr(3).record())
        .server(reply(3).u32(70).record());
    t.client(call_of(4, 200_000, 1, 9).record())
        .server(reply(4).words(&[1, 2, 3]).record());
    assert_eq!(
        t.rows(),
        [
            "GETATTR auth_error - exact",
            "GETACL prog_unavail - exact",
            "GETATTR success stale exact",
            "9 success - exact"
        ]
    );
}

#[test]
fn calls_that_are_sent_again() {
    let fields = &["xid", "response_time_ns", "retransmitted", "quality"];
    let mut t = talk(fields);
    for direction in [C, C, S, S, C, S] {
        t.datagram(
            direction,
            &if direction == C {
                getattr(1)
            } else {
                getattr_reply(1)
            }
            .0,
        );
    }
    assert_eq!(t.counters.retransmitted_calls, 2);
    assert_eq!(t.counters.repeated_replies, 1);
    assert_eq!(t.rows(), ["1 2000 1 exact", "1 1000 1 exact"]);
    // The xid is reused: the earlier call has no reply.
    let mut t = talk(SHORT);
    t.client(getattr(1).record())
        .client(read(1, 0, 5).record())
        .server(read_reply(1, b"12345").record());
    assert_eq!(t.rows(), ["1 GETATTR - - half", "1 READ ok 1000 exact"]);
}

#[test]
fn halves() {
    let mut t = talk(SHORT);
    t.server(getattr_reply(5).record())
        .client(getattr(6).record());
    assert_eq!(t.rows(), ["5 - - - half", "6 GETATTR - - half"]);
}

#[test]
fn replies_that_come_before_their_calls() {
    let fields = &[
        "xid",
        "procedure",
        "name",
        "response_time_ns",
        "block_checksums",
        "quality",
    ];
    let data = data(1500);
    let asked = [
        read(1, 512, 2000),
        lookup(2, b"ROOT", "x"),
        read(3, 7, 2000),
    ];
    let answered = [
        read_reply(1, &data),
        lookup_reply(2, b"FILE"),
        read_reply(3, &data),
        getattr_reply(9),
    ];
    let mut t = talk(fields);
    t.wait_us(10);
    answered
        .iter()
        .for_each(|answer| _ = t.datagram(S, &answer.0));
    // Earlier calls of the client are captured later.
    t.now_us = 0;
    asked.iter().for_each(|ask| _ = t.datagram(C, &ask.0));
    t.wait_us(2000).datagram(C, &getattr(9).0);
    let all = sums(&data);
    assert_eq!(
        t.rows(),
        [
            format!("1 READ - 10000 {all} exact"),
            "2 LOOKUP x 10000 - exact".to_owned(),
            "3 READ - 10000 - exact".to_owned(),
            "9 - - - - half".to_owned(),
            "9 GETATTR - - - half".to_owned(),
        ]
    );
}

#[test]
fn calls_that_wait_are_bounded() {
    let mut t = talk(SHORT);
    t.limits.rpc_bytes_max = 64 << 10;
    (0..1000).for_each(|xid| _ = t.client(getattr(xid).record()));
    (0..1000).for_each(|xid| _ = t.server(getattr_reply(9999 + xid).record()));
    let refused = t.counters.evicted_requests;
    assert!((1500..1800).contains(&refused), "{refused}");
    assert_eq!(t.rows().len(), 2000);
}

/// With `ahead` outstanding calls, answered in the order of `shuffle`, of which `lost` in 1000 are not;
/// returns the number of 4000 that were paired.
fn paired_under_load(ahead: u32, shuffle: impl Fn(u32) -> u32, lost: u32) -> usize {
    let mut t = talk(&["quality"]);
    t.limits.rpc_bytes_max = 64 << 10;
    for i in 0..4000 + ahead {
        if i < 4000 {
            t.client(getattr(i).record());
        }
        if let Some(xid) = i
            .checked_sub(ahead)
            .map(&shuffle)
            .filter(|xid| xid * 7919 % 1000 >= lost)
        {
            t.server(getattr_reply(xid).record());
        }
    }
    t.rows().iter().filter(|row| *row == "exact").count()
}

#[test]
fn under_load_as_many_are_paired_as_there_is_room_for() {
    let room = 290;
    let check = |ahead, shuffle: fn(u32) -> u32, lost, least: u32| {
        let paired = paired_under_load(ahead, shuffle, lost);
        assert!(
            paired >= least as usize,
            "{paired} of {least}, {ahead} under way, {lost} lost"
        );
    };
    let in_order = |xid| xid;
    let backward_by_16 = |xid| xid ^ 15;
    check(100, in_order, 0, 4000);
    check(100, backward_by_16, 0, 4000);
    for ahead in [500, 1000, 2000] {
        check(ahead, in_order, 0, 4000 * room / ahead);
        check(ahead, backward_by_16, 0, 4000 * room / ahead);
    }
    // Unanswered calls are removed eventually.
    check(100, in_order, 100, 3600);
    check(100, backward_by_16, 200, 3200);
    check(500, in_order, 100, 3600 * room / 500 / 2);
}

#[test]
fn calls_without_replies_make_room_in_time() {
    let mut t = talk(SHORT);
    t.limits.rpc_bytes_max = 64 << 10;
    (0..1000).for_each(|xid| _ = t.client(getattr(xid).record()));
    t.wait_us(11_000_000)
        .client(getattr(5000).record())
        .server(getattr_reply(5000).record());
    assert!(t.rows().contains(&"5000 GETATTR ok 1000 exact".to_owned()));
}

#[test]
fn a_number_used_again_is_another_call() {
    let mut t = talk(&["xid", "offset", "status", "retransmitted", "quality"]);
    t.client(read(1, 0, 5).record())
        .client(read(1, 512, 5).record())
        .server(read_reply(1, b"12345").record());
    t.client(read(2, 0, 5).record())
        .client(read(2, 0, 5).record())
        .server(read_reply(2, b"12345").record());
    assert_eq!(
        t.rows(),
        ["1 0 - 0 half", "1 512 ok 0 exact", "2 0 ok 1 exact"]
    );
}

#[test]
fn bodies_that_are_protected_are_not_read() {
    let gss = XdrWriter::default().words(&[1, 0, 1, 3]).opaque(b"ctx");
    let ask = XdrWriter::default()
        .words(&[1, 0, 2, programs::NFS, 3, 6])
        .u32(6)
        .opaque(&gss.0)
        .words(&[0, 0]);
    let mut t = talk(&[
        "procedure",
        "auth",
        "file_handle",
        "rpc_status",
        "status",
        "quality",
    ]);
    t.client(ask.opaque(&[9; 60]).record());
    t.server(
        XdrWriter::default()
            .words(&[1, 1, 0, 6])
            .opaque(&[1; 28])
            .u32(0)
            .opaque(&[9; 99])
            .record(),
    );
    assert_eq!(t.counters.protected_messages, 2);
    assert_eq!(t.rows(), ["READ gss_privacy - success - exact"]);
}

#[test]
fn compounds() {
    let mut t = talk(&[
        "procedure",
        "operations",
        "status",
        "file_handle",
        "offset",
        "count",
    ]);
    let ask = call_of(1, programs::NFS, 4, 1)
        .opaque(b"tag")
        .words(&[1, 4, 53]);
    let ask = ask
        .words(&[0; 8])
        .u32(22)
        .opaque(b"FILE")
        .u32(25)
        .words(&[0; 4])
        .u64(512)
        .u32(100);
    t.client(ask.clone().words(&[9, 1, 3]).record())
        .server(reply(1).words(&[0, 0, 0]).record());
    t.client(ask.words(&[42, 0, 0]).record())
        .server(reply(1).words(&[70, 0, 0]).record());
    assert_eq!(
        t.rows(),
        [
            "COMPOUND SEQUENCE PUTFH READ GETATTR ok 46494c45 512 100",
            "COMPOUND SEQUENCE PUTFH READ EXCHANGE_ID ... stale 46494c45 512 100"
        ]
    );
}

#[test]
fn probing() {
    let check = |bytes: &[u8], udp, midstream, expected| {
        let transport = if udp {
            wire::IpProtocol::UDP
        } else {
            wire::IpProtocol::TCP
        };
        let context = ProbeContext {
            transport,
            usual_port: false,
            midstream,
            speaker: None,
            answers: false,
        };
        assert_eq!(
            scan::probe(bytes, context),
            expected,
            "{}",
            bytes.escape_ascii()
        );
    };
    let ask = getattr(1).record();
    let answer = getattr_reply(1).record();
    check(&ask, false, false, ProbeResult::Request);
    check(&ask[..20], false, false, ProbeResult::NeedMore);
    check(&ask[..2], false, false, ProbeResult::NeedMore);
    check(&answer, false, false, ProbeResult::Response);
    check(&ask[4..], true, false, ProbeResult::Request);
    check(&answer[4..], true, false, ProbeResult::NotForUs);
    check(&ask[4..20], true, false, ProbeResult::NotForUs);
    check(
        &[&[7; 99], &ask[..]].concat(),
        false,
        false,
        ProbeResult::NotForUs,
    );
    check(
        &[&[7; 99], &ask[..]].concat(),
        false,
        true,
        ProbeResult::Request,
    );
    check(
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        false,
        false,
        ProbeResult::NotForUs,
    );
    check(&[0; 64], false, false, ProbeResult::NotForUs);
    check(&[0; 64], true, false, ProbeResult::NotForUs);
}
