//! State of a connection: outstanding requests, by which responses are read; the messages in progress; and what a message means for
//! later ones.

use std::collections::VecDeque;

use super::digest::{Digest, DigestNumber, DigestText};
use super::fetch_session::{FetchSession, FetchedTopic};
use super::header::{self, HeaderRead, RequestHeader};
use super::walk::{FieldSlot, Walk, WalkEvent, WalkStep};
use crate::Direction;
use crate::topic_names::TopicNames;

/// Maximum number of outstanding requests whose responses are read.
const OUTSTANDING_MAX: usize = 4096;

const FETCH: i16 = 1;
const METADATA: i16 = 3;
const LEAVE_GROUP: i16 = 13;
const CREATE_TOPICS: i16 = 19;
const DESCRIBE_TOPIC_PARTITIONS: i16 = 75;
const SHARE_FETCH: i16 = 78;
const UNSUPPORTED_VERSION: i64 = 35;

/// Requests of the members of a group, which state it: OffsetCommit, JoinGroup, Heartbeat, SyncGroup, ConsumerGroupHeartbeat.
const OF_MEMBERS: [i16; 5] = [8, 11, 12, 14, 68];

/// A connection.
#[derive(Default)]
pub struct KafkaConnection {
    pub(super) client: MessageReading,
    pub(super) server: MessageReading,
    outstanding: VecDeque<OutstandingRequest>,
    /// The request in progress, until its acknowledgments tell whether it has a response.
    begun: Option<OutstandingRequest>,
    fetch: FetchSession,
    member: Option<GroupMember>,
    /// Client id and correlation id of the last request.
    last: Option<(Box<[u8]>, u32)>,
    /// Raw tokens of SASL follow until the next request.
    pub(super) has_tokens: bool,
}

/// The member of a group that uses the connection.
struct GroupMember {
    client: Box<[u8]>,
    group: Box<[u8]>,
}

#[derive(Clone, Copy)]
struct OutstandingRequest {
    id: u32,
    key: i16,
    version: i16,
}

/// A message in progress.
#[derive(Default)]
pub struct MessageReading {
    pub key: i16,
    pub walk: Walk,
    pub digest: Digest,
    /// Fields depend on requests that are not known, or contradict the layout.
    pub is_bad: bool,
    /// Type of the key in FindCoordinator: 0 a group, 1 a transaction.
    key_type: i64,
    /// Session and epoch of Fetch; epoch -1 is none.
    session: (i64, i64),
    is_response: bool,
}

impl KafkaConnection {
    /// API and version of the outstanding request with this id.
    pub(super) fn asked(&self, id: u32) -> Option<(i16, i16)> {
        let request = self.outstanding.iter().find(|request| request.id == id)?;
        Some((request.key, request.version))
    }

    pub(super) fn reading(&mut self, direction: Direction) -> &mut MessageReading {
        match direction {
            Direction::ClientToServer => &mut self.client,
            Direction::ServerToClient => &mut self.server,
        }
    }

    /// Whether a request continues those before it: the same client, and an id that is a little higher.
    pub(super) fn continues(&self, bytes: &[u8]) -> bool {
        let HeaderRead::Header(header) = RequestHeader::read(bytes) else {
            return false;
        };
        self.last.as_ref().is_some_and(|(client, id)| {
            **client == *header.client.unwrap_or_default()
                && (1..1 << 16).contains(&header.id.wrapping_sub(*id))
        })
    }

    /// Reads a part of a message.
    pub(super) fn read_part(
        &mut self,
        direction: Direction,
        head: &[u8],
        begins: bool,
        names: Option<&TopicNames>,
    ) {
        let at = match (begins, direction) {
            (false, _) => 0,
            (true, Direction::ClientToServer) => self.begin_request(head),
            (true, Direction::ServerToClient) => self.begin_response(head),
        };
        self.read_fields(direction, head.get(at..).unwrap_or_default(), names);
        if begins && direction == Direction::ClientToServer && !self.is_silent() {
            self.expect_response();
        }
    }

    /// Whether the request in progress has no response.
    pub(super) fn is_silent(&self) -> bool {
        self.client.key == 0 && self.client.digest.get(DigestNumber::Acks) == Some(0)
    }

    fn begin_request(&mut self, head: &[u8]) -> usize {
        let reading = &mut self.client;
        reading.begin();
        self.begun = None;
        let HeaderRead::Header(header) = RequestHeader::read(head) else {
            return head.len();
        };
        self.begun = Some(OutstandingRequest {
            id: header.id,
            key: header.key,
            version: header.version,
        });
        reading.key = header.key;
        reading.walk = header.walk();
        reading.digest.set(DigestNumber::Key, header.key.into());
        reading
            .digest
            .set(DigestNumber::Version, header.version.into());
        reading.digest.set_text(DigestText::Client, header.client);
        self.has_tokens = header.begins_tokens();
        let client = header.client.unwrap_or_default();
        match &mut self.last {
            Some((known, id)) if **known == *client => *id = header.id,
            last => *last = Some((client.into(), header.id)),
        }
        header.size
    }

