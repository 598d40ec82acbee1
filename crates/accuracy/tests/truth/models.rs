//! The captures of the models: undamaged, every transaction is exact; with damage that once led to wrong pairs, no tuple above
//! `half` has a false value.

use accuracy::model::MODELS;
use accuracy::model::talk::{Conversation, Exchange, Habit};
use accuracy::{
    FaultKind, GroundTruth, Impairment, ObservedTuple, ObservedValue, OutcomeCounts,
    PacketRecording,
};
use testkit::SeededRng;

/// Cells in which the pairing or the judge was wrong: model, damage, seeds, and the minimum percentage of findable
/// transactions found.
const CELLS: &[(&str, &str, u64, usize)] = &[
    // The last packet of a request is not the last to arrive, and another packet of the server has the distance of the
    // response.
    ("redis_quoted", "delay-5ms=10%", 4, 99),
    ("mc_quoted", "delay-5ms=10%", 4, 99),
    ("http_proxied", "delay-5ms=10%", 8, 99),
    ("http_quoted", "delay-5ms=10%", 2, 99),
    ("redis_proxied", "delay-5ms=10%", 8, 99),
    ("mc_proxied", "delay-5ms=10%", 8, 99),
    ("nfs_in_files", "delay-5ms=10%", 2, 99),
    // A file contains copies of earlier messages of its connection, whose replies are missing.
    ("nfs_in_files", "bursts-to-client=5%", 4, 99),
    ("nfs_in_files", "bursts=10%", 8, 98),
    ("nfs_in_files", "loss=10%", 8, 97),
    // Requests are cut off after the first one of their packet.
    ("redis_proxied", "snaplen=96", 1, 67),
    // A quiet request whose end is cut off has not been answered: it ends with its packet.
    ("mc_binary_async", "snaplen=128", 1, 0),
    ("mc_binary_batches", "snaplen=256", 1, 0),
    // The next segment is no longer copy of one whose IP length is too large.
    ("mc_binary_async", "ip-length=0.5%", 9, 90),
    // The server had not received the missing requests when it sent the response before the next ones.
    ("http_async", "bursts=10%", 10, 61),
    // The connection is idle while two requests are outstanding and one is known.
    ("http_quoted", "pause-310000ms=0.2%", 2, 81),
    ("http_quoted", "pause-36000000ms=0.2%", 2, 81),
    // Requests of a connection precede its SYN and its first request in the file.
    ("http_batches", "shuffle=5ms", 40, 98),
    ("redis_batches", "shuffle=5ms", 20, 97),
    ("redis_proxied", "shuffle=2ms", 20, 90),
];

/// The same for monitors that verify checksums.
const VERIFIED_CELLS: &[(&str, &str, u64, usize)] = &[
    // A type or length of a response became another valid one.
    ("redis_async", "message-length=0.5%", 6, 50),
    ("redis_batches", "message-length=0.5%", 6, 50),
    ("mc_text_async", "message-length=0.5%", 4, 50),
    ("mc_binary_async", "message-length=0.5%", 4, 50),
    ("http_proxied", "message-length=0.5%", 4, 50),
    ("mysql_proxied", "message-length=0.5%", 4, 50),
    ("redis_async", "damaged-bit=1%", 4, 95),
    ("http_batches", "damaged-bit=1%", 4, 95),
    // Segments up to the announced size are not merged.
    ("nfs_in_files", "damaged-bit=0.5%", 4, 95),
    ("nfs_in_files", "acknowledgment=0.5%", 2, 95),
    // A packet whose IP length is too large looks cut by the snaplen.
    ("nfs_in_files", "ip-length=0.5%", 2, 95),
];

#[test]
fn all_of_an_undamaged_model_is_exact() {
    for model in MODELS {
        let recording: PacketRecording = model.recording();
        let told = recording.play(&recording.whole(), model.parser);
        let other: Vec<&ObservedTuple> = told.iter().filter(|told| !told.is_exact()).collect();
        println!(
            "{}: {} packets, {} tuples",
            model.name,
            recording.len(),
            told.len()
        );
        assert!(told.len() > 1000, "{}: {} tuples", model.name, told.len());
        assert!(
            other.is_empty(),
            "{}: {} of {}, as {}",
            model.name,
            other.len(),
            told.len(),
            other[0]
        );
    }
}

