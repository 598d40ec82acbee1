//! Reports at the end of an epoch that limits of the data path took effect in it, so that the windows of that time are marked
//! `approximate`.

use flow::CloseReason;
use stream::LimitedStretch;
use wire::Timestamp;

use crate::PacketAccounting;

/// Tracks the count of [`reached`] between epochs.
#[derive(Debug)]
pub(crate) struct LimitMeter {
    before: u64,
    since: Timestamp,
    /// Maximum time for which an eviction may affect later rows.
    hold_ns: i64,
}

impl LimitMeter {
    /// The effect of a limit lasts until its flow would have expired.
    pub fn new(flow: &flow::FlowTableConfig) -> LimitMeter {
        LimitMeter {
            before: 0,
            since: Timestamp::MIN,
            hold_ns: flow.tcp_idle_ns.max(flow.udp_idle_ns),
        }
    }

    /// Returns the epoch that ends now if a limit took effect in it; `count` is the total over all epochs.
    pub fn look(&mut self, now: Timestamp, count: u64) -> Option<LimitedStretch> {
        let since = std::mem::replace(&mut self.since, now);
        let times = count.saturating_sub(std::mem::replace(&mut self.before, count));
        let to_ns = now.0.saturating_add(self.hold_ns);
        (times > 0).then_some(LimitedStretch {
            from_ns: since.0,
            to_ns,
            times,
        })
    }
}

/// Number of times limits took effect that may change rows of later or neighboring transactions. Limits of
/// the stream engine are excluded: it marks its own rows.
pub(crate) fn reached(accounting: &PacketAccounting) -> u64 {
    let PacketAccounting {
        flows,
        fragments,
        parsers,
        networks_overflowed,
        ..
    } = accounting;
    [
        flows.closed_for(CloseReason::Evicted),
        flows.held_overflows,
        fragments.evicted,
        parsers.evicted_requests,
        parsers.evicted_statements,
        parsers.oversized_heads,
        parsers.evicted_names,
        *networks_overflowed,
    ]
    .into_iter()
    .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_in_which_a_limit_took_effect_is_reported_once() {
        let flow = flow::FlowTableConfig {
            tcp_idle_ns: 100,
            udp_idle_ns: 10,
            ..flow::FlowTableConfig::default()
        };
        let mut meter = LimitMeter::new(&flow);
        let mut look = |now, count| {
            meter
                .look(Timestamp(now), count)
                .map(|l| (l.from_ns, l.to_ns, l.times))
        };
        let found = [look(5, 0), look(7, 3), look(9, 3), look(11, 4)];
        assert_eq!(found, [None, Some((5, 107, 3)), None, Some((9, 111, 1))]);
    }
}
