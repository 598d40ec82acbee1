//! Packet rate of a host's interfaces, from the kernel's counters over the last seconds. The cost of a job is estimated
//! from it.

use std::fs;
use std::time::{Duration, Instant};

use crate::policy::HostPolicy;

/// Interval between measurements.
const EVERY: Duration = Duration::from_secs(10);

/// See the module documentation.
#[derive(Debug)]
pub struct TrafficMeter {
    looked: Instant,
    packets: u64,
    /// Packets per second between the last two measurements, on permitted interfaces.
    pub packets_per_second: u64,
}

impl TrafficMeter {
    /// Starts with this number of packets.
    #[must_use]
    pub fn begin(packets: u64) -> TrafficMeter {
        TrafficMeter {
            looked: Instant::now(),
            packets,
            packets_per_second: 0,
        }
    }

    /// Measures again if due, or if there has been no second measurement. `packets`: counter value.
    pub fn look(&mut self, packets: u64) {
        let elapsed = self.looked.elapsed();
        let is_due = elapsed >= EVERY || (self.packets_per_second == 0 && elapsed >= EVERY / 10);
        if is_due {
            let seen = packets.saturating_sub(self.packets) as f64;
            *self = TrafficMeter {
                looked: Instant::now(),
                packets,
                packets_per_second: (seen / elapsed.as_secs_f64()).round() as u64,
            };
        }
    }
}

/// Packet counters of the permitted interfaces, if available.
pub fn packets_now(policy: &HostPolicy) -> u64 {
    let text = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    packets(&text, |name| policy.allows_interface(name))
}

/// Packets in both directions, from `/proc/net/dev`. On loopback only received packets are counted: each is sent and
/// received.
fn packets(dev: &str, is_wanted: impl Fn(&str) -> bool) -> u64 {
    let of = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let name = Some(name.trim()).filter(|name| is_wanted(name))?;
        let counts: Vec<u64> = counts
            .split_ascii_whitespace()
            .map_while(|n| n.parse().ok())
            .collect();
        let sent = if name == "lo" { 0 } else { *counts.get(9)? };
        Some(counts.get(1)?.saturating_add(sent))
    };
    dev.lines().filter_map(of).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 9000     100    0    0    0     0          0         0     9000     100    0    0    0     0       0          0
  eth0: 12345    1000    0    0    0     0          0         0    54321    2000    0    0    0     0       0          0
veth1:7 30 0 0 0 0 0 0 7 4 0 0 0 0 0 0
 bad0: 1
";

    #[test]
    fn the_kernels_counters_are_understood() {
        for (wanted, expected) in [
            (&["lo", "eth0", "veth1", "bad0"][..], 3134),
            (&["lo"], 100),
            (&["eth0"], 3000),
            (&[], 0),
        ] {
            assert_eq!(
                packets(DEV, |name| wanted.contains(&name)),
                expected,
                "{wanted:?}"
            );
        }
        assert_eq!(packets("nonsense", |_| true), 0);
    }
}
