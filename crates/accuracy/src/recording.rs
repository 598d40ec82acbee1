//! A capture in memory, of which any packets can be played to a monitor in any order. Every packet has a time of its own,
//! to the microsecond, so that a time in a tuple says which packet it is of.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use monitor::{Config, Monitor};
use parsers::registry;
use plan::{Limit, MonitorSpec, ParserUse, Sample};
use testkit::Sent;
use wire::{Captured, Endpoint, FiveTuple, LinkType, Packet, Timestamp, Transport};

use crate::Told;

/// The packets.
pub struct Recording {
    bytes: Vec<u8>,
    packets: Vec<Record>,
    /// Those with payload, by their time.
    speaking: HashMap<i64, usize>,
    /// What each carried, and which was the first.
    said: HashMap<(FiveTuple, u32), usize>,
}

struct Record {
    ts: Timestamp,
    link_type: LinkType,
    original_len: u32,
    start: usize,
    len: usize,
    ends: Option<(Endpoint, Endpoint)>,
    /// It was sent again.
    repeated: bool,
    /// It had been sent before, in this packet.
    first: Option<usize>,
}

/// A packet as an observer captured it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its place in the recording.
    pub packet: usize,
    /// When it was captured.
    pub ts: Timestamp,
}

impl Recording {
    /// The first `packets_max` packets of a capture.
    ///
    /// # Errors
    /// When the file cannot be read, or not as a capture.
    pub fn load(path: &Path, packets_max: usize) -> Result<Recording> {
        let mut source = capture::open(&[path.to_owned()]);
        let mut recording = Recording::new();
        let mut block = capture::Block::default();
        while recording.len() < packets_max && source.next_block(&mut block) {
            block
                .packets()
                .take(packets_max - recording.len())
                .for_each(|captured| recording.push(&captured));
        }
        ensure!(recording.len() > 0, "{}: no packets; {:?}", path.display(), source.errors());
        Ok(recording)
    }

    /// Of packets that were never captured.
    #[must_use]
    pub fn of(sent: &[Sent]) -> Recording {
        let mut recording = Recording::new();
        sent.iter().for_each(|sent| recording.push(&sent.captured(&sent.to_bytes())));
        recording
    }

    fn new() -> Recording {
        Recording { bytes: Vec::new(), packets: Vec::new(), speaking: HashMap::new(), said: HashMap::new() }
    }

    /// The last packet carries what `first` did.
    fn note_repetition(&mut self, first: usize) {
        let last = self.len() - 1;
        if first != last {
            self.packets[first].repeated = true;
            self.packets[last].first = Some(first);
        }
    }

    fn push(&mut self, captured: &Captured<'_>) {
        let after_last = self.packets.last().map_or(i64::MIN, |p| p.ts.0 + 1000);
        let ts = Timestamp((captured.ts.0 / 1000 * 1000).max(after_last));
        let decoded = Packet::decode(captured).ok();
        if decoded.is_some_and(|p| p.payload_original_len > 0) {
            self.speaking.insert(ts.0, self.packets.len());
        }
        self.packets.push(Record {
            ts,
            link_type: captured.link_type,
            original_len: captured.original_len,
            start: self.bytes.len(),
            len: captured.bytes.len(),
            ends: decoded.map(|p| (p.five_tuple.src, p.five_tuple.dst)),
            repeated: false,
            first: None,
        });
        self.bytes.extend_from_slice(captured.bytes);
        if let Some(said) = said(captured) {
            let last = self.len() - 1;
            let first = *self.said.entry(said).or_insert(last);
            self.note_repetition(first);
        }
    }

    /// How many packets.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// All packets as they were.
    #[must_use]
    pub fn whole(&self) -> Vec<Seen> {
        self.packets.iter().enumerate().map(|(packet, p)| Seen { packet, ts: p.ts }).collect()
    }

    /// Sender and receiver of a packet.
    #[must_use]
    pub fn ends(&self, packet: usize) -> Option<(Endpoint, Endpoint)> {
        self.packets[packet].ends
    }

    /// The packet that carried the same for the first time, if that was another.
    #[must_use]
    pub fn first_of(&self, packet: usize) -> Option<usize> {
        self.packets[packet].first
    }

    /// Whether what the packet carries was sent again later.
    #[must_use]
    pub fn is_repeated(&self, packet: usize) -> bool {
        self.packets[packet].repeated
    }

    /// The packet that carried payload from `src` to `dst` at `ts`.
    #[must_use]
    pub fn at(&self, ts: i64, src: Endpoint, dst: Endpoint) -> Option<usize> {
        let packet = *self.speaking.get(&ts)?;
        (self.ends(packet) == Some((src, dst))).then_some(packet)
    }

    /// The tuples that a monitor makes of what was seen.
    #[must_use]
    pub fn play(&self, seen: &[Seen], parser: &str) -> Vec<Told> {
        let parser = registry::find(parser).unwrap_or_else(|| panic!("no parser {parser}"));
        let schema = Arc::new((parser.schema)());
        let columns = schema.ids().collect();
        let spec = MonitorSpec {
            parsers: vec![ParserUse { schema, columns }],
            clients: Vec::new(),
            servers: Vec::new(),
            limit: Limit::default(),
            sample: Sample::All,
            sample_seed: 0,
        };
        let (mut monitor, mut batches) = (Monitor::new(&spec, Config::default()), Vec::new());
        for block in seen.chunks(capture::block::BLOCK_PACKETS) {
            let _ = monitor.on_block(block.iter().map(|s| self.captured(*s)), None, &mut batches);
        }
        monitor.finish(&mut batches);
        batches.iter().flat_map(|(_, batch)| Told::of(batch)).collect()
    }

    /// What was seen as a capture file with microseconds, for other programs.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, seen: &[Seen], path: &PathBuf) -> Result<()> {
        let file = std::fs::File::create(path).with_context(|| format!("{}", path.display()))?;
        let mut file = std::io::BufWriter::new(file);
        let link_type: u32 = match self.packets[0].link_type {
            LinkType::Ethernet => 1,
            LinkType::LinuxSll => 113,
            LinkType::LinuxSll2 => 276,
            other => anyhow::bail!("captures of {other:?} are not written"),
        };
        file.write_all(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0])?;
        file.write_all(&link_type.to_le_bytes())?;
        for one in seen {
            let captured = self.captured(*one);
            let (seconds, rest) = (one.ts.0.div_euclid(1_000_000_000), one.ts.0.rem_euclid(1_000_000_000));
            for word in
                [seconds as u32, (rest / 1000) as u32, captured.bytes.len() as u32, captured.original_len]
            {
                file.write_all(&word.to_le_bytes())?;
            }
            file.write_all(captured.bytes)?;
        }
        Ok(file.flush()?)
    }

    fn captured(&self, seen: Seen) -> Captured<'_> {
        let p = &self.packets[seen.packet];
        let bytes = &self.bytes[p.start..p.start + p.len];
        Captured { ts: seen.ts, link_type: p.link_type, original_len: p.original_len, bytes }
    }
}

/// What a segment with payload carries: whose bytes, from where on.
fn said(captured: &Captured<'_>) -> Option<(FiveTuple, u32)> {
    let packet = Packet::decode(captured).ok().filter(|p| p.payload_original_len > 0)?;
    match packet.transport {
        Transport::Tcp(tcp) => Some((packet.five_tuple, tcp.seq.0)),
        _ => None,
    }
}
