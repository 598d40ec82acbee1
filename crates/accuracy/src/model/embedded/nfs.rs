//! NFSv3: files that hold RPC, as records one after the other, as a capture file, as a copy of this conversation, with marks that
//! claim much more than is there, in names, and inside each other.

use testkit::{SeededRng, XdrWriter};

use super::Made;
use crate::model::talk::{Conversation, Exchange, Habit};

/// Fields that identify a transaction.
pub const FIELDS: &[&str] = &[
    "xid",
    "procedure",
    "status",
    "count",
    "result_count",
    "file_size",
];

/// Maximum messages that belong to unanswered calls: two for each of eight calls.
const UNDER_WAY_MAX: usize = 16;

/// The user's part of the credentials is the same inside of files: they hold traffic of this client.
fn call(xid: u32, procedure: u32) -> XdrWriter {
    let sys = XdrWriter::default()
        .u32(1)
        .opaque(b"box")
        .words(&[10, 20, 0]);
    XdrWriter::default()
        .words(&[xid, 0, 2, 100_003, 3, procedure])
        .u32(1)
        .opaque(&sys.0)
        .words(&[0, 0])
}

fn reply(xid: u32) -> XdrWriter {
    XdrWriter::default().words(&[xid, 1, 0, 0, 0, 0])
}

/// Contents of the files of a conversation.
struct Files {
    /// Messages so far; all calls except the last ones have been answered.
    said: Vec<Vec<u8>>,
    /// The next number of a call in a file.
    xid: u32,
}

impl Files {
    fn contents(&mut self, rng: &mut SeededRng, depth: u32) -> Vec<u8> {
        let mut contents = vec![b'x'; 4 * rng.below(30) as usize + usize::from(rng.chance(0.2))];
        let kind = rng.below(5);
        for _ in 0..rng.below(if depth == 0 { 60 } else { 6 }) {
            let message = self.message(rng, depth);
            match kind {
                0 | 1 => contents.extend(message.record()),
                // A packet of a capture file: its own header, and those of Ethernet, IP and TCP.
                2 => {
                    contents.extend(rng.bytes(16 + 54));
                    contents.extend(message.record());
                }
                3 if self.said.len() > UNDER_WAY_MAX => {
                    let answered = self.said.len() - UNDER_WAY_MAX;
                    contents.extend(&self.said[rng.below(answered as u64) as usize]);
                }
                _ => {
                    contents.extend((0x8000_0000 | 1u32 << (6 + rng.below(21))).to_be_bytes());
                    contents.extend(message.0);
                }
            }
        }
        if rng.chance(0.3) {
            // The file goes on elsewhere.
            contents.truncate(contents.len() * 7 / 8);
        }
        contents
    }

    fn message(&mut self, rng: &mut SeededRng, depth: u32) -> XdrWriter {
        self.xid += 1;
        let xid = self.xid;
        let name = format!("embedded-{xid}");
        match rng.below(7) {
            0 => call(xid, 1).opaque(b"EMBEDDED"),
            1 => call(xid, 12).opaque(b"EMBEDDED").opaque(name.as_bytes()),
            2 => call(xid, 3).opaque(b"EMBEDDED").opaque(name.as_bytes()),
            3 if depth < 3 => {
                let data = self.contents(rng, depth + 1);
                call(xid, 7)
                    .opaque(b"EMBEDDED")
                    .u64(0)
                    .words(&[data.len() as u32, 2])
                    .opaque(&data)
            }
            4 => reply(xid).u32(0).attributes(u64::from(xid)),
            5 => reply(xid).u32(70),
            _ => call(xid, 6).opaque(b"EMBEDDED").u64(0).u32(4096),
        }
    }
}

/// A conversation and its transactions.
#[must_use]
pub fn conversation(rng: &mut SeededRng) -> Made {
    let first = rng.next_u64() as u32 >> 1;
    let mut files = Files {
        said: Vec::new(),
        xid: first ^ 0x4000_0000,
    };
    let mut exchanges = Vec::new();
    let mut transactions = Vec::new();
    for i in 0..20 + rng.below(60) as u32 {
        let (exchange, told) = exchange(rng, first.wrapping_add(i), &mut files);
        files
            .said
            .extend([exchange.question.clone(), exchange.answer.clone()]);
        exchanges.push(exchange);
        transactions.push(told);
    }
    let segment_size = Some([536, 1448, 8960, 32_768][rng.below(4) as usize]);
    let conversation = Conversation {
        port: 2049,
        exchanges,
        habit: Habit::Slides,
        segment_size,
        ..Conversation::default()
    };
    Made {
        conversation,
        transactions,
    }
}

fn exchange(rng: &mut SeededRng, xid: u32, files: &mut Files) -> (Exchange, String) {
    let size = u64::from(xid);
    let (question, answer, told) = match rng.below(6) {
        0 => {
            let name = format!("file-{xid}");
            (
                call(xid, 12).opaque(b"DIR1").opaque(name.as_bytes()),
                reply(xid).words(&[0, 0, 1]).attributes(size),
                format!("REMOVE ok - - {size}"),
            )
        }
        1 => (
            call(xid, 1).opaque(b"FILE"),
            reply(xid).u32(0).attributes(size),
            format!("GETATTR ok - - {size}"),
        ),
        2 => {
            // A name that holds a call.
            let inner = files.message(rng, 3).record();
            (
                call(xid, 3).opaque(b"DIR1").opaque(&inner),
                reply(xid).words(&[2, 0]),
                "LOOKUP noent - - -".to_owned(),
            )
        }
        3 | 4 => {
            let data = files.contents(rng, 0);
            let n = data.len();
            (
                call(xid, 7)
                    .opaque(b"FILE")
                    .u64(0)
                    .words(&[n as u32, 2])
                    .opaque(&data),
                reply(xid)
                    .words(&[0, 0, 1])
                    .attributes(size)
                    .words(&[n as u32, 2])
                    .u64(0),
                format!("WRITE ok {n} {n} {size}"),
            )
        }
        _ => {
            let data = files.contents(rng, 0);
            let n = data.len();
            (
                call(xid, 6).opaque(b"FILE").u64(0).u32(1 << 20),
                reply(xid)
                    .words(&[0, 1])
                    .attributes(size)
                    .words(&[n as u32, 0])
                    .opaque(&data),
                format!("READ ok {} {n} {size}", 1 << 20),
            )
        }
    };
    (
        Exchange {
            question: question.record(),
            answer: answer.record(),
        },
        format!("{xid} {told}"),
    )
}
