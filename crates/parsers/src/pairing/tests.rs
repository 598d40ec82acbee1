//! Scripts of requests, responses, and losses of both, with the expected pairs.

use flow::StreamPlace;
use proptest::prelude::*;
use wire::{TcpSeq, Timestamp};

use super::*;
use crate::Direction;

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;

impl RequestMatcher<char> for char {}

/// Both ends of a connection with their sequence numbers and acknowledgments, and a queue that receives a
/// part of the messages.
struct PairingTestEnds {
    transactions: TransactionQueue<char, char>,
    next: [u32; 2],
    heard: [u32; 2],
    lost: [bool; 2],
    now: i64,
    out: Vec<String>,
}

impl PairingTestEnds {
    fn new() -> PairingTestEnds {
        PairingTestEnds::with(TransactionQueue::of_messages_from(10))
    }

    fn with(transactions: TransactionQueue<char, char>) -> PairingTestEnds {
        PairingTestEnds {
            transactions,
            next: [1000, 5000],
            heard: [5000, 1000],
            lost: [false; 2],
            now: 0,
            out: Vec::new(),
        }
    }

    /// Sends a message of one side that has received everything (`heard`) or nothing new; `seen`: the queue
    /// receives it.
    fn say(&mut self, direction: Direction, name: char, bytes: u32, heard: bool, seen: bool) {
        let at = direction as usize;
        let other = 1 - at;
        if heard {
            self.heard[at] = self.next[other];
        }
        let place = StreamPlace {
            seq: TcpSeq(self.next[at]),
            ack: Some(TcpSeq(self.heard[at])),
        };
        self.next[at] += bytes;
        self.now += 1000;
        let ts = Timestamp(self.now);
        let end = Some(TcpSeq(self.next[at]));
        if !seen {
            self.lost[at] = true;
            return;
        }
        // A gap is reported when its side sends again, or the other side acknowledges bytes in it.
        for direction in [C, S] {
            if (direction as usize == at || heard)
                && std::mem::take(&mut self.lost[direction as usize])
            {
                self.transactions.miss(direction);
            }
        }
        match direction {
            C => {
                let (number, request) =
                    self.transactions
                        .request(ts, place, ResponseExpectation::Response, false);
                *request = name;
                self.transactions.finish_request(number, end);
            }
            S => {
                let (spot, response) = self
                    .transactions
                    .response(ts, place, |_| ResponseMatch::Maybe);
                *response = name;
                self.transactions.finish_response(spot, end);
            }
        }
        self.hand_out();
    }

    fn hand_out(&mut self) {
        hand_out(&mut self.transactions, &mut self.out);
    }

    fn close(mut self) -> Vec<String> {
        self.transactions.close();
        self.hand_out();
        self.out
    }
}

/// Finished transactions as text: `12` is request 1 with response 2, `'` marks one found after missing
/// messages.
fn hand_out(transactions: &mut TransactionQueue<char, char>, out: &mut Vec<String>) {
    transactions.hand_out(|t| {
        let resync = if t.resynchronized() && t.request().is_some() && t.response().is_some() {
            "'"
        } else {
            ""
        };
        out.push(format!(
            "{}{}{resync}",
            t.request().unwrap_or(&'-'),
            t.response().unwrap_or(&'-')
        ));
    });
}

/// Runs `script`. `q1` is request 1 of a client that has received everything, `p1` of one that has received
/// nothing since its last request, `r1` the response to request 1. `Q`, `P`, and `R`: the same message is
/// missing.
fn check(script: &str, expected: &str) {
    let mut ends = PairingTestEnds::new();
    for step in script.split(' ') {
        let name = step.chars().nth(1).expect("a step has a name");
        match &step[..1] {
            kind @ ("q" | "p" | "Q" | "P") => {
                let seen = kind == "q" || kind == "p";
                ends.say(C, name, 30, kind.eq_ignore_ascii_case("q"), seen);
            }
            kind => ends.say(S, name, 100, true, kind == "r"),
        }
    }
    assert_eq!(ends.close().join(" "), expected, "{script}");
}

#[test]
fn whole_streams() {
    check("q1 r1 q2 r2", "11 22");
    check("q1 p2 p3 r1 r2 r3", "11 22 33");
    check("q1 p2 r1 q3 r2 r3", "11 22 33");
    check("q1 p2 r1", "11 2-");
    check("q1 r1 r2", "11 -2");
}

