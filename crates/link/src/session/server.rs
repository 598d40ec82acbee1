//! Server's end of a session: accepts or rejects an agent, returns records in the order of their lanes, once each, and
//! acknowledges what its caller has committed. Credit limits uncommitted data.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::SessionEnd;
use super::outbox::FrameOutbox;
use crate::clock::{ClockOffset, OffsetEstimator, SessionTime};
use crate::frame::{Frame, FrameDecoder, IncomingMessage, PeerMisbehaved};
use crate::message::{
    Ack, Bye, Credit, DataRecord, DesiredJobs, GrantedLease, Hello, LaneResume, LostRecords,
    ObserveAll, ObservedJobs, PacketReply, PacketRequest, Ping, Pong, PreservePackets, RecordLane,
    Refuse, Renew, VERSIONS, Welcome,
};

/// Limits and timeouts of a session.
#[derive(Debug, Clone, Copy)]
pub struct SessionLimits {
    /// Maximum uncommitted bytes of records.
    pub window_bytes: u64,
    /// Maximum lanes of a session.
    pub lanes_max: usize,
    /// Interval of pings.
    pub ping_every_ns: u64,
    /// Silence after which an agent counts as disconnected.
    pub silence_max_ns: u64,
}

impl Default for SessionLimits {
    fn default() -> Self {
        let second = 1_000_000_000;
        Self {
            window_bytes: 8 << 20,
            lanes_max: 4096,
            ping_every_ns: second,
            silence_max_ns: 5 * second,
        }
    }
}

/// A record of a lane.
#[derive(Debug, Clone, PartialEq)]
pub enum LaneRecord {
    /// Partial results or tuples.
    Data(DataRecord),
    /// Lost records.
    Lost(LostRecords),
}

impl LaneRecord {
    /// Lane.
    pub fn lane(&self) -> RecordLane {
        match self {
            Self::Data(data) => data.lane,
            Self::Lost(lost) => lost.lane,
        }
    }

    /// Last sequence number, to be passed to [`ServerSession::committed`].
    pub fn seq(&self) -> u64 {
        self.seqs().1
    }

    /// First and last sequence number.
    pub fn seqs(&self) -> (u64, u64) {
        match self {
            Self::Data(data) => (data.seq, data.seq),
            Self::Lost(lost) => (lost.first, lost.last),
        }
    }

    /// Whether nothing follows in its lane.
    pub fn is_last(&self) -> bool {
        match self {
            Self::Data(data) => data.is_last,
            Self::Lost(lost) => lost.is_last,
        }
    }
}

/// Event of a server's session.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerSessionEvent {
    /// Hello of an agent with a supported version. Must be answered by [`ServerSession::welcome`] or
    /// [`ServerSession::refuse`] after uncommitted records of its earlier session were dropped.
    Hello(Box<Hello>),
    /// States of jobs.
    Observed(ObservedJobs),
    /// Request for leases.
    Renew(Renew),
    /// The next record of its lane.
    Record(LaneRecord),
    /// A part of kept packets.
    Packets(PacketReply),
    /// Offset of the agent's clock from the server's.
    Offset(ClockOffset),
    /// The session has ended.
    Closed(SessionEnd),
}

/// Counters of ignored data.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SessionCounters {
    /// Duplicate records.
    pub duplicates: u64,
    /// Frames of unknown kinds.
    pub skipped: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerSessionState {
    /// No data yet.
    Silent,
    /// Hello was received and waits for the answer.
    Asked,
    Open,
    /// Ended, except for pending output.
    Refused,
    Closed,
}

/// State of a lane in this session.
#[derive(Debug, Default)]
struct LaneState {
    received: u64,
    committed: u64,
    /// Uncommitted records: last sequence number and bytes.
    pending: VecDeque<(u64, u64)>,
    /// Whether the last record was received.
    is_closed: bool,
}

