//! A conversation whose two ends act by the clock: the client sends by its own pace while the server takes its time, and
//! segments need theirs to arrive. What either end acknowledges is what had arrived when it spoke.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;

use testkit::packet::tcp_info;
use testkit::{SeededRng, SentPacket};
use wire::Timestamp;
use wire::packet::TcpFlags;

use super::talk::{self, Exchange};

/// Nanoseconds there and back.
const RTT: i64 = 1_000_000;

/// When a client sends its next requests.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// This number of requests at once, after all previous ones were answered.
    Batches(usize),
    /// As soon as fewer than this are outstanding.
    Window(usize),
    /// At random times with this average distance in nanoseconds, whatever is outstanding.
    Random(u64),
}

impl Pace {
    /// Paces of a client, each with its first exchange: one pace, or first that of a client that waits.
    #[must_use]
    pub fn of_a_client(rng: &mut SeededRng) -> Vec<(usize, Pace)> {
        let pace = match rng.below(4) {
            0 => Pace::Batches(1 + rng.below(4) as usize),
            1 => Pace::window(rng),
            _ => Pace::random(rng),
        };
        if rng.chance(0.3) {
            vec![(0, Pace::Batches(1)), (5 + rng.below(30) as usize, pace)]
        } else {
            vec![(0, pace)]
        }
    }

    /// A pace of clients that do not wait.
    pub(crate) fn with_requests_outstanding(rng: &mut SeededRng) -> Pace {
        if rng.chance(0.5) {
            Pace::window(rng)
        } else {
            Pace::random(rng)
        }
    }

    fn window(rng: &mut SeededRng) -> Pace {
        Pace::Window([2, 2, 3, 4, 8, 16][rng.below(6) as usize])
    }

    fn random(rng: &mut SeededRng) -> Pace {
        Pace::Random((RTT as u64) * [1, 2, 4, 8, 16][rng.below(5) as usize] / 4)
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Bytes of the client reach the server, up to this one.
    AtServer(u32),
    /// The server has the answer to the request that it works on.
    Answers,
    /// Bytes of the server up to this one reach the client and complete this many responses.
    AtClient(u32, usize),
    /// The client looks whether to send.
    Wakes,
}

/// Both ends, and the tap between them.
struct Ends<'a> {
    rng: &'a mut SeededRng,
    exchanges: &'a [Exchange],
    addresses: [SocketAddr; 2],
    /// Next sequence number of each end, and its acknowledgment.
    next: [u32; 2],
    heard: [u32; 2],
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    nth: u64,
    now: i64,
    /// Nanoseconds: one-way delay, its part between the client and the tap, and the server's average time for a
    /// response.
    delay: i64,
    to_tap: i64,
    work: u64,
    segment_size: usize,
    acks: bool,
    sent: Vec<(i64, u64, SentPacket)>,
    asked: usize,
    /// Answers that have arrived, and that are expected.
    answered: usize,
    awaited: usize,
    /// End of each unanswered request.
    waiting: VecDeque<(u32, usize)>,
    working: bool,
    /// The client will look whether to send.
    wakes: bool,
}

/// The packets of a connection in which `exchanges` come at the paces of `paces`: each from its exchange on.
#[must_use]
pub fn spoken(
    port: u16,
    exchanges: &[Exchange],
    paces: &[(usize, Pace)],
    rng: &mut SeededRng,
) -> Vec<SentPacket> {
    let address = |text: String| text.parse().expect("an address");
    let isn = [rng.next_u64() as u32, rng.next_u64() as u32];
    let mut ends = Ends {
        exchanges,
        addresses: [
            address(format!("10.0.0.1:{}", talk::CLIENT_PORT)),
            address(format!("10.0.0.2:{port}")),
        ],
        next: isn,
        heard: [0; 2],
        events: BinaryHeap::new(),
        nth: 0,
        now: 0,
        delay: RTT / 2,
        to_tap: [0, RTT / 4, RTT / 2][rng.below(3) as usize],
        work: [RTT / 20, RTT / 2, 2 * RTT][rng.below(3) as usize] as u64,
        segment_size: [200, 1460, 1460][rng.below(3) as usize],
        acks: rng.chance(0.5),
        sent: Vec::new(),
        asked: 0,
        answered: 0,
        awaited: 0,
        waiting: VecDeque::new(),
        working: false,
        wakes: true,
        rng,
    };
    ends.say(0, TcpFlags::SYN, b"");
    ends.now += ends.delay;
    ends.heard[1] = ends.next[0];
    ends.say(1, TcpFlags::SYN | TcpFlags::ACK, b"");
    ends.now += ends.delay;
    ends.heard[0] = ends.next[1];
    ends.say(0, TcpFlags::ACK, b"");
    ends.plan(0, Event::Wakes);
    ends.run(paces);
    ends.now += 10 * RTT;
    ends.say(0, TcpFlags::FIN | TcpFlags::ACK, b"");
    ends.heard[1] = ends.next[0];
    ends.now += 2 * RTT;
    ends.say(1, TcpFlags::FIN | TcpFlags::ACK, b"");
    ends.heard[0] = ends.next[1];
    ends.now += 2 * RTT;
    ends.say(0, TcpFlags::ACK, b"");
    ends.sent.sort_by_key(|(ts, nth, _)| (*ts, *nth));
    ends.sent.into_iter().map(|(.., sent)| sent).collect()
}

