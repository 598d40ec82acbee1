//! Redis: strings, lists whose values look like replies, errors, commands that ask not to be answered, subscriptions to
//! several channels, and unsolicited messages of the server before its answer.

use testkit::SeededRng;

use super::talk::{self, Conversation, Exchange, Habit};

/// A conversation of some exchanges.
#[must_use]
pub fn conversation(rng: &mut SeededRng) -> Conversation {
    let exchanges = (0..10 + rng.below(40)).map(|_| exchange(rng)).collect();
    Conversation {
        port: 6379,
        exchanges,
        habit: Habit::Slides,
        ..Conversation::default()
    }
}

fn exchange(rng: &mut SeededRng) -> Exchange {
    let key = format!("key:{}", rng.below(6)).into_bytes();
    let (question, answer) = match rng.below(10) {
        0..=2 => (
            command(&[b"GET", &key]),
            if rng.chance(0.7) {
                string(&value(rng))
            } else {
                b"$-1\r\n".to_vec()
            },
        ),
        3 | 4 => (command(&[b"SET", &key, &value(rng)]), b"+OK\r\n".to_vec()),
        5 => (
            command(&[b"INCR", &key]),
            format!(":{}\r\n", rng.below(1000)).into_bytes(),
        ),
        6 => (
            command(&[b"HGET", &key]),
            b"-ERR wrong number of arguments\r\n".to_vec(),
        ),
        7 => {
            let values: Vec<u8> = (0..4).flat_map(|_| string(&value(rng))).collect();
            (
                command(&[b"LRANGE", &key, b"0", b"-1"]),
                [b"*4\r\n", &values[..]].concat(),
            )
        }
        8 => {
            let skipped = [
                command(&[b"CLIENT", b"REPLY", b"SKIP"]),
                command(&[b"DEL", &key]),
            ]
            .concat();
            (skipped, Vec::new())
        }
        _ => {
            let confirmed: Vec<u8> = (1..=3)
                .flat_map(|n| {
                    [
                        b">3\r\n$9\r\nsubscribe\r\n",
                        &string(&key)[..],
                        format!(":{n}\r\n").as_bytes(),
                    ]
                    .concat()
                })
                .collect();
            (command(&[b"SUBSCRIBE", &key, &key, &key]), confirmed)
        }
    };
    let is_answered = !answer.is_empty();
    let push = [b">2\r\n$10\r\ninvalidate\r\n*1\r\n", &string(&key)[..]].concat();
    let answer = if is_answered && rng.chance(0.1) {
        [push, answer].concat()
    } else {
        answer
    };
    Exchange { question, answer }
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let strings = words.iter().flat_map(|word| string(word));
    format!("*{}\r\n", words.len())
        .into_bytes()
        .into_iter()
        .chain(strings)
        .collect()
}

fn string(text: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}

fn value(rng: &mut SeededRng) -> Vec<u8> {
    let len = [1, 10, 100, 3000][rng.below(4) as usize];
    let len = rng.below(len) + 1;
    talk::text(rng, len)
}
