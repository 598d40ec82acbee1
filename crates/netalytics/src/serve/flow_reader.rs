//! Reads one flow of a capture: what its sides sent, and its packets as pcapng. Memory is bounded by the limits of the
//! request.

use std::cell::Cell;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Seek};
use std::net::SocketAddr;

use capture::live::StopSignal;
use capture::{PacketFile, PacketSink, PacketSource};
use flow::{CloseReason, Flow, FlowBudget, FlowTableConfig};
use monitor::MonitorConfig;
use monitor::capture_walk::{CaptureWalk, FlowData, FlowVisitor};
use plan::MonitorSpec;
use server::{
    ConversationSide, ConversationTurn, FlowConversation, FlowPart, FlowRequest, RecordedFlow,
};
use sinks::units;
use wire::{CapturedPacket, FlowSide, Timestamp};

use crate::render::conversation::{flow_community_id, transport};

/// Pause of a side after which another turn begins.
const PAUSE_NS: i64 = 1_000_000_000;
/// Bytes of a pcapng block besides the packet.
const BLOCK_BYTES: u64 = 32;

/// Result of reading a flow.
pub enum FlowReading {
    /// It was found.
    Found(Box<RecordedFlow>),
    /// The input has no such flow.
    Absent,
    /// Stopped before the end of the input.
    Stopped,
}

/// Reads the requested flow, until it is stopped.
pub fn read(
    source: &mut dyn PacketSource,
    asked: &FlowRequest,
    stop: &StopSignal,
) -> io::Result<FlowReading> {
    let is_over = Cell::new(false);
    // The file has no name, and disappears with this process.
    let file = match asked.part {
        FlowPart::Packets => Some(tempfile::tempfile()?),
        FlowPart::Conversation => None,
    };
    let copy = file.as_ref().map(File::try_clone).transpose()?;
    let mut finder = FlowFinder {
        asked,
        file: copy.map(PacketFile::onto).transpose()?,
        found: None,
        turns: Vec::new(),
        turns_left_out: 0,
        room: asked.data_bytes,
        speaker: None,
        is_over: &is_over,
    };
    let go_on = || !stop.is_asked() && !is_over.get();
    CaptureWalk::new(&MonitorSpec::default(), config(asked.bytes)).walk(
        source,
        &mut finder,
        &go_on,
    );
    if stop.is_asked() && !is_over.get() {
        return Ok(FlowReading::Stopped);
    }
    finder.finish(file)
}

/// Limits of a flow table that takes this memory, as in a query's run; its seed is secret.
fn config(bytes: usize) -> MonitorConfig {
    MonitorConfig {
        fragment_bytes_max: bytes / 256,
        flow: FlowTableConfig {
            room: FlowBudget::of_bytes(bytes / 4),
            held_bytes_max: bytes / 16,
            seed: RandomState::new().hash_one(0),
            ..FlowTableConfig::default()
        },
        ..MonitorConfig::default()
    }
}

/// A flow found, and the counts of its packets.
struct FoundFlow {
    community_id: String,
    transport: String,
    /// Sides A and B.
    ends: [SocketAddr; 2],
    client: FlowSide,
    is_client_guessed: bool,
    first: Timestamp,
    last: Timestamp,
    packets: u64,
    packet_bytes: u64,
    packets_left_out: u64,
    /// Sides that closed.
    ended: [bool; 2],
    ending: CloseReason,
}

/// Data of one side.
struct SideTurn {
    side: FlowSide,
    first: Timestamp,
    last: Timestamp,
    bytes: u64,
    missing: u64,
    data: Vec<u8>,
}

/// Collects the data and the packets of a flow.
struct FlowFinder<'f> {
    asked: &'f FlowRequest,
    file: Option<PacketFile>,
    found: Option<FoundFlow>,
    turns: Vec<SideTurn>,
    turns_left_out: u64,
    /// Bytes of data that all turns may still take.
    room: usize,
    /// Side and time of the last data of the current turn.
    speaker: Option<(FlowSide, Timestamp)>,
    is_over: &'f Cell<bool>,
}

