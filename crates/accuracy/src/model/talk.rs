//! A conversation of one client and one server, and its packets.

use testkit::{SeededRng, SentPacket, TcpDialogue};

/// The port of every client.
pub const CLIENT_PORT: u16 = 40_000;

/// Requests and their responses.
#[derive(Default)]
pub struct Conversation {
    /// The server's port.
    pub port: u16,
    /// Bytes of the client before everything else, such as a header of the PROXY protocol.
    pub opening: Vec<u8>,
    /// Messages before the first request: first by the server.
    pub greetings: Vec<Vec<u8>>,
    /// Requests and their responses.
    pub exchanges: Vec<Exchange>,
    /// Limit of the client's pipelining.
    pub habit: Habit,
    /// Length of segments; `None`: any of three lengths.
    pub segment_size: Option<usize>,
}

/// Maximum pipelining of a client.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd)]
pub enum Habit {
    /// The client asks again when it has the answer.
    #[default]
    Waits,
    /// The client sends several requests at once, and more when it has all answers.
    Batches,
    /// The client always has requests outstanding.
    Slides,
}

/// A request and its response.
#[derive(Default)]
pub struct Exchange {
    /// The request.
    pub question: Vec<u8>,
    /// The response; empty: none.
    pub answer: Vec<u8>,
}

impl Conversation {
    /// Generates the packets, and the number of first packets that must be seen. A client that always has requests
    /// outstanding cannot be recognized if that is never seen. If a client with batches is joined midway, the number of
    /// its earlier requests is unknown.
    #[must_use]
    pub fn spoken(self, rng: &mut SeededRng) -> (Vec<SentPacket>, usize) {
        let mut talk = TcpDialogue::new(
            &format!("10.0.0.1:{CLIENT_PORT}"),
            &format!("10.0.0.2:{}", self.port),
        )
        .with_isn(rng.next_u64() as u32, rng.next_u64() as u32);
        talk.segment_size = [40, 200, 1460][rng.below(3) as usize];
        talk.segment_size = self.segment_size.unwrap_or(talk.segment_size);
        talk.announced_size = self.segment_size.map(|size| size as u16);
        talk.acks = rng.chance(0.5);
        talk.handshake();
        let joined = talk.sent().len();
        if !self.opening.is_empty() {
            talk.client().send(&self.opening);
        }
        for (i, said) in self.greetings.iter().enumerate() {
            let mut end = if i % 2 == 0 {
                talk.server()
            } else {
                talk.client()
            };
            end.send(said);
        }
        // Requests outstanding, or requests per batch.
        let depth = if self.habit == Habit::Waits {
            1
        } else {
            1 + rng.below(8) as usize
        };
        let slides = self.habit == Habit::Slides && depth > 1 && rng.chance(0.3);
        // Packets up to where a request follows while others are under way, and the answer to one of those.
        let mut asked = 0;
        let mut answered = 0;
        let mut plain = 0;
        let mut slid = 0;
        // A silent response is not noticed.
        let mut has_heard = false;
        let all = self.exchanges.len();
        while answered < all {
            let may_ask = if slides {
                depth - (asked - answered)
            } else if asked == answered {
                depth
            } else {
                0
            };
            let batch = &self.exchanges[asked..all.min(asked + may_ask)];
            let answerable = |all: &[Exchange]| all.iter().any(|e| !e.answer.is_empty());
            let under_way = answered > 0 && answerable(&self.exchanges[answered..asked]);
            slid += usize::from(slides && under_way && has_heard && answerable(batch));
            has_heard &= batch.is_empty();
            asked += batch.len();
            if rng.chance(0.7) {
                let together: Vec<u8> = batch.iter().flat_map(|e| e.question.clone()).collect();
                if !together.is_empty() {
                    talk.client().send(&together);
                }
            } else {
                batch
                    .iter()
                    .for_each(|e| _ = talk.client().send(&e.question));
            }
            let pause_max = if rng.chance(0.02) {
                3_000_000_000
            } else {
                2_000_000
            };
            talk.advance(rng.below(pause_max) as i64);
            let n = 1 + rng.below((asked - answered) as u64) as usize;
            let answers = &self.exchanges[answered..answered + n];
            answered += n;
            has_heard |= answerable(answers);
            if rng.chance(0.3) {
                let together: Vec<u8> = answers.iter().flat_map(|e| e.answer.clone()).collect();
                if !together.is_empty() {
                    talk.server().send(&together);
                }
            } else {
                for answer in answers.iter().filter(|e| !e.answer.is_empty()) {
                    talk.server().send(&answer.answer);
                }
            }
            talk.advance(rng.below(500_000) as i64);
            if slides && slid < 2 {
                plain = talk.sent().len();
            }
        }
        talk.close();
        let seen = if depth > 1 { plain.max(joined) } else { plain };
        (talk.take(), seen)
    }
}

/// Some bytes, which begin no message of any protocol.
#[must_use]
pub fn text(rng: &mut SeededRng, len: u64) -> Vec<u8> {
    (0..len)
        .map(|_| b"bhjkopxyzbhjkop xyz\r\n"[rng.below(21) as usize])
        .collect()
}
