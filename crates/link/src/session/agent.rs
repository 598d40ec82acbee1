//! Agent's end of a session: sends its Hello and the records in the spool within the credit, and receives desired sets.

use std::collections::VecDeque;

use bytes::Bytes;
use prost::Message;

use super::SessionEnd;
use super::outbox::FrameOutbox;
use crate::clock::SessionTime;
use crate::frame::{Frame, FrameDecoder, PeerMisbehaved};
use crate::message::{
    Bye, DesiredJobs, GrantedLease, Hello, ObservedJobs, PacketReply, PacketRequest, Pong,
    PreservePackets, RecordLane, Refuse, Renew,
};
use crate::spool::{OutgoingRecord, Spool};

/// Kinds of records.
const DATA: u8 = 32;
const LOST: u8 = 33;

/// Event of an agent's session.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentSessionEvent {
    /// The server accepts this agent; its desired set follows as [`AgentSessionEvent::Desired`].
    Welcomed {
        /// Protocol version.
        version: u32,
        /// Identity of the server; 0: unknown.
        server: u64,
    },
    /// Desired set.
    Desired(DesiredJobs),
    /// Granted leases.
    Granted(GrantedLease),
    /// The server requests a complete report.
    ObserveAll,
    /// The server requests kept packets; answered by [`AgentSession::reply_packets`].
    PacketsAsked(PacketRequest),
    /// An alert fires.
    Preserve(PreservePackets),
    /// All records of a lane are committed, including the last.
    Drained(RecordLane),
    /// The server rejects this agent, and the session has ended. If it gives its identity, it is another server than
    /// the one whose work the agent has: that work must be discarded before the next Hello.
    Refused(Refuse),
    /// The session has ended.
    Closed(SessionEnd),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentSessionState {
    Greeting,
    Open,
    Closed,
}

/// Agent's end of a session.
#[derive(Debug)]
pub struct AgentSession {
    state: AgentSessionState,
    decoder: FrameDecoder,
    outbox: FrameOutbox,
    events: VecDeque<AgentSessionEvent>,
    silence_max_ns: u64,
    heard_ns: u64,
    sent_bytes: u64,
    credit_bytes: u64,
}

