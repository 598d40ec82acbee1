//! State of the exporters of a monitor as counters, which have names and numbers only:
//! `exporter/ADDRESS/PROTOCOL/DOMAIN/COUNT`.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Prefix of the counters of an exporter.
const EXPORTER: &str = "exporter/";
/// Prefix of the counters of all export messages.
pub const EXPORTS: &str = "exports.";
/// Last part of the name of a clock offset, a signed number.
const CLOCK: &str = "clock_offset_ns";

/// Counts of one domain of an exporter since the monitor began to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExporterCounts {
    /// Address of the exporter.
    pub exporter: IpAddr,
    /// Protocol of its messages.
    pub protocol: String,
    /// Observation domain, source, or sub-agent.
    pub domain: u32,
    /// Units of its sequence numbers received: datagrams or records.
    pub received: u64,
    /// Units missing.
    pub lost: u64,
    /// Restarts of the exporter.
    pub restarts: u64,
    /// Clock of the exporter minus that of the receiver, in nanoseconds; `None` without a clock.
    pub clock_offset_ns: Option<i64>,
}

impl ExporterCounts {
    /// The counters.
    pub fn counters(&self) -> impl Iterator<Item = (String, u64)> {
        let ExporterCounts {
            exporter,
            protocol,
            domain,
            received,
            lost,
            restarts,
            clock_offset_ns,
        } = self;
        let clock = clock_offset_ns.map(i64::cast_unsigned);
        let all = [
            ("received", Some(*received)),
            ("lost", Some(*lost)),
            ("restarts", Some(*restarts)),
            (CLOCK, clock),
        ];
        all.into_iter().filter_map(move |(name, n)| {
            Some((
                format!("{EXPORTER}{exporter}/{protocol}/{domain}/{name}"),
                n?,
            ))
        })
    }

    /// Removes the counters of exporters from those of a monitor; unknown ones are dropped.
    pub fn take(counters: &mut BTreeMap<String, u64>) -> Vec<ExporterCounts> {
        let of_exporter = |name: &String, _: &mut u64| name.starts_with(EXPORTER);
        let mut all: BTreeMap<(IpAddr, String, u32), ExporterCounts> = BTreeMap::new();
        for (name, n) in counters.extract_if(.., of_exporter) {
            let mut parts = name[EXPORTER.len()..].split('/');
            let mut next = || parts.next().unwrap_or_default();
            let exporter = next();
            let protocol = next();
            let domain = next();
            let count = next();
            let (Ok(exporter), Ok(domain)) = (exporter.parse(), domain.parse()) else {
                continue;
            };
            let key = (exporter, protocol.to_owned(), domain);
            let of = all.entry(key).or_insert_with(|| ExporterCounts {
                exporter,
                protocol: protocol.to_owned(),
                domain,
                received: 0,
                lost: 0,
                restarts: 0,
                clock_offset_ns: None,
            });
            match count {
                "received" => of.received = n,
                "lost" => of.lost = n,
                "restarts" => of.restarts = n,
                CLOCK => of.clock_offset_ns = Some(n.cast_signed()),
                _ => {}
            }
        }
        all.into_values().collect()
    }

    /// Whether a counter of a monitor is the current value of an exporter, not a total.
    #[must_use]
    pub fn is_current(name: &str) -> bool {
        name.starts_with(EXPORTER) && name.ends_with(CLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exporters_pass_through_counters() {
        let exporter = |address: &str, clock_offset_ns| ExporterCounts {
            exporter: address.parse().expect("an address"),
            protocol: "netflow9".into(),
            domain: 7,
            received: 100,
            lost: 3,
            restarts: 0,
            clock_offset_ns,
        };
        let all = [exporter("10.0.0.1", Some(-5)), exporter("fd00::1", None)];
        let mut counters: BTreeMap<String, u64> =
            all.iter().flat_map(ExporterCounts::counters).collect();
        counters.insert("packets".into(), 9);
        counters.insert("exporter/x".into(), 9);
        let current = |name: &&String| ExporterCounts::is_current(name);
        assert_eq!(counters.keys().filter(current).count(), 1);
        assert_eq!(ExporterCounts::take(&mut counters), all);
        assert_eq!(counters, [("packets".to_owned(), 9)].into());
    }
}
