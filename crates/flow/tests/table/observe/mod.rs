//! Runs packets through a table, checks that the events of every call are in a valid order and every limit holds, and
//! records a readable log and the byte streams of each flow.

#![allow(dead_code)] // each test binary uses its own part

use std::collections::HashMap;

use flow::{
    CloseReason, EventBytes, Flow, FlowEvent, FlowEvents, FlowIdx, FlowTable, FlowTableConfig,
};
use testkit::SentPacket;
use wire::{FlowSide, Packet, Timestamp};

/// One direction as delivered: bytes and gaps in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Bytes(Vec<u8>),
    Gap(u64),
}

/// Observed events of one flow.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub streams: [Vec<Piece>; 2],
    pub ended: [bool; 2],
    pub terminated: Option<CloseReason>,
    pub closed: Option<(CloseReason, Timestamp)>,
    pub datagrams: usize,
    /// Sequence number and acknowledgment of what was delivered, piece by piece.
    pub places: [Vec<(u32, u32)>; 2],
}

pub struct Observer {
    pub table: FlowTable<usize>,
    pub config: FlowTableConfig,
    /// One word per event; `<` is the first sender, `>` the other side.
    pub log: Vec<String>,
    pub seen: Vec<Seen>,
    /// Properties of each flow at its end.
    pub closed: Vec<(usize, String)>,
    live: HashMap<FlowIdx, usize>,
    events: FlowEvents,
}

impl Observer {
    pub fn new(config: FlowTableConfig) -> Observer {
        Observer {
            table: FlowTable::new(config.clone()),
            config,
            log: Vec::new(),
            seen: Vec::new(),
            closed: Vec::new(),
            live: HashMap::new(),
            events: FlowEvents::default(),
        }
    }

    pub fn with(config: impl FnOnce(&mut FlowTableConfig)) -> Observer {
        let mut c = FlowTableConfig::default();
        config(&mut c);
        Observer::new(c)
    }

    pub fn run(&mut self, sent: &[SentPacket]) -> &mut Observer {
        for one in sent {
            self.packet(&one.packet());
        }
        self
    }

    pub fn packet(&mut self, packet: &Packet<'_>) -> FlowIdx {
        let mut events = std::mem::take(&mut self.events);
        let idx = self.table.process(packet, &mut events);
        self.digest(&events, packet.payload);
        self.events = events;
        idx
    }

    /// Calls the table's expiry.
    pub fn expire(&mut self, now: Timestamp) -> &mut Observer {
        loop {
            let mut events = std::mem::take(&mut self.events);
            let more = self.table.expire(now, &mut events);
            self.digest(&events, &[]);
            self.events = events;
            if !more {
                return self;
            }
        }
    }

    /// Evicts flows until the table is within its limits.
    pub fn make_room(&mut self, now: Timestamp) -> &mut Observer {
        loop {
            let mut events = std::mem::take(&mut self.events);
            let more = self.table.make_room(now, &mut events);
            self.digest(&events, &[]);
            self.events = events;
            if !more {
                return self;
            }
        }
    }

    pub fn close_all(&mut self, now: Timestamp) -> &mut Observer {
        loop {
            let mut events = std::mem::take(&mut self.events);
            let more = self.table.close_all(now, &mut events);
            self.digest(&events, &[]);
            self.events = events;
            if !more {
                break;
            }
        }
        assert!(
            self.live.is_empty() && self.table.is_empty(),
            "all flows are closed at the end"
        );
        assert_eq!(self.table.held_bytes(), 0, "nothing is held for nobody");
        let counters = self.table.counters();
        assert_eq!(counters.opened, counters.closed.iter().sum::<u64>());
        self
    }

    /// Returns the log and clears it.
    pub fn take_log(&mut self) -> String {
        std::mem::take(&mut self.log).join(" ")
    }

