//! Any rounds of requests and their responses, some of them missing or without their ends, with true numbers: as long as the
//! client only asks when it was answered no pair is false, and everything that was seen is handed out exactly once.
#![no_main]

use std::collections::BTreeSet;

use flow::Place;
use libfuzzer_sys::fuzz_target;
use parsers::Direction;
use parsers::pairing::{Answers, Expects, Fit, Transactions};
use wire::{TcpSeq, Timestamp};

/// A request or a response: the number of the request, from 1. Each fits all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Name(u32);

impl Answers<Name> for Name {}

/// Both ends of a connection, who number and acknowledge bytes, and the queue that hears some of what they say.
struct Ends {
    transactions: Transactions<Name, Name>,
    next: [u32; 2],
    heard: [u32; 2],
    /// Where bytes are missing that the queue was not told of.
    lost: [Option<u32>; 2],
    now: i64,
    /// What was seen and is not handed out.
    open: [BTreeSet<Name>; 2],
    false_pairs: Vec<(Name, Name)>,
}

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Seen,
    Lost,
    /// Its end is lost.
    Cut,
    /// Its beginning is lost: what is left is not understood.
    Headless,
}

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;

impl Ends {
    fn say(&mut self, direction: Direction, name: Name, bytes: u32, fate: Fate) {
        let at = direction as usize;
        let (begin, heard) = (self.next[at], self.heard[at]);
        let place = Place { seq: TcpSeq(begin), ack: Some(TcpSeq(heard)) };
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
        // What was heard comes first.
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
                let (number, request) = self.transactions.request(ts, place, Expects::Response, false);
                *request = name;
                self.transactions.finish_request(number, end);
            }
            S => {
                let (spot, response) = self.transactions.response(ts, place, |_| Fit::Maybe);
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
        let (open, false_pairs) = (&mut self.open, &mut self.false_pairs);
        self.transactions.hand_out(|t| {
            let (request, response) = (t.request(), t.response());
            for (open, name) in open.iter_mut().zip([request, response]) {
                assert!(name.is_none_or(|name| open.remove(name)), "{name:?} was handed out before");
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

/// Bytes of a message, and what becomes of it.
fn message(bits: u8, smallest: u32, losses: bool) -> (u32, Fate) {
    let fate = match bits & 15 {
        0..12 => Fate::Seen,
        _ if !losses => Fate::Seen,
        12 | 13 => Fate::Lost,
        14 => Fate::Cut,
        _ => Fate::Headless,
    };
    (smallest + u32::from(bits >> 4) * 3, fate)
}

fuzz_target!(|input: &[u8]| {
    let [circumstances, smallest, whole, rest @ ..] = input else { return };
    let smallest = 2 + u32::from(smallest % 32);
    let transactions = Transactions::of_messages_from(smallest);
    let next = [if circumstances & 1 == 0 { 1000 } else { u32::MAX - 300 }, 5000];
    let mut ends = Ends {
        transactions: if circumstances & 2 == 0 { transactions } else { transactions.of_clients_that_wait() },
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
    let (mut obeys, mut rounds, mut name) = (true, 0, 0);
    let mut bits = rest.iter().copied();
    while let Some(round) = bits.next() {
        let losses = rounds >= *whole % 8;
        rounds += 1;
        let requests = match round & 63 {
            n @ 0..62 => u32::from(n % 6) + 1,
            // More than is held: of responses, or of requests.
            n => {
                if n == 62 {
                    300
                } else {
                    1200
                }
            }
        };
        // The server answers while the client asks, or when it has asked all.
        let at_once = round & 64 != 0;
        ends.hear(C);
        let mut answered = 0;
        for asked in 1..=requests {
            let (bytes, fate) = message(bits.next().unwrap_or(0), smallest, losses);
            ends.say(C, Name(name + asked), bytes, fate);
            while answered < asked
                && (asked == requests || at_once && bits.next().is_some_and(|b| b & 1 == 0))
            {
                answered += 1;
                ends.hear(S);
                let (bytes, fate) = message(bits.next().unwrap_or(0), smallest, losses);
                ends.say(S, Name(name + answered), bytes, fate);
            }
            if round & 128 != 0 && answered > 0 && asked < requests {
                // It asks for more when it has heard a part.
                ends.hear(C);
                obeys = false;
            }
        }
        name += requests;
        assert!(ends.transactions.held() <= parsers::pairing::TRANSACTIONS_MAX);
    }
    if circumstances & 8 != 0 {
        // Its FIN says where its stream ends, and what it has heard.
        ends.tell_missing(C);
        ends.tell_missing(S);
        ends.transactions.end_responses();
        ends.hand_out();
    }
    ends.transactions.close();
    ends.hand_out();
    assert!(ends.open.iter().all(BTreeSet::is_empty), "{:?} was not handed out", ends.open);
    assert!(!obeys || ends.false_pairs.is_empty(), "false: {:?}", ends.false_pairs);
});
