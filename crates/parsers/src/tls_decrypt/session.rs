//! A TLS connection whose keys are in a store: ciphertext of both directions in, plaintext out.
//!
//! Input that needs something first is queued, in order: all of it while the keys of the handshake may still arrive,
//! early data until the server's answer names the cipher suite, and the other direction's while the next record is
//! searched for after a gap, because the length of the gap in plaintext is known only then.

use std::collections::VecDeque;
use std::sync::Arc;

use flow::StreamPlace;
use wire::Timestamp;
use zeroize::Zeroizing;

use super::key_store::{TlsKeyStore, TlsSecretLabel};
use super::lane::{TlsEpoch, TlsEpochKeys, TlsLane, TlsLaneStep};
use super::record_keys::{TlsRecordKeys, TlsSuite};
use crate::tls::byte_stream::kind;
use crate::tls::codes::{TLS12, is_tls13};
use crate::tls::hello;
use crate::tls::messages::kind as message;
use crate::{Direction, StreamEnd, StreamGap, StreamSegment, TlsNames};

/// Maximum bytes queued per connection.
const QUEUED_BYTES_MAX: usize = 256 << 10;
/// Maximum inputs queued per connection.
const QUEUED_MAX: usize = 1024;

/// Consumer of plaintext.
pub trait TlsPlaintextSink {
    /// Takes the names of the connection before its first plaintext.
    fn names(&mut self, names: &TlsNames) {
        let _ = names;
    }
    /// Takes the content of a record. Its time is that of the record's last byte.
    fn bytes(&mut self, direction: Direction, segment: StreamSegment<'_>);
    /// Takes a gap in the plaintext.
    fn gap(&mut self, direction: Direction, gap: StreamGap);
    /// Takes the end of a direction.
    fn end(&mut self, direction: Direction, end: StreamEnd);
}

/// Input of a session.
#[derive(Clone, Copy, Debug)]
pub enum TlsInput<'a> {
    /// The next bytes.
    Bytes(StreamSegment<'a>),
    /// Missing bytes.
    Gap(StreamGap),
    /// The end.
    End(StreamEnd),
}

/// Result for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsOutcome {
    /// The handshake is not complete.
    #[default]
    Open,
    /// Its keys are known.
    Decrypting,
    /// The store has no keys of the connection.
    KeysMissing,
    /// The cipher suite is not supported: its name, or that of the version.
    Unsupported(&'static str),
    /// Its records cannot be read: bytes of the hellos are missing, the keys do not fit, or it is not TLS.
    Unreadable,
}

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsSessionCounters {
    /// Records found again after a gap.
    pub resyncs: u64,
    /// Records that no key fits.
    pub sealed_records: u64,
}

/// Queued input.
enum QueuedInput {
    Bytes(StreamSegment<'static>, Vec<u8>),
    Gap(StreamGap),
    End(StreamEnd),
    /// Continue with the lane's buffer.
    Resume,
}

/// Reason for which input is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stall {
    None,
    /// The keys may still arrive: since when, and the store's generation that was tried.
    Keys(Timestamp, u64),
    /// The client's early data need the server's hello.
    Hello,
    /// This direction searches for the next record.
    Search(Direction),
}

impl Stall {
    fn holds(self, direction: Direction) -> bool {
        match self {
            Self::None => false,
            Self::Keys(..) => true,
            Self::Hello => direction == Direction::ClientToServer,
            Self::Search(searching) => direction != searching,
        }
    }
}

/// Early data, until the server has accepted it.
type EarlyRecord = (Timestamp, StreamPlace, Zeroizing<Vec<u8>>);

/// State of a connection.
pub struct TlsSession {
    store: Arc<TlsKeyStore>,
    lanes: [TlsLane; 2],
    client_random: Option<[u8; 32]>,
    server_random: Option<[u8; 32]>,
    suite: Option<TlsSuite>,
    names: TlsNames,
    /// Whether the sink has the names.
    named: bool,
    early: Vec<EarlyRecord>,
    stall: Stall,
    queue: VecDeque<(Direction, QueuedInput)>,
    queued_bytes: usize,
    outcome: TlsOutcome,
    counters: TlsSessionCounters,
}

const CLIENT: usize = Direction::ClientToServer as usize;
const SERVER: usize = Direction::ServerToClient as usize;

impl TlsSession {
    /// A connection before its first byte.
    #[must_use]
    pub fn new(store: Arc<TlsKeyStore>) -> TlsSession {
        TlsSession {
            store,
            lanes: Default::default(),
            client_random: None,
            server_random: None,
            suite: None,
            names: TlsNames::default(),
            named: false,
            early: Vec::new(),
            stall: Stall::None,
            queue: VecDeque::new(),
            queued_bytes: 0,
            outcome: TlsOutcome::Open,
            counters: TlsSessionCounters::default(),
        }
    }

