//! The visible part of a recording: packets, times, and bytes of every stream.

use std::collections::HashMap;

use crate::ground_truth::{GroundTruth, PacketSpan};
use crate::{ObservedPacket, PacketDamage, PacketRecording};

/// The visible part of a recording.
pub struct CaptureView<'a> {
    recording: &'a PacketRecording,
    /// Packets with payload by time; packets with the same bytes count as one.
    by_time: HashMap<i64, Vec<usize>>,
    /// The times at which each packet was seen.
    times: Vec<Vec<i64>>,
    /// Whether each packet was seen unchanged.
    sound: Vec<bool>,
    /// Whether each packet's payload was damaged.
    damaged: Vec<bool>,
    /// The visible ranges of each stream, ordered and disjoint.
    there: Vec<Vec<(u64, u64)>>,
}

impl CaptureView<'_> {
    /// Creates the view of the packets `seen`. Discarded ones are missing.
    #[must_use]
    pub fn of<'a>(truth: &GroundTruth<'a>, seen: &[ObservedPacket]) -> CaptureView<'a> {
        let recording = truth.recording;
        let n = recording.len();
        let mut view = CaptureView {
            recording,
            by_time: HashMap::with_capacity(seen.len()),
            times: vec![Vec::new(); n],
            sound: vec![false; n],
            damaged: vec![false; n],
            there: vec![Vec::new(); recording.streams()],
        };
        let counts = |one: &&ObservedPacket| match one.kind {
            PacketDamage::Whole | PacketDamage::Cut => true,
            PacketDamage::DamagedHeader | PacketDamage::DamagedPayload => {
                !recording.is_discarded(one)
            }
            PacketDamage::Forged => false,
        };
        seen.iter()
            .filter(counts)
            .for_each(|one| view.add(one, truth));
        for pieces in &mut view.there {
            *pieces = joined(std::mem::take(pieces));
        }
        view
    }

    fn add(&mut self, one: &ObservedPacket, truth: &GroundTruth<'_>) {
        let packet = self.original(one.packet);
        self.times[packet].push(one.ts.0);
        let at = self.by_time.entry(one.ts.0).or_default();
        if !at.contains(&packet) {
            at.push(packet);
        }
        self.sound[packet] |= one.kind == PacketDamage::Whole;
        self.damaged[packet] |= one.kind == PacketDamage::DamagedPayload;
        let Some(carried) = self.recording.carried(one.packet) else {
            return;
        };
        let captured = one.bytes.as_ref().map_or(usize::MAX, |bytes| bytes.len());
        let len = match one.kind {
            // It is unknown which of the messages the truncated bytes belong to.
            PacketDamage::Cut if truth.shared.contains(&packet) => carried.len,
            PacketDamage::Cut => {
                let missing = self
                    .recording
                    .bytes_of(one.packet)
                    .len()
                    .saturating_sub(captured) as u64;
                carried.len.saturating_sub(carried.cut + missing)
            }
            PacketDamage::DamagedPayload => 0,
            _ => carried.len - carried.cut,
        };
        if len > 0 {
            self.there[carried.stream].push((carried.offset, carried.offset + len));
        }
    }

    /// The first packet with the same bytes.
    #[must_use]
    pub fn original(&self, packet: usize) -> usize {
        self.recording.first_of(packet).unwrap_or(packet)
    }

    /// The packets with payload seen at a time.
    #[must_use]
    pub fn at(&self, ts: i64) -> &[usize] {
        self.by_time.get(&ts).map_or(&[], Vec::as_slice)
    }

    /// The times at which a packet was seen.
    #[must_use]
    pub fn times(&self, packet: usize) -> &[i64] {
        &self.times[self.original(packet)]
    }

    /// The times at which a message may have been complete: those of its last packet, and that of an earlier packet
    /// seen after it.
    #[must_use]
    pub fn complete_at(&self, span: PacketSpan) -> Vec<i64> {
        let own = (span.first..=span.last)
            .filter(|p| self.recording.ends(*p) == self.recording.ends(span.first));
        let newest = own
            .filter_map(|packet| self.times(packet).iter().min())
            .max();
        self.times(span.last)
            .iter()
            .chain(newest)
            .copied()
            .collect()
    }

    /// Whether a packet was seen unchanged.
    #[must_use]
    pub fn is_sound(&self, packet: usize) -> bool {
        self.sound[self.original(packet)]
    }

    /// Whether a packet's payload was damaged.
    #[must_use]
    pub fn is_damaged(&self, packet: usize) -> bool {
        self.damaged[self.original(packet)]
    }

    /// Whether any packet of a message was damaged.
    #[must_use]
    pub fn has_damage(&self, span: PacketSpan) -> bool {
        (span.first..=span.last)
            .filter(|p| self.recording.ends(*p) == self.recording.ends(span.first))
            .any(|p| self.is_damaged(p))
    }

    /// Whether every byte of a message is present. Bytes missing in the recording itself do not count.
    #[must_use]
    pub fn has_all(&self, span: PacketSpan) -> bool {
        let Some(first) = self.recording.carried(span.first) else {
            return true;
        };
        let Some(last) = self.recording.carried(span.last) else {
            return true;
        };
        let start = first.offset;
        let end = last.offset + last.len - last.cut;
        if first.stream != last.stream || end <= start || first.cut > 0 || last.cut > 0 {
            return true;
        }
        let pieces = &self.there[first.stream];
        let next = pieces.partition_point(|(from, _)| *from <= start);
        next > 0 && pieces[next - 1].1 >= end
    }
}

fn joined(mut pieces: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    pieces.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::with_capacity(pieces.len());
    for (from, to) in pieces {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}
