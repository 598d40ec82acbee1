//! Handling of packets off the fast path: whether they are accepted, which flow they open or end, and their contents.

use wire::{FlowKey, FlowSide, Packet, TcpInfo, TransportHeader};

use super::{FlowTable, HashedKey, context};
use crate::config::TrackingDetail;
use crate::dormant_connections::DormantConnection;
use crate::duplicates::{self, PacketSighting};
use crate::event::{CloseReason, EventBytes, FlowEvent, FlowEvents, FlowIdx};
use crate::flow_layout::{self, PendingOpening, StoredKey, flag};
use crate::segment_check::{self, SegmentVerdict};
use crate::tcp_state;
use crate::timeouts::{idle_timeout, is_news, report_active};

impl<S: Default> FlowTable<S> {
    /// Processes a packet that opens, changes, or ends a flow, or is not in order.
    #[inline(never)]
    pub(super) fn process_slowly(
        &mut self,
        found: Option<u32>,
        packet: &Packet<'_>,
        at: &HashedKey,
        is_discarded: bool,
        events: &mut FlowEvents,
    ) -> u32 {
        events.before = None;
        let going_on = found.and_then(|place| {
            let now = self.clock.at(packet.ts, self.store.core(place).seen_at());
            let verdict = self.judge(place, at.side, packet, now, is_discarded, events)?;
            Some((place, now, verdict))
        });
        let Some((place, now, verdict)) = going_on else {
            return self.begin_flow(packet, at, events);
        };
        let is_copy = self.leave_out_copy(place, at.side, packet, events);
        match verdict {
            _ if is_copy => {}
            SegmentVerdict::Acceptable | SegmentVerdict::OtherConnection => {
                self.take_in(place, at.side, packet, now, events);
            }
            refused => self.refuse(place, at, refused, packet, now),
        }
        self.count_spill(place);
        place
    }

    /// Opens a flow for a packet without one.
    fn begin_flow(&mut self, packet: &Packet<'_>, at: &HashedKey, events: &mut FlowEvents) -> u32 {
        let now = self.clock.at(packet.ts, i64::MIN);
        let key = FlowKey {
            network: at.network,
            ..packet.five_tuple.flow_key().0
        };
        let place = match self.opening.take().filter(|opening| opening.is_of(&key)) {
            Some(opening) => {
                let first = opening.packet(&packet.five_tuple, at.side);
                let place = self.open(&key, at, opening.side, &first, now, events);
                self.take_in(place, opening.side, &first, now, events);
                place
            }
            None => {
                let dormant = self.take_dormant(&key, at, packet);
                let place = self.open(&key, at, at.side, packet, now, events);
                if let Some(connection) = dormant {
                    self.resume(place, connection, events);
                }
                place
            }
        };
        self.take_in(place, at.side, packet, now, events);
        place
    }

    /// The idle connection that a packet without a flow continues.
    fn take_dormant(
        &mut self,
        key: &FlowKey,
        at: &HashedKey,
        packet: &Packet<'_>,
    ) -> Option<DormantConnection<S>> {
        let tcp = tcp_of(packet).filter(|_| !self.dormant.is_empty())?;
        self.dormant.take(at.hash, key, at.side, tcp)
    }

    /// Continues an idle connection in the new flow at `place`.
    fn resume(&mut self, place: u32, connection: DormantConnection<S>, events: &mut FlowEvents) {
        self.counters.connections_resumed += 1;
        self.resize(place, connection.state_bytes);
        connection.resume(&mut self.store.flow_mut(place));
        match connection.place {
            Some(from) => events.push(
                FlowIdx(place),
                FlowEvent::Resumed {
                    from: FlowIdx(from),
                },
            ),
            None => *self.states.at_mut(place) = connection.state,
        }
    }

