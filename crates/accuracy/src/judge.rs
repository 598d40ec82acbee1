//! Compares the tuples of a damaged capture with the transactions of the undamaged one.
//!
//! A tuple is identified by its connection and the packet with its first byte: that of the request, or of the
//! response without a request. It is *right* if a transaction that begins there has every value of the tuple and has
//! not been reported before. An `exact` tuple must have all values, and no byte may be missing. Anything else is a
//! [`TupleFault`], regardless of the tuple's mark.

use std::collections::HashMap;

use crate::ground_truth::{ClientBehavior, GroundTruth, PacketKey, PacketSpan, TrueTransaction};
use crate::observed::ObservedValue;
use crate::partial_values;
use crate::view::CaptureView;
use crate::{FaultKind, ObservedPacket, ObservedTuple, OutcomeCounts, TupleFault};

/// Fields that depend on earlier messages of the connection: they may be missing from an `exact` tuple.
const OF_THE_CONNECTION: &[&str] = &[
    "user",
    "database",
    "keyspace",
    "table",
    "operation",
    "query",
    "fingerprint",
    "encoding",
    "summary",
    "application_name",
    "backend_pid",
    QUEUED,
    SERVICE_TIME,
];
/// A field that for a response without request is the response's own.
const OF_EITHER: &str = "http_version";
const RESPONSE_TIME: &str = "response_time_ns";
/// Time up to a response for which the server waited.
const WAITED: &str = "waited_ns";
const TRANSFER_TIME: &str = "transfer_time_ns";
const TOTAL_TIME: &str = "total_time_ns";
const CALL_TIME: &str = "call_time_ns";
const QUEUED: &str = "queued_ns";
const SERVICE_TIME: &str = "service_time_ns";

impl GroundTruth<'_> {
    /// Judges the tuples `told` from the packets `seen`. Times may differ by `tolerance` nanoseconds.
    #[must_use]
    pub fn judge(
        &self,
        told: &[ObservedTuple],
        seen: &[ObservedPacket],
        tolerance: i64,
    ) -> OutcomeCounts {
        let view = CaptureView::of(self, seen);
        let mut judge = TupleJudge {
            truth: self,
            view: &view,
            tolerance,
            found: vec![FoundTransaction::default(); self.transactions.len()],
        };
        let mut order: Vec<&ObservedTuple> = told.iter().collect();
        // The tuple with the most values is assigned first.
        order.sort_by_key(|t| {
            std::cmp::Reverse(t.values.iter().filter(|(_, v)| v.is_some()).count())
        });
        let faults = order.into_iter().filter_map(|t| judge.place(t)).collect();
        let pairs = told.iter().filter(|t| t.asked && !t.is_half()).count();
        let mut count = OutcomeCounts {
            pairs,
            faults,
            ..OutcomeCounts::default()
        };
        for (transaction, found) in self.transactions.iter().zip(&judge.found) {
            if transaction.counts() {
                found.count(transaction, is_findable(transaction, &view), &mut count);
            }
        }
        count
    }
}

/// Whether the packets required to find a transaction are present.
fn is_findable(transaction: &TrueTransaction, view: &CaptureView<'_>) -> bool {
    let sound = |packet: usize| view.is_sound(packet);
    let request = transaction
        .request
        .is_some_and(|r| sound(r.first) && sound(r.last));
    let answered = transaction.told.response_time.is_none()
        || transaction.response.is_some_and(|r| sound(r.first));
    request && answered
}

/// The reported parts of a transaction.
#[derive(Clone, Copy, Default)]
struct FoundTransaction {
    request: bool,
    response: bool,
    whole: bool,
    exact: bool,
}

impl FoundTransaction {
    fn count(self, transaction: &TrueTransaction, findable: bool, count: &mut OutcomeCounts) {
        let whole = self.request && self.whole;
        count.transactions += 1;
        count.findable += usize::from(findable);
        count.found += usize::from(findable && whole);
        if transaction.client == ClientBehavior::Waits {
            count.waiting.0 += usize::from(findable);
            count.waiting.1 += usize::from(findable && whole);
        }
        *match (whole, self.exact, self.request || self.response) {
            (true, true, _) => &mut count.exact,
            (true, false, _) => &mut count.marked,
            (false, _, true) => &mut count.half,
            (false, _, false) => &mut count.missed,
        } += 1;
    }
}

