//! Edits captures packet by packet: changes ports, or inserts bytes before the client's data. Supports little-endian
//! pcap files.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use tempfile::NamedTempFile;

/// The records of a pcap file.
pub struct Frames {
    head: Vec<u8>,
    pub frames: Vec<Frame>,
}

/// A packet, and the position of its headers for TCP and UDP packets other than later fragments.
#[derive(Clone)]
pub struct Frame {
    /// Time, captured length, and original length.
    record: [u8; 16],
    pub bytes: Vec<u8>,
    ip: usize,
    /// Offset of the transport header; 0 if there is none.
    transport: usize,
    is_tcp: bool,
}

/// Addresses and port of a sender.
pub type From = (Vec<u8>, u16);

impl Frames {
    /// `None` for another file format or link type.
    pub fn read(capture: &Path) -> Option<Frames> {
        let mut file = std::fs::read(capture).expect("a capture can be read");
        if file.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            flate2::read::MultiGzDecoder::new(&file[..])
                .read_to_end(&mut plain)
                .ok()?;
            file = plain;
        }
        let magic = u32::from_le_bytes(*file.first_chunk()?);
        if magic != 0xa1b2_c3d4 && magic != 0xa1b2_3c4d {
            return None;
        }
        let link = match file[20] {
            0 => 4,
            1 => 14,
            101 => 0,
            113 => 16,
            _ => return None,
        };
        let (head, mut rest) = file.split_at(24);
        let mut frames = Vec::new();
        while let Some((record, after)) = rest.split_first_chunk::<16>() {
            let len = u32::from_le_bytes(record[8..12].try_into().expect("four bytes")) as usize;
            let Some((bytes, after)) = after.split_at_checked(len) else {
                break;
            };
            frames.push(Frame::new(*record, bytes.to_vec(), link));
            rest = after;
        }
        Some(Frames {
            head: head.to_vec(),
            frames,
        })
    }

    /// Writes a temporary file.
    pub fn write(&self) -> NamedTempFile {
        let mut file = self.head.clone();
        for frame in &self.frames {
            file.extend(frame.record);
            file.extend(frame.with_checksum());
        }
        let out = tempfile::Builder::new()
            .suffix(".pcap")
            .tempfile()
            .expect("a temporary file");
        std::fs::write(out.path(), file).expect("it can be written");
        out
    }

    /// Renames every port for which `port` returns another one.
    pub fn rename_ports(&mut self, port: impl Fn(u16) -> u16) {
        for frame in self.frames.iter_mut().filter(|frame| frame.transport > 0) {
            for at in [frame.transport, frame.transport + 2] {
                if frame.bytes.len() >= at + 2 {
                    let renamed = port(frame.u16(at)).to_be_bytes();
                    frame.bytes[at..at + 2].copy_from_slice(&renamed);
                }
            }
        }
    }

    /// Removes the packets of each TCP connection up to and including the first `n` with payload.
    pub fn forget_starts(&mut self, n: usize) {
        let mut said = HashMap::<Vec<From>, usize>::new();
        self.frames.retain(|frame| {
            let Some(_) = frame.tcp() else { return true };
            let (from, to) = frame.ends();
            let mut ends = vec![from, to];
            ends.sort();
            let said = said.entry(ends).or_default();
            *said += usize::from(!frame.payload().is_empty());
            *said > n
        });
    }

    /// Inserts segments before the client's data in each TCP connection that starts with SYN, SYN-ACK, and ACK: after
    /// the ACK or, if `merged`, at the start of the client's first segment with payload.
    pub fn put_in_front(&mut self, segments: &[Vec<u8>], merged: bool) {
        let total = segments.iter().map(|bytes| bytes.len() as u32).sum::<u32>();
        // Whether the segments have been inserted, by connection.
        let mut opened = HashMap::<(From, From), bool>::new();
        for mut frame in std::mem::take(&mut self.frames) {
            let Some((flags, seq, ack)) = frame.tcp() else {
                self.frames.push(frame);
                continue;
            };
            let (from, to) = frame.ends();
            if flags & 0x12 == 2 {
                opened.insert((from, to), false);
            } else if let Some(done) = opened.get_mut(&(from.clone(), to.clone())) {
                let says = !frame.payload().is_empty();
                if !*done && merged && says {
                    *done = true;
                    let bytes = [segments.concat(), frame.payload().to_vec()].concat();
                    frame.set_payload(&bytes);
                } else if !*done && !merged {
                    *done = true;
                    let mut at = seq;
                    let mut ack_frame = frame.clone();
                    ack_frame.set_payload(&[]);
                    self.frames.push(ack_frame.clone());
                    for bytes in segments {
                        ack_frame.set_payload(bytes);
                        ack_frame.set_u32(4, at);
                        at = at.wrapping_add(bytes.len() as u32);
                        self.frames.push(ack_frame.clone());
                    }
                    if !says {
                        continue;
                    }
                    frame.set_u32(4, seq.wrapping_add(total));
                } else if *done {
                    frame.set_u32(4, seq.wrapping_add(total));
                }
            } else if flags & 0x10 != 0 && opened.get(&(to, from)) == Some(&true) {
                frame.set_u32(8, ack.wrapping_add(total));
            }
            self.frames.push(frame);
        }
    }
}