    /// The request that has just begun has a response.
    fn expect_response(&mut self) {
        let Some(request) = self.begun.take() else {
            return;
        };
        if self.outstanding.len() >= OUTSTANDING_MAX {
            self.outstanding.pop_front();
        }
        self.outstanding.push_back(request);
    }

    fn begin_response(&mut self, head: &[u8]) -> usize {
        self.server.begin();
        self.server.is_response = true;
        let Some((length, id)) = header::response_header(head) else {
            return head.len();
        };
        // Responses are in the order of requests: those before it were lost.
        let Some(at) = self.outstanding.iter().position(|request| request.id == id) else {
            return head.len();
        };
        let OutstandingRequest { key, version, .. } = self.outstanding[at];
        self.outstanding.drain(..=at);
        self.server.key = key;
        self.server.walk = header::response_walk(key, version, length);
        self.server.digest.set(DigestNumber::Key, key.into());
        8
    }

    fn read_fields(&mut self, direction: Direction, head: &[u8], names: Option<&TopicNames>) {
        let mut at = 0;
        loop {
            let reading = self.reading(direction);
            match reading.walk.step(head.get(at..).unwrap_or_default()) {
                WalkStep::Token { used, skip, event } => {
                    let end = at + used + skip;
                    self.on_event(direction, event, names);
                    // The rest of the message is skipped.
                    if end > head.len() && self.reading(direction).walk.left > 0 {
                        return;
                    }
                    at = end;
                }
                WalkStep::NeedMore => return,
                WalkStep::End => {
                    if self.reading(direction).walk.is_known() {
                        self.end(direction, names);
                    }
                    return;
                }
                WalkStep::Bad => {
                    self.reading(direction).is_bad = true;
                    return;
                }
            }
        }
    }

    fn on_event(&mut self, direction: Direction, event: WalkEvent<'_>, names: Option<&TopicNames>) {
        match (event, direction) {
            (WalkEvent::None, _) => {}
            (WalkEvent::Text(slot, text), _) => self.on_text(direction, slot, text),
            (WalkEvent::Uuid(slot, id), _) => self.on_uuid(direction, slot, id, names),
            (WalkEvent::Number(slot, value), Direction::ClientToServer) => {
                self.on_asked_number(slot, value);
            }
            (WalkEvent::Number(slot, value), Direction::ServerToClient) => {
                self.on_answered_number(slot, value);
            }
            (WalkEvent::RecordSet(length), _) => {
                let digest = &mut self.reading(direction).digest;
                digest.add(DigestNumber::RecordBytes, length.into());
            }
            (WalkEvent::Batch(batch), _) => self.reading(direction).digest.batch(batch),
            (WalkEvent::UnknownBatch, _) => self.reading(direction).digest.unknown_batch(),
        }
    }

    fn on_text(&mut self, direction: Direction, slot: FieldSlot, text: Option<&[u8]>) {
        let is_request = direction == Direction::ClientToServer;
        let reading = self.reading(direction);
        let is_fetch = reading.key == FETCH;
        match (slot, text) {
            (FieldSlot::Topic, _) if reading.teaches() => {
                reading.digest.set_text(DigestText::Topic, text);
            }
            (FieldSlot::Topic, Some(name)) => {
                reading.digest.topic(Some(name), None);
                if is_fetch && is_request {
                    self.fetch.topic(FetchedTopic::Name(name.into()));
                }
            }
            (FieldSlot::ForgottenTopic, Some(name)) => {
                self.fetch.topic(FetchedTopic::Name(name.into()));
            }
            (FieldSlot::Group, text) => reading.group(text),
            (FieldSlot::Key, text) if reading.key_type == 0 => reading.group(text),
            (FieldSlot::Transaction, text) => {
                reading.digest.set_text(DigestText::Transaction, text);
            }
            (FieldSlot::Key, text) if reading.key_type == 1 => {
                reading.digest.set_text(DigestText::Transaction, text);
            }
            _ => {}
        }
    }

    fn on_uuid(
        &mut self,
        direction: Direction,
        slot: FieldSlot,
        id: [u8; 16],
        names: Option<&TopicNames>,
    ) {
        let is_request = direction == Direction::ClientToServer;
        let reading = self.reading(direction);
        if reading.teaches() {
            if let (Some(name), Some(names)) = (reading.digest.text(DigestText::Topic), names) {
                names.learn(id, name);
            }
            return;
        }
        // The topic is stated by its name.
        if id == [0; 16] {
            return;
        }
        let topic = FetchedTopic::Id(id);
        if slot == FieldSlot::TopicId {
            reading.digest.fetched(&topic, names);
        }
        if is_request && reading.key == FETCH {
            self.fetch.topic(topic);
        }
    }

