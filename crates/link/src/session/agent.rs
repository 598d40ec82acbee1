//! Agent's end of a session: sends its Hello and the records in the spool within the credit, and receives desired sets.

use std::collections::VecDeque;

use bytes::Bytes;
use prost::Message;

use super::Closed;
use super::outbox::Outbox;
use crate::clock::Now;
use crate::frame::{Decoder, Frame, PeerMisbehaved};
use crate::message::{Bye, Desired, Granted, Hello, Lane, Observed, Pong, Refuse, Renew};
use crate::spool::{Outgoing, Spool};

/// Kinds of records.
const DATA: u8 = 32;
const LOST: u8 = 33;

/// Event of an agent's session.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// The server accepts this agent; its desired set follows as [`AgentEvent::Desired`].
    Welcomed {
        /// Protocol version.
        version: u32,
        /// Identity of the server; 0: unknown.
        server: u64,
    },
    /// Desired set.
    Desired(Desired),
    /// Granted leases.
    Granted(Granted),
    /// The server requests a complete report.
    ObserveAll,
    /// All records of a lane are committed, including the last.
    Drained(Lane),
    /// The server rejects this agent, and the session has ended. If it gives its identity, it is another server than
    /// the one whose work the agent has: that work must be discarded before the next Hello.
    Refused(Refuse),
    /// The session has ended.
    Closed(Closed),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting,
    Open,
    Closed,
}

/// Agent's end of a session.
#[derive(Debug)]
pub struct AgentSession {
    state: State,
    decoder: Decoder,
    outbox: Outbox,
    events: VecDeque<AgentEvent>,
    silence_max_ns: u64,
    heard_ns: u64,
    sent_bytes: u64,
    credit_bytes: u64,
}

impl AgentSession {
    /// Starts with a Hello. The server counts as disconnected after `silence_max_ns` without data; it pings far more
    /// often.
    pub fn new(hello: Hello, silence_max_ns: u64, now: Now) -> Self {
        let mut outbox = Outbox::default();
        outbox.send(hello);
        Self {
            state: State::Greeting,
            decoder: Decoder::default(),
            outbox,
            events: VecDeque::new(),
            silence_max_ns,
            heard_ns: now.monotonic_ns,
            sent_bytes: 0,
            credit_bytes: 0,
        }
    }

    /// Whether records and reports may be sent.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Processes received bytes. After an error the session has ended.
    pub fn handle_bytes(&mut self, now: Now, bytes: &[u8], spool: &mut Spool) -> Result<(), PeerMisbehaved> {
        if self.state == State::Closed {
            return Ok(());
        }
        self.heard_ns = now.monotonic_ns;
        self.decoder.push(bytes);
        let handled = self.handle_frames(now, spool);
        if handled.is_err() {
            self.state = State::Closed;
        }
        handled
    }

    fn handle_frames(&mut self, now: Now, spool: &mut Spool) -> Result<(), PeerMisbehaved> {
        while self.state != State::Closed {
            let Some(incoming) = self.decoder.next()? else { break };
            self.handle_frame(now, incoming.frame, spool)?;
        }
        self.outbox.check()
    }

    fn handle_frame(&mut self, now: Now, frame: Frame, spool: &mut Spool) -> Result<(), PeerMisbehaved> {
        match (self.state, frame) {
            (State::Greeting, Frame::Welcome(welcome)) => {
                self.state = State::Open;
                self.credit_bytes = welcome.credit_bytes;
                self.events
                    .push_back(AgentEvent::Welcomed { version: welcome.version, server: welcome.server });
                let drained = spool.resume(&welcome.lanes, now.wall_ns);
                self.events.extend(drained.into_iter().map(AgentEvent::Drained));
                self.events.push_back(AgentEvent::Desired(welcome.desired));
            }
            (State::Greeting, Frame::Refuse(refuse)) => self.close(AgentEvent::Refused(refuse)),
            (_, Frame::Bye(bye)) => self.close(AgentEvent::Closed(Closed::Bye(bye.reason))),
            (_, Frame::Ping(ping)) => self.outbox.send(Pong {
                sent_ns: ping.sent_ns,
                received_ns: now.wall_ns,
                answered_ns: now.wall_ns,
            }),
            (State::Open, Frame::Desired(desired)) => self.events.push_back(AgentEvent::Desired(desired)),
            (State::Open, Frame::Granted(granted)) => self.events.push_back(AgentEvent::Granted(granted)),
            (State::Open, Frame::ObserveAll(_)) => self.events.push_back(AgentEvent::ObserveAll),
            (State::Open, Frame::Credit(credit)) => self.credit_bytes = self.credit_bytes.max(credit.bytes),
            (State::Open, Frame::Ack(ack)) => {
                let drained = spool.ack(ack.lane, ack.seq).ok_or(PeerMisbehaved::NeverSent(ack.seq))?;
                self.events.extend(drained.into_iter().map(AgentEvent::Drained));
            }
            (_, frame) => return Err(PeerMisbehaved::OutOfPlace(frame.kind())),
        }
        Ok(())
    }

    fn close(&mut self, event: AgentEvent) {
        self.state = State::Closed;
        self.events.push_back(event);
    }

    /// Reports the states of jobs. Only while the session is open: a new one starts with a complete report.
    pub fn observe(&mut self, observed: Observed) {
        if self.is_open() {
            self.outbox.send(observed);
        }
    }

    /// Requests leases and grants.
    pub fn renew(&mut self, renew: Renew) {
        if self.is_open() {
            self.outbox.send(renew);
        }
    }

    /// Ends the session after the pending data is written.
    pub fn bye(&mut self, reason: &str) {
        self.outbox.send(Bye { reason: reason.into() });
    }

    /// The next bytes to write: control messages first, then records within the credit.
    pub fn poll_transmit(&mut self, spool: &mut Spool) -> Option<Bytes> {
        if self.state == State::Closed {
            return None;
        }
        if let Some(bytes) = self.outbox.pop() {
            return Some(bytes);
        }
        if self.state != State::Open || self.sent_bytes >= self.credit_bytes {
            return None;
        }
        let (kind, body) = match spool.next_to_send()? {
            Outgoing::Data(body) => (DATA, body),
            Outgoing::Lost(lost) => (LOST, lost.encode_to_vec().into()),
        };
        self.sent_bytes += body.len() as u64;
        self.outbox.send_record(kind, body);
        self.outbox.pop()
    }

    /// Monotonic time at which [`AgentSession::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<u64> {
        (self.state != State::Closed).then(|| self.heard_ns.saturating_add(self.silence_max_ns))
    }

    /// Handles an expired timer.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.poll_timeout().is_some_and(|at| at <= now.monotonic_ns) {
            self.close(AgentEvent::Closed(Closed::Silence));
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<AgentEvent> {
        self.events.pop_front()
    }
}
