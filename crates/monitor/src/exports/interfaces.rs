//! Differences between successive reports of an interface's counters. The first report of an interface has none, nor has
//! the first one after a restart of its agent, or one with smaller byte counters than before. A late report is left out;
//! a lost one extends the period of the next.

use flow::flow_id;
use parsers::interface_counters::{DirectionCounts, InterfaceCounts};
use telemetry::{ClockMap, ExportDomain, InterfaceCounters};
use wire::{Endpoint, FiveTuple, IpProtocol, Timestamp};

/// Interfaces with a known report; the least recently used ones are forgotten.
const INTERFACES_MAX: usize = 65_536;
/// An agent's uptime that is less than before by at most this many milliseconds is that of a late report.
const LATE_MAX_MS: u32 = 60_000;
/// A counter that the agent does not maintain.
const NOT_KEPT: u32 = u32::MAX;

/// The latest report of each interface.
#[derive(Debug)]
pub(super) struct InterfaceReports(ClockMap<(ExportDomain, u32), InterfaceCounters>);

impl Default for InterfaceReports {
    fn default() -> InterfaceReports {
        InterfaceReports(ClockMap::new(INTERFACES_MAX))
    }
}

impl InterfaceReports {
    /// Takes a report; returns what the interface counted since the previous one.
    pub fn counted(&mut self, now: &InterfaceCounters) -> Option<InterfaceCounts> {
        let key = (now.domain, now.index);
        let Some(latest) = self.0.get_mut(&key) else {
            self.0.insert(key, *now);
            return None;
        };
        let elapsed_ms = now.uptime_ms.wrapping_sub(latest.uptime_ms);
        if elapsed_ms.wrapping_neg() <= LATE_MAX_MS {
            return None;
        }
        let before = std::mem::replace(latest, *now);
        let in_bytes = now.in_bytes.checked_sub(before.in_bytes)?;
        let out_bytes = now.out_bytes.checked_sub(before.out_bytes)?;
        // The uptime wraps after 49 days.
        let is_restarted = elapsed_ms > u32::MAX / 2;
        (!is_restarted).then(|| InterfaceCounts {
            id: id(now),
            now: now.received,
            exporter: now.domain.exporter.into(),
            domain: now.domain.id,
            index: now.index,
            speed: now.speed,
            period_ns: i64::from(elapsed_ms) * 1_000_000,
            directions: [
                DirectionCounts {
                    bytes: in_bytes,
                    packets: sum(now.in_packets, before.in_packets),
                    errors: difference(now.in_errors, before.in_errors),
                    discards: difference(now.in_discards, before.in_discards),
                },
                DirectionCounts {
                    bytes: out_bytes,
                    packets: sum(now.out_packets, before.out_packets),
                    errors: difference(now.out_errors, before.out_errors),
                    discards: difference(now.out_discards, before.out_discards),
                },
            ],
        })
    }
}

/// The difference of a counter, which wraps.
fn difference(now: u32, before: u32) -> Option<u64> {
    (now != NOT_KEPT && before != NOT_KEPT).then(|| now.wrapping_sub(before).into())
}

/// The sum of the differences of the counters that the agent maintains.
fn sum(now: [u32; 3], before: [u32; 3]) -> Option<u64> {
    let pairs = now.into_iter().zip(before);
    pairs
        .filter_map(|(now, before)| difference(now, before))
        .reduce(|a, b| a + b)
}

fn id(of: &InterfaceCounters) -> u64 {
    let agent = Endpoint {
        addr: of.domain.exporter.into(),
        port: 0,
    };
    let key = FiveTuple {
        src: agent,
        dst: agent,
        protocol: IpProtocol(0),
    };
    let number = i64::from(of.domain.id) << 32 | i64::from(of.index);
    flow_id(&key.flow_key().0, Timestamp(number))
}