    fn on_asked_number(&mut self, slot: FieldSlot, value: i64) {
        let reading = &mut self.client;
        let digest = &mut reading.digest;
        match slot {
            FieldSlot::Partition => {
                digest.partition(value);
                self.fetch.partition(value, false);
            }
            FieldSlot::ForgottenPartition => self.fetch.partition(value, true),
            FieldSlot::FetchOffset => {
                digest.set(DigestNumber::FetchOffset, value);
                self.fetch.offset(value);
            }
            FieldSlot::Acks => digest.set(DigestNumber::Acks, value),
            FieldSlot::MaxWait => digest.set(DigestNumber::MaxWait, value),
            FieldSlot::MinBytes => digest.set(DigestNumber::MinBytes, value),
            FieldSlot::SessionId => reading.session.0 = value,
            FieldSlot::SessionEpoch => {
                reading.session.1 = value;
                self.fetch.begin(reading.session.0, value);
            }
            FieldSlot::KeyType => reading.key_type(value),
            _ => {}
        }
    }

    fn on_answered_number(&mut self, slot: FieldSlot, value: i64) {
        let reading = &mut self.server;
        let digest = &mut reading.digest;
        match slot {
            FieldSlot::Partition => digest.partition(value),
            FieldSlot::Error if value != 0 => {
                digest.set_first(DigestNumber::Error, value);
                // The response has the layout of version 0.
                if reading.key == header::API_VERSIONS && value == UNSUPPORTED_VERSION {
                    reading.walk.stop();
                }
            }
            FieldSlot::Throttle => digest.set(DigestNumber::Throttle, value),
            FieldSlot::BaseOffset => digest.set(DigestNumber::BaseOffset, value),
            FieldSlot::HighWatermark => digest.high_watermark(value),
            FieldSlot::SessionId => self.fetch.assign(value),
            _ => {}
        }
    }

    /// Ends a message of which everything that is read was read.
    fn end(&mut self, direction: Direction, names: Option<&TopicNames>) {
        if direction == Direction::ClientToServer {
            let reading = &mut self.client;
            match reading.key {
                FETCH if reading.session.1 > 0 => {
                    reading.is_bad = !self.fetch.state(&mut reading.digest, names);
                }
                // The request lists only partitions that are added to its session.
                SHARE_FETCH => {
                    FetchSession::default().state(&mut reading.digest, names);
                }
                _ => {}
            }
            self.group_of_member();
        }
        self.reading(direction).digest.end();
    }

    fn group_of_member(&mut self) {
        let digest = &mut self.client.digest;
        let client = digest.text(DigestText::Client).unwrap_or_default();
        let group = digest.text(DigestText::Group);
        match (self.client.key, group) {
            (key, Some(group)) if OF_MEMBERS.contains(&key) => {
                let is_known = self
                    .member
                    .as_ref()
                    .is_some_and(|member| *member.client == *client && *member.group == *group);
                if !is_known {
                    self.member = Some(GroupMember {
                        client: client.into(),
                        group: group.into(),
                    });
                }
            }
            (LEAVE_GROUP, _) => self.member = None,
            (FETCH, None) => {
                if let Some(member) = &self.member
                    && *member.client == *client
                {
                    digest.set_text(DigestText::Group, Some(&member.group));
                }
            }
            _ => {}
        }
    }

    /// Messages of `direction` may be missing.
    pub(super) fn forget(&mut self, direction: Direction) {
        if direction == Direction::ClientToServer {
            self.fetch.forget();
            self.member = None;
        }
    }
}

impl MessageReading {
    fn begin(&mut self) {
        self.digest.begin();
        self.walk.clear();
        self.key = -1;
        self.is_bad = false;
        self.key_type = 0;
        self.session = (0, -1);
    }

    /// Whether the message is a response with names and identifiers of topics.
    fn teaches(&self) -> bool {
        let key = self.key;
        self.is_response && matches!(key, METADATA | CREATE_TOPICS | DESCRIBE_TOPIC_PARTITIONS)
    }

    /// States a group; of several different groups none.
    fn group(&mut self, group: Option<&[u8]>) {
        let known = self.digest.text(DigestText::Group);
        let is_another = known.is_some_and(|known| group != Some(known));
        self.digest
            .set_text(DigestText::Group, group.filter(|_| !is_another));
    }

    /// States what the key in FindCoordinator is, which may have been read.
    fn key_type(&mut self, value: i64) {
        self.key_type = value;
        let key = self.digest.text(DigestText::Group).map(<[u8]>::to_vec);
        if value != 0 {
            self.digest.set_text(DigestText::Group, None);
            if value == 1 {
                self.digest
                    .set_text(DigestText::Transaction, key.as_deref());
            }
        }
    }
}