impl Ends<'_> {
    fn plan(&mut self, after: i64, event: Event) {
        self.nth += 1;
        self.events
            .push(Reverse((self.now + after, self.nth, event)));
    }

    fn run(&mut self, paces: &[(usize, Pace)]) {
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            self.now = now;
            match event {
                Event::AtServer(end) => {
                    self.heard[1] = end;
                    self.acknowledge(1);
                    self.work();
                }
                Event::Answers => self.answer(),
                Event::AtClient(end, answers) => {
                    self.heard[0] = end;
                    self.answered += answers;
                    self.acknowledge(0);
                    self.ask(paces, false);
                }
                Event::Wakes => self.ask(paces, true),
            }
        }
    }

    fn ask(&mut self, paces: &[(usize, Pace)], wakes: bool) {
        self.wakes &= !wakes;
        let outstanding = self.awaited - self.answered;
        let n = match self.pace(paces) {
            Pace::Batches(n) => n * usize::from(outstanding == 0),
            Pace::Window(n) => n.saturating_sub(outstanding),
            Pace::Random(_) => usize::from(wakes),
        };
        let until = self.exchanges.len().min(self.asked + n);
        let together = self.rng.chance(0.5);
        let mut bytes = Vec::new();
        for nth in self.asked..until {
            let Exchange { question, answer } = &self.exchanges[nth];
            bytes.extend(question);
            self.awaited += usize::from(!answer.is_empty());
            self.waiting
                .push_back((self.next[0].wrapping_add(bytes.len() as u32), nth));
            if !together || nth + 1 == until {
                self.say(
                    0,
                    TcpFlags::ACK | TcpFlags::PSH,
                    &std::mem::take(&mut bytes),
                );
                self.plan(self.delay, Event::AtServer(self.next[0]));
            }
        }
        self.asked = until;
        let after = match self.pace(paces) {
            _ if self.wakes || until == self.exchanges.len() => return,
            Pace::Random(gap) => {
                let uniform = (1 + self.rng.below(1 << 20)) as f64 / (1 << 20) as f64;
                (-uniform.ln() * gap as f64) as i64
            }
            _ if self.awaited == self.answered => self.rng.below(1_000_000) as i64,
            _ => return,
        };
        self.wakes = true;
        self.plan(after + 1, Event::Wakes);
    }

    fn pace(&self, paces: &[(usize, Pace)]) -> Pace {
        let begun = paces.iter().rev().find(|(from, _)| self.asked >= *from);
        begun
            .map(|(_, pace)| *pace)
            .expect("the first exchange has a pace")
    }

    fn work(&mut self) {
        let heard = self.heard[1];
        while let Some((end, nth)) = self.waiting.front().copied() {
            if self.working || (heard.wrapping_sub(end) as i32) < 0 {
                return;
            }
            if self.exchanges[nth].answer.is_empty() {
                self.waiting.pop_front();
                continue;
            }
            self.working = true;
            let work = 1 + self.rng.below(2 * self.work) as i64;
            self.plan(work, Event::Answers);
        }
    }

    fn answer(&mut self) {
        self.working = false;
        let (_, nth) = self
            .waiting
            .pop_front()
            .expect("the server processes a request");
        let answer = &self.exchanges[nth].answer;
        self.say(1, TcpFlags::ACK | TcpFlags::PSH, answer);
        self.plan(self.delay, Event::AtClient(self.next[1], 1));
        self.work();
    }

    fn acknowledge(&mut self, at: usize) {
        if self.acks {
            self.say(at, TcpFlags::ACK, b"");
        }
    }

    fn say(&mut self, at: usize, flags: TcpFlags, bytes: &[u8]) {
        let to_tap = if at == 0 {
            self.to_tap
        } else {
            self.delay - self.to_tap
        };
        let ends = (self.addresses[at], self.addresses[1 - at]);
        let pieces = bytes
            .chunks(self.segment_size)
            .chain(bytes.is_empty().then_some(bytes));
        for piece in pieces {
            let info = tcp_info(self.next[at], self.heard[at], flags);
            self.nth += 1;
            let ts = self.now + to_tap;
            let time = Timestamp(1_700_000_000_000_000_000 + ts);
            let sent = SentPacket::tcp(time, ends, info, piece);
            self.sent.push((
                ts,
                self.nth,
                SentPacket {
                    ip_id: self.nth as u16 | 1,
                    ..sent
                },
            ));
            let takes = piece.len() as u32
                + u32::from(flags.contains(TcpFlags::SYN) || flags.contains(TcpFlags::FIN));
            self.next[at] = self.next[at].wrapping_add(takes);
        }
    }
}
