//! memcached: the text protocol with its meta commands.

use parsers::memcached;
use testkit::SeededRng;

use crate::talk::{Script, text};

pub fn script(rng: &mut SeededRng) -> Script {
    let turns = (0..3 + rng.below(30)).map(|_| turn(rng)).collect();
    Script::in_turns(&memcached::PROTOCOL, memcached::schema(), None, turns)
}

fn turn(rng: &mut SeededRng) -> (Vec<u8>, Vec<u8>) {
    let len = 3 + rng.below(60);
    let key = text(rng, len);
    let len = rng.below(3) * rng.below(900);
    let value = text(rng, len);
    let found = rng.chance(0.6);
    let pick = |yes: &str, no: &str| format!("{}\r\n", if found { yes } else { no });
    let (question, answer) = match rng.below(12) {
        0..=2 => get(rng),
        3 => (
            format!("set {key} 0 0 {len}\r\n{value}\r\n"),
            pick("STORED", "NOT_STORED"),
        ),
        4 => (
            format!("set {key} 0 0 {len} noreply\r\n{value}\r\n"),
            String::new(),
        ),
        5 => (format!("delete {key}\r\n"), pick("DELETED", "NOT_FOUND")),
        6 => (
            format!("incr {key} 1\r\n"),
            pick(["7", "17"][rng.below(2) as usize], "NOT_FOUND"),
        ),
        7 => (
            format!("mg {key} v\r\n"),
            pick(&format!("VA {len}\r\n{value}"), "EN"),
        ),
        8 => (format!("ms {key} {len}\r\n{value}\r\n"), pick("HD", "NS")),
        9 => (format!("md {key}\r\n"), pick("HD", "NF")),
        10 => (format!("touch {key} 0\r\n"), pick("TOUCHED", "NOT_FOUND")),
        _ => ("mn\r\n".to_owned(), "MN\r\n".to_owned()),
    };
    (question.into_bytes(), answer.into_bytes())
}

fn get(rng: &mut SeededRng) -> (String, String) {
    let keys: Vec<_> = (0..1 + rng.below(4))
        .map(|i| format!("{}{i}", text(rng, 5)))
        .collect();
    let mut answer = String::new();
    for key in &keys {
        if rng.chance(0.6) {
            let len = rng.below(600);
            answer += &format!("VALUE {key} 0 {len}\r\n{}\r\n", text(rng, len));
        }
    }
    (format!("get {}\r\n", keys.join(" ")), answer + "END\r\n")
}
