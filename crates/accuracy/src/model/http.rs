//! HTTP/1.1: several methods and framings.

use testkit::SeededRng;

use super::talk::{Conversation, Exchange, Habit, text};

/// A conversation of some exchanges.
#[must_use]
pub fn conversation(rng: &mut SeededRng) -> Conversation {
    let exchanges = (0..10 + rng.below(40)).map(|i| exchange(rng, i)).collect();
    Conversation {
        port: 80,
        exchanges,
        habit: Habit::Slides,
        ..Conversation::default()
    }
}

fn exchange(rng: &mut SeededRng, i: u64) -> Exchange {
    let method = ["GET", "GET", "GET", "HEAD", "POST", "PUT"][rng.below(6) as usize];
    let mut question = format!("{method} /thing/{i} HTTP/1.1\r\nHost: shop\r\n").into_bytes();
    if matches!(method, "POST" | "PUT") {
        let body = body(rng);
        question.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
        question.extend(body);
    } else {
        question.extend(b"\r\n");
    }
    let status = [200, 200, 200, 204, 304, 404, 500][rng.below(7) as usize];
    let mut answer = if rng.chance(0.05) {
        b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec()
    } else {
        Vec::new()
    };
    answer.extend(format!("HTTP/1.1 {status} Said\r\nContent-Type: text/plain\r\n").bytes());
    let body = body(rng);
    match status {
        204 | 304 => answer.extend(b"\r\n"),
        _ if rng.chance(0.3) => {
            answer.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            if method != "HEAD" {
                for chunk in body.chunks(100) {
                    answer.extend(format!("{:x}\r\n", chunk.len()).bytes());
                    answer.extend(chunk);
                    answer.extend(b"\r\n");
                }
                answer.extend(b"0\r\n\r\n");
            }
        }
        _ => {
            answer.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
            if method != "HEAD" {
                answer.extend(body);
            }
        }
    }
    Exchange { question, answer }
}

fn body(rng: &mut SeededRng) -> Vec<u8> {
    let len = [0, 5, 80, 700][rng.below(4) as usize];
    let len = rng.below(len + 1);
    text(rng, len)
}
