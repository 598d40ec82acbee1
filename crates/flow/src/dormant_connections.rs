//! Idle connections that have left the table: positions of both streams, the client, and the caller's state. The next
//! packet continues such a connection in a new flow. Bounded by the table, which counts them among its flows; the
//! oldest is removed first.

use std::collections::{BTreeMap, VecDeque};

use wire::packet::TcpFlags;
use wire::{FlowKey, FlowSide, TcpInfo, TcpSeq};

use crate::flow::FlowCore;
use crate::flow_budget::FlowBudget;
use crate::flow_layout::{HotRecord, flag, half_bit};
use crate::flow_mut::FlowMut;
use crate::segment_check::NEAR;

/// Flags that a continued flow takes over.
const KEPT: u64 = flag::STARTED
    | flag::STARTED << 1
    | flag::CLIENT_B
    | flag::CLIENT_GUESSED
    | flag::CLIENT_BY_SYN
    | flag::MIDSTREAM
    | flag::IGNORED
    | flag::MIRRORED
    | flag::CHECKED
    | flag::CHECKED << 1;

/// Approximate bytes of a connection in the lists.
const LISTED_BYTES: usize = 64;

/// An idle connection.
#[derive(Debug)]
pub(crate) struct DormantConnection<S> {
    key: FlowKey,
    flags: u64,
    next: [TcpSeq; 2],
    ack: [TcpSeq; 2],
    window: [u16; 2],
    /// Sequence number of leaving the table.
    number: u64,
    /// Bytes of the caller's state.
    pub state_bytes: u32,
    /// The caller's state; or, while that is still in the table, the place of the closed flow.
    pub state: S,
    pub place: Option<u32>,
}

/// Idle connections, by the hashes of their keys.
#[derive(Debug)]
pub(crate) struct DormantTable<S> {
    /// The room of the flow table, shared with the connections.
    room: FlowBudget,
    connections: BTreeMap<u64, DormantConnection<S>>,
    /// Hashes and numbers in the order of leaving; may contain removed connections.
    order: VecDeque<(u64, u64)>,
    left: u64,
}

/// Whether a flow has nothing pending, so that its connection can continue in another.
pub(crate) fn can_go_on(flow: FlowCore<'_>) -> bool {
    let hot = flow.hot;
    let is_under_way = |side| {
        hot.is_started(side)
            && hot.did(side, half_bit::ACK_SEEN)
            && !hot.is_ended(side)
            && !flow.is_busy(side)
    };
    flow.is_tcp()
        && !flow.is_terminated()
        && is_under_way(FlowSide::A)
        && is_under_way(FlowSide::B)
        && !flow.holds_back()
}

impl<S: Default> DormantConnection<S> {
    fn of(
        hot: &HotRecord,
        key: FlowKey,
        (place, state_bytes): (u32, u32),
        number: u64,
    ) -> DormantConnection<S> {
        let &HotRecord {
            word,
            next,
            ack,
            window,
            ..
        } = hot;
        let flags = word & KEPT;
        let place = Some(place);
        DormantConnection {
            key,
            flags,
            next,
            ack,
            window,
            number,
            state_bytes,
            state: S::default(),
            place,
        }
    }

    /// Bytes charged to the table's room.
    fn bytes(&self) -> usize {
        size_of::<DormantConnection<S>>() + LISTED_BYTES + self.state_bytes as usize
    }

    /// Whether a segment of `side` belongs to the connection by its sequence numbers. It may be a retransmission.
    fn goes_on_with(&self, side: FlowSide, tcp: &TcpInfo) -> bool {
        let near = |seq: TcpSeq, side: FlowSide| seq.distance(self.next[side.index()]);
        tcp.flags.contains(TcpFlags::ACK)
            && !tcp.flags.contains(TcpFlags::SYN)
            && (-NEAR..=NEAR).contains(&near(tcp.seq, side))
            && (-NEAR..=NEAR).contains(&near(tcp.ack, side.other()))
    }

    /// Initializes a new flow with this connection.
    pub fn resume(&self, flow: &mut FlowMut<'_>) {
        flow.hot.word = flow.hot.word & !KEPT | self.flags;
        flow.hot.next = self.next;
        flow.hot.ack = self.ack;
        flow.hot.window = self.window;
        flow.hot
            .half
            .iter_mut()
            .for_each(|half| *half |= half_bit::ACK_SEEN);
        flow.cold.anchor = self.next;
        flow.spill_mut().is_resumed = true;
    }
}

impl<S: Default> DormantTable<S> {
    pub fn new(room: FlowBudget) -> Self {
        DormantTable {
            room,
            connections: BTreeMap::new(),
            order: VecDeque::new(),
            left: 0,
        }
    }

    /// Bytes charged to the table's room.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.connections
            .values()
            .map(DormantConnection::bytes)
            .sum()
    }

    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Adds the flow at `place`, whose state of `bytes` bytes is still held by the caller.
    pub fn add(&mut self, hash: u64, hot: &HotRecord, key: FlowKey, (place, bytes): (u32, u32)) {
        self.remove(hash);
        self.left += 1;
        let connection = DormantConnection::of(hot, key, (place, bytes), self.left);
        self.room.enter(connection.bytes());
        self.connections.insert(hash, connection);
        self.order.push_back((hash, self.left));
        if self.order.len() > 2 * self.connections.len() + 1024 {
            let connections = &self.connections;
            self.order.retain(|(hash, number)| {
                connections.get(hash).is_some_and(|c| c.number == *number)
            });
        }
    }

    /// Takes over the state of the flow closed at `place`, if the connection is still dormant.
    pub fn keep_state(&mut self, hash: u64, place: u32, state: S) {
        if let Some(connection) = self
            .connections
            .get_mut(&hash)
            .filter(|c| c.place == Some(place))
        {
            connection.state = state;
            connection.place = None;
        }
    }

    /// Removes the connection of this key; returns it if a segment of `side` continues it.
    #[cold]
    pub fn take(
        &mut self,
        hash: u64,
        key: &FlowKey,
        side: FlowSide,
        tcp: &TcpInfo,
    ) -> Option<DormantConnection<S>> {
        self.connections
            .get(&hash)
            .filter(|connection| connection.key == *key)?;
        self.remove(hash)
            .filter(|connection| connection.goes_on_with(side, tcp))
    }

    /// Removes the oldest connection; returns false if there is none.
    #[cold]
    pub fn forget_oldest(&mut self) -> bool {
        while let Some((hash, number)) = self.order.pop_front() {
            if self
                .connections
                .get(&hash)
                .is_some_and(|connection| connection.number == number)
            {
                self.remove(hash);
                return true;
            }
        }
        false
    }

    fn remove(&mut self, hash: u64) -> Option<DormantConnection<S>> {
        let connection = self.connections.remove(&hash)?;
        self.room.leave(connection.bytes());
        Some(connection)
    }
}