#[test]
fn a_client_that_waits() {
    // A lost response affects no other request.
    check("q1 r1 q2 r2 q3 R3 q4 r4 q5 r5", "11 22 3- 44' 55");
    // Nor does the response to a lost request.
    check("q1 r1 q2 r2 q3 r3 Q4 r4 q5 r5 q6 r6", "11 22 33 -4 55' 66");
    check(
        "q1 r1 q2 r2 q3 r3 Q4 r4 Q5 r5 q6 r6 q7 r7",
        "11 22 33 -4 -5 66' 77",
    );
    // Both are lost.
    check("q1 r1 q2 r2 q3 r3 Q4 R4 q5 r5 q6 r6", "11 22 33 55' 66'");
}

#[test]
fn undecided_client_behavior() {
    check("q1 r1 Q2 r2 q3 r3 q4 r4", "11 -2 33' 44");
    check("q1 R1 q2 r2", "1- 22'");
}

#[test]
fn batches() {
    let begin = "q1 p2 r1 r2 q3 p4 r3 r4 q5 p6 r5 r6 ";
    let check = |script: &str, expected: &str| {
        check(
            &format!("{begin}{script}"),
            &format!("11 22 33 44 55 66 {expected}"),
        );
    };
    check("q7 p8 r7 R8 q9 pa r9 ra", "77 8- 99' aa");
    check("q7 p8 R7 r8 q9 pa r9 ra", "7- 88' 99 aa");
    check("Q7 p8 r7 r8 q9 pa r9 ra", "-7 88' 99' aa");
    check("q7 P8 r7 r8 q9 pa r9 ra qb pc rb rc", "77 -8 99' aa bb cc");
}

#[test]
fn pipelining_clients_have_no_guessed_pairs() {
    // By count `r5` answers 5 or 6, and so `r6` answers 6.
    check(
        "q1 p2 r1 q3 r2 q4 r3 R4 q5 q6 r5 r6",
        "11 22 33 -5 4- 5- 66'",
    );
    // A request is missing: counting is impossible.
    check(
        "q1 p2 r1 q3 r2 q4 r3 r4 Q5 q6 r5 r6 q7 r7",
        "11 22 33 44 -5 -6 6- 7- -7",
    );
    // The first request after the missing one proves that the client waits: other requests had no response yet.
    check(
        "q1 p2 p3 r1 Q4 p5 r2 r3 r4 r5 q6 r6 q7 r7 q8 r8",
        "11 22 33 -4 -5 5- 6- -6 7- -7 8- -8",
    );
}

#[test]
fn assumed_client_behavior_is_provisional() {
    // After a missing request, the client, which seemed to wait, sends while a request is unanswered.
    let begin = "q1 r1 q2 r2 q3 r3 Q4 r4 q5 r5 q6 r6";
    check(begin, "11 22 33 -4 55' 66");
    check(
        &format!("{begin} q7 p8 r7 q9"),
        "11 22 33 -4 5- -5 6- -6 7- -7 8- 9-",
    );
    // Enough rounds have agreed.
    let rounds: String = "789abcdef".chars().map(|n| format!(" q{n} r{n}")).collect();
    let found: String = "789abcdef".chars().map(|n| format!(" {n}{n}")).collect();
    check(
        &format!("{begin}{rounds} qg ph rg qi"),
        &format!("11 22 33 -4 55' 66{found} gg h- i-"),
    );
}

#[test]
fn a_round_with_other_counts_shows_that_the_client_does_not_wait() {
    // The first batch is missing. Two requests follow two responses, and get the responses to six.
    check(
        "Q1 P2 P3 P4 P5 P6 P7 P8 r1 r2 q9 pa r3 R4 r5 r6 r7 r8 qb pc pd pe pf pg r9 ra rb rc rd re qh pi rf rg",
        "-1 -2 -5 -6 -7 -8 9- -3 a- b- c- d- e- f- g- -9 -a -b -c -d -e h- i- -f -g",
    );
    // At most two of the responses to three requests are missing.
    let mut ends = PairingTestEnds::with(TransactionQueue::of_messages_from(50));
    for (request, seen) in [('1', true), ('2', true), ('3', true), ('4', false)] {
        ends.say(C, request, 100, request == '1', seen);
    }
    ends.say(S, '1', 100, true, false);
    for (request, response) in "56789abcd".chars().zip("23456789a".chars()) {
        ends.say(C, request, 100, true, true);
        ends.say(S, response, 100, true, true);
    }
    let out = ends.close();
    assert!(out.iter().all(|text| text.contains('-')), "{out:?}");
}