    /// Result so far.
    #[must_use]
    pub fn outcome(&self) -> TlsOutcome {
        self.outcome
    }

    /// Counters since the last call.
    pub fn take_counters(&mut self) -> TlsSessionCounters {
        std::mem::take(&mut self.counters)
    }

    /// Whether no plaintext will follow.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self.outcome, TlsOutcome::Open | TlsOutcome::Decrypting)
    }

    /// Size in memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let lanes: usize = self.lanes.iter().map(TlsLane::bytes).sum();
        size_of::<TlsSession>() + lanes + self.queued_bytes
    }

    /// Handles input of one direction at `now`.
    pub fn on_input(
        &mut self,
        direction: Direction,
        input: TlsInput<'_>,
        now: Timestamp,
        sink: &mut dyn TlsPlaintextSink,
    ) {
        if self.is_over() {
            return;
        }
        self.look_for_keys(now);
        if !self.stall.holds(direction) && self.queue.is_empty() {
            self.apply(direction, input, sink);
        } else {
            self.enqueue(direction, input);
        }
        self.settle(sink);
        while self.queued_bytes > QUEUED_BYTES_MAX || self.queue.len() > QUEUED_MAX {
            self.give_up(sink);
            self.settle(sink);
            if self.is_over() || self.stall == Stall::None {
                break;
            }
        }
    }

    /// Ends the connection: queued input is delivered.
    pub fn close(&mut self, sink: &mut dyn TlsPlaintextSink) {
        while self.stall != Stall::None && !self.is_over() {
            self.give_up(sink);
            self.settle(sink);
        }
        if self.outcome == TlsOutcome::Open {
            self.leave(TlsOutcome::Unreadable);
        }
    }

    /// Tries again to find the keys, or stops to wait for them.
    fn look_for_keys(&mut self, now: Timestamp) {
        let Stall::Keys(since, tried) = self.stall else {
            return;
        };
        if self.store.generation() != tried && self.derive() {
            self.resume_both();
        } else if now.0 - since.0 > self.store.wait_ns() as i64 {
            self.leave(TlsOutcome::KeysMissing);
        }
    }

    /// Continues with both buffers, before the queue.
    fn resume_both(&mut self) {
        self.stall = Stall::None;
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            self.queue.push_front((direction, QueuedInput::Resume));
        }
    }

    fn enqueue(&mut self, direction: Direction, input: TlsInput<'_>) {
        let queued = match input {
            TlsInput::Bytes(segment) => {
                self.queued_bytes += segment.bytes.len();
                let StreamSegment { bytes, ts, place } = segment;
                let position = StreamSegment {
                    bytes: &[],
                    ts,
                    place,
                };
                QueuedInput::Bytes(position, bytes.to_vec())
            }
            TlsInput::Gap(gap) => QueuedInput::Gap(gap),
            TlsInput::End(end) => QueuedInput::End(end),
        };
        self.queue.push_back((direction, queued));
    }

    /// Handles queued input that need not wait any more, in order.
    fn settle(&mut self, sink: &mut dyn TlsPlaintextSink) {
        while !self.is_over() {
            let stall = self.stall;
            let next = self
                .queue
                .iter()
                .position(|(direction, _)| !stall.holds(*direction));
            let Some((direction, queued)) = next.and_then(|at| self.queue.remove(at)) else {
                return;
            };
            match queued {
                QueuedInput::Bytes(position, bytes) => {
                    self.queued_bytes -= bytes.len();
                    let segment = StreamSegment {
                        bytes: &bytes,
                        ..position
                    };
                    self.apply(direction, TlsInput::Bytes(segment), sink);
                }
                QueuedInput::Gap(gap) => self.apply(direction, TlsInput::Gap(gap), sink),
                QueuedInput::End(end) => self.apply(direction, TlsInput::End(end), sink),
                QueuedInput::Resume => self.read(direction, sink),
            }
        }
    }

    /// Ends a stall without its cause.
    fn give_up(&mut self, sink: &mut dyn TlsPlaintextSink) {
        match self.stall {
            Stall::None => {}
            Stall::Keys(..) => self.leave(TlsOutcome::KeysMissing),
            Stall::Hello => self.leave(TlsOutcome::Unreadable),
            Stall::Search(direction) => {
                if let Some(gap) = self.lanes[direction as usize].give_up_missing() {
                    sink.gap(direction, gap);
                }
                self.stall = Stall::None;
            }
        }
    }

    fn leave(&mut self, outcome: TlsOutcome) {
        self.outcome = outcome;
        self.lanes = Default::default();
        self.queue = VecDeque::new();
        self.queued_bytes = 0;
        self.early = Vec::new();
        self.stall = Stall::None;
    }

    fn apply(
        &mut self,
        direction: Direction,
        input: TlsInput<'_>,
        sink: &mut dyn TlsPlaintextSink,
    ) {
        match input {
            TlsInput::Bytes(segment) => {
                self.lanes[direction as usize].push(segment);
                self.read(direction, sink);
            }
            TlsInput::Gap(gap) => self.on_gap(direction, gap, sink),
            TlsInput::End(end) => {
                if self.stall == Stall::Search(direction) {
                    self.give_up(sink);
                }
                sink.end(direction, end);
            }
        }
    }

    fn on_gap(&mut self, direction: Direction, gap: StreamGap, sink: &mut dyn TlsPlaintextSink) {
        if self.suite.is_none() && !self.assume_suites(direction) {
            return self.leave(TlsOutcome::Unreadable);
        }
        let lane = &mut self.lanes[direction as usize];
        if let Some(lost) = lane.on_gap(gap) {
            sink.gap(direction, lost);
        }
        if lane.is_searching() && self.stall == Stall::None {
            self.stall = Stall::Search(direction);
        }
    }

    /// Uses every suite of TLS 1.3 that fits the secrets: bytes of the ServerHello are missing. Returns whether there
    /// are secrets.
    fn assume_suites(&mut self, direction: Direction) -> bool {
        let (Some(random), Direction::ServerToClient) = (self.client_random, direction) else {
            return false;
        };
        let secret = self.store.secret(&random, TlsSecretLabel::ServerTraffic);
        let codes = TlsSuite::of_secret(secret.map_or(0, |secret| secret.len()));
        for suite in codes.iter().filter_map(|code| TlsSuite::of_code(*code)) {
            self.add_traffic_keys(suite);
            self.suite = Some(suite);
        }
        if self.suite.is_none() {
            return false;
        }
        self.outcome = TlsOutcome::Decrypting;
        if self.stall == Stall::Hello {
            self.resume_both();
        }
        true
    }

    /// Reads the records in a lane's buffer.
    fn read(&mut self, direction: Direction, sink: &mut dyn TlsPlaintextSink) {
        while !self.is_over() && !self.stall.holds(direction) {
            let lane = &mut self.lanes[direction as usize];
            let (step, record) = lane.step();
            match step {
                TlsLaneStep::More => return,
                TlsLaneStep::Lost => return self.leave(TlsOutcome::Unreadable),
                TlsLaneStep::Waits => return self.wait_for_hello(direction),
                TlsLaneStep::Sealed(lost) => {
                    self.counters.sealed_records += u64::from(lost.is_some());
                    if let Some(gap) = lost {
                        sink.gap(direction, gap);
                    }
                }
                TlsLaneStep::Found(gap) => {
                    self.counters.resyncs += 1;
                    if gap.len > 0 {
                        sink.gap(direction, gap);
                    }
                    if self.stall == Stall::Search(direction) {
                        self.stall = Stall::None;
                        self.queue.push_back((direction, QueuedInput::Resume));
                        return;
                    }
                }
                TlsLaneStep::Plain(kind, content) | TlsLaneStep::Opened(kind, content) => {
                    let (ts, ack) = lane.times(&record);
                    match kind {
                        kind::HANDSHAKE => self.on_handshake(direction, content, ts, sink),
                        kind::CHANGE_CIPHER_SPEC => self.on_change(direction),
                        kind::DATA => self.on_data(direction, content, (ts, ack), sink),
                        _ => {}
                    }
                }
            }
        }
    }

    fn wait_for_hello(&mut self, direction: Direction) {
        if direction == Direction::ClientToServer && self.client_random.is_some() {
            self.stall = Stall::Hello;
        } else {
            self.leave(TlsOutcome::Unreadable);
        }
    }

    fn on_data(
        &mut self,
        direction: Direction,
        content: std::ops::Range<usize>,
        (ts, ack): (Timestamp, Option<wire::TcpSeq>),
        sink: &mut dyn TlsPlaintextSink,
    ) {
        if content.is_empty() {
            return;
        }
        let ack = ack.and_then(|ack| self.lanes[direction.other() as usize].plain_of(ack));
        let lane = &mut self.lanes[direction as usize];
        let place = lane.place_data(content.len(), ack);
        let bytes = lane.content(content);
        if lane.epoch() == Some(TlsEpoch::Early) {
            self.early.push((ts, place, Zeroizing::new(bytes.to_vec())));
            return;
        }
        if !std::mem::replace(&mut self.named, true) {
            sink.names(&self.names);
        }
        sink.bytes(direction, StreamSegment { bytes, ts, place });
    }

    /// Delivers early data, which the server has accepted.
    fn accept_early(&mut self, sink: &mut dyn TlsPlaintextSink) {
        if !std::mem::replace(&mut self.named, true) {
            sink.names(&self.names);
        }
        for (ts, place, bytes) in std::mem::take(&mut self.early) {
            let segment = StreamSegment {
                bytes: &bytes,
                ts,
                place,
            };
            sink.bytes(Direction::ClientToServer, segment);
        }
    }

    /// ChangeCipherSpec has no meaning in TLS 1.3.
    fn on_change(&mut self, direction: Direction) {
        if self.suite.is_some_and(|suite| !suite.is_tls13()) {
            self.lanes[direction as usize].change_keys();
        }
    }

    fn on_handshake(
        &mut self,
        direction: Direction,
        content: std::ops::Range<usize>,
        ts: Timestamp,
        sink: &mut dyn TlsPlaintextSink,
    ) {
        let mut at = content.start;
        if self.lanes[direction as usize].messages.is_lost()
            && self.lanes[direction as usize].is_encrypted()
        {
            self.lanes[direction as usize].messages = Default::default();
        }
        while at < content.end && !self.is_over() {
            let lane = &mut self.lanes[direction as usize];
            let (used, message) = lane.collect(at..content.end, ts);
            at += used;
            if let Some(message) = message.filter(|message| !message.cut) {
                let body = lane.messages.body().to_vec();
                self.on_message(direction, message.kind, &body, ts, sink);
            }
        }
    }

    fn on_message(
        &mut self,
        direction: Direction,
        kind: u8,
        body: &[u8],
        ts: Timestamp,
        sink: &mut dyn TlsPlaintextSink,
    ) {
        let lane = &mut self.lanes[direction as usize];
        match (kind, lane.epoch()) {
            (message::CLIENT_HELLO, _) => {
                self.client_random = body.get(2..34).and_then(|random| random.try_into().ok());
                self.names.sni = hello::client(body, true).and_then(|hello| hello.sni);
            }
            (message::SERVER_HELLO, _) => self.on_server_hello(body, ts),
            (message::ENCRYPTED_EXTENSIONS, _) => {
                let extensions = hello::encrypted_extensions(body);
                self.names.alpn = extensions.alpn;
                if extensions.early_data {
                    self.accept_early(sink);
                } else {
                    self.early = Vec::new();
                }
            }
            (message::END_OF_EARLY_DATA, Some(TlsEpoch::Early)) => {
                lane.change_keys();
                self.accept_early(sink);
            }
            (message::FINISHED, Some(TlsEpoch::Handshake)) => lane.change_keys(),
            (message::KEY_UPDATE, Some(TlsEpoch::Application)) => lane.update_keys(),
            _ => {}
        }
    }

    fn on_server_hello(&mut self, body: &[u8], ts: Timestamp) {
        let Some(hello) = hello::server(body, true).filter(|hello| !hello.retry) else {
            return;
        };
        let code = hello.cipher.unwrap_or_default();
        let version = hello.version.unwrap_or_default();
        if version != TLS12 && !is_tls13(version) {
            let name = crate::tls::codes::version(version).unwrap_or("unknown");
            return self.leave(TlsOutcome::Unsupported(name));
        }
        let Some(suite) = TlsSuite::of_code(code) else {
            let name = crate::tls::cipher_name(code).unwrap_or("unknown");
            return self.leave(TlsOutcome::Unsupported(name));
        };
        let suite = if hello.encrypt_then_mac {
            suite.with_encrypt_then_mac()
        } else {
            suite
        };
        self.names.alpn = hello.alpn;
        self.server_random = body.get(2..34).and_then(|random| random.try_into().ok());
        self.suite = Some(suite);
        let generation = self.store.generation();
        if self.derive() {
            if self.stall == Stall::Hello {
                self.stall = Stall::None;
                let resume = (Direction::ClientToServer, QueuedInput::Resume);
                self.queue.push_front(resume);
            }
        } else if self.store.wait_ns() > 0 {
            self.stall = Stall::Keys(ts, generation);
        } else {
            self.leave(TlsOutcome::KeysMissing);
        }
    }

    /// Derives the keys of both directions; returns whether the store has their secrets.
    fn derive(&mut self) -> bool {
        let (Some(suite), Some(client), Some(server)) =
            (self.suite, self.client_random, self.server_random)
        else {
            return false;
        };
        if suite.is_tls13() {
            let has = |label| self.store.secret(&client, label).is_some();
            if !has(TlsSecretLabel::ClientTraffic) || !has(TlsSecretLabel::ServerTraffic) {
                return false;
            }
            self.add_traffic_keys(suite);
        } else {
            let master = self.store.secret(&client, TlsSecretLabel::Master);
            let keys = master
                .and_then(|master| TlsRecordKeys::of_master(suite, &master, &client, &server));
            let Some(keys) = keys else {
                return false;
            };
            for (lane, keys) in self.lanes.iter_mut().zip(keys) {
                let epoch = TlsEpoch::Application;
                lane.next = VecDeque::from([TlsEpochKeys { epoch, keys }]);
            }
        }
        self.outcome = TlsOutcome::Decrypting;
        true
    }

    /// Adds the keys of TLS 1.3 in the order of their use.
    fn add_traffic_keys(&mut self, suite: TlsSuite) {
        const LABELS: [(usize, TlsEpoch, TlsSecretLabel); 5] = [
            (CLIENT, TlsEpoch::Early, TlsSecretLabel::ClientEarly),
            (CLIENT, TlsEpoch::Handshake, TlsSecretLabel::ClientHandshake),
            (CLIENT, TlsEpoch::Application, TlsSecretLabel::ClientTraffic),
            (SERVER, TlsEpoch::Handshake, TlsSecretLabel::ServerHandshake),
            (SERVER, TlsEpoch::Application, TlsSecretLabel::ServerTraffic),
        ];
        let Some(random) = self.client_random else {
            return;
        };
        for (lane, epoch, label) in LABELS {
            let secret = self.store.secret(&random, label);
            let keys = secret.and_then(|secret| TlsRecordKeys::of_traffic(suite, secret));
            if let Some(keys) = keys {
                self.lanes[lane]
                    .next
                    .push_back(TlsEpochKeys { epoch, keys });
            }
        }
    }
}