impl AgentSession {
    /// Starts with a Hello. The server counts as disconnected after `silence_max_ns` without data; its pings are far
    /// more frequent.
    pub fn new(hello: Hello, silence_max_ns: u64, now: SessionTime) -> Self {
        let mut outbox = FrameOutbox::default();
        outbox.send(hello);
        Self {
            state: AgentSessionState::Greeting,
            decoder: FrameDecoder::default(),
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
        self.state == AgentSessionState::Open
    }

    /// Processes received bytes. After an error the session has ended.
    pub fn handle_bytes(
        &mut self,
        now: SessionTime,
        bytes: &[u8],
        spool: &mut Spool,
    ) -> Result<(), PeerMisbehaved> {
        if self.state == AgentSessionState::Closed {
            return Ok(());
        }
        self.heard_ns = now.monotonic_ns;
        self.decoder.push(bytes);
        let handled = self.handle_frames(now, spool);
        if handled.is_err() {
            self.state = AgentSessionState::Closed;
        }
        handled
    }

    fn handle_frames(&mut self, now: SessionTime, spool: &mut Spool) -> Result<(), PeerMisbehaved> {
        while self.state != AgentSessionState::Closed {
            let Some(incoming) = self.decoder.next()? else {
                break;
            };
            self.handle_frame(now, incoming.frame, spool)?;
        }
        self.outbox.check()
    }

    fn handle_frame(
        &mut self,
        now: SessionTime,
        frame: Frame,
        spool: &mut Spool,
    ) -> Result<(), PeerMisbehaved> {
        match (self.state, frame) {
            (AgentSessionState::Greeting, Frame::Welcome(welcome)) => {
                self.state = AgentSessionState::Open;
                self.credit_bytes = welcome.credit_bytes;
                self.events.push_back(AgentSessionEvent::Welcomed {
                    version: welcome.version,
                    server: welcome.server,
                });
                let drained = spool.resume(&welcome.lanes, now.wall_ns);
                self.events
                    .extend(drained.into_iter().map(AgentSessionEvent::Drained));
                self.events
                    .push_back(AgentSessionEvent::Desired(welcome.desired));
            }
            (AgentSessionState::Greeting, Frame::Refuse(refuse)) => {
                self.close(AgentSessionEvent::Refused(refuse))
            }
            (_, Frame::Bye(bye)) => {
                self.close(AgentSessionEvent::Closed(SessionEnd::Bye(bye.reason)))
            }
            (_, Frame::Ping(ping)) => self.outbox.send(Pong {
                sent_ns: ping.sent_ns,
                received_ns: now.wall_ns,
                answered_ns: now.wall_ns,
            }),
            (AgentSessionState::Open, Frame::DesiredJobs(desired)) => {
                self.events.push_back(AgentSessionEvent::Desired(desired))
            }
            (AgentSessionState::Open, Frame::GrantedLease(granted)) => {
                self.events.push_back(AgentSessionEvent::Granted(granted))
            }
            (AgentSessionState::Open, Frame::ObserveAll(_)) => {
                self.events.push_back(AgentSessionEvent::ObserveAll)
            }
            (AgentSessionState::Open, Frame::PacketRequest(request)) => self
                .events
                .push_back(AgentSessionEvent::PacketsAsked(request)),
            (AgentSessionState::Open, Frame::PreservePackets(preserve)) => {
                self.events.push_back(AgentSessionEvent::Preserve(preserve))
            }
            (AgentSessionState::Open, Frame::Credit(credit)) => {
                self.credit_bytes = self.credit_bytes.max(credit.bytes)
            }
            (AgentSessionState::Open, Frame::Ack(ack)) => {
                let drained = spool
                    .ack(ack.lane, ack.seq)
                    .ok_or(PeerMisbehaved::NeverSent(ack.seq))?;
                self.events
                    .extend(drained.into_iter().map(AgentSessionEvent::Drained));
            }
            (_, frame) => return Err(PeerMisbehaved::OutOfPlace(frame.kind())),
        }
        Ok(())
    }

    fn close(&mut self, event: AgentSessionEvent) {
        self.state = AgentSessionState::Closed;
        self.events.push_back(event);
    }

    /// Reports the states of jobs. Only while the session is open: a new one starts with a complete report.
    pub fn observe(&mut self, observed: ObservedJobs) {
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

    /// Sends a part of kept packets.
    pub fn reply_packets(&mut self, reply: PacketReply) {
        if self.is_open() {
            self.outbox.send(reply);
        }
    }

    /// Ends the session after the pending data is written.
    pub fn bye(&mut self, reason: &str) {
        self.outbox.send(Bye {
            reason: reason.into(),
        });
    }

    /// The next bytes to write: control messages first, then records within the credit.
    pub fn poll_transmit(&mut self, spool: &mut Spool) -> Option<Bytes> {
        if self.state == AgentSessionState::Closed {
            return None;
        }
        if let Some(bytes) = self.outbox.pop() {
            return Some(bytes);
        }
        if self.state != AgentSessionState::Open || self.sent_bytes >= self.credit_bytes {
            return None;
        }
        let (kind, body) = match spool.next_to_send()? {
            OutgoingRecord::Data(body) => (DATA, body),
            OutgoingRecord::Lost(lost) => (LOST, lost.encode_to_vec().into()),
        };
        self.sent_bytes += body.len() as u64;
        self.outbox.send_record(kind, body);
        self.outbox.pop()
    }

    /// Monotonic time at which [`AgentSession::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<u64> {
        (self.state != AgentSessionState::Closed)
            .then(|| self.heard_ns.saturating_add(self.silence_max_ns))
    }

    /// Handles an expired timer.
    pub fn handle_timeout(&mut self, now: SessionTime) {
        if self.poll_timeout().is_some_and(|at| at <= now.monotonic_ns) {
            self.close(AgentSessionEvent::Closed(SessionEnd::Silence));
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<AgentSessionEvent> {
        self.events.pop_front()
    }
}
