//! Arbitrary rounds of requests and responses, some missing, truncated, or unanswered, with true sequence numbers. If the
//! client waits for each response, no pair is false, and every message is handed out exactly once.
#![no_main]

use std::collections::{BTreeSet, VecDeque};

use flow::StreamPlace;
use libfuzzer_sys::fuzz_target;
use parsers::Direction;
use parsers::pairing::{RequestMatcher, ResponseExpectation, ResponseMatch, TransactionQueue};
use wire::{TcpSeq, Timestamp};

/// A request or a response: the number of the request, from 1. Any response fits any request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Name(u32);

impl RequestMatcher<Name> for Name {}

/// Both ends of a connection, which number and acknowledge bytes, and the queue that sees some of their messages.
struct Ends {
    transactions: TransactionQueue<Name, Name>,
    next: [u32; 2],
    heard: [u32; 2],
    /// Positions of missing bytes that were not reported to the queue.
    lost: [Option<u32>; 2],
    now: i64,
    /// Messages that were seen and not handed out yet.
    open: [BTreeSet<Name>; 2],
    false_pairs: Vec<(Name, Name)>,
}

/// A message; `name` is the number of its request.
#[derive(Clone, Copy)]
struct Message {
    name: Name,
    bytes: u32,
    fate: Fate,
    /// A request: whether it is answered.
    expects: ResponseExpectation,
    /// A response: whether it identifies its request, and whether it differs from other responses.
    tells: [bool; 2],
}

/// Fate of a message in the capture.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Seen,
    Lost,
    /// The end of the message is lost.
    Cut,
    /// The beginning of the message is lost; the rest is not parsed.
    Headless,
}

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;

impl Ends {
    fn say(&mut self, direction: Direction, message: Message) {
        let Message {
            name,
            bytes,
            fate,
            expects,
            tells,
        } = message;
        let at = direction as usize;
        let begin = self.next[at];
        let heard = self.heard[at];
        let place = StreamPlace {
            seq: TcpSeq(begin),
            ack: Some(TcpSeq(heard)),
        };
        self.next[at] = begin.wrapping_add(bytes);
        self.now += 1000;
        let ts = Timestamp(self.now);
        if fate == Fate::Lost {
            self.lost[at].get_or_insert(begin);
            return;
        }
        if fate == Fate::Headless {
            self.lost[at].get_or_insert(begin);
        }
        // Acknowledged bytes are delivered first.
        let other = 1 - at;
        if self.lost[other].is_some_and(|lost| TcpSeq(heard).distance(TcpSeq(lost)) > 0) {
            self.tell_missing([C, S][other]);
        }
        self.tell_missing(direction);
        if fate == Fate::Headless {
            self.transactions.lose(direction);
            return self.hand_out();
        }
        self.open[at].insert(name);
        let end = (fate == Fate::Seen).then_some(TcpSeq(self.next[at]));
        match direction {
            C => {
                let (number, request) = self.transactions.request(ts, place, expects, false);
                *request = name;
                self.transactions.finish_request(number, end);
            }
            S => {
                let (spot, response) = self.transactions.response(ts, place, |request| {
                    match (*request == name, tells) {
                        (true, [true, _]) => ResponseMatch::Sure,
                        (false, [_, true]) => ResponseMatch::No,
                        _ => ResponseMatch::Maybe,
                    }
                });
                *response = name;
                self.transactions.finish_response(spot, end);
            }
        }
        if fate == Fate::Cut {
            self.transactions.miss(direction);
        }
        self.hand_out();
    }

    fn tell_missing(&mut self, direction: Direction) {
        if self.lost[direction as usize].take().is_some() {
            self.transactions.miss(direction);
        }
    }

    fn hand_out(&mut self) {
        let open = &mut self.open;
        let false_pairs = &mut self.false_pairs;
        self.transactions.hand_out(|t| {
            let request = t.request();
            let response = t.response();
            for (open, name) in open.iter_mut().zip([request, response]) {
                assert!(
                    name.is_none_or(|name| open.remove(name)),
                    "{name:?} was handed out before"
                );
            }
            if let (Some(request), Some(response)) = (request, response)
                && request != response
            {
                false_pairs.push((*request, *response));
            }
        });
    }

    fn hear(&mut self, direction: Direction) {
        self.heard[direction as usize] = self.next[1 - direction as usize];
    }
}

