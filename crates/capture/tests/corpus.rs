//! Every capture of the shared test data is read completely: packets, bytes, and times equal those of tshark.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files with a different result than tshark, and the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("captures/formats/gopacket-be-test102.pcapng", CUSTOM_BLOCKS),
    ("captures/formats/gopacket-le-test202.pcapng", CUSTOM_BLOCKS),
    (
        "captures/formats/wswiki-genbroad.snoop",
        "a snoop capture: refused by name",
    ),
    (
        "captures/tcp/wswiki-tcp-syn-attack.pcap",
        "a NetXRay capture: refused by name",
    ),
    (
        "captures/malformed/suricata-fuzz.pcap",
        "behind its first packet is no record: we stop there, tshark makes up a packet of one byte before 1970",
    ),
    (
        "captures/malformed/tcpdump-timestamp_invalid_micro.pcap",
        "0x80000000 microseconds: we stop at a second, tshark's sum wraps around to none",
    ),
];
const CUSTOM_BLOCKS: &str = "custom blocks are no packets, though tshark numbers them as if they were; and simple packet \
    blocks have no time: tshark says 1970, we the time of the packet before";
/// Totals of a capture.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    packets: u64,
    truncated_packets: u64,
    wire_bytes: u64,
    captured_bytes: u64,
    /// First, last, minimum, and maximum, in nanoseconds.
    times: [i64; 4],
}

fn truth(summary: &Path) -> Totals {
    let text = std::fs::read_to_string(summary).expect("a summary beside its capture");
    let value = |key: &str| {
        let (_, rest) = text
            .split_once(&format!("\"{key}\": "))
            .expect("each summary has the key");
        rest.split([',', '\n'])
            .next()
            .expect("split gives one piece at least")
            .trim_matches('"')
            .to_owned()
    };
    let number = |key: &str| value(key).parse().expect("the value is a number");
    let time = |key: &str| match value(key).split_once('.') {
        Some((seconds, nanos)) if !seconds.starts_with('-') => {
            seconds.parse::<i64>().expect("seconds") * 1_000_000_000
                + nanos.parse::<i64>().expect("nine digits")
        }
        _ => 0,
    };
    Totals {
        packets: number("packets"),
        truncated_packets: number("truncated_packets"),
        wire_bytes: number("wire_bytes"),
        captured_bytes: number("captured_bytes"),
        times: ["t_first", "t_last", "t_min", "t_max"].map(time),
    }
}

fn read(path: &Path) -> (Totals, Vec<String>) {
    let mut source = capture::open(&[path.to_owned()]);
    let mut times = Vec::new();
    let mut block = capture::PacketBlock::default();
    while source.next_block(&mut block) {
        times.extend(block.packets().map(|p| p.ts.0));
    }
    let counters = source.counters();
    assert_eq!(counters.packets, times.len() as u64, "{}", path.display());
    let ends = [
        times.first(),
        times.last(),
        times.iter().min(),
        times.iter().max(),
    ];
    let totals = Totals {
        packets: counters.packets,
        truncated_packets: counters.truncated_packets,
        wire_bytes: counters.original_bytes,
        captured_bytes: counters.captured_bytes,
        times: ends.map(|t| t.copied().unwrap_or_default()),
    };
    (
        totals,
        source.errors().iter().map(ToString::to_string).collect(),
    )
}

/// Captures with a truth folder, by their path in the data.
fn captures(corpus: &Path, folder: &Path, found: &mut BTreeMap<String, (PathBuf, PathBuf)>) {
    for entry in std::fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("its entries too").path();
        let name = path.to_string_lossy().into_owned();
        let summary = PathBuf::from(format!(
            "{}.truth/summary.json",
            name.trim_end_matches(".gz")
        ));
        if path.is_dir() && !name.ends_with(".truth") {
            captures(corpus, &path, found);
        } else if path.is_file() && summary.exists() && !name.ends_with(".bz2") {
            let name = path
                .strip_prefix(corpus)
                .expect("in the corpus")
                .display()
                .to_string();
            found.insert(name, (path, summary));
        }
    }
}

#[test]
fn counted_as_tshark_counts() {
    let Some(corpus) = testkit::corpus() else {
        return;
    };
    let mut found = BTreeMap::new();
    captures(&corpus, &corpus, &mut found);
    assert!(found.len() > 300, "only {} captures", found.len());
    let mut wrong = Vec::new();
    for (name, (path, summary)) in &found {
        let (ours, errors) = read(path);
        let theirs = truth(summary);
        let known = DIFFERENT.iter().any(|(different, _)| different == name);
        if (ours == theirs) == known {
            wrong.push(format!(
                "{name}:\n  ours   {ours:?} {errors:?}\n  theirs {theirs:?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} captures\n{}",
        wrong.len(),
        found.len(),
        wrong.join("\n")
    );
}
