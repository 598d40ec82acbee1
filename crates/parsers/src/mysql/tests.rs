//! Dialogues of a client and a server with the expected tuples, and any cut of one; with gaps and joined midway: `losses.rs`.

mod losses;

use proptest::prelude::*;
use testkit::mysql::packet;

use super::{ALL, PROTOCOL, schema};
use crate::Direction::{ClientToServer, ServerToClient};
use crate::dialogue::ParserDialogue;
use crate::{Direction, ParserCounters};

const SHOWN: &[&str] = &[
    "quality",
    "command",
    "user",
    "database",
    "query",
    "rows",
    "affected_rows",
    "error_code",
    "response_time_ns",
    "transfer_time_ns",
];

/// Bytes of one end; some may be missing.
#[derive(Clone, Debug)]
enum MysqlTestStep {
    Client(Vec<u8>),
    Server(Vec<u8>),
    Gap(Direction, u64),
}

use MysqlTestStep::{Client, Gap, Server};

fn packets(payloads: &[&[u8]]) -> MysqlTestStep {
    Server(
        payloads
            .iter()
            .enumerate()
            .flat_map(|(i, p)| packet(i as u8 + 1, p))
            .collect(),
    )
}

fn ask(code: u8, body: impl AsRef<[u8]>) -> MysqlTestStep {
    Client(packet(0, [&[code], body.as_ref()].concat()))
}

fn query(sql: &str) -> MysqlTestStep {
    ask(3, sql)
}

const OK: &[u8] = &[0, 1, 0, 2, 0, 0, 0];
const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];
const DEF: &[u8] = b"\x03def";
const ROW: &[u8] = b"\x01a\x01b";
const ERR: &[u8] = b"\xff\x7a\x04#42S02no such table";

fn two_rows() -> MysqlTestStep {
    packets(&[&[2], DEF, DEF, EOF, ROW, ROW, EOF])
}

fn greeting(capabilities: u32) -> MysqlTestStep {
    Server(testkit::mysql::greeting(capabilities))
}

fn login(capabilities: u32) -> MysqlTestStep {
    let mut p = capabilities.to_le_bytes().to_vec();
    p.extend([0, 0, 0, 1, 45]);
    p.extend([0; 23]);
    p.extend(b"app\0\x02pwshop\0");
    Client(packet(1, p))
}

/// Protocol 4.1 with a database and passwords of 4.1.
const PLAIN: u32 = 0x828d;

fn opening(capabilities: u32) -> Vec<MysqlTestStep> {
    vec![
        greeting(capabilities),
        login(capabilities),
        Server(packet(2, OK)),
    ]
}

fn play(d: &mut ParserDialogue, says: &[MysqlTestStep]) -> (Vec<String>, ParserCounters) {
    for say in says {
        match say {
            Client(bytes) => d.client(bytes),
            Server(bytes) => d.server(bytes),
            Gap(direction, len) => d.gap(*direction, *len),
        };
    }
    (d.rows(), d.counters)
}

fn dialogue() -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), ALL, SHOWN)
}

#[track_caller]
fn check(says: &[MysqlTestStep], expected: &[&str]) {
    assert_eq!(play(&mut dialogue(), says).0, expected);
}

#[track_caller]
fn check_midstream(says: &[MysqlTestStep], expected: &[&str]) {
    assert_eq!(play(&mut dialogue().midstream(), says).0, expected);
}

/// Plays a login and then `says`; checks all tuples.
#[track_caller]
fn check_commands(says: &[MysqlTestStep], expected: &[&str]) {
    let (rows, _) = play(&mut dialogue(), &[opening(PLAIN), says.to_vec()].concat());
    assert_eq!(rows[0], "exact login app shop - - 1 - 1000 0");
    assert_eq!(rows[1..], *expected);
}

#[test]
fn a_session() {
    check_commands(
        &[
            query("SELECT a, b FROM t"),
            two_rows(),
            query("UPDATE t SET a = 1"),
            packets(&[OK]),
            query("SELECT * FROM nosuch"),
            packets(&[ERR]),
            ask(2, "other"),
            packets(&[OK]),
            query("USE `third`"),
            packets(&[OK]),
            ask(0x0e, ""),
            packets(&[OK]),
            ask(9, ""),
            packets(&[b"Uptime: 1"]),
            ask(1, ""),
        ],
        &[
            "exact query app shop SELECT a, b FROM t 2 - - 1000 0",
            "exact query app shop UPDATE t SET a = 1 - 1 - 1000 0",
            "exact query app shop SELECT * FROM nosuch - - 1146 1000 0",
            "exact init_db app other other - 1 - 1000 0",
            "exact query app third USE `third` - 1 - 1000 0",
            "exact ping app third - - 1 - 1000 0",
            "exact statistics app third - - - - 1000 0",
            "exact quit app third - - - - - -",
        ],
    );
}

