//! Whatever is missing, doubled or late, no tuple claims what is not so: real conversations of all protocols, damaged
//! from seeds. The recorded shop is in the repository; the other captures lie beside it.

use std::path::PathBuf;

use accuracy::impairment::{Run, Which};
use accuracy::{Impairment, Recording, Truth};

const SEEDS: u64 = 4;
const IMPAIRMENTS: &[Impairment] = &[
    Impairment::Loss(Which::Any, Run::Single, 0.01),
    Impairment::Loss(Which::Any, Run::Single, 0.1),
    Impairment::Loss(Which::Any, Run::Single, 0.3),
    Impairment::Loss(Which::Any, Run::Bursts, 0.1),
    Impairment::Duplicates(0.1),
    Impairment::Reorder(0.1),
    Impairment::All(0.05),
    Impairment::Joined(0.3),
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
        for impairment in IMPAIRMENTS {
            for seed in 0..SEEDS {
                let seen = impairment.apply(&recording, &truth.servers(), seed);
                let count = truth.judge(&recording.play(&seen, parser), &seen, 0);
                assert!(
                    count.faults.is_empty(),
                    "{} {impairment} {seed}: {:#?}",
                    capture.display(),
                    count.faults
                );
            }
        }
    }
}

#[test]
fn whole_captures_are_as_they_are() {
    let shop = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/shop/in.pcap"));
    let recording = Recording::load(&shop, usize::MAX).expect("a capture");
    let truth = Truth::of(&recording, "http");
    let seen = Impairment::None.apply(&recording, &truth.servers(), 0);
    let count = truth.judge(&recording.play(&seen, "http"), &seen, 0);
    assert_eq!((count.exact, count.faults.len()), (count.transactions, 0));
}
