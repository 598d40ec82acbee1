//! A message: header, question, and records in sequence, parsed in place as far as captured.

use flow::StreamPlace;

use super::name;
use crate::{Direction, MessageSpan, TupleQuality};

/// Length of the header.
pub const HEADER_LEN: usize = 12;
/// Type and class after the name of a question.
const QUESTION_TAIL: usize = 4;

/// The header (RFC 1035 section 4.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DnsHeader {
    pub id: u16,
    flags: u16,
    /// Numbers of questions, answers, authority records, and additional records.
    pub counts: [u16; 4],
}

impl DnsHeader {
    /// The header of a message.
    pub fn read(message: &[u8]) -> Option<DnsHeader> {
        let word = |i: usize| u16::from_be_bytes([message[i], message[i + 1]]);
        (message.len() >= HEADER_LEN).then(|| DnsHeader {
            id: word(0),
            flags: word(2),
            counts: [word(4), word(6), word(8), word(10)],
        })
    }

    pub fn is_answer(self) -> bool {
        self.flags & 0x8000 != 0
    }

    pub fn opcode(self) -> u8 {
        (self.flags >> 11 & 15) as u8
    }

    pub fn is_authoritative(self) -> bool {
        self.flags & 0x0400 != 0
    }

    pub fn is_truncated(self) -> bool {
        self.flags & 0x0200 != 0
    }

    pub fn recursion_desired(self) -> bool {
        self.flags & 0x0100 != 0
    }

    /// The reserved header bit.
    pub fn reserved(self) -> bool {
        self.flags & 0x0040 != 0
    }

    /// Lower four bits of the response code.
    pub fn code(self) -> u8 {
        (self.flags & 15) as u8
    }
}

/// The first question of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsQuestion<'a> {
    /// Name, type, and class as on the wire.
    Whole(&'a [u8]),
    /// The available part of a truncated name.
    Cut(&'a [u8]),
    /// A message without a question.
    None,
    /// Not a valid name.
    Malformed,
}

impl<'a> DnsQuestion<'a> {
    /// The first question of a message with a complete header. Its name cannot be compressed: no earlier name
    /// exists to point to.
    pub fn read(message: &'a [u8], header: DnsHeader) -> DnsQuestion<'a> {
        if header.counts[0] == 0 {
            return DnsQuestion::None;
        }
        let mut at = HEADER_LEN;
        loop {
            match message.get(at) {
                None => return DnsQuestion::Cut(&message[HEADER_LEN..]),
                Some(0) => break,
                Some(length @ 1..=63) => at += 1 + usize::from(*length),
                Some(_) => return DnsQuestion::Malformed,
            }
            if at >= HEADER_LEN + name::NAME_BYTES_MAX {
                return DnsQuestion::Malformed;
            }
        }
        match message.get(HEADER_LEN..at + 1 + QUESTION_TAIL) {
            Some(question) => DnsQuestion::Whole(question),
            None => DnsQuestion::Cut(&message[HEADER_LEN..]),
        }
    }
}

/// Type of a complete question.
pub fn type_of(question: &[u8]) -> u16 {
    word_from_end(question, 4)
}

/// Class of a complete question.
pub fn class_of(question: &[u8]) -> u16 {
    word_from_end(question, 2)
}

fn word_from_end(question: &[u8], n: usize) -> u16 {
    let at = question.len() - n;
    u16::from_be_bytes([question[at], question[at + 1]])
}

/// Whether two questions are equal. Names are case-insensitive; length bytes are not letters. Two messages
/// without a question are equal.
pub fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() <= QUESTION_TAIL {
        return a.is_empty() && b.is_empty();
    }
    a.len() == b.len()
        && a[a.len() - QUESTION_TAIL..] == b[b.len() - QUESTION_TAIL..]
        && a.eq_ignore_ascii_case(b)
}

/// Whether `question` may begin with the truncated name `seen`.
pub fn may_be(question: &[u8], seen: &[u8]) -> bool {
    seen.len() < question.len() && question[..seen.len()].eq_ignore_ascii_case(seen)
}

/// A resource record.
#[derive(Clone, Copy, Debug)]
pub struct DnsRecord {
    pub kind: u16,
    pub ttl: u32,
    /// Start and end of its data in the message.
    pub data: (usize, usize),
}

/// Records of a message: answers first, then the other sections.
pub struct DnsRecords<'a> {
    message: &'a [u8],
    at: Option<usize>,
}

impl<'a> DnsRecords<'a> {
    /// Starts after the questions of a message with a complete header.
    pub fn behind_questions(message: &'a [u8], header: DnsHeader) -> DnsRecords<'a> {
        // An implausible question count ends at the last byte.
        let mut at = Some(HEADER_LEN);
        for _ in 0..header.counts[0] {
            at = at
                .and_then(|at| name::end(message, at))
                .map(|at| at + QUESTION_TAIL);
            if at.is_none() {
                break;
            }
        }
        DnsRecords {
            message,
            at: at.filter(|at| *at <= message.len()),
        }
    }

    /// Position of the next record; `None` after truncated or invalid data.
    pub fn at(&self) -> Option<usize> {
        self.at
    }

    /// The next record.
    pub fn read(&mut self) -> Option<DnsRecord> {
        let record = self.record();
        self.at = record.map(|record| record.data.1);
        record
    }

    fn record(&self) -> Option<DnsRecord> {
        let behind_name = name::end(self.message, self.at?)?;
        let (head, _) = self.message.get(behind_name..)?.split_first_chunk::<10>()?;
        let start = behind_name + head.len();
        let data = (
            start,
            start + usize::from(u16::from_be_bytes([head[8], head[9]])),
        );
        (data.1 <= self.message.len()).then(|| DnsRecord {
            kind: u16::from_be_bytes([head[0], head[1]]),
            ttl: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            data,
        })
    }
}

/// A message as captured.
#[derive(Clone, Copy, Debug)]
pub struct DnsMessage<'a> {
    pub direction: Direction,
    pub header: DnsHeader,
    pub bytes: &'a [u8],
    /// Length on the wire.
    pub len: u32,
    pub span: MessageSpan,
    /// Position in the byte stream; TCP only.
    pub place: Option<StreamPlace>,
    /// Search method by which the message was found, unless it directly followed another message.
    pub found: Option<TupleQuality>,
}

impl DnsMessage<'_> {
    /// Whether bytes are missing.
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < self.len as usize
    }
}