/// A message for `name`, with the properties in `bits`.
fn message(name: u32, bits: u8, circumstances: u8, (smallest, losses): (u32, bool)) -> Message {
    let fate = match bits & 15 {
        0..12 => Fate::Seen,
        _ if !losses => Fate::Seen,
        12 | 13 => Fate::Lost,
        14 => Fate::Cut,
        _ => Fate::Headless,
    };
    let expects = match bits >> 6 {
        2 if circumstances & 16 != 0 => ResponseExpectation::Nothing,
        3 if circumstances & 16 != 0 => ResponseExpectation::Perhaps,
        _ => ResponseExpectation::Response,
    };
    let tells = [16, 32].map(|bit| circumstances & 32 != 0 && bits & bit != 0);
    Message {
        name: Name(name),
        bytes: smallest + u32::from(bits >> 4) * 3,
        fate,
        expects,
        tells,
    }
}

fuzz_target!(|input: &[u8]| {
    let [circumstances, smallest, whole, rest @ ..] = input else {
        return;
    };
    let smallest = 2 + u32::from(smallest % 32);
    let mut transactions = TransactionQueue::of_messages_from(smallest);
    if circumstances & 16 != 0 {
        transactions = transactions.with_silent_requests();
    }
    let next = [
        if circumstances & 1 == 0 {
            1000
        } else {
            u32::MAX - 300
        },
        5000,
    ];
    let mut ends = Ends {
        transactions: if circumstances & 2 == 0 {
            transactions
        } else {
            transactions.of_clients_that_wait()
        },
        next,
        heard: [next[1], next[0]],
        lost: [None; 2],
        now: 0,
        open: [BTreeSet::new(), BTreeSet::new()],
        false_pairs: Vec::new(),
    };
    if circumstances & 4 != 0 {
        ends.transactions.join_midway();
    }
    let mut obeys = true;
    let mut rounds = 0;
    let mut name = 0;
    let mut bits = rest.iter().copied();
    while let Some(round) = bits.next() {
        let losses = rounds >= *whole % 8;
        rounds += 1;
        let requests = match round & 63 {
            n @ 0..62 => u32::from(n % 6) + 1,
            // More than the limit of held responses or requests.
            n => {
                if n == 62 {
                    300
                } else {
                    1200
                }
            }
        };
        // The server responds while the client sends requests, or after all of them.
        let at_once = round & 64 != 0;
        ends.hear(C);
        let mut answered = 0;
        let mut waiting = VecDeque::new();
        for asked in 1..=requests {
            let bits_of = bits.next().unwrap_or(0);
            let request = message(name + asked, bits_of, *circumstances, (smallest, losses));
            ends.say(C, request);
            let is_answered = match request.expects {
                ResponseExpectation::Response => true,
                ResponseExpectation::Perhaps => bits.next().is_some_and(|bits| bits & 1 == 0),
                ResponseExpectation::Nothing => false,
            };
            waiting.extend(is_answered.then_some(name + asked));
            while !waiting.is_empty()
                && (asked == requests || at_once && bits.next().is_some_and(|b| b & 1 == 0))
            {
                let name = waiting.pop_front().unwrap_or_default();
                answered += 1;
                ends.hear(S);
                ends.say(
                    S,
                    message(
                        name,
                        bits.next().unwrap_or(0),
                        *circumstances,
                        (smallest, losses),
                    ),
                );
            }
            if round & 128 != 0 && answered > 0 && asked < requests {
                // The client sends more requests after a partial response.
                ends.hear(C);
                obeys = false;
            }
        }
        name += requests;
        assert!(ends.transactions.held() <= parsers::pairing::TRANSACTIONS_MAX);
    }
    if circumstances & 8 != 0 {
        // The FIN gives the end of its stream and its last acknowledgment.
        ends.tell_missing(C);
        ends.tell_missing(S);
        ends.transactions.end_responses();
        ends.hand_out();
    }
    ends.transactions.close();
    ends.hand_out();
    assert!(
        ends.open.iter().all(BTreeSet::is_empty),
        "{:?} was not handed out",
        ends.open
    );
    assert!(
        !obeys || ends.false_pairs.is_empty(),
        "false: {:?}",
        ends.false_pairs
    );
});
