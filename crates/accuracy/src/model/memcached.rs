//! memcached: the text protocol with several keys and `noreply`, the binary one with quiet commands and values.

use testkit::SeededRng;

use super::talk::{self, Conversation, Exchange, Habit};

fn text_exchange(rng: &mut SeededRng) -> Exchange {
    let key = |rng: &mut SeededRng| String::from_utf8(key(rng)).expect("keys are text");
    match rng.below(6) {
        0..=2 => {
            let keys: Vec<String> = (0..1 + rng.below(3))
                .map(|i| format!("{}:{i}", key(rng)))
                .collect();
            let mut answer = Vec::new();
            for key in keys.iter().filter(|_| rng.chance(0.6)).collect::<Vec<_>>() {
                let value = value(rng);
                answer.extend(format!("VALUE {key} 0 {}\r\n", value.len()).bytes());
                answer.extend(value);
                answer.extend(b"\r\n");
            }
            answer.extend(b"END\r\n");
            Exchange {
                question: format!("get {}\r\n", keys.join(" ")).into_bytes(),
                answer,
            }
        }
        3 => {
            let value = value(rng);
            let quiet = rng.chance(0.3);
            let noreply = if quiet { " noreply" } else { "" };
            let mut question =
                format!("set {} 0 0 {}{noreply}\r\n", key(rng), value.len()).into_bytes();
            question.extend(value);
            question.extend(b"\r\n");
            let answer = if quiet {
                Vec::new()
            } else {
                b"STORED\r\n".to_vec()
            };
            Exchange { question, answer }
        }
        4 => Exchange {
            question: format!("delete {}\r\n", key(rng)).into_bytes(),
            answer: if rng.chance(0.5) {
                b"DELETED\r\n".to_vec()
            } else {
                b"NOT_FOUND\r\n".to_vec()
            },
        },
        _ => Exchange {
            question: format!("incr {} 1\r\n", key(rng)).into_bytes(),
            answer: format!("{}\r\n", rng.below(1000)).into_bytes(),
        },
    }
}

/// A conversation in the text protocol.
#[must_use]
pub fn text(rng: &mut SeededRng) -> Conversation {
    let exchanges = (0..10 + rng.below(40))
        .map(|_| text_exchange(rng))
        .collect();
    Conversation {
        port: 11211,
        exchanges,
        habit: Habit::Slides,
        ..Conversation::default()
    }
}

/// A conversation in the binary protocol.
#[must_use]
pub fn binary(rng: &mut SeededRng) -> Conversation {
    // Use of opaque values: none, consecutive numbers, or random numbers.
    let opaques = rng.below(3);
    let mut last = 0;
    let mut opaque = |rng: &mut SeededRng| {
        last += 1;
        [0, last, rng.next_u64() as u32][opaques as usize]
    };
    let exchanges = (0..10 + rng.below(40))
        .map(|_| binary_exchange(rng, &mut opaque))
        .collect();
    // Quiet commands are not known to be outstanding.
    Conversation {
        port: 11211,
        exchanges,
        habit: Habit::Batches,
        ..Conversation::default()
    }
}

fn binary_exchange(rng: &mut SeededRng, next: &mut impl FnMut(&mut SeededRng) -> u32) -> Exchange {
    let opaque = next(rng);
    match rng.below(6) {
        0 | 1 => get(rng, (0, false), opaque),
        2 => get(rng, (0x0c, true), opaque),
        3 => {
            // GETQ or GETKQ, then a NOOP, whose response shows that the server has processed them. GETQs without distinct
            // numbers would be ambiguous.
            let quiet = if opaque != 0 && rng.chance(0.5) {
                (9, false)
            } else {
                (0x0d, true)
            };
            let gets: Vec<Exchange> = (0..1 + rng.below(4))
                .map(|_| {
                    let opaque = next(rng);
                    get(rng, quiet, opaque)
                })
                .collect();
            let opaque = next(rng);
            Exchange {
                question: gets
                    .iter()
                    .flat_map(|e| e.question.clone())
                    .chain(noop(0x80, opaque))
                    .collect(),
                answer: gets
                    .iter()
                    .flat_map(|e| e.answer.clone())
                    .chain(noop(0x81, opaque))
                    .collect(),
            }
        }
        4 => Exchange {
            question: message(0x80, 1, 0, opaque, (&[0; 8], &key(rng), &value(rng))),
            answer: message(0x81, 1, 0, opaque, (b"", b"", b"")),
        },
        _ => Exchange {
            question: noop(0x80, opaque),
            answer: noop(0x81, opaque),
        },
    }
}

/// One of the commands that get, and whether its answer repeats the key. Quiet ones have odd opcodes and do not answer misses.
fn get(rng: &mut SeededRng, (opcode, named): (u8, bool), opaque: u32) -> Exchange {
    let key = key(rng);
    let told = if named { &key[..] } else { b"" };
    let answer = match (rng.chance(0.6), opcode % 2 == 1) {
        (true, _) => message(0x81, opcode, 0, opaque, (&[0; 4], told, &value(rng))),
        (false, true) => Vec::new(),
        (false, false) => message(0x81, opcode, 1, opaque, (b"", told, b"Not found")),
    };
    Exchange {
        question: message(0x80, opcode, 0, opaque, (b"", &key, b"")),
        answer,
    }
}

fn noop(magic: u8, opaque: u32) -> Vec<u8> {
    message(magic, 0x0a, 0, opaque, (b"", b"", b""))
}

fn key(rng: &mut SeededRng) -> Vec<u8> {
    format!("key:{}", rng.below(6)).into_bytes()
}

/// A message of the binary protocol; its body: extras, key, value.
fn message(
    magic: u8,
    opcode: u8,
    status: u16,
    opaque: u32,
    body: (&[u8], &[u8], &[u8]),
) -> Vec<u8> {
    let (extras, key, value) = body;
    let mut bytes = vec![magic, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0]);
    bytes.extend(status.to_be_bytes());
    bytes.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    bytes.extend(opaque.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend([extras, key, value].concat());
    bytes
}

fn value(rng: &mut SeededRng) -> Vec<u8> {
    let len = [1, 10, 100, 1000][rng.below(4) as usize];
    let len = rng.below(len) + 1;
    talk::text(rng, len)
}
