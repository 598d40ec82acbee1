//! A message: its header, its question, and its records one after the other. All of it is read where it lies, as far as
//! it was captured.

use super::name;

/// Length of the header.
pub const HEADER_LEN: usize = 12;
/// Type and class behind the name of a question.
const QUESTION_TAIL: usize = 4;

/// The header (RFC 1035 section 4.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub id: u16,
    flags: u16,
    /// Questions, answers, records about authorities, and others.
    pub counts: [u16; 4],
}

impl Header {
    /// The header of a message.
    pub fn read(message: &[u8]) -> Option<Header> {
        let word = |i: usize| u16::from_be_bytes([message[i], message[i + 1]]);
        (message.len() >= HEADER_LEN).then(|| Header {
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

    /// The response code's lower four bits.
    pub fn code(self) -> u8 {
        (self.flags & 15) as u8
    }
}

/// The first question of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// Name, type and class as they stand there.
    Whole(&'a [u8]),
    /// A truncated name, as far as it goes.
    Cut(&'a [u8]),
    /// The message has none.
    None,
    /// No name begins like this.
    Malformed,
}

impl<'a> Question<'a> {
    /// The first question of a message of which the header is there. No name of it may be compressed: nothing comes before it
    /// that it could point to.
    pub fn read(message: &'a [u8], header: Header) -> Question<'a> {
        if header.counts[0] == 0 {
            return Question::None;
        }
        let mut at = HEADER_LEN;
        loop {
            match message.get(at) {
                None => return Question::Cut(&message[HEADER_LEN..]),
                Some(0) => break,
                Some(length @ 1..=63) => at += 1 + usize::from(*length),
                Some(_) => return Question::Malformed,
            }
            if at >= HEADER_LEN + name::NAME_BYTES_MAX {
                return Question::Malformed;
            }
        }
        match message.get(HEADER_LEN..at + 1 + QUESTION_TAIL) {
            Some(question) => Question::Whole(question),
            None => Question::Cut(&message[HEADER_LEN..]),
        }
    }
}

/// The type that a whole question asks for.
pub fn type_of(question: &[u8]) -> u16 {
    word_from_end(question, 4)
}

/// The class of a whole question.
pub fn class_of(question: &[u8]) -> u16 {
    word_from_end(question, 2)
}

fn word_from_end(question: &[u8], n: usize) -> u16 {
    let at = question.len() - n;
    u16::from_be_bytes([question[at], question[at + 1]])
}

/// Whether two questions are the same. Letters of names may be written either way; lengths are no letters. A message without a
/// question asks the same as another one.
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

/// A record.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub kind: u16,
    pub ttl: u32,
    /// Where its data lie in the message.
    pub data: (usize, usize),
}

/// The records of a message: first those of the answer, then the others.
pub struct Records<'a> {
    message: &'a [u8],
    at: Option<usize>,
}

impl<'a> Records<'a> {
    /// Behind the questions of a message of which the header is there.
    pub fn behind_questions(message: &'a [u8], header: Header) -> Records<'a> {
        // A count of questions that do not fit ends at the last byte.
        let mut at = Some(HEADER_LEN);
        for _ in 0..header.counts[0] {
            at = at.and_then(|at| name::end(message, at)).map(|at| at + QUESTION_TAIL);
            if at.is_none() {
                break;
            }
        }
        Records { message, at: at.filter(|at| *at <= message.len()) }
    }

    /// Where the next one begins, unless what is there of the message breaks off or makes no sense before.
    pub fn at(&self) -> Option<usize> {
        self.at
    }

    /// The next record.
    pub fn read(&mut self) -> Option<Record> {
        let record = self.record();
        self.at = record.map(|record| record.data.1);
        record
    }

    fn record(&self) -> Option<Record> {
        let behind_name = name::end(self.message, self.at?)?;
        let (head, _) = self.message.get(behind_name..)?.split_first_chunk::<10>()?;
        let start = behind_name + head.len();
        let data = (start, start + usize::from(u16::from_be_bytes([head[8], head[9]])));
        (data.1 <= self.message.len()).then(|| Record {
            kind: u16::from_be_bytes([head[0], head[1]]),
            ttl: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            data,
        })
    }
}
