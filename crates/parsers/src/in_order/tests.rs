//! Scripts of requests, responses and losses of both, and the exchanges that come out.

use super::*;

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;

/// Plays `script`, one step a microsecond, and shows what comes out. `q1` is request 1 and `r1` its response, `Q` and `R`
/// are losses of 40 and 100 bytes, in which messages began, with the next message right behind.
fn check(script: &str, expected: &str) {
    let mut exchanges = InOrder::<char, char>::default();
    let mut loss = [None; 2];
    let mut out = Vec::new();
    for (i, step) in script.split(' ').enumerate() {
        let ts = Timestamp(i as i64 * 1000);
        let name = step.chars().nth(1).unwrap_or_default();
        match &step[..1] {
            "Q" => loss[0] = Some(exchanges.loss(C, loss[0], 40, true)),
            "R" => loss[1] = Some(exchanges.loss(S, loss[1], 100, true)),
            "q" => {
                if let Some(loss) = loss[0].take() {
                    exchanges.resume(C, loss, Some(None), ts);
                }
                let (number, request) = exchanges.request(30, ts, None, false);
                *request = name;
                exchanges.finish_request(number);
            }
            _ => {
                if let Some(loss) = loss[1].take() {
                    exchanges.resume(S, loss, Some(None), ts);
                }
                let (place, response) = exchanges.response(ts, None, false, true);
                *response = name;
                exchanges.finish_response(place, ts);
            }
        }
        hand_out(&mut exchanges, &mut out);
    }
    exchanges.close();
    hand_out(&mut exchanges, &mut out);
    assert_eq!(out.join(" "), expected, "{script}");
}

fn hand_out(exchanges: &mut InOrder<char, char>, out: &mut Vec<String>) {
    exchanges.hand_out(|e| {
        out.push(format!("{}{}", e.request().unwrap_or(&'-'), e.response().unwrap_or(&'-')));
    });
}

#[test]
fn whole_streams() {
    check("q1 r1 q2 r2", "11 22");
    check("q1 q2 q3 r1 r2 r3", "11 22 33");
    check("r1 q1 q2 r2", "11 22");
    check("q1 q2 r1", "11 2-");
    check("q1 r1 r2", "11 -2");
}

#[test]
fn lost_responses() {
    // Two were asked, one at least is lost: what comes answers the other, or one that is not known yet.
    check("q1 q2 R r2 q3 r3", "-2 1- 2- -3 3-");
    // Three were asked: what comes may answer any of the others, and nothing more is known of this client.
    check("q1 q2 q3 R r3 q4 r4", "-3 1- 2- 3- -4 4-");
    // This one waits for each response: after the first that was heard again it is known what it asks.
    check("q1 r1 q2 r2 q3 R q4 r4 q5 r5", "11 22 -4 3- 4- 55");
    // The loss becomes known when later requests have been seen.
    check("q1 r1 q2 r2 q3 q4 R r4 q5 r5", "11 22 -4 3- 4- 55");
}

#[test]
fn lost_requests() {
    // There is room for one.
    check("q1 r1 Q r2 q3 r3", "11 -2 33");
    check("q1 q2 Q q4 r1 r2 r3 r4", "11 22 -3 44");
    // There is room for more, and nothing is known of this client.
    check("q1 Q Q q4 r1 r2 r4", "11 -2 4- -4");
}

#[test]
fn both_lost() {
    // The response may be the third's, which is lost, or the second's.
    check("q1 r1 q2 R Q r3", "11 -3 2-");
}

#[test]
fn waiting_is_bounded() {
    let mut exchanges = InOrder::<u64, u64>::default();
    for i in 0..WAITING_MAX as u64 + 5 {
        let (number, _) = exchanges.request(30, Timestamp(i as i64), None, false);
        exchanges.finish_request(number);
        exchanges.hand_out(|_| {});
    }
    assert_eq!(exchanges.take_evicted(), 5);
    // The responses to those that were given up are not given to others.
    let (place, _) = exchanges.response(Timestamp(9999), None, false, true);
    assert!(matches!(place, Spot::Apart(_)));
}
