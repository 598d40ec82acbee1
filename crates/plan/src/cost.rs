//! Resources of a host used by a job, estimated before its start and compared with the host's limits. The estimate
//! depends on the packet rate of the host, so it is stored as a cost per packet.

use std::fmt;

/// Resources of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceUsage {
    /// Thousandths of a core.
    pub cpu_millis: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

/// Resources used by a job as a function of the packet rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobCost {
    /// Resources without traffic.
    pub base: ResourceUsage,
    /// CPU time per packet.
    pub cpu_ns_per_packet: u64,
    /// Memory per packet per second.
    pub memory_bytes_per_pps: u64,
    /// Maximum memory beyond the base: the total limit of all parts of a monitor.
    pub memory_bytes_max: u64,
    /// Bytes sent by the host per thousand packets.
    pub sent_bytes_per_1000_packets: u64,
}

impl JobCost {
    /// The load at this packet rate.
    #[must_use]
    pub fn at(&self, packets_per_second: u64) -> ResourceUsage {
        let cpu_ns = packets_per_second.saturating_mul(self.cpu_ns_per_packet);
        let memory = packets_per_second
            .saturating_mul(self.memory_bytes_per_pps)
            .min(self.memory_bytes_max);
        self.base.and(ResourceUsage {
            cpu_millis: cpu_ns / 1_000_000,
            memory_bytes: memory,
        })
    }

    /// Bytes per second sent by the host at this packet rate.
    #[must_use]
    pub fn sent_bytes_at(&self, packets_per_second: u64) -> u64 {
        packets_per_second.saturating_mul(self.sent_bytes_per_1000_packets) / 1000
    }
}

impl ResourceUsage {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: ResourceUsage) -> ResourceUsage {
        ResourceUsage {
            cpu_millis: self.cpu_millis.saturating_add(other.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }

    /// The remainder after subtracting `borne`.
    #[must_use]
    pub fn less(self, borne: ResourceUsage) -> ResourceUsage {
        ResourceUsage {
            cpu_millis: self.cpu_millis.saturating_sub(borne.cpu_millis),
            memory_bytes: self.memory_bytes.saturating_sub(borne.memory_bytes),
        }
    }

    /// Whether it fits into `left`.
    #[must_use]
    pub fn fits(self, left: ResourceUsage) -> bool {
        self.cpu_millis <= left.cpu_millis && self.memory_bytes <= left.memory_bytes
    }

    /// Explains with figures why it exceeds `max` in addition to `borne`; `None` if it does not.
    #[must_use]
    pub fn excess(self, borne: ResourceUsage, max: ResourceUsage) -> Option<String> {
        let left = max.less(borne);
        (!self.fits(left)).then(|| format!("estimated cost: {self}; available: {left} of {max}"))
    }
}

impl fmt::Display for ResourceUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = self.cpu_millis as f64 / 1000.0;
        let mebibytes = self.memory_bytes.div_ceil(1 << 20);
        write!(f, "{cores:.2} cores and {mebibytes} MiB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_beyond_the_capacity_is_reported_with_numbers() {
        let burden = |cpu_millis, mib: u64| ResourceUsage {
            cpu_millis,
            memory_bytes: mib << 20,
        };
        let max = burden(1000, 2048);
        for (needs, borne, expected) in [
            (burden(1000, 2048), burden(0, 0), None),
            (burden(300, 1), burden(700, 1), None),
            (
                burden(1200, 400),
                burden(700, 48),
                Some(
                    "estimated cost: 1.20 cores and 400 MiB; available: 0.30 cores and 2000 MiB of 1.00 cores and 2048 MiB",
                ),
            ),
            (
                burden(1, 400),
                burden(2000, 2000),
                Some(
                    "estimated cost: 0.00 cores and 400 MiB; available: 0.00 cores and 48 MiB of 1.00 cores and 2048 MiB",
                ),
            ),
        ] {
            assert_eq!(needs.excess(borne, max).as_deref(), expected);
        }
    }

    #[test]
    fn cost_grows_with_packets_up_to_the_memory_limits() {
        let base = ResourceUsage {
            cpu_millis: 5,
            memory_bytes: 100,
        };
        let cost = JobCost {
            base,
            cpu_ns_per_packet: 250,
            memory_bytes_per_pps: 3,
            memory_bytes_max: 1000,
            sent_bytes_per_1000_packets: 7,
        };
        for (packets, cpu_millis, memory_bytes) in [
            (0, 5, 100),
            (100, 5, 400),
            (1_000_000, 255, 1100),
            (u64::MAX, 5 + u64::MAX / 1_000_000, 1100),
        ] {
            assert_eq!(
                cost.at(packets),
                ResourceUsage {
                    cpu_millis,
                    memory_bytes
                },
                "{packets}"
            );
        }
        assert_eq!(cost.sent_bytes_at(2000), 14);
    }
}
