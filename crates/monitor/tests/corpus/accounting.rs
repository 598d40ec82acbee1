//! Every packet of every capture is accounted for, whatever the query; no capture makes a parser panic.

use parsers::registry;
use plan::{AddressMatch, Limit, MonitorSpec, ParserUse, Sample};

use crate::support::{EVERYWHERE, captures, run_spec};

#[test]
fn every_packet_is_accounted_for() {
    let Some(root) = testkit::corpus() else { return };
    for (i, capture) in captures(&root, EVERYWHERE).iter().enumerate() {
        // Every parser at once, over everything; then the same captures under a filter, a sample and a limit in turn.
        let mut spec = all_parsers();
        let whole = run_spec(capture, &spec);
        assert_eq!(whole.accounting.received, whole.packets, "{}", capture.display());
        assert_eq!(whole.accounting.filtered_total() + whole.accounting.sampled_out, 0);
        match i % 3 {
            0 => spec.servers = vec![AddressMatch { net: None, port: Some(80) }],
            1 => spec.sample = Sample::Fraction(0.5),
            _ => spec.limit = Limit { packets: Some(50), nanos: None },
        }
        let part = run_spec(capture, &spec).accounting;
        assert!(part.adds_up() && part.parsed <= whole.accounting.parsed, "{}", capture.display());
        let limited = spec.limit.packets.is_some();
        assert!(limited || part.undecodable == whole.accounting.undecodable, "{}", capture.display());
    }
}

fn all_parsers() -> MonitorSpec {
    let parsers = registry::schemas().into_iter().map(ParserUse::all_columns).collect();
    MonitorSpec { parsers, ..MonitorSpec::default() }
}
