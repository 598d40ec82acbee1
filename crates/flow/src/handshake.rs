//! When the steps of a handshake were passed, and the round trips that follow from that. Where all went as it should, a step is kept
//! as nanoseconds after the SYN, in 32 bits; [`Odd`] has the rest.

use wire::Timestamp;

use crate::flow::FlowCore;
use crate::record::{FlowMut, UNSET};

/// What comes after the SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The server's SYN-ACK, the first one.
    SynAck,
    /// Each side has acknowledged the other's SYN.
    Done,
}

/// How long after the SYN the steps were, in ns; [`ELSEWHERE`] where that is not known or does not fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps([u32; 2]);

const ELSEWHERE: u32 = u32::MAX;

/// What few handshakes have, by step.
#[derive(Debug, Default)]
pub(crate) struct Odd {
    /// Steps that [`Steps`] has no room for.
    at: [Option<Timestamp>; 2],
    trips: [Trip; 2],
}

/// Whether it is clear which of the packets before it a step answers (Karn's algorithm, RFC 6298 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trip {
    #[default]
    Clear,
    Ambiguous,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps([ELSEWHERE; 2])
    }
}

/// A step is passed; the first time counts.
pub(crate) fn pass(flow: &mut FlowMut<'_>, step: Step, ts: Timestamp) {
    if ts_of(&flow.core(), step).is_some() {
        return;
    }
    let syn = flow.cold.syn;
    let after = (syn != UNSET).then(|| u32::try_from(ts.since(syn)).ok()).flatten();
    match after.filter(|ns| *ns != ELSEWHERE) {
        Some(ns) => flow.cold.steps.0[step as usize] = ns,
        None => flow.spill_mut().handshake.at[step as usize] = Some(ts),
    }
}

/// A SYN, or a SYN-ACK if it `is_answer`, was sent again.
pub(crate) fn sent_again(flow: &mut FlowMut<'_>, is_answer: bool) {
    let step = if is_answer { Step::Done } else { Step::SynAck };
    if ts_of(&flow.core(), step).is_none() {
        is_ambiguous(flow, step);
    }
}

/// What `step` answers is not clear.
pub(crate) fn is_ambiguous(flow: &mut FlowMut<'_>, step: Step) {
    flow.spill_mut().handshake.trips[step as usize] = Trip::Ambiguous;
}

/// When a step was passed, if it was.
pub(crate) fn ts_of(flow: &FlowCore<'_>, step: Step) -> Option<Timestamp> {
    match flow.cold.steps.0[step as usize] {
        ELSEWHERE => flow.cold.spill.as_ref()?.handshake.at[step as usize],
        ns => Some(flow.cold.syn.plus(i64::from(ns))),
    }
}

/// From what a step answers to the step, if that is clear and can be.
pub(crate) fn round_trip(flow: &FlowCore<'_>, step: Step) -> Option<i64> {
    let spill = flow.cold.spill.as_ref();
    if spill.is_some_and(|spill| spill.handshake.trips[step as usize] == Trip::Ambiguous) {
        return None;
    }
    let before = match step {
        Step::SynAck => flow.syn_ts()?,
        Step::Done => ts_of(flow, Step::SynAck)?,
    };
    Some(ts_of(flow, step)?.since(before)).filter(|ns| *ns >= 0)
}