/// The half of a transaction that a tuple begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TransactionHalf {
    Request,
    Response,
}

struct TupleJudge<'a> {
    truth: &'a GroundTruth<'a>,
    view: &'a CaptureView<'a>,
    tolerance: i64,
    found: Vec<FoundTransaction>,
}

impl TupleJudge<'_> {
    /// Finds the transaction of a tuple, or its fault.
    fn place(&mut self, told: &ObservedTuple) -> Option<TupleFault> {
        if self
            .view
            .at(told.ts)
            .iter()
            .any(|p| self.view.is_damaged(*p))
        {
            return None;
        }
        let mut worst: Option<(usize, FaultKind, String, usize)> = None;
        let mut candidates = self.candidates(told);
        // If several are in the same packets, the one with the matching distance between packets.
        candidates.sort_by_key(|(_, i)| !self.is_timed(told, &self.truth.transactions[*i]));
        for (half, i) in candidates {
            let asked = half == TransactionHalf::Request;
            let transaction = &self.truth.transactions[i];
            if [transaction.request, transaction.response]
                .into_iter()
                .flatten()
                .any(|s| self.view.has_damage(s))
            {
                self.take(i, told, asked);
                return None;
            }
            let found = &self.found[i];
            let taken = asked && found.request
                || (!asked || told.response_time.is_some()) && found.response;
            let difference = self.difference(told, asked, transaction);
            let (differences, kind, why) = match difference {
                None if !taken => {
                    self.take(i, told, asked);
                    return None;
                }
                None => (0, FaultKind::Pair, "told twice".to_owned()),
                Some(difference) => difference,
            };
            if worst
                .as_ref()
                .is_none_or(|(fewest, ..)| differences < *fewest)
            {
                worst = Some((differences, kind, why, i));
            }
        }
        let (kind, why, truth) = match worst {
            None => (
                FaultKind::Pair,
                "no transaction has its first byte here".to_owned(),
                None,
            ),
            Some((_, kind, why, i)) => (kind, why, Some(self.truth.transactions[i].told.clone())),
        };
        let kind = if told.is_half() {
            FaultKind::Half
        } else {
            kind
        };
        Some(TupleFault {
            kind,
            why,
            told: told.clone(),
            truth,
        })
    }

    fn take(&mut self, i: usize, told: &ObservedTuple, asked: bool) {
        let found = &mut self.found[i];
        found.request |= asked;
        found.response |= !asked || told.response_time.is_some();
        found.whole |= asked && (told.response_time.is_some() || !told.is_half());
        found.exact |= told.is_exact();
    }

    /// The transactions that a tuple may represent, with the half that it begins with: those that begin with the
    /// packet seen at its time, and, if times are modified, others that began near it.
    fn candidates(&self, told: &ObservedTuple) -> Vec<(TransactionHalf, usize)> {
        let mut candidates = Vec::new();
        let mut add = |half, index: &HashMap<PacketKey, Vec<usize>>| {
            for packet in self.view.at(told.ts) {
                let at = index
                    .get(&(told.client, told.server, *packet))
                    .map_or(&[][..], Vec::as_slice);
                candidates.extend(at.iter().map(|i| (half, *i)));
            }
        };
        if told.asked {
            add(TransactionHalf::Request, &self.truth.by_request);
        }
        // A response may itself identify its request.
        if !told.asked || told.is_half() {
            add(TransactionHalf::Response, &self.truth.by_response);
        }
        if candidates.is_empty() && told.asked && self.tolerance > 0 {
            candidates.extend(self.about_then(told).map(|i| (TransactionHalf::Request, i)));
        }
        candidates
    }

    /// Transactions that began near this time, a few before and a few after.
    fn about_then(&self, told: &ObservedTuple) -> impl Iterator<Item = usize> {
        const NEAR: usize = 32;
        let all = self
            .truth
            .by_connection
            .get(&(told.client, told.server))
            .map_or(&[][..], Vec::as_slice);
        let ts = |i: &usize| self.truth.transactions[*i].told.ts;
        let here = all.partition_point(|i| ts(i) < told.ts);
        let from = all
            .partition_point(|i| ts(i) < told.ts - self.tolerance)
            .max(here.saturating_sub(NEAR));
        let to = all
            .partition_point(|i| ts(i) <= told.ts + self.tolerance)
            .min(here + NEAR);
        all[from..to].iter().copied()
    }

    /// The number of false values of a tuple, and one of them.
    fn difference(
        &self,
        told: &ObservedTuple,
        asked: bool,
        truth: &TrueTransaction,
    ) -> Option<(usize, FaultKind, String)> {
        let exact = told.is_exact();
        let mut faults: Vec<(FaultKind, String)> = Vec::new();
        let ended = self.ended(told, truth) - self.tolerance;
        if exact && told.ts_end < ended {
            faults.push((
                FaultKind::Value,
                format!("complete {} ns too early", ended - told.ts_end),
            ));
        }
        let spans = [truth.request, truth.response];
        if exact
            && spans
                .into_iter()
                .flatten()
                .any(|span| !self.view.has_all(span))
        {
            faults.push((
                FaultKind::ExactWithHole,
                "quality exact although bytes are missing".to_owned(),
            ));
        }
        for ((name, claimed), (_, true_value)) in told.values.iter().zip(&truth.told.values) {
            let right = match (*name, claimed) {
                (RESPONSE_TIME | WAITED, Some(ObservedValue::Number(n))) => {
                    match self.response_time(*n as i64, truth) {
                        TimeVerdict::Right => true,
                        TimeVerdict::Off => false,
                        TimeVerdict::OfAnother => {
                            faults.insert(
                                0,
                                (
                                    FaultKind::Pair,
                                    "the response belongs to another request".to_owned(),
                                ),
                            );
                            true
                        }
                    }
                }
                (TRANSFER_TIME, Some(ObservedValue::Number(n))) => {
                    self.transfer_time(*n as i64, exact, truth)
                }
                (TOTAL_TIME, Some(ObservedValue::Number(n))) => {
                    self.total_time(*n as i64, exact, truth)
                }
                // The response may be seen as a retransmission: both parts are judged on their own.
                (SERVICE_TIME, Some(ObservedValue::Number(n))) => {
                    let queued = told.value(QUEUED).and_then(ObservedValue::number);
                    let parts = told.response_time.zip(queued);
                    parts.is_some_and(|(time, queued)| i128::from(time) == n + queued)
                }
                (CALL_TIME | QUEUED, Some(ObservedValue::Number(n))) => {
                    matches!(true_value, Some(ObservedValue::Number(t)) if (n - t).abs() <= i128::from(self.tolerance))
                }
                (OF_EITHER, Some(claimed)) if !asked => matches!(claimed, ObservedValue::Text(_)),
                (name, claimed)
                    if partial_values::is_part(
                        self.truth.recording,
                        told,
                        name,
                        claimed.as_ref(),
                        true_value.as_ref(),
                    ) =>
                {
                    true
                }
                (_, Some(_)) => claimed == true_value,
                (name, None) => !exact || OF_THE_CONNECTION.contains(&name) || true_value.is_none(),
            };
            if !right {
                let is = true_value
                    .as_ref()
                    .map_or("-".to_owned(), ObservedValue::to_string);
                faults.push((FaultKind::Value, format!("{name} is {is}")));
            }
        }
        let n = faults.len();
        let (kind, why) = faults.into_iter().next()?;
        Some((n, kind, why))
    }

    /// The first time at which the last packet of a transaction was seen.
    fn ended(&self, told: &ObservedTuple, truth: &TrueTransaction) -> i64 {
        let last = truth.response.filter(|span| span.whole);
        let seen = last.and_then(|span| self.view.times(span.last).iter().min().copied());
        match (self.tolerance, seen) {
            (0, seen) => seen.map_or(truth.told.ts_end, |seen| seen.max(truth.told.ts_end)),
            (_, Some(seen)) => seen,
            // The original duration after its beginning.
            (_, None) => told.ts + (truth.told.ts_end - truth.told.ts),
        }
    }

    /// Whether the distance between the packets matches the tuple.
    fn is_timed(&self, told: &ObservedTuple, truth: &TrueTransaction) -> bool {
        let ends = truth.request.zip(truth.response).zip(told.response_time);
        ends.is_some_and(|((request, response), claimed)| {
            let asked = self.view.complete_at(request);
            let answered = self.view.times(response.first);
            asked
                .iter()
                .any(|from| answered.iter().any(|to| to - from == claimed))
        })
    }

    fn response_time(&self, claimed: i64, truth: &TrueTransaction) -> TimeVerdict {
        let true_time = truth.told.response_time;
        if claimed < 0 && true_time.is_none_or(|t| t >= 0) {
            return TimeVerdict::Off;
        }
        if true_time.is_none() {
            return if self.is_short(claimed, truth) {
                TimeVerdict::Right
            } else {
                TimeVerdict::Off
            };
        }
        if let (Some(request), Some(response)) = (truth.request, truth.response) {
            let asked = self.view.complete_at(request);
            let between = |from: &i64, to: &i64| to - from == claimed;
            if asked.iter().any(|from| {
                self.view
                    .times(response.first)
                    .iter()
                    .any(|to| between(from, to))
            }) {
                return TimeVerdict::Right;
            }
            // Another packet of the server was seen at that time.
            let ends = (truth.told.server, truth.told.client);
            let own = response.first..=response.last;
            let seen = asked.iter().flat_map(|from| self.view.at(from + claimed));
            if seen
                .into_iter()
                .any(|p| !own.contains(p) && self.truth.recording.ends(*p) == Some(ends))
            {
                return TimeVerdict::OfAnother;
            }
        }
        if true_time.is_some_and(|t| (t - claimed).abs() <= self.tolerance) {
            TimeVerdict::Right
        } else {
            TimeVerdict::Off
        }
    }

    /// Whether a time may result from modified times if the response began before the request was complete.
    fn is_short(&self, claimed: i64, truth: &TrueTransaction) -> bool {
        let short = claimed <= truth.told.ts_end - truth.told.ts + self.tolerance;
        truth.response.is_some() && short
    }

    /// The times at which a response may have ended: those of the packet seen last; without a part of it, those of its last byte,
    /// and of packets after that one which fill holes: a later one may have come too late to be used.
    fn ends(&self, exact: bool, response: PacketSpan) -> Vec<i64> {
        let recording = self.truth.recording;
        let end_of = |packet: &usize| recording.carried(*packet).map(|c| c.offset + c.len);
        let own = (response.first..=response.last)
            .filter(|p| recording.ends(*p) == recording.ends(response.first));
        let last_byte = own.clone().max_by_key(end_of).filter(|_| !exact);
        let from = last_byte.unwrap_or(response.last);
        own.chain([response.last])
            .filter(|packet| *packet >= from)
            .flat_map(|packet| self.view.times(packet).iter().copied())
            .collect()
    }

    fn transfer_time(&self, claimed: i64, exact: bool, truth: &TrueTransaction) -> bool {
        let true_time = truth.told.transfer_time;
        if claimed < 0 && true_time.is_some_and(|t| t >= 0) {
            return false;
        }
        let between = |span: PacketSpan| {
            let from = self.view.times(span.first);
            let to = self.ends(exact, span);
            from.iter()
                .any(|from| to.iter().any(|to| to - from == claimed))
        };
        truth
            .response
            .filter(|span| span.whole)
            .is_some_and(between)
            || true_time.is_some_and(|t| (t - claimed).abs() <= self.tolerance)
    }

    fn total_time(&self, claimed: i64, exact: bool, truth: &TrueTransaction) -> bool {
        let Some((request, response)) = truth.request.zip(truth.response) else {
            return false;
        };
        let between = || {
            let ends = self.ends(exact, response);
            let asked = self.view.complete_at(request);
            asked
                .iter()
                .any(|from| ends.iter().any(|to| to - from == claimed))
        };
        let is_right = match truth.told.total_time {
            Some(t) => (t - claimed).abs() <= self.tolerance || response.whole && between(),
            None => truth.told.response_time.is_none() && self.is_short(claimed, truth),
        };
        claimed >= 0 && is_right
    }
}

/// Comparison of a response time with the truth.
enum TimeVerdict {
    Right,
    Off,
    /// The time of another response of the connection.
    OfAnother,
}