    /// The only flow in the table.
    pub fn only(&self) -> Flow<'_> {
        assert_eq!(self.live.len(), 1, "one live flow");
        self.table
            .flow(*self.live.keys().next().expect("one live flow"))
    }

    pub fn only_idx(&self) -> FlowIdx {
        assert_eq!(self.live.len(), 1, "one live flow");
        *self.live.keys().next().expect("one live flow")
    }

    /// All bytes of a direction of the `n`th opened flow, in order, without gaps.
    pub fn bytes(&self, n: usize, side: FlowSide) -> Vec<u8> {
        let bytes = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.clone(),
            Piece::Gap(_) => Vec::new(),
        };
        self.seen[n].streams[side.index()]
            .iter()
            .flat_map(bytes)
            .collect()
    }

    /// Sequence number and acknowledgment of all bytes delivered in a direction of the `n`th flow.
    pub fn places(&self, n: usize, side: FlowSide) -> &[(u32, u32)] {
        &self.seen[n].places[side.index()]
    }

    fn digest(&mut self, events: &FlowEvents, payload: &[u8]) {
        for event in events.list() {
            self.check_order(event.flow, event.what);
            self.record(event.flow, event.what, events, payload);
        }
        assert_eq!(self.live.len(), self.table.len());
        assert!(
            self.config
                .room
                .flows_max()
                .is_none_or(|max| self.table.len() <= max)
        );
        assert!(self.table.held_bytes() <= self.config.held_bytes_max);
    }

    fn check_order(&mut self, flow: FlowIdx, what: FlowEvent) {
        if what == FlowEvent::Opened {
            self.live.insert(flow, self.seen.len());
            self.seen.push(Seen::default());
            *self.table.state_mut(flow) = self.seen.len();
            return;
        }
        let n = *self
            .live
            .get(&flow)
            .unwrap_or_else(|| panic!("{what:?} of a flow that is not open"));
        let seen = &self.seen[n];
        assert_eq!(
            *self.table.state(flow),
            n + 1,
            "the state stays with its flow"
        );
        assert!(seen.closed.is_none(), "{what:?} after Closed");
        match what {
            FlowEvent::Closed { .. } | FlowEvent::ActiveTimeout => {}
            _ => assert!(seen.terminated.is_none(), "{what:?} after Terminated"),
        }
        if let FlowEvent::Bytes { side, .. }
        | FlowEvent::Gap { side, .. }
        | FlowEvent::End { side, .. } = what
        {
            assert!(!seen.ended[side.index()], "{what:?} after End");
        }
    }

    fn record(&mut self, flow: FlowIdx, what: FlowEvent, events: &FlowEvents, payload: &[u8]) {
        let first = self.table.flow(flow).first();
        let arrow = |side: FlowSide| if side == first { '<' } else { '>' };
        let n = self.live[&flow];
        let seen = &mut self.seen[n];
        self.log.push(match what {
            FlowEvent::Opened => "open".into(),
            FlowEvent::Resumed { .. } => "resume".into(),
            FlowEvent::Bytes {
                side, chunk, place, ..
            } => {
                seen.places[side.index()].push((place.seq.0, place.ack.map_or(0, |ack| ack.0)));
                let bytes = events.bytes(chunk, payload);
                assert!(!bytes.is_empty(), "no empty bytes");
                let held = if matches!(chunk, EventBytes::Held { .. }) {
                    "h"
                } else {
                    ""
                };
                match seen.streams[side.index()].last_mut() {
                    Some(Piece::Bytes(last)) => last.extend_from_slice(bytes),
                    _ => seen.streams[side.index()].push(Piece::Bytes(bytes.to_vec())),
                }
                format!("{}{}{held}", arrow(side), bytes.len())
            }
            FlowEvent::Gap { side, len, .. } => {
                assert!(len > 0, "no empty gap");
                seen.streams[side.index()].push(Piece::Gap(len));
                format!("{}gap{len}", arrow(side))
            }
            FlowEvent::Datagram {
                side, chunk, cut, ..
            } => {
                seen.datagrams += 1;
                format!(
                    "{}d{}/{cut}",
                    arrow(side),
                    events.bytes(chunk, payload).len()
                )
            }
            FlowEvent::End { side, .. } => {
                seen.ended[side.index()] = true;
                format!("{}end", arrow(side))
            }
            FlowEvent::Terminated { reason, .. } => {
                seen.terminated = Some(reason);
                format!("{reason:?}").to_uppercase()
            }
            FlowEvent::ActiveTimeout => "active".into(),
            FlowEvent::Closed { reason, ts } => {
                seen.closed = Some((reason, ts));
                self.live.remove(&flow);
                let f = self.table.flow(flow);
                self.closed
                    .push((n, format!("{} {}", f.conn_state().name(), f.history())));
                format!("closed:{reason:?}")
            }
        });
    }
}