/// Whether each text is a half, or a pair of one name.
fn has_no_wrong_pair(out: &[String]) -> bool {
    out.iter().all(|text| {
        let names: Vec<char> = text.chars().take(2).collect();
        names.contains(&'-') || names[0] == names[1]
    })
}

/// A response shows that its server had not received the missing requests behind it. They were sent before the client
/// received that response, or with the next requests, which then have too few responses.
#[test]
fn missing_requests_that_the_server_had_not_received() {
    let mut ends = PairingTestEnds::new();
    ends.say(C, '1', 30, true, true);
    ends.say(S, '1', 100, true, true);
    ends.say(C, '2', 30, false, false);
    ends.say(C, '3', 30, false, false);
    for (requests, responses) in [("456", "234"), ("789", "567")] {
        requests
            .char_indices()
            .for_each(|(i, name)| ends.say(C, name, 30, i == 0, true));
        responses
            .chars()
            .for_each(|name| ends.say(S, name, 100, true, true));
    }
    let out = ends.close();
    assert!(has_no_wrong_pair(&out), "{out:?}");
}

#[test]
fn a_count_on_trial_is_lost_when_the_connection_is_idle() {
    let mut ends = PairingTestEnds::new();
    ends.say(C, '1', 30, true, true);
    ends.say(S, '1', 100, true, true);
    // A request is outstanding, and another in progress.
    ends.say(C, '2', 30, true, true);
    let place = StreamPlace {
        seq: TcpSeq(ends.next[0]),
        ack: Some(TcpSeq(ends.heard[0])),
    };
    *ends
        .transactions
        .request(Timestamp(0), place, ResponseExpectation::Response, false)
        .1 = '3';
    ends.transactions.pause();
    ends.hand_out();
    ends.next[0] += 30;
    ends.lost[0] = true;
    for (request, response) in [('4', '2'), ('5', '3'), ('6', '4')] {
        ends.say(C, request, 30, true, true);
        ends.say(S, response, 100, true, true);
    }
    ends.say(C, '7', 30, true, true);
    ends.transactions.pause();
    ends.hand_out();
    for (request, response) in [('8', '5'), ('9', '6'), ('a', '7'), ('b', '8')] {
        ends.say(S, response, 100, true, true);
        ends.say(C, request, 30, true, true);
    }
    let out = ends.close();
    assert!(has_no_wrong_pair(&out), "{out:?}");
}

#[test]
fn bytes_cut_off_behind_a_request_are_others() {
    let play = |cut: bool| {
        let mut ends = PairingTestEnds::new();
        ends.say(C, '1', 30, true, true);
        ends.say(S, '1', 100, true, true);
        ends.say(C, '2', 30, true, false);
        ends.say(S, '2', 100, true, true);
        ends.say(C, '3', 30, true, true);
        if cut {
            ends.transactions.cut_packet(TcpSeq(ends.next[0] - 30));
        } else {
            ends.transactions.cut_packet(TcpSeq(ends.next[0]));
        }
        ends.say(S, '3', 100, true, true);
        ends.close().join(" ")
    };
    assert_eq!(play(false), "11 -2 33'");
    assert_eq!(play(true), "11 -2 3- -3");
}

#[test]
fn missing_requests_may_be_unanswered() {
    let play = |transactions: TransactionQueue<char, char>| {
        let mut ends = PairingTestEnds::with(transactions);
        for name in ['1', '2', '3'] {
            ends.say(C, name, 10, true, true);
            ends.say(S, name, 10, true, true);
        }
        // The second of three requests is missing, and was not answered.
        ends.say(C, '4', 10, true, true);
        ends.say(C, 'x', 10, false, false);
        ends.say(C, '5', 10, false, true);
        ends.say(S, '4', 10, true, true);
        ends.say(S, '5', 10, true, true);
        ends
    };
    let all: TransactionQueue<char, char> = TransactionQueue::of_messages_from(10);
    assert_eq!(play(all).close().join(" "), "11 22 33 44 -5 5-");
    let mut some = play(TransactionQueue::of_messages_from(10).with_silent_requests());
    some.say(C, '6', 10, true, true);
    some.say(S, '6', 10, true, true);
    // Too few rounds agree that the client waits.
    assert_eq!(some.close().join(" "), "11 22 33 44 5- -5 6- -6");
}

