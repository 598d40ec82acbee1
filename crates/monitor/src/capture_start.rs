//! Start of a live capture by the clock of its packets: windows that began before it are partial. An adapter's clock may
//! differ from the system's; the difference is measured with the first packet that the adapter has stamped.

use std::time::{SystemTime, UNIX_EPOCH};

use capture::live::TimestampClock;
use capture::{PacketBlock, SourceCounters};
use stream::LimitedStretch;
use wire::Timestamp;

/// Maximum time from the arrival of a packet to its delivery, in an idle capture.
const DELIVERY_NS: i64 = 100_000_000;

/// Start of a live capture, by the system's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CaptureStart(Timestamp);

impl CaptureStart {
    /// The current time.
    pub fn now() -> CaptureStart {
        CaptureStart(wall_clock())
    }

    /// Event time in which the capture began; `None`: the offset of the adapter's clock is not known yet. `now`: system
    /// time at which `block` was read from a source with these counters.
    pub fn stretch(
        self,
        block: &PacketBlock,
        counters: &SourceCounters,
        now: Timestamp,
    ) -> Option<LimitedStretch> {
        let CaptureStart(at) = self;
        let (from, to) = if counters.clock == Some(TimestampClock::Adapter) {
            if counters.packets <= counters.unstamped_packets {
                return None;
            }
            // Packets that this machine has sent have the system's time.
            let times = block.records().iter().map(|record| record.ts);
            let stamped = times.max_by_key(|ts| ts.0.abs_diff(now.0))?;
            let from = at.plus(stamped.since(now));
            // The offset includes the time until the packet was delivered.
            (from, from.plus(DELIVERY_NS).min(stamped))
        } else {
            (at, at)
        };
        Some(LimitedStretch {
            from_ns: from.0,
            to_ns: to.0,
            times: 1,
        })
    }
}

/// Current time of the system's clock.
pub(crate) fn wall_clock() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use capture::PacketRecord;
    use wire::LinkType;

    use super::*;

    const SECOND: i64 = 1_000_000_000;
    /// Start and first read, by the system's clock.
    const START: Timestamp = Timestamp(5_000 * SECOND);
    const READ: Timestamp = Timestamp(5_007 * SECOND);

    /// The stretch for packets with these lags behind the time of the read.
    fn stretch(
        clock: TimestampClock,
        lags_ns: &[i64],
        unstamped_packets: u64,
    ) -> Option<(i64, i64)> {
        let mut block = PacketBlock::default();
        for lag_ns in lags_ns {
            block.push(PacketRecord {
                ts: READ.plus(-lag_ns),
                link_type: LinkType::Ethernet,
                original_len: 60,
                len: 60,
                start: 0,
                buffer: 0,
            });
        }
        let counters = SourceCounters {
            packets: lags_ns.len() as u64,
            clock: Some(clock),
            unstamped_packets,
            ..SourceCounters::default()
        };
        let found = CaptureStart(START).stretch(&block, &counters, READ);
        found.map(|found| (found.from_ns - START.0, found.to_ns - START.0))
    }

    #[test]
    fn the_start_is_by_the_clock_that_stamps_the_packets() {
        use TimestampClock::{Adapter, System};
        const HOUR: i64 = 3_600 * SECOND;
        const MS: i64 = 1_000_000;
        for (clock, lags, unstamped, expected) in [
            (System, &[][..], 0, Some((0, 0))),
            (System, &[20 * MS][..], 0, Some((0, 0))),
            // No packet, and only packets of this machine.
            (Adapter, &[][..], 0, None),
            (Adapter, &[MS][..], 1, None),
            // The adapter's clock is an hour behind or ahead, or almost equal.
            (Adapter, &[HOUR][..], 0, Some((-HOUR, -HOUR + DELIVERY_NS))),
            (Adapter, &[-HOUR][..], 0, Some((HOUR, HOUR + DELIVERY_NS))),
            (Adapter, &[20 * MS][..], 0, Some((-20 * MS, 80 * MS))),
            (
                Adapter,
                &[MS, HOUR, MS][..],
                2,
                Some((-HOUR, -HOUR + DELIVERY_NS)),
            ),
        ] {
            let found = stretch(clock, lags, unstamped);
            assert_eq!(found, expected, "{clock:?} {lags:?}");
        }
    }
}
