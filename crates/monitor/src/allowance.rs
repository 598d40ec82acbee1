//! A monitor's share of a LIMIT in packets that applies to several monitors together.
//!
//! The distributor of the limit increases the share during the run. When it is used up, workers wait, and the packets
//! wait in their source, until the share grows or the run ends.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capture::live::StopSignal;

/// Interval at which a waiting worker checks whether the run has been stopped.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Shared packet counter of one monitor. Clones refer to the same counter.
#[derive(Clone, Debug)]
pub struct PacketAllowance {
    shared: Arc<AllowanceState>,
    stop: StopSignal,
}

#[derive(Debug)]
struct AllowanceState {
    packets: Mutex<AllowancePackets>,
    more: Condvar,
}

/// Counts since the start of the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AllowancePackets {
    taken: u64,
    allowed: u64,
    /// Number of workers waiting for a larger share.
    waiting: usize,
    /// The last unreported [`PacketAllowance::take_back`].
    taken_back: Option<RevokedGrant>,
}

/// Confirmation that the rest of a share was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevokedGrant {
    /// Number of the grant, from the request.
    pub grant: u64,
    /// Packets consumed so far.
    pub taken: u64,
}

impl PacketAllowance {
    /// An initial share of `allowed` packets. Waiting workers return when `stop` is set.
    #[must_use]
    pub fn new(allowed: u64, stop: &StopSignal) -> PacketAllowance {
        let packets = Mutex::new(AllowancePackets {
            taken: 0,
            allowed,
            waiting: 0,
            taken_back: None,
        });
        PacketAllowance {
            shared: Arc::new(AllowanceState {
                packets,
                more: Condvar::new(),
            }),
            stop: stop.clone(),
        }
    }

    /// Consumes one packet; blocks while the share is used up. Returns false if the run is stopped.
    #[must_use]
    pub fn take(&self) -> bool {
        let mut packets = self.packets();
        while packets.taken >= packets.allowed {
            if self.stop.is_asked() {
                return false;
            }
            packets.waiting += 1;
            let waited = self.shared.more.wait_timeout(packets, LOOK_EVERY);
            packets = waited.unwrap_or_else(PoisonError::into_inner).0;
            packets.waiting -= 1;
        }
        packets.taken += 1;
        true
    }

    /// Sets the total share. A value below the consumed packets blocks further consumption.
    pub fn allow(&self, allowed: u64) {
        self.packets().allowed = allowed;
        self.shared.more.notify_all();
    }

    /// Limits the share to the packets consumed so far, until the next [`PacketAllowance::allow`].
    pub fn take_back(&self, grant: u64) {
        let mut packets = self.packets();
        let taken = packets.taken;
        packets.allowed = taken;
        packets.taken_back = Some(RevokedGrant { grant, taken });
    }

    /// Returns and clears the last confirmation.
    #[must_use]
    pub fn taken_back(&self) -> Option<RevokedGrant> {
        self.packets().taken_back.take()
    }

    /// Whether workers are waiting for a larger share.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.packets().waiting > 0
    }

    /// Packets consumed so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.packets().taken
    }

    fn packets(&self) -> MutexGuard<'_, AllowancePackets> {
        self.shared
            .packets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_stop_at_their_allowance() {
        let stop = StopSignal::default();
        let allowance = PacketAllowance::new(10, &stop);
        let worker = || {
            let allowance = allowance.clone();
            std::thread::spawn(move || (0..).take_while(|_| allowance.take()).count() as u64)
        };
        let workers = [worker(), worker(), worker()];
        let until = |taken| {
            while allowance.taken() < taken {
                std::thread::yield_now();
            }
        };
        until(10);
        allowance.allow(25);
        until(25);
        allowance.take_back(7);
        assert_eq!(
            allowance.taken_back(),
            Some(RevokedGrant {
                grant: 7,
                taken: 25
            })
        );
        assert_eq!(allowance.taken_back(), None);
        // A share below the consumed packets has no effect.
        allowance.allow(3);
        allowance.allow(26);
        until(26);
        stop.stop();
        let took: u64 = workers
            .into_iter()
            .map(|worker| worker.join().expect("no panic"))
            .sum();
        assert_eq!((took, allowance.taken()), (26, 26));
    }
}
