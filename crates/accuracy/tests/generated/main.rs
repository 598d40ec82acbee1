//! Any segments of any conversation may be missing: what is still told is what is told of the whole one. Conversations are made
//! up from seeds, with clients that wait, that ask in batches, and that always have some requests under way.

mod http;
mod memcached;
mod mysql;
mod talk;

use std::collections::HashSet;
use std::ops::Range;

use accuracy::{Recording, Seen, Truth};
use testkit::Rng;

use talk::Conversation;

/// Conversations of each protocol, and ways to damage each.
const CONVERSATIONS: u64 = 150;
const DAMAGES: u64 = 12;

fn check(parser: &str, make: impl Fn(&mut Rng) -> Conversation) {
    let (mut transactions, mut exact, mut found, mut findable) = (0, 0, 0, 0);
    for seed in 0..CONVERSATIONS {
        let mut rng = Rng::new(seed);
        let (spoken, plain) = make(&mut rng).spoken(&mut rng);
        let recording = Recording::of(&spoken);
        let truth = Truth::of(&recording, parser);
        for damage in 0..DAMAGES {
            let lost = lose(plain..recording.len(), &mut rng);
            let count =
                truth.judge(&recording.play(&seen(&recording, &lost), parser), &seen(&recording, &lost), 0);
            if !count.faults.is_empty() {
                let lost = fewest(&recording, &truth, parser, lost);
                let seen = seen(&recording, &lost);
                let told = recording.play(&seen, parser);
                let faults = truth.judge(&told, &seen, 0).faults;
                let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                panic!(
                    "{parser}, seed {seed}, damage {damage}: without packets {lost:?}: {}",
                    faults.join("\n")
                );
            }
            transactions += count.transactions;
            exact += count.exact;
            found += count.exact + count.marked;
            findable += count.findable;
        }
    }
    println!("{parser}: {transactions} transactions, {findable} findable, {found} found, {exact} exact");
    assert!(found > 10_000, "{found} of {findable} findable are found");
}

/// Packets to lose: each for itself, or in bursts.
fn lose(packets: Range<usize>, rng: &mut Rng) -> HashSet<usize> {
    let share = [0.02, 0.1, 0.3][rng.below(3) as usize];
    let stay = if rng.chance(0.5) { share } else { 0.7 };
    let mut lost = false;
    packets
        .filter(|_| {
            lost = rng.chance(if lost { stay } else { share });
            lost
        })
        .collect()
}

fn seen(recording: &Recording, lost: &HashSet<usize>) -> Vec<Seen> {
    recording.whole().into_iter().filter(|seen| !lost.contains(&seen.packet)).collect()
}

/// As few lost packets as still show what is wrong.
fn fewest(
    recording: &Recording,
    truth: &Truth<'_>,
    parser: &str,
    mut lost: HashSet<usize>,
) -> HashSet<usize> {
    let mut all: Vec<usize> = lost.iter().copied().collect();
    all.sort_unstable();
    for packet in all {
        lost.remove(&packet);
        let seen = seen(recording, &lost);
        if truth.judge(&recording.play(&seen, parser), &seen, 0).faults.is_empty() {
            lost.insert(packet);
        }
    }
    lost
}

#[test]
fn http() {
    check("http", http::conversation);
}

#[test]
fn mysql() {
    check("mysql_query", mysql::conversation);
}

#[test]
fn memcached_text() {
    check("memcached", memcached::text);
}

#[test]
fn memcached_binary() {
    check("memcached", memcached::binary);
}