/// No client sends `COM_SLEEP`: its code is the first byte of damaged or misread packets.
#[test]
fn internal_commands_are_no_requests() {
    check_commands(
        &[
            ask(0, [0; 7]),
            packets(&[OK]),
            query("COMMIT"),
            packets(&[OK]),
        ],
        &[
            "half - - - - - 1 - - 0",
            "resync query app shop COMMIT - 1 - 1000 0",
        ],
    );
}

#[test]
fn logins_of_many_rounds() {
    let switch = b"\xfecaching_sha2_password\0salt";
    let more = b"\x01\x04";
    check(
        &[
            greeting(PLAIN),
            login(PLAIN),
            Server(packet(2, switch)),
            Client(packet(3, "scrambled")),
            Server(packet(4, more)),
            Client(packet(5, [2])),
            Server(packet(6, b"\x01key")),
            Client(packet(7, "secret")),
            Server(packet(8, OK)),
            query("SELECT 1"),
            packets(&[ERR]),
        ],
        &[
            "exact login app shop - - 1 - 1000 6000",
            "exact query app shop SELECT 1 - - 1146 1000 0",
        ],
    );
    check(
        &[greeting(PLAIN), login(PLAIN), Server(packet(2, ERR))],
        &["exact login app shop - - - 1146 1000 0"],
    );
    check(
        &[greeting(PLAIN), login(PLAIN)],
        &["half login app shop - - - - - -"],
    );
    check(&[greeting(PLAIN)], &[]);
    check(
        &[Server(packet(0, b"\xff\x10\x04Too many connections"))],
        &["half connect - - - - - 1040 - 0"],
    );
    check_commands(
        &[
            ask(0x11, b"bob\0\x02pwdb2\0\x21\0"),
            packets(&[switch]),
            Client(packet(2, "x")),
            Server(packet(3, OK)),
            ask(0x0e, ""),
            packets(&[OK]),
        ],
        &[
            "exact change_user bob db2 - - 1 - 1000 2000",
            "exact ping bob db2 - - 1 - 1000 0",
        ],
    );
}

#[test]
fn parsing_ends_with_tls() {
    let mut request = vec![0x8d, 0xae, 0, 0];
    request.extend([0; 28]);
    let says = [
        greeting(0xae8d),
        Client(packet(1, request)),
        Client(b"\x16\x03\x01".to_vec()),
        query("SELECT 1"),
    ];
    let (rows, counters) = play(&mut dialogue(), &says);
    assert_eq!(rows, ["exact ssl_request - - - - - - - -"]);
    assert_eq!(counters.encrypted_flows, 1);
}

#[test]
fn results_of_several_kinds() {
    const EOF_MORE: &[u8] = &[0xfe, 0, 0, 10, 0];
    check_commands(
        &[
            query("CALL two()"),
            packets(&[
                &[1],
                DEF,
                EOF,
                ROW,
                EOF_MORE,
                &[1],
                DEF,
                EOF,
                ROW,
                ROW,
                EOF_MORE,
                OK,
            ]),
            query("LOAD DATA LOCAL INFILE 'f' INTO TABLE t"),
            packets(&[b"\xfbf"]),
            Client(packet(2, "1,2\n")),
            Client(packet(3, "3,4\n")),
            Client(packet(4, "")),
            Server(packet(5, OK)),
            ask(4, "t\0"),
            packets(&[DEF, DEF, EOF]),
            ask(0x12, [0; 10]),
            packets(&[&[0, 1, 2], &[0, 1, 2]]),
            query("SELECT 1"),
        ],
        &[
            "exact query app shop CALL two() 3 1 - 1000 0",
            "exact query app shop LOAD DATA LOCAL INFILE 'f' INTO TABLE t - 1 - 1000 4000",
            "exact field_list app shop - - - - 1000 0",
            "exact binlog_dump app shop - - - - 1000 0",
        ],
    );
}

