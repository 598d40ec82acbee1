//! MySQL: a login, statements with their texts in the clear, and some that are prepared.

use testkit::SeededRng;

use super::talk::{Conversation, Exchange, text};

/// Long passwords, protocol 4.1, transactions, secure connection, plugin authentication, with a database.
const CAPABILITIES: u32 = 0x0008_a209;
const OK: &[u8] = &[0, 1, 0, 2, 0, 0, 0];
const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];

/// A conversation of some exchanges.
#[must_use]
pub fn conversation(rng: &mut SeededRng) -> Conversation {
    let exchanges = (0..10 + rng.below(40)).map(|i| exchange(rng, i)).collect();
    let greetings = vec![greeting(), login(), packet(2, OK)];
    Conversation {
        port: 3306,
        greetings,
        exchanges,
        ..Conversation::default()
    }
}

fn exchange(rng: &mut SeededRng, i: u64) -> Exchange {
    let question = match rng.below(8) {
        0 => command(0x0e, b""),
        1 => command(2, b"shop"),
        n if n % 2 == 0 => command(
            3,
            format!("SELECT a, b FROM t{i} WHERE id = {}", rng.below(1000)).as_bytes(),
        ),
        _ => {
            let mut sql = format!("INSERT INTO t{i} VALUES ('").into_bytes();
            let len = rng.below(400);
            sql.extend(text(rng, len));
            sql.extend(b"')");
            command(3, &sql)
        }
    };
    let answer = if question[5..].starts_with(b"SELECT") {
        rows(rng)
    } else if rng.chance(0.1) {
        packet(1, b"\xff\x7a\x04#42S02no such table")
    } else {
        packet(1, OK)
    };
    Exchange { question, answer }
}

fn rows(rng: &mut SeededRng) -> Vec<u8> {
    let mut all = packet(1, &[2]);
    let mut seq = 1;
    let mut next = |payload: &[u8]| {
        seq += 1;
        packet(seq, payload)
    };
    for name in [b"a", b"b"] {
        let mut column = b"\x03def\x04shop\x01t\x01t".to_vec();
        column.extend([
            1, name[0], 1, name[0], 0x0c, 0x21, 0, 0xfc, 0xff, 0, 0, 0xfd, 0, 0, 0, 0, 0,
        ]);
        all.extend(next(&column));
    }
    all.extend(next(EOF));
    for _ in 0..rng.below(12) {
        let mut row = Vec::new();
        for _ in 0..2 {
            let len = rng.below(60);
            row.push(len as u8);
            row.extend(text(rng, len));
        }
        all.extend(next(&row));
    }
    all.extend(next(EOF));
    all
}

fn command(code: u8, rest: &[u8]) -> Vec<u8> {
    packet(0, &[&[code], rest].concat())
}

fn packet(seq: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes[3] = seq;
    bytes.extend_from_slice(payload);
    bytes
}

fn greeting() -> Vec<u8> {
    let mut p = b"\x0a8.0.33\0\x01\0\0\0abcdefgh\0".to_vec();
    p.extend(&CAPABILITIES.to_le_bytes()[..2]);
    p.extend(b"\xff\x02\0");
    p.extend(&CAPABILITIES.to_le_bytes()[2..]);
    p.extend([0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    p.extend(b"ijklmnopqrst\0mysql_native_password\0");
    packet(0, &p)
}

fn login() -> Vec<u8> {
    let mut p = CAPABILITIES.to_le_bytes().to_vec();
    p.extend([0, 0, 0, 1, 45]);
    p.extend([0; 23]);
    p.extend(b"app\0\x02pwshop\0mysql_native_password\0");
    packet(1, &p)
}
