//! Captures whose clock is set back in the middle, with missing packets: as many transactions are parsed after the step
//! as without it, and no pair is wrong.

use testkit::{SeededRng, SentPacket, TcpDialogue};

use crate::support::{Row, run, written};

const MS: i64 = 1_000_000;

/// Clients that send three requests at once and wait for the responses; a response has as many bytes as its request
/// path states. Some packets are missing.
fn pipelined(loss: f64) -> Vec<SentPacket> {
    let mut sent = Vec::new();
    let mut rng = SeededRng::new(7);
    for n in 0..20 {
        let mut talk = TcpDialogue::new(&format!("10.0.{n}.1:40000"), "10.0.0.2:80");
        talk.advance(n * 3 * MS);
        talk.handshake();
        for round in 0..100 {
            let ids: Vec<usize> = (0..3).map(|i| 1 + round * 3 + i).collect();
            for id in &ids {
                talk.client()
                    .send(format!("GET /{n}/{id} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
            }
            talk.advance(2 * MS);
            for id in &ids {
                let body = "x".repeat(*id);
                talk.server().send(
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {id}\r\n\r\n{body}").as_bytes(),
                );
            }
            talk.advance(20 * MS);
        }
        talk.close();
        sent.extend(talk.take());
    }
    sent.sort_by_key(|sent| sent.ts);
    sent.retain(|_| !rng.chance(loss));
    sent
}

fn rows(sent: &[SentPacket]) -> Vec<Row> {
    let file = written(sent);
    run(file.path(), "http").rows
}

/// Number of pairs. All are correct, and each ends after it starts.
fn pairs(rows: &[Row]) -> usize {
    let is_pair = |row: &&Row| row.contains_key("path") && row.contains_key("status");
    for row in rows.iter().filter(is_pair) {
        let id = row["path"].rsplit('/').next().expect("a number");
        assert!(
            row.get("response_bytes").is_none_or(|bytes| bytes == id),
            "{row:?}"
        );
    }
    rows.iter().filter(is_pair).count()
}

#[test]
fn behind_a_step_back_as_much_is_found() {
    for loss in [0.0, 0.02] {
        let whole = pipelined(loss);
        let expected = pairs(&rows(&whole));
        for step in [200 * MS, 5_000 * MS, 3_600_000 * MS] {
            let mut stepped = whole.clone();
            let middle = stepped.len() / 3;
            stepped[middle..]
                .iter_mut()
                .for_each(|sent| sent.ts = sent.ts.plus(-step));
            let found = pairs(&rows(&stepped));
            let lost = expected.saturating_sub(found);
            println!(
                "{found} of {expected}: a step of {} ms, loss {loss}",
                step / MS
            );
            // Transactions in progress at the step are lost; with packet loss, also those that wait for an
            // acknowledgment.
            let most = if loss > 0.0 { expected * 12 / 100 } else { 30 };
            assert!(
                lost <= most,
                "{found} instead of {expected} with {} ms and {loss}",
                step / MS
            );
        }
    }
}
