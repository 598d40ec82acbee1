//! Many concurrent connections, each with one packet lost: a gap in one connection does not delay the others, and
//! nearly all transactions that can be found are found.

use std::collections::HashSet;

use accuracy::{GroundTruth, ObservedPacket, PacketRecording};
use testkit::{SeededRng, SentPacket, TcpDialogue};

const CONNECTIONS: u64 = 4000;
const EXCHANGES: u64 = 8;
const MS: i64 = 1_000_000;

/// A client that waits for each response.
fn connection(nth: u64, rng: &mut SeededRng) -> Vec<SentPacket> {
    let client = format!("10.{}.{}.1:{}", nth / 250, nth % 250, 1024 + nth);
    let mut talk = TcpDialogue::new(&client, "10.99.0.1:80");
    // All connections are open at the same time.
    talk.advance(rng.below(500) as i64 * MS);
    talk.handshake();
    for exchange in 0..EXCHANGES {
        talk.client()
            .send(format!("GET /{nth}/{exchange} HTTP/1.1\r\nHost: shop\r\n\r\n").as_bytes());
        talk.advance(rng.below(100) as i64 * MS);
        let body = "x".repeat(rng.below(4000) as usize);
        let head = format!(
            "HTTP/1.1 {} Said\r\nContent-Length: {}\r\n\r\n",
            400 + exchange,
            body.len()
        );
        talk.server().send((head + &body).as_bytes());
        talk.advance(rng.below(100) as i64 * MS);
    }
    talk.close();
    talk.take()
}

#[test]
fn each_lacks_a_packet() {
    let mut rng = SeededRng::new(1);
    let mut sent: Vec<SentPacket> = (0..CONNECTIONS)
        .flat_map(|nth| connection(nth, &mut rng))
        .collect();
    sent.sort_by_key(|packet| packet.ts);
    let recording = PacketRecording::of(&sent);
    let truth = GroundTruth::of(&recording, "http");
    assert_eq!(truth.size(), ((CONNECTIONS * EXCHANGES) as usize, 0));
    // One of the first packets with payload of each connection.
    let mut lost = HashSet::new();
    let mut holed = HashSet::new();
    for packet in 0..recording.len() {
        let speaks = recording
            .carried(packet)
            .is_some_and(|carried| carried.len > 0);
        let Some((src, dst)) = recording.ends(packet).filter(|_| speaks && rng.chance(0.2)) else {
            continue;
        };
        if holed.insert((src, dst).min((dst, src))) {
            lost.insert(packet);
        }
    }
    assert!(lost.len() as u64 > CONNECTIONS * 9 / 10);
    let mut seen: Vec<ObservedPacket> = recording.whole();
    seen.retain(|one| !lost.contains(&one.packet));
    let count = truth.judge(&recording.play(&seen, "http"), &seen, 0);
    let some: Vec<String> = count
        .faults
        .iter()
        .take(3)
        .map(ToString::to_string)
        .collect();
    assert!(
        some.is_empty(),
        "{} are wrong:\n{}",
        count.faults.len(),
        some.join("\n")
    );
    assert!(
        count.found * 100 >= count.findable * 95,
        "{} of {} are found",
        count.found,
        count.findable
    );
}