/// Server's end of a session.
#[derive(Debug)]
pub struct ServerSession {
    state: ServerSessionState,
    limits: SessionLimits,
    /// Identity of this server.
    server: u64,
    decoder: FrameDecoder,
    outbox: FrameOutbox,
    events: VecDeque<ServerSessionEvent>,
    lanes: BTreeMap<RecordLane, LaneState>,
    /// Lanes to acknowledge, with the committed sequence number.
    to_ack: BTreeMap<RecordLane, u64>,
    received_bytes: u64,
    done_bytes: u64,
    credit_bytes: u64,
    heard_ns: u64,
    ping_ns: u64,
    pinged: Option<i64>,
    offset: OffsetEstimator,
    duplicates: u64,
}

impl ServerSession {
    /// Waits for a Hello to this server; `server` 0: without identity.
    pub fn new(limits: SessionLimits, server: u64, now: SessionTime) -> Self {
        Self {
            state: ServerSessionState::Silent,
            limits,
            server,
            decoder: FrameDecoder::default(),
            outbox: FrameOutbox::default(),
            events: VecDeque::new(),
            lanes: BTreeMap::new(),
            to_ack: BTreeMap::new(),
            received_bytes: 0,
            done_bytes: 0,
            credit_bytes: 0,
            heard_ns: now.monotonic_ns,
            ping_ns: now.monotonic_ns,
            pinged: None,
            offset: OffsetEstimator::default(),
            duplicates: 0,
        }
    }

    /// Whether the agent was welcomed, and the session has not ended.
    pub fn is_open(&self) -> bool {
        self.state == ServerSessionState::Open
    }

    /// Processes received bytes. After an error the session has ended.
    pub fn handle_bytes(&mut self, now: SessionTime, bytes: &[u8]) -> Result<(), PeerMisbehaved> {
        if matches!(
            self.state,
            ServerSessionState::Closed | ServerSessionState::Refused
        ) {
            return Ok(());
        }
        self.heard_ns = now.monotonic_ns;
        self.decoder.push(bytes);
        let handled = self.handle_frames(now);
        if handled.is_err() {
            self.state = ServerSessionState::Closed;
        }
        handled
    }

    fn handle_frames(&mut self, now: SessionTime) -> Result<(), PeerMisbehaved> {
        while !matches!(
            self.state,
            ServerSessionState::Closed | ServerSessionState::Refused
        ) {
            let Some(incoming) = self.decoder.next()? else {
                break;
            };
            self.handle_frame(now, incoming)?;
        }
        self.outbox.check()
    }

    fn handle_frame(
        &mut self,
        now: SessionTime,
        IncomingMessage { frame, bytes }: IncomingMessage,
    ) -> Result<(), PeerMisbehaved> {
        match (self.state, frame) {
            (ServerSessionState::Silent, Frame::Hello(hello)) => self.handle_hello(hello),
            (ServerSessionState::Open, Frame::ObservedJobs(observed)) => self
                .events
                .push_back(ServerSessionEvent::Observed(observed)),
            (ServerSessionState::Open, Frame::Renew(renew)) => {
                self.events.push_back(ServerSessionEvent::Renew(renew))
            }
            (ServerSessionState::Open, Frame::DataRecord(data)) => {
                self.handle_record(LaneRecord::Data(data), bytes as u64)?
            }
            (ServerSessionState::Open, Frame::LostRecords(lost)) => {
                self.handle_record(LaneRecord::Lost(lost), bytes as u64)?
            }
            (ServerSessionState::Open, Frame::PacketReply(reply)) => {
                self.events.push_back(ServerSessionEvent::Packets(reply))
            }
            (ServerSessionState::Open, Frame::Pong(pong)) => self.handle_pong(now, pong),
            (_, Frame::Bye(bye)) => self.close(SessionEnd::Bye(bye.reason)),
            (_, frame) => return Err(PeerMisbehaved::OutOfPlace(frame.kind())),
        }
        Ok(())
    }

