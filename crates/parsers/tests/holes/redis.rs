//! Redis: strings, lists, subscriptions, and push messages of the server.

use parsers::redis;
use testkit::SeededRng;

use crate::talk::{Script, text};

pub fn script(rng: &mut SeededRng) -> Script {
    let turns = (0..3 + rng.below(30)).map(|_| turn(rng)).collect();
    Script::in_turns(&redis::PROTOCOL, redis::schema(), None, turns)
}

fn turn(rng: &mut SeededRng) -> (Vec<u8>, Vec<u8>) {
    let len = 3 + rng.below(60);
    let key = text(rng, len);
    let len = rng.below(4) * rng.below(900);
    let value = text(rng, len);
    let found = rng.chance(0.6);
    let (question, answer) = match rng.below(10) {
        0..=2 => (
            command(&["GET", &key]),
            if found {
                string(&value)
            } else {
                "$-1\r\n".to_owned()
            },
        ),
        3 | 4 => (command(&["SET", &key, &value]), "+OK\r\n".to_owned()),
        5 => (
            command(&["INCR", &key]),
            if found {
                ":17\r\n".to_owned()
            } else {
                "-ERR no number\r\n".to_owned()
            },
        ),
        6 => {
            let values: String = (0..rng.below(5)).map(|_| string(&value)).collect();
            let n = values.matches('$').count();
            (
                command(&["LRANGE", &key, "0", "-1"]),
                format!("*{n}\r\n{values}"),
            )
        }
        7 => (
            command(&["HGETALL", &key]),
            format!("%1\r\n{}:1\r\n", string(&value)),
        ),
        8 => (
            command(&["SUBSCRIBE", &key, "b"]),
            confirmed(&key, 1) + &confirmed("b", 2),
        ),
        _ => (format!("GET {key}\r\n"), string(&value)),
    };
    (question.into_bytes(), answer.into_bytes())
}

fn confirmed(channel: &str, n: usize) -> String {
    format!(">3\r\n$9\r\nsubscribe\r\n{}:{n}\r\n", string(channel))
}

fn command(words: &[&str]) -> String {
    format!(
        "*{}\r\n{}",
        words.len(),
        words.iter().map(|word| string(word)).collect::<String>()
    )
}

fn string(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}