#[test]
fn prepared_statements_show_their_text() {
    let id = [7, 0, 0, 0];
    let execute = |id: [u8; 4]| ask(0x17, [&id[..], &[0, 1, 0, 0, 0]].concat());
    check_commands(
        &[
            ask(0x16, "SELECT a FROM t WHERE b = ?"),
            packets(&[&[0, 7, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0], DEF, EOF, DEF, EOF]),
            execute(id),
            packets(&[&[1], DEF, EOF, &[0, 0, 1], &[0xfe, 0, 0, 2, 0]]),
            ask(0x18, [&id[..], b"\0\0data"].concat()),
            ask(0x1a, id),
            packets(&[OK]),
            execute([255; 4]),
            packets(&[&[1], DEF, &[0xfe, 0, 0, 0x42, 0]]),
            ask(0x1c, [&id[..], &[9, 0, 0, 0]].concat()),
            packets(&[&[0, 0, 1], &[0, 0, 1], EOF]),
            ask(0x19, id),
            execute(id),
            packets(&[ERR]),
        ],
        &[
            "exact stmt_prepare app shop SELECT a FROM t WHERE b = ? - - - 1000 0",
            "exact stmt_execute app shop SELECT a FROM t WHERE b = ? 1 - - 1000 0",
            "exact stmt_send_long_data app shop SELECT a FROM t WHERE b = ? - - - - -",
            "exact stmt_reset app shop SELECT a FROM t WHERE b = ? - 1 - 1000 0",
            "exact stmt_execute app shop SELECT a FROM t WHERE b = ? 0 - - 1000 0",
            "exact stmt_fetch app shop SELECT a FROM t WHERE b = ? 2 - - 1000 0",
            "exact stmt_close app shop SELECT a FROM t WHERE b = ? - - - - -",
            "gap_body stmt_execute app shop - - - 1146 1000 0",
        ],
    );
}

/// Statements beyond the limit lose their text: their executions are not exact, and counted.
#[test]
fn forgotten_statements_are_not_exact() {
    let id = |n: u32| n.to_le_bytes();
    let prepare = |n: u32| {
        let sql = format!("SELECT {} FROM t WHERE b = ?", "a".repeat(100));
        [
            ask(0x16, sql),
            packets(&[&[&[0], &id(n)[..], &[0; 7]].concat()]),
        ]
    };
    let execute = |n: u32| {
        [
            ask(0x17, [&id(n)[..], &[0, 1, 0, 0, 0]].concat()),
            packets(&[OK]),
        ]
    };
    for (max, evicted) in [(8 << 20, 0), (1000 * (128 + 2 * 126), 2000)] {
        let mut talk = dialogue();
        talk.limits.statement_bytes_max = max;
        let says: Vec<_> = (0..3000)
            .flat_map(prepare)
            .chain((0..3000).flat_map(execute))
            .collect();
        let (rows, counters) = play(&mut talk, &[opening(PLAIN), says].concat());
        assert_eq!(counters.evicted_statements, evicted);
        let executed = rows
            .iter()
            .filter(|row| row.contains("stmt_execute"))
            .collect::<Vec<_>>();
        let without = executed
            .iter()
            .filter(|row| row.starts_with("gap_body") && row.contains(" shop - "));
        let exact = executed
            .iter()
            .filter(|row| row.starts_with("exact") && row.contains("SELECT aaa"));
        assert_eq!(
            (without.count() as u64, exact.count() as u64),
            (evicted, 3000 - evicted)
        );
    }
}