#[cfg(test)]
mod tests {
    use telemetry::{ExportDecoder, ExportEvent, ExportLimits};

    use super::*;

    /// A datagram with one report: 100 bytes per packet received, and no broadcasts counted.
    fn datagram(uptime_ms: u32, in_bytes: u64, packets: u32) -> Vec<u8> {
        let mut counters: Vec<u32> = vec![3, 6, 0, 1_000_000_000, 1, 3];
        counters.extend([(in_bytes >> 32) as u32, in_bytes as u32]);
        counters.extend([packets, 5, NOT_KEPT, 7, 8, 0]);
        counters.extend([0, 1000, NOT_KEPT, NOT_KEPT, NOT_KEPT, NOT_KEPT, 9, 0]);
        let record = [[1, 88].as_slice(), &counters].concat();
        let sample = [&[1, 3, 1], record.as_slice()].concat();
        let header = [5, 1, 0x0a00_00fe, 0, uptime_ms, uptime_ms, 1];
        let words = [&header, [2, sample.len() as u32 * 4].as_slice(), &sample].concat();
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// Bytes and packets received in each period, and its length in milliseconds.
    fn counted(reports: &[(u32, u64, u32)]) -> Vec<(u64, Option<u64>, i64)> {
        let mut decoder = ExportDecoder::new(ExportLimits::default());
        let mut interfaces = InterfaceReports::default();
        let mut found = Vec::new();
        for (uptime_ms, in_bytes, packets) in reports {
            let sender = "10.0.0.254:6343".parse().expect("an address");
            let message = datagram(*uptime_ms, *in_bytes, *packets);
            decoder.decode(sender, Timestamp(0), &message, |event| {
                let ExportEvent::Counters(counters) = event else {
                    panic!("{event:?}")
                };
                if let Some(counts) = interfaces.counted(counters) {
                    let [received, sent] = counts.directions;
                    assert_eq!((counts.index, counts.speed), (3, 1_000_000_000));
                    assert_eq!((received.errors, received.discards), (Some(0), Some(0)));
                    assert_eq!((sent.packets, sent.discards), (None, None));
                    assert_eq!((sent.bytes, sent.errors), (0, Some(0)));
                    let ms = counts.period_ns / 1_000_000;
                    found.push((received.bytes, received.packets, ms));
                }
            });
        }
        assert_eq!(decoder.counters().malformed, 0);
        found
    }

    #[test]
    fn differences_of_counters_and_uptimes_that_wrap() {
        let reports = [
            (u32::MAX - 999, u64::from(u32::MAX), u32::MAX - 2),
            (u32::MAX, u64::from(u32::MAX) + 1000, 7),
            (30_000, u64::from(u32::MAX) + 1500, 12),
        ];
        assert_eq!(
            counted(&reports),
            [(1000, Some(10), 999), (500, Some(5), 30_001)]
        );
    }

    #[test]
    fn late_and_repeated_reports_do_not_count() {
        let reports = [
            (10_000, 0, 0),
            (30_000, 2000, 20),
            (20_000, 1000, 10),
            (30_000, 2000, 20),
            (40_000, 3000, 30),
        ];
        assert_eq!(
            counted(&reports),
            [(2000, Some(20), 20_000), (1000, Some(10), 10_000)]
        );
    }

    #[test]
    fn an_agent_that_restarts_counts_anew() {
        let reports = [
            (500_000, 9000, 90),
            (1000, 100, 1),
            (2000, 300, 3),
            // The interface's counters are cleared without a restart.
            (3000, 0, 0),
            (4000, 50, 1),
        ];
        assert_eq!(
            counted(&reports),
            [(200, Some(2), 1000), (50, Some(1), 1000)]
        );
        // More was counted since the restart than before.
        let reports = [(500_000, 100, 1), (1000, 9000, 90), (2000, 9500, 95)];
        assert_eq!(counted(&reports), [(500, Some(5), 1000)]);
    }
}
