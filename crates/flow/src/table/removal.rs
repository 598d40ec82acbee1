//! Removal of flows: idle, closed, at the end of the input, or evicted.

use std::hint::black_box;

use wire::Timestamp;

use super::{FlowTable, context, patience};
use crate::dormant_connections;
use crate::event::{CloseReason, FlowEvent, FlowEvents, FlowIdx};
use crate::expiry::{NONE, TimingWheel};
use crate::flow::FlowCore;
use crate::flow_layout::flag;
use crate::index::FlowIndex;
use crate::tcp_state;
use crate::timeouts::{idle_timeout, report_active, until_report};

/// Flows examined to find one to evict.
const EVICTION_SAMPLE: usize = 16;
/// Share of places (1 in N) for flows not worth keeping, before a flow worth keeping is evicted.
const CHEAP_SHARE: usize = 16;
/// Flows examined per call to `expire`.
const EXPIRE_FLOWS: usize = 4096;
/// Flows whose memory is prefetched together.
const AT_A_TIME: usize = 32;
/// Flows closed per call to `close_all`.
const CLOSE_FLOWS: usize = 1024;

impl<S: Default> FlowTable<S> {
    /// Advances the clock at the end of a block of packets; closes flows that are idle at `now`, and abandons bytes
    /// missing in silent flows. Examines a bounded number of flows; returns true while there are more.
    pub fn expire(&mut self, now: Timestamp, events: &mut FlowEvents) -> bool {
        self.begin(events);
        events.before = None;
        let clock = self.clock.advance(now);
        self.rules.floor = self.clock.floor();
        self.counters.clock_rebases = self.clock.rebases;
        for _ in 0..EXPIRE_FLOWS / AT_A_TIME {
            let mut due = [NONE; AT_A_TIME];
            let mut n = 0;
            while n < AT_A_TIME
                && let Some(place) = self.wheel.pop(clock)
            {
                due[n] = place;
                n += 1;
            }
            self.touch(&due[..n]);
            due[..n]
                .iter()
                .for_each(|place| self.look_after(*place, now, clock, events));
            if n < AT_A_TIME {
                return false;
            }
        }
        true
    }

    /// Closes a bounded number of flows at the end of the input; returns true while there are more. Until then no
    /// other call is allowed.
    pub fn close_all(&mut self, now: Timestamp, events: &mut FlowEvents) -> bool {
        self.begin(events);
        events.before = None;
        if self.closing == 0 {
            // No more lookups follow: removing flows one by one would only wait for memory.
            self.index = FlowIndex::new();
            self.wheel = TimingWheel::new();
        }
        let mut left = CLOSE_FLOWS;
        while left > 0 && self.closing < self.store.len() {
            let place = self.closing as u32;
            if self.store.hot(place).has(flag::LIVE) {
                self.close(place, CloseReason::EndOfInput, now, now, events);
                left -= 1;
            }
            self.closing += 1;
        }
        let more = self.closing < self.store.len();
        if !more {
            self.closing = 0;
        }
        more
    }

    /// Prefetches: reads a few fields of each flow first, so that memory latency is paid once and not per flow.
    fn touch(&self, places: &[u32]) {
        for place in places {
            black_box((
                self.store.hot(*place).word,
                self.store.cold(*place).first_ts,
            ));
        }
        for place in places {
            let hash = self.store.flow(*place).key().hash(self.config.seed);
            black_box(self.index.guess(hash));
        }
    }

    /// Handles a flow whose tick has passed: closes it if idle, abandons missing bytes, or reschedules it.
    fn look_after(&mut self, place: u32, now: Timestamp, clock: i64, events: &mut FlowEvents) {
        let mut flow = self.store.flow_mut(place);
        let idle_ns = idle_timeout(flow.core(), &self.config);
        if clock.saturating_sub(flow.core().seen_at()) > idle_ns {
            let ts = flow.core().last_ts().plus(idle_ns);
            return self.close(place, CloseReason::Idle, now, ts, events);
        }
        if let Some(period) = self.config.active_timeout_ns {
            report_active(&mut flow, FlowIdx(place), now, period, events);
        }
        let mut cx = context(
            &self.config,
            &mut self.budget,
            &mut self.counters,
            events,
            place,
            now,
        );
        tcp_state::check(&mut flow, &mut cx);
        flow.classify();
        self.schedule(place, now, clock);
        self.hasten(place, now, clock);
    }