impl Frame {
    fn new(record: [u8; 16], bytes: Vec<u8>, link: usize) -> Frame {
        let ip = if link == 14 && bytes.get(12..14) == Some(&[0x81, 0]) {
            link + 4
        } else {
            link
        };
        let transport = match bytes.get(ip).map(|byte| byte >> 4) {
            // Not a later fragment.
            Some(4)
                if bytes.len() >= ip + 20 && bytes[ip + 6] & 0x1f == 0 && bytes[ip + 7] == 0 =>
            {
                Some((ip + 4 * usize::from(bytes[ip] & 0xf), bytes[ip + 9]))
            }
            Some(6) if bytes.len() >= ip + 40 => Some((ip + 40, bytes[ip + 6])),
            _ => None,
        };
        let transport =
            transport.filter(|(at, kind)| matches!(kind, 6 | 17) && bytes.len() >= at + 8);
        let (transport, kind) = transport.unwrap_or_default();
        Frame {
            record,
            bytes,
            ip,
            transport,
            is_tcp: kind == 6,
        }
    }

    /// The bytes with a correct TCP checksum, if the packet was captured completely.
    fn with_checksum(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let is_v4 = bytes.get(self.ip).is_some_and(|byte| byte >> 4 == 4);
        let ip = self.ip;
        if self.transport == 0 || !self.is_tcp {
            return bytes;
        }
        let end = ip
            + if is_v4 {
                self.u16(ip + 2).into()
            } else {
                40 + usize::from(self.u16(ip + 4))
            };
        let Some(segment) = bytes.get_mut(self.transport..end) else {
            return bytes;
        };
        segment[16..18].fill(0);
        let len = segment.len() as u32;
        let addresses = if is_v4 {
            ip + 12..ip + 20
        } else {
            ip + 8..ip + 40
        };
        let words = [&bytes[addresses], &bytes[self.transport..end], &[0]].concat();
        let sum = words
            .chunks_exact(2)
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
            .sum::<u32>();
        let mut sum = sum + len + 6;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        let at = self.transport + 16;
        bytes[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        bytes
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    fn set_u32(&mut self, offset: usize, value: u32) {
        let at = self.transport + offset;
        self.bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Flags, sequence number, and acknowledgment number.
    fn tcp(&self) -> Option<(u8, u32, u32)> {
        let header = self
            .bytes
            .get(self.transport..self.transport + 20)
            .filter(|_| self.is_tcp)?;
        let word =
            |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
        Some((header[13], word(4), word(8)))
    }

    fn ends(&self) -> (From, From) {
        let (at, len) = if self.bytes[self.ip] >> 4 == 4 {
            (self.ip + 12, 4)
        } else {
            (self.ip + 8, 16)
        };
        let end = |i: usize| {
            let addr = self.bytes[at + i * len..at + (i + 1) * len].to_vec();
            (addr, self.u16(self.transport + 2 * i))
        };
        (end(0), end(1))
    }

    fn payload_at(&self) -> usize {
        self.transport + 4 * usize::from(self.bytes[self.transport + 12] >> 4)
    }

    fn payload(&self) -> &[u8] {
        let len = match self.bytes[self.ip] >> 4 {
            4 => self.u16(self.ip + 2).into(),
            _ => 40 + usize::from(self.u16(self.ip + 4)),
        };
        let end = self.bytes.len().min(self.ip + len);
        self.bytes.get(self.payload_at()..end).unwrap_or_default()
    }

    fn set_payload(&mut self, payload: &[u8]) {
        self.bytes.truncate(self.payload_at());
        self.bytes.extend(payload);
        let len = self.bytes.len() - self.ip;
        let (at, len) = if self.bytes[self.ip] >> 4 == 4 {
            (self.ip + 2, len)
        } else {
            (self.ip + 4, len - 40)
        };
        self.bytes[at..at + 2].copy_from_slice(&u16::try_from(len).expect("it fits").to_be_bytes());
        let all = (self.bytes.len() as u32).to_le_bytes();
        self.record[8..12].copy_from_slice(&all);
        self.record[12..16].copy_from_slice(&all);
    }
}