    fn handle_hello(&mut self, hello: Hello) {
        let common = hello.version_max.min(*VERSIONS.end());
        if common < hello.version_min.max(*VERSIONS.start()) {
            let reason = format!(
                "the agent supports versions {} to {} of the protocol, the server {} to {}",
                hello.version_min,
                hello.version_max,
                VERSIONS.start(),
                VERSIONS.end()
            );
            self.outbox.send(Refuse {
                reason,
                server_min: *VERSIONS.start(),
                server_max: *VERSIONS.end(),
                agent_min: hello.version_min,
                agent_max: hello.version_max,
                server: 0,
            });
            self.state = ServerSessionState::Refused;
            return;
        }
        if ![0, self.server].contains(&hello.server) {
            let reason =
                "the agent has jobs of another server with the same job numbers".to_owned();
            self.outbox.send(Refuse {
                reason,
                server: self.server,
                ..Refuse::default()
            });
            self.state = ServerSessionState::Refused;
            return;
        }
        self.state = ServerSessionState::Asked;
        self.events
            .push_back(ServerSessionEvent::Hello(Box::new(hello)));
    }

    fn handle_record(&mut self, record: LaneRecord, bytes: u64) -> Result<(), PeerMisbehaved> {
        // One record may exceed the credit, because it can be longer than the rest.
        if self.received_bytes >= self.credit_bytes {
            return Err(PeerMisbehaved::NoCredit);
        }
        self.received_bytes += bytes;
        let lane = record.lane();
        if !self.lanes.contains_key(&lane) && self.lanes.len() >= self.limits.lanes_max {
            return Err(PeerMisbehaved::TooManyLanes);
        }
        let state = self.lanes.entry(lane).or_default();
        let (first, last) = record.seqs();
        if last <= state.received && first <= last {
            self.duplicates += 1;
            self.done_bytes += bytes;
            self.to_ack.insert(lane, state.committed);
            return Ok(());
        }
        let expected = state.received.saturating_add(1);
        if first != expected || last < first {
            return Err(PeerMisbehaved::Gap {
                seq: first,
                expected,
            });
        }
        state.received = last;
        state.is_closed |= record.is_last();
        state.pending.push_back((last, bytes));
        self.events.push_back(ServerSessionEvent::Record(record));
        Ok(())
    }

    fn handle_pong(&mut self, now: SessionTime, pong: Pong) {
        if self.pinged.take_if(|sent| *sent == pong.sent_ns).is_some() {
            self.offset.add([
                pong.sent_ns,
                pong.received_ns,
                pong.answered_ns,
                now.wall_ns,
            ]);
            self.events
                .extend(self.offset.ahead().map(ServerSessionEvent::Offset));
        }
    }

    fn close(&mut self, why: SessionEnd) {
        self.state = ServerSessionState::Closed;
        self.events.push_back(ServerSessionEvent::Closed(why));
    }

    /// Accepts the agent. `lanes`: committed positions of the lanes in its Hello and of open ones.
    pub fn welcome(&mut self, version_max: u32, desired: DesiredJobs, lanes: Vec<LaneResume>) {
        if self.state != ServerSessionState::Asked {
            return;
        }
        self.state = ServerSessionState::Open;
        for resume in &lanes {
            let state = LaneState {
                received: resume.durable,
                committed: resume.durable,
                ..LaneState::default()
            };
            self.lanes.insert(resume.lane, state);
        }
        self.credit_bytes = self.limits.window_bytes;
        let version = version_max.min(*VERSIONS.end());
        let credit_bytes = self.credit_bytes;
        let server = self.server;
        self.outbox.send(Welcome {
            version,
            desired,
            lanes,
            credit_bytes,
            server,
        });
    }

    /// Rejects the agent.
    pub fn refuse(&mut self, reason: &str) {
        let server_min = *VERSIONS.start();
        let server_max = *VERSIONS.end();
        self.outbox.send(Refuse {
            reason: reason.into(),
            server_min,
            server_max,
            ..Refuse::default()
        });
        self.state = ServerSessionState::Refused;
    }

    /// Sends the desired set.
    pub fn desire(&mut self, desired: DesiredJobs) {
        self.send(desired);
    }