    /// Counts a rejected packet, which has no other effect.
    fn refuse(
        &mut self,
        place: u32,
        at: &HashedKey,
        verdict: SegmentVerdict,
        packet: &Packet<'_>,
        now: i64,
    ) {
        let side = at.side;
        let mut flow = self.store.flow_mut(place);
        flow.count(side, packet);
        flow.set_seen_at(now);
        flow.counters_mut(side).implausible += 1;
        let counters = &mut self.counters;
        match (verdict, tcp_of(packet)) {
            (SegmentVerdict::SynUnconfirmed, Some(tcp)) => {
                counters.syns_ignored += 1;
                let key = FlowKey {
                    network: at.network,
                    ..packet.five_tuple.flow_key().0
                };
                let opening = PendingOpening::of(key, side, packet, tcp);
                let known = &mut flow.spill_mut().opening;
                if !known
                    .as_ref()
                    .is_some_and(|known| known.is_sent_again_as(&opening))
                {
                    *known = Some(Box::new(opening));
                }
            }
            (SegmentVerdict::ResetOutOfWindow, _) => counters.resets_ignored += 1,
            (SegmentVerdict::UnsentAcknowledged, Some(tcp)) => {
                counters.acks_ignored += 1;
                flow.spill_mut().doubted[side.index()] = Some((tcp.ack, packet.ts));
            }
            (SegmentVerdict::Damaged, _) => counters.damaged += 1,
            _ => {}
        }
        flow.classify();
    }

    /// Counts a copy, and uses only its bytes that the snaplen cut off before; returns whether it is one.
    fn leave_out_copy(
        &mut self,
        place: u32,
        side: FlowSide,
        packet: &Packet<'_>,
        events: &mut FlowEvents,
    ) -> bool {
        let mut flow = self.store.flow_mut(place);
        let Some(latest) = flow.latest.as_deref() else {
            return false;
        };
        match duplicates::judge(latest, flow.core(), side, packet) {
            PacketSighting::First => return false,
            PacketSighting::Ambiguous => {
                self.counters.duplicates_ambiguous += 1;
                return false;
            }
            PacketSighting::Copy => {}
        }
        flow.hot.put(flag::MIRRORED, true);
        flow.counters_mut(side).duplicates += 1;
        self.counters.duplicates += 1;
        if let Some(tcp) = tcp_of(packet).filter(|_| flow.core().is_busy(side)) {
            let mut cx = context(
                &self.config,
                &mut self.budget,
                &mut self.counters,
                events,
                place,
                packet.ts,
            );
            tcp_state::on_copy(&mut flow, side, packet, tcp, &mut cx);
            flow.classify();
        }
        true
    }

    /// Judges a packet against its flow; `None` if the flow ended before the packet, and is closed now.
    /// `is_discarded`: its receiver discarded it.
    pub(super) fn judge(
        &mut self,
        place: u32,
        side: FlowSide,
        packet: &Packet<'_>,
        now: i64,
        is_discarded: bool,
        events: &mut FlowEvents,
    ) -> Option<SegmentVerdict> {
        let flow = self.store.core(place);
        let idle_ns = idle_timeout(flow, &self.config);
        if now.saturating_sub(flow.seen_at()) > idle_ns {
            let ts = flow.last_ts().plus(idle_ns).min(packet.ts);
            self.close(place, CloseReason::Idle, packet.ts, ts, events);
            return None;
        }
        if is_discarded {
            return Some(SegmentVerdict::Damaged);
        }
        let Some(tcp) = tcp_of(packet) else {
            return Some(SegmentVerdict::Acceptable);
        };
        let young =
            packet.ts.since(flow.first_ts()).saturating_abs() <= self.config.reorder_wait_ns;
        let opening = flow
            .cold
            .spill
            .as_ref()
            .and_then(|spill| spill.opening.as_deref())
            .copied();
        let confirmed = opening.filter(|opening| opening.is_confirmed_by(flow, side, tcp));
        let verdict = segment_check::judge(flow, side, packet, tcp, young);
        if verdict != SegmentVerdict::OtherConnection
            && (confirmed.is_none() || verdict == SegmentVerdict::Damaged)
        {
            return Some(verdict);
        }
        if let Some(opening) = confirmed {
            opening.uncount(&mut self.store.flow_mut(place));
            self.counters.syns_ignored -= 1;
            self.opening = confirmed;
        }
        self.close(place, CloseReason::PortReused, packet.ts, packet.ts, events);
        None
    }