#[test]
fn no_pair_is_wrong_where_one_was() {
    let cells = CELLS.iter().map(|cell| (cell, false));
    let verified = VERIFIED_CELLS.iter().map(|cell| (cell, true));
    let mut failures = Vec::new();
    for ((name, damage, seeds, found_min), verify_checksums) in cells.chain(verified) {
        let model = MODELS
            .iter()
            .find(|model| model.name == *name)
            .expect("a model");
        let impairment: Impairment = damage.parse().expect("an impairment");
        let mut recording = model.recording();
        recording.verify_checksums = verify_checksums;
        let truth = GroundTruth::of(&recording, model.parser);
        let mut count = OutcomeCounts::default();
        for seed in 0..*seeds {
            let seen = impairment.apply(&recording, &truth.servers(), seed);
            count.add(truth.judge(
                &recording.play(&seen, model.parser),
                &seen,
                impairment.tolerance(),
            ));
        }
        let is_above_half = |kind| kind != FaultKind::Half;
        let mut faults = count
            .faults
            .iter()
            .filter(|fault| is_above_half(fault.kind));
        failures.extend(
            faults
                .next()
                .map(|fault| format!("{name} {damage}: {fault}")),
        );
        if count.found * 100 < count.findable * found_min {
            failures.push(format!(
                "{name} {damage}: {} of {} are found",
                count.found, count.findable
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The judge finds the response of another request by its time alone.
#[test]
fn the_time_of_another_response_is_a_wrong_pair() {
    let model = MODELS
        .iter()
        .find(|model| model.name == "redis_quoted")
        .expect("a model");
    let recording = model.recording();
    let truth = GroundTruth::of(&recording, model.parser);
    let told = recording.play(&recording.whole(), model.parser);
    let mut tried = 0;
    let mut found = 0;
    for (i, one) in told.iter().enumerate().step_by(7) {
        let next = told[i + 1..]
            .iter()
            .find(|next| next.id == one.id && next.ts > one.ts);
        let Some((next, time)) = next.zip(one.response_time) else {
            continue;
        };
        let Some(other) = next.response_time else {
            continue;
        };
        let time_of_next = next.ts_end
            - next.transfer_time.unwrap_or(0)
            - (one.ts_end - one.transfer_time.unwrap_or(0))
            + time;
        if other == time || time_of_next == time {
            continue;
        }
        let wrong = |value: &(&'static str, _)| value.0 == "response_time_ns";
        let mut swapped = ObservedTuple {
            response_time: Some(time_of_next),
            ..one.clone()
        };
        for value in swapped.values.iter_mut().filter(|value| wrong(value)) {
            value.1 = Some(ObservedValue::Number(time_of_next.into()));
        }
        let count = truth.judge(&[swapped], &recording.whole(), 5_001_000);
        tried += 1;
        found += count.of(FaultKind::Pair);
    }
    // Requests in one packet may have the same values, and so each the response of the other.
    assert!(
        tried > 100 && found * 100 >= tried * 95,
        "{found} of {tried}"
    );
}

/// memcached's quiet commands without an answer: their misses, in both protocols, are found across a backward step of the clock.
#[test]
fn quiet_misses_behind_a_backward_step_of_the_clock() {
    let header = |magic: u8, opcode: u8, key: &[u8], opaque: u8| {
        let mut bytes = vec![
            magic,
            opcode,
            0,
            key.len() as u8,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            key.len() as u8,
            0,
            0,
            0,
            opaque,
        ];
        bytes.extend([0; 8]);
        bytes.extend(key);
        bytes
    };
    let meta = |_: u8| Exchange {
        question: b"mg missing v q\r\nmn\r\n".to_vec(),
        answer: b"MN\r\n".to_vec(),
    };
    let binary = |n: u8| Exchange {
        question: [header(0x80, 9, b"missing", n), header(0x80, 10, b"", n)].concat(),
        answer: header(0x81, 10, b"", n),
    };
    let check = |command: &str, exchange: &dyn Fn(u8) -> Exchange| {
        let exchanges = (1..120).map(exchange).collect();
        let conversation = Conversation {
            port: 11211,
            exchanges,
            habit: Habit::Waits,
            ..Conversation::default()
        };
        let recording = PacketRecording::of(&conversation.spoken(&mut SeededRng::new(7)).0);
        let truth = GroundTruth::of(&recording, "memcached");
        for damage in [
            "clock-step=-30ms",
            "clock-step=-200ms",
            "clock-step=-3600000ms",
        ] {
            let impairment: Impairment = damage.parse().expect("an impairment");
            for seed in 0..4 {
                let seen = impairment.apply(&recording, &truth.servers(), seed);
                let told = recording.play(&seen, "memcached");
                let text = |told: &ObservedTuple, field| told.value(field).map(ToString::to_string);
                let misses = told.iter().filter(|told| {
                    text(told, "command").as_deref() == Some(command)
                        && text(told, "status").as_deref() == Some("miss")
                        && text(told, "hit").as_deref() == Some("0")
                        && told.ts_end >= told.ts
                });
                assert_eq!(misses.count(), 119, "{command}, {damage}, seed {seed}");
                let count = truth.judge(&told, &seen, impairment.tolerance());
                assert!(
                    count.faults.is_empty(),
                    "{command}, {damage}, seed {seed}: {}",
                    count.faults[0]
                );
                assert_eq!(
                    (count.findable, count.found),
                    (238, 238),
                    "{command}, {damage}, seed {seed}"
                );
            }
        }
    };
    check("mg", &meta);
    check("getq", &binary);
}