#[test]
fn requests_without_a_response_do_not_block_others() {
    let mut transactions = TransactionQueue::<char, char>::of_messages_from(10);
    let mut out: Vec<char> = Vec::new();
    let place = |seq, ack| StreamPlace {
        seq: TcpSeq(seq),
        ack: Some(TcpSeq(ack)),
    };
    for (i, expects) in [
        ResponseExpectation::Response,
        ResponseExpectation::Nothing,
        ResponseExpectation::Response,
    ]
    .into_iter()
    .enumerate()
    {
        let at = 100 + 10 * i as u32;
        let (number, request) = transactions.request(Timestamp(0), place(at, 500), expects, false);
        *request = ['a', 'b', 'c'][i];
        for end in [None, Some(TcpSeq(at + 10))] {
            end.into_iter()
                .for_each(|end| _ = transactions.finish_request(number, Some(end)));
            transactions.hand_out_silent(number, |t| out.extend(t.request().copied()));
        }
    }
    assert_eq!(out, ['b']);
    for (seq, name) in [(500, 'a'), (510, 'c')] {
        let (spot, response) =
            transactions.response(Timestamp(0), place(seq, 130), |_| ResponseMatch::Maybe);
        *response = name;
        transactions.finish_response(spot, Some(TcpSeq(seq + 10)));
    }
    let mut pairs = Vec::new();
    hand_out(&mut transactions, &mut pairs);
    assert_eq!(pairs, ["aa", "cc"]);
}

#[test]
fn silence_means_something_when_all_was_seen() {
    use TransactionOutcome::{Half, Open, Silent};
    // Requests by name, optional ones in upper case; the requests that each response can answer; and the
    // outcomes.
    for (asked, told, expected) in [
        ("ABc", Some("c"), [Silent, Silent, Open]),
        ("ABc", Some("B"), [Silent, Open, Half]),
        // The response may answer either of two requests; counting continues.
        ("ABc", Some("AB"), [Half, Half, Half]),
        ("ABc", Some("AB c"), [Half, Half, Open]),
        ("ABc", Some("AB AB c"), [Half, Half, Open]),
        ("ABc", Some("AB B"), [Half, Open, Half]),
        ("AbC", None, [Silent, Half, Half]),
        ("ABC", None, [Silent, Silent, Silent]),
    ] {
        let mut transactions = TransactionQueue::<char, char>::of_messages_from(10);
        let place = |seq| StreamPlace {
            seq: TcpSeq(seq),
            ack: Some(TcpSeq(500)),
        };
        for (i, name) in asked.chars().enumerate() {
            let expects = if name.is_uppercase() {
                ResponseExpectation::Perhaps
            } else {
                ResponseExpectation::Response
            };
            let at = 100 + 10 * i as u32;
            let (number, request) = transactions.request(Timestamp(0), place(at), expects, false);
            *request = name;
            transactions.finish_request(number, Some(TcpSeq(at + 10)));
        }
        for (i, told) in told
            .into_iter()
            .flat_map(|told: &str| told.split(' ').enumerate())
        {
            let at = 500 + 10 * i as u32;
            let place = StreamPlace {
                seq: TcpSeq(at),
                ack: Some(TcpSeq(130)),
            };
            let fit = |name: &char| {
                if !told.contains(*name) {
                    ResponseMatch::No
                } else if told.len() == 1 {
                    ResponseMatch::Sure
                } else {
                    ResponseMatch::Maybe
                }
            };
            let (spot, _) = transactions.response(Timestamp(0), place, fit);
            transactions.finish_response(spot, Some(TcpSeq(at + 10)));
            assert!(transactions.is_exact());
        }
        transactions.end_responses();
        let mut outcomes = Vec::new();
        transactions.hand_out(|t| outcomes.extend(t.request().map(|_| t.outcome())));
        assert_eq!(outcomes, expected, "{asked} {told:?}");
    }
}

