//! Idle timeout of a flow, what extends it, and the interval of its reports. Judges one flow; the table decides when,
//! and by which clock.

use wire::packet::TcpFlags;
use wire::{FlowSide, Packet, Timestamp, TransportHeader};

use crate::config::FlowTableConfig;
use crate::flow::FlowCore;
use crate::flow_layout::flag;
use crate::flow_mut::FlowMut;
use crate::{FlowEvent, FlowEvents, FlowIdx};

/// Idle timeout by the state of the flow.
pub(crate) fn idle_timeout(flow: FlowCore<'_>, config: &FlowTableConfig) -> i64 {
    if !flow.is_tcp() {
        config.udp_idle_ns
    } else if flow.is_terminated() {
        config.tcp_closed_idle_ns
    } else if flow.hot.has(flag::HANDSHAKE_DONE) {
        config.tcp_idle_ns
    } else {
        opening_timeout(flow, config)
    }
}

/// Idle timeout without a handshake: payload proves an established connection, unless its only side has sent FIN.
fn opening_timeout(flow: FlowCore<'_>, config: &FlowTableConfig) -> i64 {
    let over = |side: &FlowSide| flow.packets(*side) == 0 || flow.hot.is_ended(*side);
    let unread = |side: &FlowSide| flow.unique_bytes(*side) == 0;
    let sides = [FlowSide::A, FlowSide::B];
    if sides.iter().all(unread) || sides.iter().all(over) {
        config.tcp_opening_idle_ns
    } else {
        config.tcp_idle_ns
    }
}

/// Whether a packet of a terminated flow has new bytes, or acknowledges such: then it does not extend the flow, and
/// after the timeout such packets form a new flow.
pub(crate) fn is_news(flow: FlowCore<'_>, side: FlowSide, packet: &Packet<'_>) -> bool {
    let TransportHeader::Tcp(tcp) = &packet.transport else {
        return false;
    };
    let [own, other] = [side, side.other()].map(|side| flow.hot.next[side.index()]);
    let brings =
        packet.payload_original_len > 0 && own.before(tcp.seq.plus(packet.payload_original_len));
    let answers = tcp.flags.contains(TcpFlags::ACK) && flow.hot.is_started(side.other());
    brings || answers && other.before(tcp.ack)
}

/// Reports a flow after another `period`. If time has gone back, the period restarts.
pub(crate) fn report_active(
    flow: &mut FlowMut<'_>,
    idx: FlowIdx,
    now: Timestamp,
    period: i64,
    events: &mut FlowEvents,
) {
    let lived = now.since(flow.cold.active_since);
    let period = period.max(1);
    if lived >= period {
        flow.cold.active_since = flow.cold.active_since.plus(lived - lived % period);
        events.push(idx, FlowEvent::ActiveTimeout);
    } else if lived <= -period {
        flow.cold.active_since = now;
    }
}

/// Time until a flow's next report, with an interval of `period`.
pub(crate) fn until_report(flow: FlowCore<'_>, now: Timestamp, period: Option<i64>) -> i64 {
    let Some(period) = period else {
        return i64::MAX;
    };
    period
        .saturating_sub(now.since(flow.cold.active_since))
        .clamp(0, period.max(0))
}
