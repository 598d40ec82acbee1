//! The text protocol of memcached: values that hold commands and replies.

use testkit::SeededRng;

use super::Made;
use crate::model::talk::{Conversation, Exchange, Habit, text};

/// Fields that identify a transaction.
pub const FIELDS: &[&str] = &["command", "cache_key", "value_bytes"];

/// A conversation and its transactions.
#[must_use]
pub fn conversation(rng: &mut SeededRng) -> Made {
    let mut exchanges = Vec::new();
    let mut transactions = Vec::new();
    for i in 0..20 + rng.below(60) {
        let value = value(rng);
        let n = value.len();
        let (command, question, answer) = if rng.chance(0.5) {
            let answer = [
                format!("VALUE real:{i} 0 {n}\r\n").as_bytes(),
                &value,
                b"\r\nEND\r\n",
            ]
            .concat();
            ("get", format!("get real:{i}\r\n").into_bytes(), answer)
        } else {
            let question = [
                format!("set real:{i} 0 0 {n}\r\n").as_bytes(),
                &value,
                b"\r\n",
            ]
            .concat();
            ("set", question, b"STORED\r\n".to_vec())
        };
        exchanges.push(Exchange { question, answer });
        transactions.push(format!("{command} real:{i} {n}"));
    }
    let conversation = Conversation {
        port: 11211,
        exchanges,
        habit: Habit::Slides,
        ..Conversation::default()
    };
    Made {
        conversation,
        transactions,
    }
}

fn value(rng: &mut SeededRng) -> Vec<u8> {
    let filler = 1 + rng.below(200);
    let mut value = text(rng, filler);
    for _ in 0..rng.below(30) {
        let n = rng.below(50);
        let quoted = match rng.below(4) {
            0 => format!("get quoted:{n}\r\n"),
            1 => format!("set quoted:{n} 0 0 {n}\r\n{}\r\n", "q".repeat(n as usize)),
            2 => format!(
                "VALUE quoted:{n} 0 {n}\r\n{}\r\nEND\r\n",
                "q".repeat(n as usize)
            ),
            _ => ["STORED\r\n", "END\r\n", "NOT_FOUND\r\n"][rng.below(3) as usize].to_owned(),
        };
        value.extend(quoted.bytes());
    }
    value
}
