//! Facts reported by the reader of a source: link types, host names, and at the end its counters.

use std::net::IpAddr;

use capture::{PacketBlock, PacketRecord, PacketSource};
use wire::{LinkType, Timestamp};

use crate::PacketAccounting;
use crate::worker::WorkerFinalReport;

/// Facts about the packets read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketFacts {
    /// Timestamp of the first packet.
    pub first_ts: Option<Timestamp>,
    /// Link types, without duplicates.
    pub links: Vec<LinkType>,
}

impl PacketFacts {
    /// Adds the facts of another thread.
    pub(crate) fn add(&mut self, other: PacketFacts) {
        self.first_ts = self.first_ts.into_iter().chain(other.first_ts).min();
        for link in other.links {
            if !self.links.contains(&link) {
                self.links.push(link);
            }
        }
    }
}

/// Reports on a source while it is read.
pub(crate) enum SourceNews {
    /// Host names found in the capture.
    Names(Vec<(IpAddr, String)>),
    /// A new link type.
    Packets(PacketFacts),
}

/// Facts about a source already reported by its reader.
#[derive(Default)]
pub(crate) struct SourceLog {
    first_ts: Option<Timestamp>,
    link: Option<LinkType>,
    names_told: usize,
    pub limit_reached: bool,
    /// Packets that were read but lie beyond LIMIT.
    pub unwanted: Vec<PacketRecord>,
}

impl SourceLog {
    /// Reports news after a block was read. Only its first link type is checked.
    pub fn look(
        &mut self,
        block: &PacketBlock,
        source: &dyn PacketSource,
        tell: &mut dyn FnMut(SourceNews),
    ) {
        if let Some(first) = block.records().first() {
            self.first_ts = self.first_ts.or(Some(first.ts));
            if self.link.replace(first.link_type) != Some(first.link_type) {
                tell(SourceNews::Packets(PacketFacts {
                    first_ts: self.first_ts,
                    links: vec![first.link_type],
                }));
            }
        }
        self.tell_names(source, tell);
    }

    /// Reports new host names.
    pub fn tell_names(&mut self, source: &dyn PacketSource, tell: &mut dyn FnMut(SourceNews)) {
        let names = &source.names()[self.names_told..];
        self.names_told += names.len();
        if !names.is_empty() {
            tell(SourceNews::Names(names.to_vec()));
        }
    }

    /// The final report of the reader.
    pub fn closing(
        self,
        accounting: PacketAccounting,
        source: &dyn PacketSource,
        clock: Timestamp,
    ) -> Box<WorkerFinalReport> {
        let mut counters = source.counters();
        counters.take_back(&self.unwanted);
        Box::new(WorkerFinalReport {
            accounting,
            source: Some(counters),
            errors: source.errors().to_vec(),
            seen: self.first_ts.map(|first| (first, clock)),
            limit_reached: self.limit_reached,
        })
    }
}
