//! Compared with [`slow`], which joins all rows at once by linear search.

use std::sync::Arc;

use arrow_array::Array;
use tuple::{DataType, Field, FieldId, Schema, SchemaFacts, TAPS, TapColumns, TupleWriter, Unit};

use super::*;

const FACTS: SchemaFacts = SchemaFacts {
    families: &[TAPS],
    ..SchemaFacts::NONE
};
const TIME: FieldId = FieldId(common::FIELDS.len() as u16);
const PATIENCE: i64 = 100;

/// A row of a tap: client port, first byte, end by the tap's clock, and response time.
#[derive(Clone, Copy, Debug)]
struct TapTestRow {
    end: TapEnd,
    port: u64,
    first_byte: Option<u64>,
    ts_end: i64,
    time: Option<i64>,
}

fn row(end: TapEnd, port: u64, first_byte: u64, ts_end: i64, time: i64) -> TapTestRow {
    TapTestRow {
        end,
        port,
        first_byte: Some(first_byte),
        ts_end,
        time: Some(time),
    }
}

fn at_client(port: u64, first_byte: u64, ts_end: i64, time: i64) -> TapTestRow {
    row(TapEnd::Client, port, first_byte, ts_end, time)
}

fn at_server(port: u64, first_byte: u64, ts_end: i64, time: i64) -> TapTestRow {
    row(TapEnd::Server, port, first_byte, ts_end, time)
}

fn batch(rows: &[TapTestRow]) -> Batch {
    let own = [Field::new(
        "response_time_ns",
        DataType::I64,
        Unit::Nanoseconds,
        "",
    )];
    let mut schema = Schema {
        facts: &FACTS,
        ..Schema::of_parser("t", 1, "", &own, Some(TIME), None)
    };
    schema.add_member("tap.seen");
    let taps = TapColumns::of(&schema).expect("they are there");
    let all: Vec<FieldId> = schema.ids().collect();
    let mut writer = TupleWriter::new(Arc::new(schema), &all);
    for row in rows {
        writer.u64(common::ID, row.port);
        writer.i64(common::TS, row.ts_end);
        writer.i64(common::TS_END, row.ts_end);
        writer.ip(common::CLIENT_IP, &[1; 16]);
        writer.u64(common::CLIENT_PORT, row.port);
        writer.ip(common::SERVER_IP, &[2; 16]);
        writer.u64(common::SERVER_PORT, 80);
        row.first_byte
            .iter()
            .for_each(|seq| writer.u64(taps.request, *seq));
        row.time.iter().for_each(|ns| writer.i64(TIME, *ns));
        writer.text(taps.seen, row.end.word().as_bytes());
        writer.end_row();
    }
    writer.finish()
}

/// A result row: port, end, taps that saw it, and time between the taps.
type TapResultRow = (u64, i64, String, Option<i64>);

fn told(batch: &Batch) -> Vec<TapResultRow> {
    let taps = TapColumns::of(batch.schema()).expect("they are there");
    let seen = batch.text(taps.seen);
    let between = batch.i64(taps.network_time);
    let ports = batch.u64(common::CLIENT_PORT);
    let ends = batch.i64(common::TS_END);
    let time = |row| between.is_valid(row).then(|| between.value(row));
    (0..batch.rows())
        .map(|row| {
            (
                ports.value(row),
                ends.value(row),
                seen.value(row).to_owned(),
                time(row),
            )
        })
        .collect()
}