    /// Sends leases.
    pub fn grant(&mut self, granted: GrantedLease) {
        self.send(granted);
    }

    /// Requests a complete report.
    pub fn observe_all(&mut self) {
        self.send(ObserveAll {});
    }

    /// Requests kept packets. Only agents with the capability [`KEEPS_PACKETS`](crate::KEEPS_PACKETS) reply.
    pub fn request_packets(&mut self, request: PacketRequest) {
        self.send(request);
    }

    /// Tells an agent that an alert fires.
    pub fn preserve_packets(&mut self, preserve: PreservePackets) {
        self.send(preserve);
    }

    /// Ends the session after the pending data is written.
    pub fn bye(&mut self, reason: &str) {
        self.outbox.send(Bye {
            reason: reason.into(),
        });
        self.state = ServerSessionState::Refused;
    }

    fn send(&mut self, frame: impl Into<Frame>) {
        if self.is_open() {
            self.outbox.send(frame);
        }
    }

    /// Notes that all records of a lane up to `seq` are committed.
    pub fn committed(&mut self, lane: RecordLane, seq: u64) {
        let Some(state) = self.lanes.get_mut(&lane) else {
            return;
        };
        while let Some((_, bytes)) = state.pending.pop_front_if(|(last, _)| *last <= seq) {
            self.done_bytes += bytes;
        }
        // At most what was received in this session: records of an earlier session were part of the Welcome.
        state.committed = state.committed.max(seq.min(state.received));
        self.to_ack.insert(lane, state.committed);
        if state.is_closed && state.pending.is_empty() {
            self.lanes.remove(&lane);
        }
    }

    /// Sets the maximum of uncommitted bytes; 0: the disk is full. Granted credit remains valid.
    pub fn set_window(&mut self, bytes: u64) {
        self.limits.window_bytes = bytes;
    }

    /// Counters of ignored data.
    pub fn counters(&self) -> SessionCounters {
        SessionCounters {
            duplicates: self.duplicates,
            skipped: self.decoder.skipped,
        }
    }

    /// The next bytes to write.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        if self.state == ServerSessionState::Closed {
            return None;
        }
        self.send_acks();
        self.send_credit();
        self.outbox.pop()
    }

    fn send_acks(&mut self) {
        if self.is_open() {
            for (lane, seq) in std::mem::take(&mut self.to_ack) {
                self.outbox.send(Ack { lane, seq });
            }
        }
    }

    /// Sends credit when a quarter of the window is free, so that the agent never waits for an acknowledgment.
    fn send_credit(&mut self) {
        let credit = self.done_bytes.saturating_add(self.limits.window_bytes);
        let step = (self.limits.window_bytes / 4).max(1);
        if self.is_open() && credit >= self.credit_bytes.saturating_add(step) {
            self.credit_bytes = credit;
            self.outbox.send(Credit { bytes: credit });
        }
    }

    /// Monotonic time at which [`ServerSession::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<u64> {
        let silence = self.heard_ns.saturating_add(self.limits.silence_max_ns);
        match self.state {
            ServerSessionState::Closed => None,
            ServerSessionState::Open => Some(silence.min(self.ping_ns)),
            ServerSessionState::Silent
            | ServerSessionState::Asked
            | ServerSessionState::Refused => Some(silence),
        }
    }

    /// Handles an expired timer.
    pub fn handle_timeout(&mut self, now: SessionTime) {
        if self.state == ServerSessionState::Closed {
            return;
        }
        if self.heard_ns.saturating_add(self.limits.silence_max_ns) <= now.monotonic_ns {
            self.close(SessionEnd::Silence);
        } else if self.is_open() && self.ping_ns <= now.monotonic_ns {
            self.ping_ns = now.monotonic_ns.saturating_add(self.limits.ping_every_ns);
            self.pinged = Some(now.wall_ns);
            self.outbox.send(Ping {
                sent_ns: now.wall_ns,
            });
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ServerSessionEvent> {
        self.events.pop_front()
    }
}