#[test]
fn mariadb_prepares_and_executes_at_once() {
    let Client(mut both) = ask(0x16, "SELECT ?") else {
        unreachable!()
    };
    let Client(execute) = ask(0x17, [255, 255, 255, 255, 0, 1, 0, 0, 0]) else {
        unreachable!()
    };
    both.extend(execute);
    check_commands(
        &[
            Client(both),
            packets(&[&[0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]),
            two_rows(),
        ],
        &[
            "exact stmt_prepare app shop SELECT ? - - - 1000 0",
            "exact stmt_execute app shop SELECT ? 2 - - 2000 0",
        ],
    );
}

#[test]
fn packets_of_over_16_mib() {
    const MAX: usize = 0xff_ffff;
    let sql = [b"\x03SELECT '".to_vec(), vec![b'y'; MAX - 9]].concat();
    let says = [
        Client([packet(0, &sql), packet(1, "y'")].concat()),
        Server(
            [
                packet(2, [1]),
                packet(3, DEF),
                packet(4, EOF),
                packet(5, vec![b'z'; MAX]),
                packet(6, [0xfe]),
                packet(7, EOF),
            ]
            .concat(),
        ),
        query("SELECT 2"),
        two_rows(),
    ];
    let (rows, counters) = play(&mut dialogue(), &[opening(PLAIN), says.to_vec()].concat());
    let shown = |row: &str| (row.len(), row[row.len() - 12..].to_owned());
    assert_eq!(
        shown(&rows[1]),
        (super::session::TEXT_MAX + 37, "1 - - 1000 0".to_owned())
    );
    assert_eq!(rows[2], "exact query app shop SELECT 2 2 - - 1000 0");
    assert!(rows[1].starts_with("gap_body"));
    assert_eq!(counters.oversized_heads, 1);
}

#[test]
fn an_error_may_come_before_the_request_is_over() {
    let Client(long) = query(&format!("INSERT INTO t VALUES ('{}')", "x".repeat(100))) else {
        unreachable!()
    };
    let (a, b) = long.split_at(60);
    check_commands(
        &[
            Client(a.to_vec()),
            packets(&[ERR]),
            Client(b.to_vec()),
            query("SELECT 1"),
            two_rows(),
        ],
        &[
            &format!(
                "untimed query app shop INSERT INTO t VALUES ('{}') - - 1146 - 0",
                "x".repeat(100)
            ),
            "exact query app shop SELECT 1 2 - - 1000 0",
        ],
    );
}

/// A compressed packet, stored or zlib.
fn pack(seq: u8, inside: &[u8], zlib: bool) -> Vec<u8> {
    let mut body = inside.to_vec();
    if zlib {
        let mut c = flate2::Compress::new(flate2::Compression::default(), true);
        body = Vec::with_capacity(inside.len() + 100);
        c.compress_vec(inside, &mut body, flate2::FlushCompress::Finish)
            .expect("compresses in memory");
    }
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes[3] = seq;
    bytes.extend(&(if zlib { inside.len() as u32 } else { 0 }).to_le_bytes()[..3]);
    bytes.extend(body);
    bytes
}

#[test]
fn compressed() {
    let Server(rows) = two_rows() else {
        unreachable!()
    };
    let Client(sql) = query("SELECT 1") else {
        unreachable!()
    };
    let says = [
        Client(pack(0, &sql, false)),
        Server(pack(1, &rows, true)),
        Client(pack(0, b"\x01\0\0\0\x01", false)),
    ];
    let (rows, counters) = play(
        &mut dialogue(),
        &[opening(PLAIN | 0x20), says.to_vec()].concat(),
    );
    assert_eq!(
        rows[1..],
        [
            "exact query app shop SELECT 1 2 - - 1000 0",
            "exact quit app shop - - - - - -"
        ]
    );
    assert_eq!(counters.compressed_flows, 1);
    check_midstream(
        &says,
        &[
            "midstream query - - SELECT 1 2 - - 1000 0",
            "exact quit - - - - - - - -",
        ],
    );
    let zstd = [
        Client(pack(0, &sql, false)),
        Server(b"\x05\0\0\x01\x09\0\0\x28\xb5\x2f\xfd\0".to_vec()),
    ];
    check_midstream(&zstd, &["half query - - SELECT 1 - - - - -"]);
}

#[test]
fn waiting_requests_are_bounded() {
    let says: Vec<_> = (0..2000).map(|i| query(&format!("SELECT {i}"))).collect();
    let mut talk = dialogue().midstream();
    talk.limits.outstanding_max = 1024;
    let (rows, counters) = play(&mut talk, &says);
    assert_eq!((rows.len(), counters.evicted_requests), (2000, 976));
    assert!(rows.iter().all(|r| r.starts_with("half query")));
}

/// A long and varied conversation in complete steps.
fn conversation() -> Vec<MysqlTestStep> {
    let mut says = opening(PLAIN);
    says.extend([
        query("SELECT a FROM t WHERE b IN (1, 2, 3)"),
        two_rows(),
        ask(0x16, "INSERT INTO t VALUES (?, ?)"),
        packets(&[&[0, 7, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0], DEF, DEF, EOF]),
        ask(0x17, [7, 0, 0, 0, 0, 1, 0, 0, 0, 0]),
        packets(&[OK]),
        ask(0x19, [7, 0, 0, 0]),
        query("LOAD DATA LOCAL INFILE 'f' INTO TABLE t"),
        packets(&[b"\xfbf"]),
        Client(packet(2, "1,2\n")),
        Client(packet(3, "")),
        Server(packet(4, OK)),
        query("nonsense"),
        packets(&[ERR]),
        ask(9, ""),
        packets(&[b"Uptime: 1"]),
        ask(1, ""),
    ]);
    says
}

/// Columns of the tuples other than times.
fn untimed(d: &mut ParserDialogue, says: &[MysqlTestStep]) -> Vec<String> {
    let rows = play(d, says).0;
    rows.iter()
        .map(|r| r.rsplitn(3, ' ').nth(2).unwrap_or_default().to_owned())
        .collect()
}

fn cut(says: &[MysqlTestStep], sizes: &[usize]) -> Vec<MysqlTestStep> {
    let mut sizes = sizes.iter().cycle();
    let mut pieces = |bytes: &[u8], say: fn(Vec<u8>) -> MysqlTestStep| -> Vec<MysqlTestStep> {
        let mut rest = bytes;
        let mut out = Vec::new();
        while !rest.is_empty() {
            let n = (*sizes.next().expect("a cycle has no end")).min(rest.len());
            out.push(say(rest[..n].to_vec()));
            rest = &rest[n..];
        }
        out
    };
    let cut_one = |say: &MysqlTestStep| match say {
        Client(bytes) => pieces(bytes, Client),
        Server(bytes) => pieces(bytes, Server),
        gap => vec![gap.clone()],
    };
    says.iter().flat_map(cut_one).collect()
}

fn noise() -> impl Strategy<Value = Vec<MysqlTestStep>> {
    let bytes = || {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            prop::collection::vec(
                prop::sample::select(vec![0u8, 1, 2, 3, 5, 7, 0x16, 0x17, 0xfe, 0xff, b'S']),
                0..40
            ),
            prop::sample::select(conversation()).prop_map(|s| match s {
                Client(b) | Server(b) => b,
                Gap(..) => vec![],
            }),
        ]
    };
    let say = prop_oneof![
        4 => bytes().prop_map(Client),
        4 => bytes().prop_map(Server),
        1 => (any::<bool>(), prop_oneof![1u64..40, any::<u64>()]).prop_map(|(up, n)| Gap(if up { ClientToServer } else { ServerToClient }, n)),
    ];
    prop::collection::vec(say, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn tuples_do_not_depend_on_segmentation(sizes in prop::collection::vec(1usize..30, 1..20), late in any::<bool>()) {
        let whole = conversation();
        let says = if late { whole[3..].to_vec() } else { whole };
        let start = || if late { dialogue().midstream() } else { dialogue() };
        prop_assert_eq!(untimed(&mut start(), &cut(&says, &sizes)), untimed(&mut start(), &says));
    }

    #[test]
    fn any_bytes_and_gaps_are_taken(says in noise(), late in any::<bool>(), opened in any::<bool>()) {
        let mut d = if late { dialogue().midstream() } else { dialogue() };
        let before = if opened { opening(PLAIN | u32::from(late) << 5) } else { vec![] };
        play(&mut d, &[before, says].concat());
    }

    #[test]
    fn a_gap_never_mispairs(at in 3usize..14, skip in 1usize..40, up in any::<bool>()) {
        // Query n is answered with n rows; no gap may give a query the rows of another.
        let mut says = opening(PLAIN);
        for n in 1..6u8 {
            let rows = vec![ROW; n.into()];
            says.extend([query(&format!("SELECT {n}")), packets(&[&[&[1][..], DEF, EOF], &rows[..], &[EOF]].concat())]);
        }
        let mut after = Vec::new();
        let mut missing = skip;
        for say in says.drain(at.min(says.len())..) {
            match say {
                Client(b) if up && missing > 0 => {
                    let n = missing.min(b.len());
                    missing -= n;
                    after.push(Gap(ClientToServer, n as u64));
                    if n < b.len() { after.push(Client(b[n..].to_vec())); }
                }
                Server(b) if !up && missing > 0 => {
                    let n = missing.min(b.len());
                    missing -= n;
                    after.push(Gap(ServerToClient, n as u64));
                    if n < b.len() { after.push(Server(b[n..].to_vec())); }
                }
                other => after.push(other),
            }
        }
        says.extend(after);
        for row in untimed(&mut dialogue(), &says) {
            let words: Vec<_> = row.split(' ').collect();
            if words[1] == "query" && words[5] != "-" && words.len() > 6 && words[4] == "SELECT" && words[5].len() == 1 {
                prop_assert!(words[6] == "-" || words[6] == words[5], "{}", row);
            }
        }
    }
}
