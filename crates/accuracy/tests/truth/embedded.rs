//! Messages of a protocol embedded in bodies of the same protocol: captures stored over NFS, pages that quote HTTP,
//! values with RESP. The sent messages are known by construction: the undamaged conversation yields exactly them, and
//! with packet loss nothing else is found.

use std::collections::BTreeMap;

use accuracy::impairment::{LossPattern, LossTarget, PacketDirection};
use accuracy::model::embedded::{Made, http, memcached, nfs, redis};
use accuracy::{GroundTruth, Impairment, ObservedTuple, OutcomeCounts, PacketRecording};
use testkit::SeededRng;

/// Number of conversations per protocol.
const CONVERSATIONS: u64 = 60;
/// Minimum percentage of findable transactions found.
const FOUND_PERCENT_MIN: usize = 76;

/// All tested kinds of loss, and truncated packets.
fn damages() -> Vec<Impairment> {
    let mut damages = vec![Impairment::Snaplen(128), Impairment::Snaplen(300)];
    for which in [
        LossTarget::Any,
        LossTarget::Of(PacketDirection::ToServer),
        LossTarget::Of(PacketDirection::ToClient),
    ] {
        damages.extend(
            [0.01, 0.03, 0.1].map(|share| Impairment::Loss(which, LossPattern::Single, share)),
        );
    }
    damages
}

/// No damaged conversation yields a false row. `fields`: the fields that identify a transaction.
fn check(
    parser: &str,
    fields: &[&str],
    damages: &[Impairment],
    make: impl Fn(&mut SeededRng) -> Made,
) {
    let shown = |told: &ObservedTuple| {
        let value = |field: &&str| {
            told.value(field)
                .map_or("-".to_owned(), ToString::to_string)
        };
        fields.iter().map(value).collect::<Vec<_>>().join(" ")
    };
    let mut all = OutcomeCounts::default();
    let mut failures = BTreeMap::<String, Vec<String>>::new();
    for seed in 0..CONVERSATIONS {
        let mut rng = SeededRng::new(seed);
        let Made {
            conversation,
            transactions: mut expected,
        } = make(&mut rng);
        let (spoken, _) = conversation.spoken(&mut rng);
        let recording = PacketRecording::of(&spoken);
        let mut told: Vec<String> = recording
            .play(&recording.whole(), parser)
            .iter()
            .map(shown)
            .collect();
        expected.sort();
        told.sort();
        assert_eq!(told, expected, "{parser}, seed {seed}: what was said");
        let truth = GroundTruth::of(&recording, parser);
        for impairment in damages {
            let seen = impairment.apply(&recording, &truth.servers(), seed);
            let mut count = truth.judge(&recording.play(&seen, parser), &seen, 0);
            for fault in count.faults.drain(..) {
                let of_kind = failures
                    .entry(format!("{impairment:?}, {:?}", fault.kind))
                    .or_default();
                of_kind.push(format!("seed {seed}: {fault}"));
            }
            all.add(count);
        }
    }
    let OutcomeCounts {
        transactions,
        findable,
        found,
        exact,
        half,
        ..
    } = all;
    println!(
        "{parser}: {transactions} transactions, {findable} findable, {found} found, {exact} exact, {half} half"
    );
    let failures: Vec<String> = failures
        .iter()
        .map(|(kind, all)| format!("{kind}: {} are wrong, as {}", all.len(), all[0]))
        .collect();
    assert!(failures.is_empty(), "{parser}:\n{}", failures.join("\n"));
    assert!(
        found * 100 >= findable * FOUND_PERCENT_MIN,
        "{parser}: {found} of {findable} are found"
    );
}

#[test]
fn rpc_in_files() {
    check("nfs", nfs::FIELDS, &damages(), nfs::conversation);
}

/// If the first captured bytes are file data with an embedded call, client and server are not swapped.
#[test]
fn rpc_in_files_joined_midway() {
    check(
        "nfs",
        nfs::FIELDS,
        &[Impairment::Joined(0.3)],
        nfs::conversation,
    );
}

#[test]
fn http_in_bodies() {
    check("http", http::FIELDS, &damages(), http::conversation);
}

#[test]
fn memcached_in_values() {
    check(
        "memcached",
        memcached::FIELDS,
        &damages(),
        memcached::conversation,
    );
}

#[test]
fn resp_in_strings() {
    check("redis", redis::FIELDS, &damages(), redis::conversation);
}
