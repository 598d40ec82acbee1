//! Times of the handshake steps, and the round trips between them. In the normal case a step is stored as nanoseconds
//! after the SYN, in 32 bits; [`crate::flow_layout::UnusualHandshake`] holds the rest.

use wire::Timestamp;

use crate::flow::FlowCore;
use crate::flow_layout::{ELSEWHERE, HandshakeStep, RttAmbiguity, UNSET};
use crate::flow_mut::FlowMut;

impl FlowCore<'_> {
    /// Time at which both SYNs were acknowledged.
    #[must_use]
    pub fn handshake_done_ts(&self) -> Option<Timestamp> {
        ts_of(self, HandshakeStep::Done)
    }

    /// First SYN → handshake complete; `None` if either was not seen.
    #[must_use]
    pub fn handshake_ns(&self) -> Option<i64> {
        Some(self.handshake_done_ts()?.since(self.syn_ts()?))
    }

    /// Round trip between the capture point and the server: SYN to SYN-ACK. `None` if either was not seen, or the SYN
    /// was retransmitted before its answer.
    #[must_use]
    pub fn server_rtt_ns(&self) -> Option<i64> {
        round_trip(self, HandshakeStep::SynAck)
    }

    /// Round trip between the capture point and the client: SYN-ACK to its ACK. `None` if either was not seen, or the
    /// SYN-ACK was retransmitted before.
    #[must_use]
    pub fn client_rtt_ns(&self) -> Option<i64> {
        round_trip(self, HandshakeStep::Done)
    }
}

/// Records a step; the first time counts.
pub(crate) fn pass(flow: &mut FlowMut<'_>, step: HandshakeStep, ts: Timestamp) {
    if ts_of(&flow.core(), step).is_some() {
        return;
    }
    let syn = flow.cold.syn;
    let after = (syn != UNSET)
        .then(|| u32::try_from(ts.since(syn)).ok())
        .flatten();
    match after.filter(|ns| *ns != ELSEWHERE) {
        Some(ns) => flow.cold.steps.0[step as usize] = ns,
        None => flow.spill_mut().handshake.at[step as usize] = Some(ts),
    }
}

/// Records a retransmitted SYN, or SYN-ACK if `is_answer`.
pub(crate) fn sent_again(flow: &mut FlowMut<'_>, is_answer: bool) {
    let step = if is_answer {
        HandshakeStep::Done
    } else {
        HandshakeStep::SynAck
    };
    if ts_of(&flow.core(), step).is_none() {
        is_ambiguous(flow, step);
    }
}

/// Marks the round trip of `step` as ambiguous.
pub(crate) fn is_ambiguous(flow: &mut FlowMut<'_>, step: HandshakeStep) {
    flow.spill_mut().handshake.trips[step as usize] = RttAmbiguity::Ambiguous;
}

/// Time of a step, if the handshake has passed the step.
pub(crate) fn ts_of(flow: &FlowCore<'_>, step: HandshakeStep) -> Option<Timestamp> {
    match flow.cold.steps.0[step as usize] {
        ELSEWHERE => flow.cold.spill.as_ref()?.handshake.at[step as usize],
        ns => Some(flow.cold.syn.plus(i64::from(ns))),
    }
}

/// Round trip of a step, if unambiguous and not negative.
pub(crate) fn round_trip(flow: &FlowCore<'_>, step: HandshakeStep) -> Option<i64> {
    let spill = flow.cold.spill.as_ref();
    if spill.is_some_and(|spill| spill.handshake.trips[step as usize] == RttAmbiguity::Ambiguous) {
        return None;
    }
    let before = match step {
        HandshakeStep::SynAck => flow.syn_ts()?,
        HandshakeStep::Done => ts_of(flow, HandshakeStep::SynAck)?,
    };
    Some(ts_of(flow, step)?.since(before)).filter(|ns| *ns >= 0)
}