    /// Schedules the flow for its idle timeout and its next report.
    pub(super) fn schedule(&mut self, place: u32, now: Timestamp, clock: i64) {
        let flow = self.store.core(place);
        let idle = flow
            .seen_at()
            .saturating_add(idle_timeout(flow, &self.config));
        let report = until_report(flow, now, self.config.active_timeout_ns);
        self.wheel
            .schedule(place, idle.min(clock.saturating_add(report)), clock);
    }

    /// Schedules a check for the time when awaited bytes become hopeless or a shortened timeout expires.
    pub(super) fn hasten(&mut self, place: u32, now: Timestamp, clock: i64) {
        let flow = self.store.core(place);
        // If the clock was set back, the deadline may be far in the future.
        let most = self.config.gap_wait_ns.max(0);
        let wait = tcp_state::deadline(flow, patience(&self.config))
            .map(|ts| ts.since(now).clamp(0, most));
        let idle = idle_timeout(flow, &self.config);
        self.wheel.hasten(
            place,
            clock.saturating_add(wait.unwrap_or(idle).min(idle)),
            clock,
        );
    }

    /// Delivers waiting data and removes the flow; `ts` is the time in the event, `now` the time of the decision.
    pub(super) fn close(
        &mut self,
        place: u32,
        reason: CloseReason,
        now: Timestamp,
        ts: Timestamp,
        events: &mut FlowEvents,
    ) {
        let rests =
            reason == CloseReason::Idle && dormant_connections::can_go_on(self.store.core(place));
        let mut flow = self.store.flow_mut(place);
        let mut cx = context(
            &self.config,
            &mut self.budget,
            &mut self.counters,
            events,
            place,
            now,
        );
        tcp_state::on_close(&mut flow, &mut cx);
        flow.hot.put(flag::LIVE | flag::FAST, false);
        self.cheap -= usize::from(!flow.hot.has(flag::VALUED));
        tcp_state::forget(&mut flow, &mut self.budget);
        let key = self.store.flow(place).key();
        let hash = key.hash(self.config.seed);
        self.index.remove(hash, place);
        if rests {
            let bytes = *self.store.extra_mut(place);
            self.dormant
                .add(hash, self.store.hot(place), key, (place, bytes));
            self.resting.push(place);
        }
        self.wheel.cancel(place);
        self.leave(place);
        self.closed.push(place);
        self.counters.closed[reason as usize] += 1;
        events.push(FlowIdx(place), FlowEvent::Closed { reason, ts });
    }

    /// Attempts and terminated flows first, while they exceed their share; otherwise the flow idle longest in a
    /// sample.
    pub(super) fn choose_victim(&mut self) -> u32 {
        if self.cheap * CHEAP_SHARE > self.len() {
            return self.next_cheap();
        }
        let mut best: Option<(i64, u32)> = None;
        let mut looked_at = 0;
        for _ in 0..EVICTION_SAMPLE * CHEAP_SHARE {
            let flow = self.advance_hand();
            if flow.hot.has(flag::LIVE) && flow.hot.has(flag::VALUED) {
                let candidate = (flow.seen_at(), self.hand as u32);
                best = Some(best.map_or(candidate, |best| best.min(candidate)));
                looked_at += 1;
            }
            if looked_at == EVICTION_SAMPLE {
                break;
            }
        }
        best.map_or_else(|| self.next_cheap(), |(_, place)| place)
    }

    /// The next cheap flow at the clock hand. Since freed places are reused behind it, that is one of the oldest; per
    /// round it examines at most [`CHEAP_SHARE`] places for each flow found.
    fn next_cheap(&mut self) -> u32 {
        for _ in 0..self.store.len() {
            let hot = self.advance_hand().hot;
            if hot.has(flag::LIVE) && !hot.has(flag::VALUED) {
                break;
            }
        }
        self.hand as u32
    }

    fn advance_hand(&mut self) -> FlowCore<'_> {
        self.hand = (self.hand + 1) % self.store.len();
        self.store.core(self.hand as u32)
    }
}
