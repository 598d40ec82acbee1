//! The incremental fetch session of a connection (KIP-227): its requests list only the partitions that have changed.

use std::collections::BTreeMap;

use super::digest::{Digest, DigestNumber, DigestText};
use crate::topic_names::TopicNames;

/// Maximum number of partitions; larger sessions are not known.
const PARTITIONS_MAX: usize = 16_384;

/// A topic by its name or its identifier.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FetchedTopic {
    Name(Box<[u8]>),
    Id([u8; 16]),
}

/// Partitions of the session, with the offsets from which they are read.
#[derive(Default)]
pub struct FetchSession {
    /// `None`: not known; 0: not assigned yet.
    id: Option<i64>,
    partitions: BTreeMap<(FetchedTopic, i64), i64>,
    /// Topic and partition in progress.
    topic: Option<FetchedTopic>,
    partition: i64,
}

impl FetchSession {
    /// The connection lacks requests.
    pub fn forget(&mut self) {
        self.id = None;
    }

    /// Begins a request. Epochs: -1 without a session, 0 begins one, others continue it.
    pub fn begin(&mut self, id: i64, epoch: i64) {
        self.topic = None;
        match epoch {
            0 => {
                self.id = Some(0);
                self.partitions.clear();
            }
            1.. if self.id == Some(id) => {}
            _ => self.id = None,
        }
    }

    /// The broker has assigned an identifier.
    pub fn assign(&mut self, id: i64) {
        if self.id == Some(0) {
            self.id = (id != 0).then_some(id);
        }
    }

    pub fn topic(&mut self, topic: FetchedTopic) {
        if self.id.is_some() {
            self.topic = Some(topic);
        }
    }

    pub fn partition(&mut self, number: i64, is_forgotten: bool) {
        self.partition = number;
        if let (Some(topic), true) = (&self.topic, is_forgotten) {
            self.partitions.remove(&(topic.clone(), number));
        }
    }

    /// Adds the partition in progress, or moves its offset.
    pub fn offset(&mut self, offset: i64) {
        if let Some(topic) = &self.topic {
            self.partitions
                .insert((topic.clone(), self.partition), offset);
        }
        if self.partitions.len() > PARTITIONS_MAX {
            self.forget();
        }
    }

    /// Ends a request that continues a session: it asks for all partitions. Returns whether they are known.
    pub fn state(&self, digest: &mut Digest, names: Option<&TopicNames>) -> bool {
        for of in [
            DigestNumber::Topics,
            DigestNumber::Partitions,
            DigestNumber::Partition,
            DigestNumber::FetchOffset,
        ] {
            digest.put(of, None);
        }
        digest.set_text(DigestText::Topic, None);
        digest.set_text(DigestText::TopicId, None);
        if self.id.is_none() {
            return false;
        }
        let mut before = None;
        for ((topic, partition), offset) in &self.partitions {
            if before.replace(topic) != Some(topic) {
                digest.fetched(topic, names);
            }
            digest.partition(*partition);
            digest.set(DigestNumber::FetchOffset, *offset);
        }
        true
    }
}

impl Digest {
    /// Counts a topic.
    pub fn fetched(&mut self, topic: &FetchedTopic, names: Option<&TopicNames>) {
        match (topic, names) {
            (FetchedTopic::Name(name), _) => self.topic(Some(name), None),
            (FetchedTopic::Id(id), Some(names)) => {
                names.with_name(id, |name| self.topic(name, Some(*id)));
            }
            (FetchedTopic::Id(id), None) => self.topic(None, Some(*id)),
        }
    }
}
