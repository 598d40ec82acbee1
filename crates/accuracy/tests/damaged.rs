//! Whatever is missing, doubled or late, no tuple claims what is not so: real conversations of all protocols, damaged
//! from seeds. The recorded shop is in the repository; the other captures lie beside it.

use std::path::PathBuf;

use accuracy::{Harm, Recording, Truth};

const SEEDS: u64 = 4;
const HARMS: &[Harm] = &[
    Harm::Loss(0.01),
    Harm::Loss(0.1),
    Harm::Loss(0.3),
    Harm::Bursts(0.1),
    Harm::Duplicates(0.1),
    Harm::Reorder(0.1),
    Harm::All(0.05),
    Harm::Joined(0.3),
];

#[test]
fn nothing_false_is_claimed() {
    let shop = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/shop/in.pcap"));
    let mut cases = vec![(shop, "memcached")];
    if let Some(root) = testkit::corpus() {
        for (name, parser) in [
            ("http_keepalive.pcap.gz", "http"),
            ("http_pipelined.pcap", "http"),
            ("mysql_sysbench_ps.pcap", "mysql_query"),
            ("mc_text.pcap", "memcached"),
            ("mc_binary.pcap", "memcached"),
        ] {
            cases.push((root.join("live-captures").join(name), parser));
        }
    }
    for (capture, parser) in cases {
        let recording = Recording::load(&capture, usize::MAX).expect("a capture");
        let truth = Truth::of(&recording, parser);
        let (transactions, unplaced) = truth.size();
        assert!(transactions > 20 && unplaced == 0, "{}: {transactions}, {unplaced}", capture.display());
        for harm in HARMS {
            for seed in 0..SEEDS {
                let seen = harm.apply(&recording, &truth.servers(), seed);
                let count = truth.judge(&recording.play(&seen, parser), &seen);
                assert!(count.wrong.is_empty(), "{} {harm} {seed}: {:#?}", capture.display(), count.wrong);
            }
        }
    }
}

#[test]
fn whole_captures_are_as_they_are() {
    let shop = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/shop/in.pcap"));
    let recording = Recording::load(&shop, usize::MAX).expect("a capture");
    let truth = Truth::of(&recording, "http");
    let seen = Harm::None.apply(&recording, &truth.servers(), 0);
    let count = truth.judge(&recording.play(&seen, "http"), &seen);
    assert_eq!((count.exact, count.wrong.len()), (count.transactions, 0));
}