impl FlowFinder<'_> {
    /// Adds data of a side; `missing` bytes of it were not captured.
    fn add(&mut self, side: FlowSide, ts: Timestamp, bytes: &[u8], missing: u64) {
        let is_same =
            |(before, last): (FlowSide, Timestamp)| before == side && ts.since(last) < PAUSE_NS;
        let continues = self.speaker.is_some_and(is_same);
        self.speaker = Some((side, ts));
        if !continues {
            if self.turns.len() >= self.asked.turns {
                self.turns_left_out += 1;
                return;
            }
            self.turns.push(SideTurn {
                side,
                first: ts,
                last: ts,
                bytes: 0,
                missing: 0,
                data: Vec::new(),
            });
        }
        // Data of a turn beyond the maximum belongs to none of those kept.
        if self.turns_left_out > 0 {
            return;
        }
        let Some(turn) = self.turns.last_mut() else {
            return;
        };
        turn.last = turn.last.max(ts);
        turn.bytes += bytes.len() as u64;
        turn.missing += missing;
        let left = self.asked.turn_bytes.saturating_sub(turn.data.len());
        let shown = bytes.len().min(left).min(self.room);
        turn.data.extend_from_slice(&bytes[..shown]);
        self.room -= shown;
    }

    fn finish(self, file: Option<File>) -> io::Result<FlowReading> {
        let Some(found) = self.found else {
            return Ok(FlowReading::Absent);
        };
        let mut pcapng = Vec::new();
        if let (Some(mut packets), Some(mut file)) = (self.file, file) {
            packets.finish().1.map_or(Ok(()), Err)?;
            file.rewind()?;
            file.read_to_end(&mut pcapng)?;
        }
        let end = |side: FlowSide| found.ends[side.index()];
        let ends = [end(found.client), end(found.client.other())];
        let turns = self.turns.into_iter().map(|turn| ConversationTurn {
            from: if turn.side == found.client {
                ConversationSide::Client
            } else {
                ConversationSide::Server
            },
            first_ns: turn.first.0.to_string(),
            last_ns: turn.last.0.to_string(),
            bytes: turn.bytes,
            missing: turn.missing,
            data: turn.data.iter().map(|byte| format!("{byte:02x}")).collect(),
        });
        let conversation = FlowConversation {
            id: units::id(self.asked.id),
            community_id: found.community_id,
            transport: found.transport,
            client: ends[0].to_string(),
            server: ends[1].to_string(),
            client_guessed: found.is_client_guessed,
            first_ns: found.first.0.to_string(),
            last_ns: found.last.0.to_string(),
            packets: found.packets,
            packet_bytes: found.packet_bytes,
            packets_left_out: found.packets_left_out,
            turns: turns.collect(),
            turns_left_out: self.turns_left_out,
            ending: found.ending.name().into(),
            notes: Vec::new(),
        };
        Ok(FlowReading::Found(Box::new(RecordedFlow {
            ends,
            conversation,
            pcapng,
        })))
    }
}

