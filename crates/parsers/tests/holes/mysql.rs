//! MySQL: a login, text and prepared statements, other databases, and other users.

use parsers::mysql;
use testkit::SeededRng;
use testkit::mysql::{greeting, packet};

use crate::talk::{Script, text};

/// Long passwords, protocol 4.1, transactions, secure connection, plugin authentication, with a database.
const CAPABILITIES: u32 = 0x0008_a209;
const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];
const ERROR: &[u8] = b"\xff\x7a\x04#42S02no such table";

pub fn script(rng: &mut SeededRng) -> Script {
    let mut turns = vec![(login(rng), packet(2, OK))];
    for i in 0..2 + rng.below(20) {
        turn(rng, i as u32, &mut turns);
    }
    Script::in_turns(
        &mysql::PROTOCOL,
        mysql::schema(),
        Some(greeting(CAPABILITIES)),
        turns,
    )
}

fn turn(rng: &mut SeededRng, i: u32, turns: &mut Vec<(Vec<u8>, Vec<u8>)>) {
    let len = rng.below(3) * rng.below(1500);
    let sql = format!(
        "SELECT a, b FROM t{i} WHERE c = '{}' AND d = {i}",
        text(rng, len)
    );
    let answer = if rng.chance(0.1) {
        packet(1, ERROR)
    } else {
        rows(rng)
    };
    match rng.below(12) {
        0 => turns.push((command(0x0e, b""), packet(1, OK))),
        1 => turns.push((command(2, text(rng, 9).as_bytes()), packet(1, OK))),
        2 => turns.push((
            command(3, format!("USE {}", text(rng, 9)).as_bytes()),
            packet(1, OK),
        )),
        3 => {
            let body = format!("{}\0\0{}\0\x21\0", text(rng, 6), text(rng, 6));
            turns.push((command(0x11, body.as_bytes()), packet(1, OK)));
        }
        4 | 5 => {
            let id = (i + 1).to_le_bytes();
            let prepared = [&[0][..], &id, &[0, 0, 0, 0, 0, 0, 0]].concat();
            turns.push((command(0x16, sql.as_bytes()), packet(1, &prepared)));
            for _ in 0..2 {
                turns.push((
                    command(0x17, &[&id[..], &[0, 1, 0, 0, 0]].concat()),
                    rows(rng),
                ));
            }
        }
        6 => {
            let sql = format!("INSERT INTO t{i} VALUES ('{}')", text(rng, len));
            turns.push((command(3, sql.as_bytes()), packet(1, [0, 1, 0, 2, 0, 0, 0])));
        }
        _ => turns.push((command(3, sql.as_bytes()), answer)),
    }
}

fn rows(rng: &mut SeededRng) -> Vec<u8> {
    let mut payloads = vec![
        vec![2],
        b"\x03def\x04shop\x01t".to_vec(),
        b"\x03def\x04shop\x01u".to_vec(),
        EOF.to_vec(),
    ];
    for _ in 0..rng.below(12) {
        let len = rng.below(60);
        let value = text(rng, len);
        payloads.push([&[len as u8], value.as_bytes(), &[1, b'x']].concat());
    }
    payloads.push(EOF.to_vec());
    payloads
        .iter()
        .enumerate()
        .flat_map(|(i, p)| packet(1 + i as u8, p))
        .collect()
}

fn command(code: u8, rest: &[u8]) -> Vec<u8> {
    packet(0, [&[code], rest].concat())
}

fn login(rng: &mut SeededRng) -> Vec<u8> {
    let mut p = CAPABILITIES.to_le_bytes().to_vec();
    p.extend([0, 0, 0, 1, 45]);
    p.extend([0; 23]);
    p.extend(
        format!(
            "{}\0\x02pw{}\0mysql_native_password\0",
            text(rng, 7),
            text(rng, 7)
        )
        .bytes(),
    );
    packet(1, &p)
}