#[test]
fn responses_that_name_their_requests() {
    // Steps: `q1` a request, `r1` its response, `R` missing server bytes, `Q` missing client bytes.
    for (script, expected) in [
        ("q1 q2 q3 r2 r1 r3", "11 22 33"),
        ("q1 q2 q3 R r3 q4 r4", "1- 2- 33' 44"),
        ("q1 Q q3 r1 r2 r3 q4 r4", "11 -2 33' 44"),
        ("q1 q2 r1 R q3 r3 q4 r4", "11 2- 33' 44"),
    ] {
        let mut transactions = TransactionQueue::<char, char>::of_messages_from(10);
        transactions.name_requests();
        let mut next = [100, 500];
        let mut out = Vec::new();
        for step in script.split(' ') {
            let direction = if step.starts_with(['q', 'Q']) { C } else { S };
            let at = direction as usize;
            let other = 1 - at;
            let place = StreamPlace {
                seq: TcpSeq(next[at]),
                ack: Some(TcpSeq(next[other])),
            };
            next[at] += 10;
            let end = Some(TcpSeq(next[at]));
            let now = Timestamp(0);
            match (direction, step.chars().nth(1)) {
                (direction, None) => transactions.miss(direction),
                (C, Some(name)) => {
                    let (number, request) =
                        transactions.request(now, place, ResponseExpectation::Response, false);
                    *request = name;
                    transactions.finish_request(number, end);
                }
                (S, Some(name)) => {
                    let named = transactions
                        .waiting()
                        .find(|(_, asked)| **asked == name)
                        .map(|(n, _)| n);
                    let spot = match named {
                        Some(number) => {
                            transactions.response_to(number, now, place);
                            ResponseSlot::With(number)
                        }
                        None => {
                            transactions
                                .response(now, place, |_| ResponseMatch::Maybe)
                                .0
                        }
                    };
                    transactions
                        .response_mut(spot)
                        .into_iter()
                        .for_each(|response| *response = name);
                    transactions.finish_response(spot, end);
                }
            }
            hand_out(&mut transactions, &mut out);
        }
        transactions.close();
        hand_out(&mut transactions, &mut out);
        assert_eq!(out.join(" "), expected, "{script}");
    }
}

#[test]
fn a_hole_is_counted_once() {
    let mut ends =
        PairingTestEnds::with(TransactionQueue::of_messages_from(10).of_clients_that_wait());
    let asked = [
        ('1', 10, true),
        ('2', 10, false),
        ('3', 10, false),
        ('4', 10, true),
        ('5', 10, true),
    ];
    asked
        .into_iter()
        .for_each(|(name, bytes, seen)| ends.say(C, name, bytes, name == '1', seen));
    // The hole before the second response contains the first.
    ends.say(S, '1', 10, true, false);
    ends.say(S, '2', 50, true, true);
    ends.say(S, '3', 10, true, true);
    ends.transactions.lose(S);
    ends.say(S, '5', 10, true, true);
    ends.transactions.end_responses();
    assert_eq!(ends.close().join(" "), "1- -2 -3 4- 55'");
}

#[test]
fn a_request_that_need_not_be_answered_gets_no_answer_that_may_be_to_a_missing_one() {
    let mut transactions =
        TransactionQueue::<char, char>::of_messages_from(10).with_silent_requests();
    let at = |seq, ack| StreamPlace {
        seq: TcpSeq(seq),
        ack: Some(TcpSeq(ack)),
    };
    let (number, request) = transactions.request(
        Timestamp(0),
        at(100, 500),
        ResponseExpectation::Perhaps,
        false,
    );
    *request = '1';
    transactions.finish_request(number, None);
    transactions.miss(C);
    let (spot, response) =
        transactions.response(Timestamp(0), at(500, 150), |_| ResponseMatch::Maybe);
    *response = '2';
    transactions.finish_response(spot, Some(TcpSeq(510)));
    transactions.close();
    let mut out = Vec::new();
    hand_out(&mut transactions, &mut out);
    assert_eq!(out, ["-2", "1-"]);
}

#[test]
fn more_requests_than_are_held() {
    let mut ends = PairingTestEnds::new();
    for name in ['1', '2', '3'] {
        ends.say(C, name, 30, true, true);
        ends.say(S, name, 100, true, true);
    }
    ends.transactions.lose(S);
    let names = (0..TRANSACTIONS_MAX as u32 + 9).filter_map(|n| char::from_u32(0x4e00 + n));
    names
        .clone()
        .enumerate()
        .for_each(|(k, name)| ends.say(C, name, 30, k == 0, true));
    names.for_each(|name| ends.say(S, name, 100, true, true));
    for text in ends.close().iter().filter(|text| !text.contains('-')) {
        let mut both = text.chars();
        assert_eq!(both.next(), both.next(), "the oldest were let go");
    }
}

