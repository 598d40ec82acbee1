//! HTTP: requests with and without bodies, in both framings.

use parsers::http;
use testkit::SeededRng;

use crate::talk::{Script, text};

pub fn script(rng: &mut SeededRng) -> Script {
    let turns = (0..3 + rng.below(20))
        .map(|i| (request(rng, i), response(rng)))
        .collect();
    Script::in_turns(&http::PROTOCOL, http::schema(), None, turns)
}

fn request(rng: &mut SeededRng, i: u64) -> Vec<u8> {
    let path = rng.below(60);
    let agent = rng.below(80);
    let head = format!(
        "/{}/{i}?{} HTTP/1.1\r\nHost: {}.example\r\nUser-Agent: {}\r\n",
        text(rng, path),
        text(rng, 5),
        text(rng, 4),
        text(rng, agent)
    );
    match rng.below(3) {
        0 => with_body(rng, format!("POST {head}")),
        _ => format!("GET {head}\r\n").into_bytes(),
    }
}

fn response(rng: &mut SeededRng) -> Vec<u8> {
    let status = ["200 OK", "404 Not Found", "500 Oh"][rng.below(3) as usize];
    let kind = text(rng, 8);
    match rng.below(8) {
        0 => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        _ => with_body(
            rng,
            format!("HTTP/1.1 {status}\r\nContent-Type: text/{kind}\r\n"),
        ),
    }
}

fn with_body(rng: &mut SeededRng, head: String) -> Vec<u8> {
    let len = rng.below(3) * rng.below(1500);
    let body = text(rng, len);
    match rng.below(2) {
        0 => format!("{head}Content-Length: {len}\r\n\r\n{body}"),
        _ => {
            let chunks: Vec<_> = body
                .as_bytes()
                .chunks(1 + rng.below(500) as usize)
                .map(|c| format!("{:x}\r\n{}\r\n", c.len(), String::from_utf8_lossy(c)))
                .collect();
            format!(
                "{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
                chunks.concat()
            )
        }
    }
    .into_bytes()
}