/// Joins all rows, in the order of each tap's reports.
fn slow(rows: &[TapTestRow]) -> Vec<TapResultRow> {
    let same = |a: &TapTestRow, b: &TapTestRow| {
        a.first_byte.is_some() && (a.port, a.first_byte) == (b.port, b.first_byte)
    };
    let clients: Vec<&TapTestRow> = rows
        .iter()
        .filter(|row| row.end == TapEnd::Client)
        .collect();
    let tell = |(n, client): (usize, &&TapTestRow)| {
        let place = clients[..n]
            .iter()
            .filter(|other| same(other, client))
            .count();
        let server = rows
            .iter()
            .filter(|row| row.end == TapEnd::Server && same(row, client))
            .nth(place);
        let between = server.and_then(|server| Some(client.time? - server.time?));
        let seen = if server.is_some() { "both" } else { "client" };
        (client.port, client.ts_end, seen.to_owned(), between)
    };
    clients.iter().enumerate().map(tell).collect()
}

fn sorted(mut told: Vec<TapResultRow>) -> Vec<TapResultRow> {
    told.sort();
    told
}

enum TapTestStep<'s> {
    Rows(&'s [TapTestRow], i64),
    Come(i64),
}

/// Checks the rows emitted after each step and at the end.
fn check(
    bytes_max: usize,
    steps: &[TapTestStep<'_>],
    expected: &[&[(u64, &str, Option<i64>)]],
    counts: [u64; 4],
) {
    let mut join = TapJoin::new(PATIENCE, bytes_max);
    let mut given = Vec::new();
    for step in steps {
        match step {
            TapTestStep::Rows(rows, ahead) => join.take(&batch(rows), *ahead, TapRowsStatus::New),
            TapTestStep::Come(ns) => {
                let mut rows = Vec::new();
                join.advance(*ns, &mut |batch| rows.extend(told(&batch)));
                given.push(rows);
            }
        }
    }
    let mut rows = Vec::new();
    join.finish(&mut |batch| rows.extend(told(&batch)));
    given.push(rows);
    let given: Vec<Vec<_>> = given
        .iter()
        .map(|rows| {
            rows.iter()
                .map(|(port, _, seen, ns)| (*port, seen.as_str(), *ns))
                .collect()
        })
        .collect();
    assert_eq!(given, expected);
    let TapCounts {
        joined,
        client_only,
        server_only,
        unkept,
    } = join.counts();
    assert_eq!([joined, client_only, server_only, unkept], counts);
    assert_eq!(
        (join.bytes(), join.requests.len()),
        (0, 0),
        "nothing is left"
    );
}

#[test]
fn a_request_waits_for_the_other_tap_and_no_longer() {
    let both = |ns| ("both", Some(ns));
    let client = ("client", None);
    let told = |port, (seen, ns): (&'static str, Option<i64>)| (port, seen, ns);
    // The client's row arrives first, or the server's; each is emitted when all taps have advanced.
    check(
        1 << 20,
        &[
            TapTestStep::Rows(&[at_client(1, 10, 1000, 30), at_client(2, 10, 1010, 40)], 0),
            TapTestStep::Come(1050),
            TapTestStep::Rows(&[at_server(1, 10, 990, 5), at_server(3, 10, 1020, 6)], 0),
            TapTestStep::Come(1101),
            TapTestStep::Rows(&[at_client(3, 10, 1030, 16)], 0),
            TapTestStep::Come(1200),
        ],
        &[
            &[],
            &[told(1, both(25))],
            &[told(2, client), told(3, both(10))],
            &[],
        ],
        [2, 1, 0, 0],
    );
    // The server's row is too late; it has no counterpart; a late client's row still finds its counterpart.
    check(
        1 << 20,
        &[
            TapTestStep::Rows(&[at_client(1, 10, 1000, 30)], 0),
            TapTestStep::Come(1101),
            TapTestStep::Rows(
                &[
                    at_server(1, 10, 1001, 5),
                    at_server(2, 10, 1150, 5),
                    at_server(3, 10, 1250, 5),
                ],
                0,
            ),
            TapTestStep::Come(1300),
            TapTestStep::Rows(&[at_client(2, 10, 1160, 9)], 0),
            TapTestStep::Come(1300),
        ],
        &[&[told(1, client)], &[], &[told(2, both(4))], &[]],
        [1, 1, 2, 0],
    );
    // Clocks with a known difference of hours.
    let hours = 7 * 3_600_000_000_000;
    check(
        1 << 20,
        &[
            TapTestStep::Rows(&[at_server(1, 10, 1000 - hours, 5)], -hours),
            TapTestStep::Rows(&[at_client(1, 10, 1010, 30)], 0),
            TapTestStep::Come(1111),
        ],
        &[&[told(1, both(25))], &[]],
        [1, 0, 0, 0],
    );
    // A request with three operations: the first expired and takes no other counterpart.
    check(
        1 << 20,
        &[
            TapTestStep::Rows(&[at_client(1, 10, 1000, 10), at_client(1, 10, 1100, 20)], 0),
            TapTestStep::Come(1150),
            TapTestStep::Rows(
                &[
                    at_server(1, 10, 1060, 1),
                    at_server(1, 10, 1070, 2),
                    at_server(1, 10, 1080, 3),
                ],
                0,
            ),
            TapTestStep::Come(1300),
        ],
        &[&[told(1, client)], &[told(1, both(18))], &[]],
        [1, 1, 2, 0],
    );
    // Without a first byte there is no join; without a response there is no time.
    let lost = TapTestRow {
        time: None,
        ..at_server(1, 20, 1000, 0)
    };
    let unknown = |row: TapTestRow| TapTestRow {
        first_byte: None,
        ..row
    };
    check(
        1 << 20,
        &[TapTestStep::Rows(
            &[
                lost,
                unknown(at_server(1, 0, 1000, 1)),
                at_client(1, 20, 1000, 9),
                unknown(at_client(1, 0, 1001, 9)),
            ],
            0,
        )],
        &[&[told(1, ("both", None)), told(1, client)]],
        [1, 1, 0, 0],
    );
}

#[test]
fn rows_beyond_the_limit_do_not_wait() {
    // Two requests of the server's tap; the last ones of the client's tap keep waiting.
    let servers: Vec<TapTestRow> = (0..4)
        .map(|n| at_server(n, 10, 1000 + n as i64, 1))
        .collect();
    let clients: Vec<TapTestRow> = (0..3)
        .map(|n| at_client(n, 10, 1010 + n as i64, 3))
        .collect();
    check(
        2 * REQUEST_BYTES,
        &[
            TapTestStep::Rows(&servers, 0),
            TapTestStep::Rows(&clients, 0),
            TapTestStep::Come(1020),
        ],
        &[
            &[
                (0, "both", Some(2)),
                (1, "both", Some(2)),
                (2, "client", None),
            ],
            &[],
        ],
        [2, 1, 0, 3],
    );
}

/// Pseudo-random numbers.
struct PseudoRandom(u64);

impl PseudoRandom {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Rows of some connections at two taps, in order per tap. Some are missing at one tap, some are duplicated (a
/// request with several operations), and first bytes repeat if there are few `places`.
fn traffic(chance: &mut PseudoRandom, requests: u64, places: u64) -> [Vec<TapTestRow>; 2] {
    let mut clients = Vec::new();
    let mut servers = Vec::new();
    for n in 0..requests {
        let port = chance.below(5);
        let first_byte = n.wrapping_mul(7) % places;
        let begin = n as i64 * 20;
        let work = chance.below(30) as i64;
        let way = chance.below(40) as i64;
        for _ in 0..1 + chance.below(4) / 3 {
            if chance.below(10) > 0 {
                servers.push(at_server(port, first_byte, begin + work, work));
            }
            if chance.below(10) > 0 {
                clients.push(at_client(port, first_byte, begin + work + way, work + way));
            }
        }
    }
    clients.sort_by_key(|row| row.ts_end);
    servers.sort_by_key(|row| row.ts_end);
    [clients, servers]
}

/// Reports in order of arrival: one tap may be far behind the other, and each report contains its progress.
fn reports(
    chance: &mut PseudoRandom,
    taps: &[Vec<TapTestRow>; 2],
    ahead: [i64; 2],
) -> Vec<(usize, Batch, i64)> {
    let mut next = [0; 2];
    let mut all = Vec::new();
    while (0..2).any(|tap| next[tap] < taps[tap].len()) {
        let tap = chance.below(2) as usize;
        let to = (next[tap] + chance.below(6) as usize).min(taps[tap].len());
        let rows: Vec<TapTestRow> = taps[tap][next[tap]..to]
            .iter()
            .map(|row| TapTestRow {
                ts_end: row.ts_end + ahead[tap],
                ..*row
            })
            .collect();
        let come = taps[tap].get(to).map_or(i64::MAX, |row| row.ts_end);
        all.push((tap, batch(&rows), come));
        next[tap] = to;
    }
    all
}

#[test]
fn rows_in_any_order_are_joined_as_if_all_were_there() {
    for seed in 0..60 {
        let mut chance = PseudoRandom(seed);
        let taps = traffic(&mut chance, 80, 12);
        let ahead = [0, -5_000_000];
        let reports = reports(&mut chance, &taps, ahead);
        // With this patience nothing expires, and later rows find earlier ones with the same key.
        let mut join = TapJoin::new(1 << 40, 1 << 20);
        let mut come = [i64::MIN; 2];
        let mut given = Vec::new();
        for (tap, rows, to) in &reports {
            join.take(rows, ahead[*tap], TapRowsStatus::New);
            come[*tap] = *to;
            join.advance(come[0].min(come[1]).min(1 << 30), &mut |batch| {
                given.extend(told(&batch))
            });
        }
        join.finish(&mut |batch| given.extend(told(&batch)));
        let all: Vec<TapTestRow> = taps.concat();
        assert_eq!(sorted(given), sorted(slow(&all)), "seed {seed}");
        let counts = join.counts();
        assert_eq!(counts.joined + counts.client_only, taps[0].len() as u64);
        assert_eq!(counts.joined + counts.server_only, taps[1].len() as u64);
    }
}

/// A second joiner with the same input emits the rows that the first had not emitted, and no row twice.
#[test]
fn resumed_joiner_emits_the_remaining_rows() {
    for seed in 0..60 {
        let mut chance = PseudoRandom(seed);
        let taps = traffic(&mut chance, 80, 1000);
        let ahead = [0, 7_000];
        let reports = reports(&mut chance, &taps, ahead);
        let run = |kill_every: usize| {
            let mut join = TapJoin::new(PATIENCE, 1 << 20);
            let mut come = [i64::MIN; 2];
            let mut given = Vec::new();
            for (n, (tap, rows, to)) in reports.iter().enumerate() {
                join.take(rows, ahead[*tap], TapRowsStatus::New);
                // The event time of earlier reports is known.
                join.advance(come[0].min(come[1]), &mut |batch| {
                    given.extend(told(&batch))
                });
                come[*tap] = *to;
                if n % kill_every == kill_every - 1 {
                    let mut next =
                        TapJoin::new(PATIENCE, 1 << 20).begin_at(join.through_ns(), join.counts());
                    for (tap, rows, _) in &reports[..=n] {
                        let ends = rows.i64(common::TS_END).values();
                        // Other reports are not repeated.
                        if ends.iter().any(|ns| ns - ahead[*tap] >= join.over_ns()) {
                            next.take(rows, ahead[*tap], TapRowsStatus::Again);
                        }
                    }
                    join = next;
                }
            }
            join.finish(&mut |batch| given.extend(told(&batch)));
            sorted(given)
        };
        let whole = run(usize::MAX);
        assert_eq!(whole.len(), taps[0].len());
        for kill_every in [1, 3, 10] {
            assert_eq!(
                run(kill_every),
                whole,
                "seed {seed}, killed every {kill_every}"
            );
        }
    }
}
