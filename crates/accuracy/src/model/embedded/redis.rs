//! Redis: bulk strings that hold RESP, in commands and in replies.

use testkit::SeededRng;

use super::Made;
use crate::model::talk::{Conversation, Exchange, Habit, text};

/// Fields that identify a transaction.
pub const FIELDS: &[&str] = &["command", "key", "request_bytes", "response_bytes"];

/// A conversation and its transactions.
#[must_use]
pub fn conversation(rng: &mut SeededRng) -> Made {
    let mut exchanges = Vec::new();
    let mut transactions = Vec::new();
    for i in 0..20 + rng.below(60) {
        let key = format!("real:{i}");
        let value = value(rng);
        let (command, question, answer) = if rng.chance(0.5) {
            ("GET", array(&[b"GET", key.as_bytes()]), string(&value))
        } else {
            (
                "SET",
                array(&[b"SET", key.as_bytes(), &value]),
                b"+OK\r\n".to_vec(),
            )
        };
        transactions.push(format!(
            "{command} {key} {} {}",
            question.len(),
            answer.len()
        ));
        exchanges.push(Exchange { question, answer });
    }
    let conversation = Conversation {
        port: 6379,
        exchanges,
        habit: Habit::Slides,
        ..Conversation::default()
    };
    Made {
        conversation,
        transactions,
    }
}

fn array(words: &[&[u8]]) -> Vec<u8> {
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
    let filler = rng.below(200);
    let mut value = text(rng, filler);
    for _ in 0..rng.below(30) {
        let quoted = format!("quoted:{}", rng.below(50));
        value.extend(match rng.below(5) {
            0 => array(&[b"GET", quoted.as_bytes()]),
            1 => array(&[b"SET", quoted.as_bytes(), b"v"]),
            2 => string(quoted.as_bytes()),
            3 => b"+OK\r\n".to_vec(),
            _ => b"$-1\r\n".to_vec(),
        });
    }
    value
}