impl FlowVisitor for FlowFinder<'_> {
    fn opens(&mut self, flow: &Flow<'_>) -> bool {
        if flow.id() != self.asked.id {
            return false;
        }
        let key = flow.key();
        let (client, is_client_guessed) = flow.client();
        let end = |side| SocketAddr::new(key.end(side).addr.to_ip(), key.end(side).port);
        self.found = Some(FoundFlow {
            community_id: flow_community_id(flow),
            transport: transport(key.protocol),
            ends: [end(FlowSide::A), end(FlowSide::B)],
            client,
            is_client_guessed,
            first: flow.first_ts(),
            last: flow.first_ts(),
            packets: 0,
            packet_bytes: 0,
            packets_left_out: 0,
            ended: [false; 2],
            ending: CloseReason::EndOfInput,
        });
        true
    }

    fn packet(&mut self, captured: &CapturedPacket<'_>, flow: &Flow<'_>) {
        let Some(found) = self.found.as_mut().filter(|_| flow.id() == self.asked.id) else {
            return;
        };
        let bytes = captured.bytes.len() as u64;
        found.last = found.last.max(captured.ts);
        found.packets += 1;
        found.packet_bytes += bytes;
        let size = found.packet_bytes + found.packets * BLOCK_BYTES;
        if size > self.asked.file_bytes {
            found.packets_left_out += 1;
        } else if let Some(file) = &mut self.file {
            file.take(captured);
        }
    }

    fn said(&mut self, flow: &Flow<'_>, said: FlowData<'_>) {
        let Some(found) = self.found.as_mut().filter(|_| flow.id() == self.asked.id) else {
            return;
        };
        (found.client, found.is_client_guessed) = flow.client();
        match said {
            FlowData::Bytes(side, bytes, ts) => self.add(side, ts, bytes, 0),
            FlowData::Datagram(side, bytes, cut, ts) => {
                self.speaker = None;
                self.add(side, ts, bytes, u64::from(cut));
                self.speaker = None;
            }
            FlowData::Missing(side, bytes, ts) => self.add(side, ts, &[], bytes),
            FlowData::End(side) => {
                found.ended[side.index()] = true;
                if found.ended == [true; 2] {
                    found.ending = CloseReason::Fin;
                }
            }
            // Packets may follow.
            FlowData::Closed(CloseReason::Rst) => found.ending = CloseReason::Rst,
            FlowData::Closed(reason) => {
                let is_ended = matches!(found.ending, CloseReason::Fin | CloseReason::Rst);
                found.ending = if is_ended { found.ending } else { reason };
                self.is_over.set(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use testkit::{ByteOrder, TcpDialogue, TimestampPrecision, pcap_bytes};

    use super::*;

    /// Three requests with their responses, the last after a pause of two seconds; and another connection.
    fn capture(path: &std::path::Path) {
        let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80");
        talk.handshake();
        for n in 0..3 {
            talk.advance(if n == 2 { 2_000_000_000 } else { 1_000_000 });
            talk.client().send(format!("ask {n}").as_bytes());
            talk.server().send(&[b'a'; 1000]);
            talk.server().send(&[b'b'; 1000]);
        }
        talk.close();
        let mut other = TcpDialogue::new("10.0.0.1:40001", "10.0.0.2:80");
        other.handshake();
        other.client().send(b"other");
        other.close();
        let all = [talk.take(), other.take()].concat();
        let bytes = pcap_bytes(&all, TimestampPrecision::Nanos, ByteOrder::Little);
        std::fs::write(path, bytes).expect("written");
    }

    fn asked(id: u64) -> FlowRequest {
        FlowRequest::new(id, FlowPart::Packets, Duration::from_secs(9), 64 << 20)
    }

    fn found(path: &std::path::Path, asked: &FlowRequest) -> Option<Box<RecordedFlow>> {
        let mut source = capture::open(&[path.to_owned()]);
        let stop = StopSignal::default();
        let read = super::read(source.as_mut(), asked, &stop);
        match read.expect("it is read") {
            FlowReading::Found(flow) => Some(flow),
            FlowReading::Absent => None,
            FlowReading::Stopped => panic!("nothing stops it"),
        }
    }

    /// ID of the first flow of a capture.
    fn first_flow(path: &std::path::Path) -> u64 {
        struct First(Option<u64>);
        impl FlowVisitor for First {
            fn opens(&mut self, flow: &Flow<'_>) -> bool {
                self.0.get_or_insert(flow.id());
                false
            }
            fn packet(&mut self, _: &CapturedPacket<'_>, _: &Flow<'_>) {}
            fn said(&mut self, _: &Flow<'_>, _: FlowData<'_>) {}
        }
        let mut first = First(None);
        let mut source = capture::open(&[path.to_owned()]);
        CaptureWalk::new(&MonitorSpec::default(), config(64 << 20)).walk(
            source.as_mut(),
            &mut first,
            &|| true,
        );
        first.0.expect("a flow")
    }

    #[test]
    fn limits_are_kept_and_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("in.pcap");
        capture(&path);
        let id = first_flow(&path);
        let whole = found(&path, &asked(id)).expect("the flow");
        let told = &whole.conversation;
        let turns: Vec<_> = told
            .turns
            .iter()
            .map(|turn| (turn.from, turn.bytes, turn.data.len()))
            .collect();
        let (client, server) = (ConversationSide::Client, ConversationSide::Server);
        assert_eq!(turns, [(client, 5, 10), (server, 2000, 4000)].repeat(3));
        assert_eq!(told.turns[0].data, "61736b2030");
        assert_eq!((told.packets_left_out, told.turns_left_out), (0, 0));
        assert_eq!(
            (told.ending.as_str(), told.transport.as_str()),
            ("fin", "tcp")
        );
        assert!(found(&path, &asked(id ^ 1)).is_none());

        let few = FlowRequest {
            file_bytes: 1200,
            turns: 3,
            turn_bytes: 100,
            data_bytes: 102,
            ..asked(id)
        };
        let part = found(&path, &few).expect("the flow");
        let less = &part.conversation;
        let turns: Vec<_> = less
            .turns
            .iter()
            .map(|turn| (turn.from, turn.bytes, turn.data.len()))
            .collect();
        assert_eq!(
            turns,
            [(client, 5, 10), (server, 2000, 194), (client, 5, 0)]
        );
        assert_eq!(less.turns_left_out, 3);
        assert_eq!(
            (less.packets, less.packet_bytes),
            (told.packets, told.packet_bytes)
        );
        assert!(less.packets_left_out > 0 && part.pcapng.len() < 1300);
        assert!(whole.pcapng.len() as u64 > told.packet_bytes);
    }
}