    /// Opens a flow with `packet`, sent by `first`.
    fn open(
        &mut self,
        key: &FlowKey,
        at: &HashedKey,
        first: FlowSide,
        packet: &Packet<'_>,
        now: i64,
        events: &mut FlowEvents,
    ) -> u32 {
        self.enter(packet, at.hash, events);
        let place = self.free.pop().unwrap_or(self.store.len() as u32);
        let stored = StoredKey {
            addrs: at.addrs,
            ports: at.ports,
            kind: at.kind,
        };
        let records = flow_layout::open(key, first, packet, stored, &self.config.server_ports);
        self.store
            .put(place, records, (at.kind & flag::WIDE != 0).then_some(*key));
        if place as usize == self.states.len() {
            self.states.push(S::default());
        }
        self.store.flow_mut(place).set_seen_at(now);
        self.index.insert(at.hash, place);
        self.cheap += 1;
        self.counters.opened += 1;
        self.schedule(place, packet.ts, now);
        events.push(FlowIdx(place), FlowEvent::Opened);
        place
    }

    /// Counts a packet of an open flow and processes its transport.
    fn take_in(
        &mut self,
        place: u32,
        side: FlowSide,
        packet: &Packet<'_>,
        now: i64,
        events: &mut FlowEvents,
    ) {
        let mut flow = self.store.flow_mut(place);
        if let Some(period) = self.config.active_timeout_ns {
            report_active(&mut flow, FlowIdx(place), packet.ts, period, events);
        }
        if let Some(latest) = &mut flow.latest {
            latest[side.index()].note_packet(packet, flow.hot.has(flag::MIRRORED));
        }
        flow.learn_checksum(side, packet, self.config.verify_checksums);
        if self.config.verify_checksums {
            flow.learn_payload_max(side, packet);
        }
        let was_terminated = flow.core().is_terminated();
        let seen_at = flow.core().seen_at();
        events.before = Some((FlowIdx(place), flow.hot.last_ts));
        flow.count(side, packet);
        let is_news = was_terminated && is_news(flow.core(), side, packet);
        flow.set_seen_at(if is_news { seen_at } else { now });
        let is_tcp = flow.core().is_tcp();
        let mut ended = false;
        match tcp_of(packet).filter(|_| is_tcp) {
            Some(tcp) => {
                let mut cx = context(
                    &self.config,
                    &mut self.budget,
                    &mut self.counters,
                    events,
                    place,
                    packet.ts,
                );
                tcp_state::on_segment(&mut flow, side, packet, tcp, &mut cx);
                ended = flow.core().is_terminated() && !was_terminated;
                let core = flow.core();
                if ended
                    || core.is_busy(FlowSide::A)
                    || core.is_busy(FlowSide::B)
                    || core.holds_back()
                {
                    self.hasten(place, packet.ts, now);
                }
            }
            None => self.datagram(place, side, packet, events),
        }
        let mut flow = self.store.flow_mut(place);
        if ended {
            self.cheap += usize::from(flow.hot.has(flag::VALUED));
            flow.hot.put(flag::VALUED, false);
        } else if !flow.hot.has(flag::VALUED) && flow.core().is_worth_keeping() {
            flow.hot.put(flag::VALUED, true);
            self.cheap -= 1;
        }
        flow.classify();
    }

    fn datagram(
        &mut self,
        place: u32,
        side: FlowSide,
        packet: &Packet<'_>,
        events: &mut FlowEvents,
    ) {
        let mut flow = self.store.flow_mut(place);
        flow.count_payload(side, packet.payload_original_len);
        let len = packet.payload.len() as u32;
        let cut = packet.payload_original_len.saturating_sub(len);
        if cut > 0 {
            flow.counters_mut(side).cut_bytes += u64::from(cut);
        }
        if self.config.detail == TrackingDetail::Payload && !flow.hot.has(flag::IGNORED) {
            let chunk = EventBytes::InPacket { start: 0, end: len };
            events.push(
                FlowIdx(place),
                FlowEvent::Datagram {
                    side,
                    chunk,
                    cut,
                    ts: packet.ts,
                },
            );
        }
    }
}

fn tcp_of<'p>(packet: &'p Packet<'_>) -> Option<&'p TcpInfo> {
    match &packet.transport {
        TransportHeader::Tcp(tcp) => Some(tcp),
        _ => None,
    }
}