/// A generated round of requests.
#[derive(Clone, Debug)]
struct PairingTestRound {
    requests: usize,
    lost: Vec<bool>,
}

fn rounds(size: usize) -> impl Strategy<Value = Vec<PairingTestRound>> {
    let round = (
        1..=size,
        proptest::collection::vec(proptest::bool::weighted(0.15), 2 * size),
    );
    let round = round.prop_map(|(requests, lost)| PairingTestRound { requests, lost });
    proptest::collection::vec(round, 1..20)
}

/// Runs rounds, after two complete ones, and checks the pairs. Returns the number found and the number
/// findable.
fn play(rounds: &[PairingTestRound], whole: usize) -> Result<(usize, usize), TestCaseError> {
    let mut ends = PairingTestEnds::new();
    let mut name = 'a';
    let mut findable = 0;
    for (i, round) in rounds.iter().enumerate() {
        let names: Vec<char> = (0..round.requests)
            .map(|k| char::from_u32(name as u32 + k as u32).unwrap_or('?'))
            .collect();
        name = char::from_u32(name as u32 + round.requests as u32).unwrap_or('?');
        let lost = |k: usize| i >= whole && round.lost[k];
        for (k, name) in names.iter().enumerate() {
            ends.say(C, *name, 30 + k as u32, k == 0, !lost(k));
        }
        for (k, name) in names.iter().enumerate() {
            ends.say(
                S,
                *name,
                100 + 7 * k as u32,
                true,
                !lost(round.requests + k),
            );
        }
        findable += (0..round.requests)
            .filter(|k| !lost(*k) && !lost(round.requests + k))
            .count();
    }
    let out = ends.close();
    let is_pair = |text: &&String| !text.contains('-');
    for text in out.iter().filter(is_pair) {
        let mut both = text.chars();
        prop_assert_eq!(both.next(), both.next(), "{:?}", out);
    }
    Ok((out.iter().filter(is_pair).count(), findable))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    /// The shortcuts for ordinary messages against the general path, with any order of messages and any losses.
    #[test]
    fn ordinary_messages_are_placed_as_by_the_general_path(steps in proptest::collection::vec((
        proptest::bool::weighted(0.9), proptest::bool::weighted(0.8), proptest::bool::weighted(0.9), 10..50u32,
    ), 1..100)) {
        let mut both = [false, true].map(|has_no_shortcuts| {
            let mut ends = PairingTestEnds::new();
            ends.transactions.has_no_shortcuts = has_no_shortcuts;
            ends
        });
        let mut direction = C;
        for (name, (is_sent, is_heard, is_seen, bytes)) in ('!'..).zip(steps) {
            if is_sent {
                both.iter_mut().for_each(|ends| ends.say(direction, name, bytes, is_heard, is_seen));
            }
            prop_assert_eq!(&both[0].out, &both[1].out);
            direction = direction.other();
        }
        let [quick, general] = both.map(PairingTestEnds::close);
        prop_assert_eq!(quick, general);
    }

    #[test]
    fn nothing_false_of_clients_that_ask_one_by_one(rounds in rounds(1)) {
        play(&rounds, 3)?;
    }

    #[test]
    fn all_is_found_where_one_direction_loses(mut rounds in rounds(1), direction in 0..2usize) {
        rounds.iter_mut().for_each(|round| round.lost[direction] = false);
        // The end of the last round has no evidence.
        rounds.push(PairingTestRound { requests: 1, lost: vec![false; 2] });
        rounds.push(PairingTestRound { requests: 1, lost: vec![false; 2] });
        let (found, findable) = play(&rounds, 3)?;
        prop_assert!(found == findable, "{found} of {findable}");
    }

    #[test]
    fn nothing_false_of_clients_that_ask_in_batches(rounds in rounds(4)) {
        play(&rounds, 3)?;
    }

    #[test]
    fn nothing_false_from_the_first_message_on(rounds in rounds(3)) {
        play(&rounds, 0)?;
    }
}
