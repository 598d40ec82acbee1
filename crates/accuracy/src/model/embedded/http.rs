//! HTTP/1.1: bodies that quote requests and responses.

use testkit::SeededRng;

use super::Made;
use crate::model::talk::{Conversation, Exchange, Habit, text};

/// Fields that identify a transaction.
pub const FIELDS: &[&str] = &["method", "path", "status", "response_bytes"];

/// A conversation and its transactions.
#[must_use]
pub fn conversation(rng: &mut SeededRng) -> Made {
    let mut exchanges = Vec::new();
    let mut transactions = Vec::new();
    for i in 0..20 + rng.below(60) {
        let posts = rng.chance(0.4);
        let question = if posts {
            let body = body(rng);
            let head = format!(
                "POST /real/{i} HTTP/1.1\r\nHost: shop\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            [head.as_bytes(), &body].concat()
        } else {
            format!("GET /real/{i} HTTP/1.1\r\nHost: shop\r\n\r\n").into_bytes()
        };
        let status = [200, 404, 500][rng.below(3) as usize];
        let body = body(rng);
        let head = format!(
            "HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        exchanges.push(Exchange {
            question,
            answer: [head.as_bytes(), &body].concat(),
        });
        let method = if posts { "POST" } else { "GET" };
        transactions.push(format!("{method} /real/{i} {status} {}", body.len()));
    }
    let conversation = Conversation {
        port: 80,
        exchanges,
        habit: Habit::Slides,
        ..Conversation::default()
    };
    Made {
        conversation,
        transactions,
    }
}

/// A page with messages in it.
fn body(rng: &mut SeededRng) -> Vec<u8> {
    let filler = rng.below(200);
    let mut body = text(rng, filler);
    for _ in 0..rng.below(30) {
        let n = rng.below(50);
        let quoted = match rng.below(3) {
            0 => format!("GET /quoted/{n} HTTP/1.1\r\nHost: shop\r\n\r\n"),
            1 => format!(
                "HTTP/1.1 503 Quoted\r\nContent-Length: {n}\r\n\r\n{}",
                "q".repeat(n as usize)
            ),
            _ => {
                format!(
                    "POST /quoted/{n} HTTP/1.1\r\nContent-Length: {n}\r\n\r\n{}",
                    "q".repeat(n as usize)
                )
            }
        };
        body.extend(quoted.bytes());
    }
    body
}
