//! Pipes of a monitor process. Standard output: frames with a length of four bytes (little endian), a byte for the kind,
//! and the body. The start of standard input: blocks with a length of four bytes (little endian), and the content.

use std::io::{self, ErrorKind, Read, Write};

use wire::Timestamp;

use crate::message::REPORT_BYTES_MAX;

/// Maximum bytes of a frame: an uncompressed report with its header.
pub const FRAME_BYTES_MAX: usize = REPORT_BYTES_MAX + 2;

/// Counter of the packets used of a LIMIT.
pub const TAKEN: &str = "taken";
/// Whether further packets wait for permission: 1 or 0.
pub const WAITING: &str = "waiting";

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MonitorFrame {
    /// The capture is open.
    Started,
    /// Results ([`crate::WorkerReport::encode`]).
    Report(Vec<u8>),
    /// Counters by name.
    Account(Vec<(String, u64)>),
    /// The allowance was reduced to the packets used, as requested.
    TookBack {
        /// Number of the request.
        grant: u64,
        /// Packets used.
        taken: u64,
    },
    /// The end.
    Closing {
        /// Reason of an end before the end of the input.
        cut_short: Option<String>,
        /// Summary as in `--summary-json`.
        summary: String,
    },
    /// The reports so far contain all results up to a request (`flush NUMBER`).
    Flushed {
        /// Number of the request.
        number: u64,
        /// Later reports contain no results of packets before this event time, except late ones.
        until: Timestamp,
    },
    /// Problem with one of the processes it reports for; the others continue.
    Problem(String),
}

/// Encodes a block of a monitor's input.
///
/// # Errors
/// `FileTooLarge` if the length has more than four bytes.
pub fn encode_block(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let length =
        u32::try_from(bytes.len()).map_err(|_| io::Error::from(ErrorKind::FileTooLarge))?;
    Ok([&length.to_le_bytes()[..], bytes].concat())
}

/// Failure to read a block.
#[derive(Debug)]
pub enum BlockError {
    /// The length cannot be read.
    Missing(io::Error),
    /// The content cannot be read.
    CutOff(io::Error),
    /// The block is longer than the maximum.
    TooLong,
}

/// Reads a block of at most `bytes_max` bytes.
///
/// # Errors
/// See [`BlockError`].
pub fn read_block(from: &mut dyn Read, bytes_max: usize) -> Result<Vec<u8>, BlockError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(BlockError::Missing)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > bytes_max {
        return Err(BlockError::TooLong);
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).map_err(BlockError::CutOff)?;
    Ok(bytes)
}

impl MonitorFrame {
    /// Writes the frame.
    ///
    /// # Errors
    /// `io::Error` of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let (kind, body): (u8, &[u8]) = match self {
            MonitorFrame::Started => (1, &[]),
            MonitorFrame::Report(report) => (2, report),
            MonitorFrame::Account(counts) => {
                let lines = counts.iter().map(|(name, n)| format!("{name} {n}\n"));
                (3, &lines.collect::<String>().into_bytes())
            }
            MonitorFrame::Closing { cut_short, summary } => (
                4,
                &format!("{}\n{summary}", cut_short.as_deref().unwrap_or_default()).into_bytes(),
            ),
            MonitorFrame::TookBack { grant, taken } => {
                (5, &format!("{grant} {taken}").into_bytes())
            }
            MonitorFrame::Problem(text) => (6, text.as_bytes()),
            MonitorFrame::Flushed { number, until } => {
                (7, &format!("{number} {}", until.0).into_bytes())
            }
        };
        let length =
            u32::try_from(body.len()).map_err(|_| io::Error::from(ErrorKind::FileTooLarge))?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&[kind])?;
        out.write_all(body)
    }

    /// Reads the next frame; `None` at the end. Unknown kinds are skipped.
    ///
    /// # Errors
    /// `io::Error` of `from`, or `InvalidData` for a malformed frame.
    pub fn read(from: &mut dyn Read) -> io::Result<Option<MonitorFrame>> {
        loop {
            let mut head = [0; 5];
            if from.read(&mut head[..1])? == 0 {
                return Ok(None);
            }
            from.read_exact(&mut head[1..])?;
            let [a, b, c, d, kind] = head;
            let length = u32::from_le_bytes([a, b, c, d]) as usize;
            if length > FRAME_BYTES_MAX {
                return Err(invalid("a frame that is too large"));
            }
            let mut body = Vec::new();
            from.take(length as u64).read_to_end(&mut body)?;
            if body.len() < length {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if let Some(frame) = MonitorFrame::of(kind, body)? {
                return Ok(Some(frame));
            }
        }
    }

    fn of(kind: u8, body: Vec<u8>) -> io::Result<Option<MonitorFrame>> {
        let text = |body| String::from_utf8(body).map_err(|_| invalid("invalid text"));
        Ok(Some(match kind {
            1 => MonitorFrame::Started,
            2 => MonitorFrame::Report(body),
            3 => MonitorFrame::Account(
                counts(&text(body)?).ok_or_else(|| invalid("invalid counters"))?,
            ),
            4 => {
                let text = text(body)?;
                let (cut_short, summary) =
                    text.split_once('\n').ok_or_else(|| invalid("no summary"))?;
                let cut_short = Some(cut_short.to_owned()).filter(|why| !why.is_empty());
                MonitorFrame::Closing {
                    cut_short,
                    summary: summary.to_owned(),
                }
            }
            5 => {
                let text = text(body)?;
                let numbers = text
                    .split_once(' ')
                    .and_then(|(g, t)| Some((g.parse().ok()?, t.parse().ok()?)));
                let (grant, taken) = numbers.ok_or_else(|| invalid("invalid numbers"))?;
                MonitorFrame::TookBack { grant, taken }
            }
            6 => MonitorFrame::Problem(text(body)?),
            7 => {
                let text = text(body)?;
                let numbers = text
                    .split_once(' ')
                    .and_then(|(n, ns)| Some((n.parse().ok()?, Timestamp(ns.parse().ok()?))));
                let (number, until) = numbers.ok_or_else(|| invalid("an invalid number"))?;
                MonitorFrame::Flushed { number, until }
            }
            _ => return Ok(None),
        }))
    }
}

/// Parses lines such as `packets 12`.
fn counts(text: &str) -> Option<Vec<(String, u64)>> {
    let count = |line: &str| {
        line.split_once(' ')
            .and_then(|(name, n)| Some((name.into(), n.parse().ok()?)))
    };
    text.lines().map(count).collect()
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip() {
        let frames = [
            MonitorFrame::Started,
            MonitorFrame::Report(vec![0, 1, 2]),
            MonitorFrame::Account(vec![("packets".into(), 12), ("lost".into(), 0)]),
            MonitorFrame::TookBack {
                grant: 3,
                taken: u64::MAX,
            },
            MonitorFrame::Closing {
                cut_short: None,
                summary: "{\n}\n".into(),
            },
            MonitorFrame::Closing {
                cut_short: Some("its lease ran out".into()),
                summary: String::new(),
            },
            MonitorFrame::Problem("one is gone".into()),
            MonitorFrame::Flushed {
                number: 7,
                until: Timestamp(-5),
            },
        ];
        let mut bytes = Vec::new();
        frames[0]
            .write(&mut bytes)
            .expect("writing to memory cannot fail");
        // From a newer version.
        bytes.extend([2, 0, 0, 0, 99, 7, 7]);
        frames[1..].iter().for_each(|frame| {
            frame
                .write(&mut bytes)
                .expect("writing to memory cannot fail")
        });
        let mut from = &bytes[..];
        let mut read = Vec::new();
        while let Some(frame) = MonitorFrame::read(&mut from).expect("a frame") {
            read.push(frame);
        }
        assert_eq!(read, frames);
    }

    #[test]
    fn malformed_frames_are_rejected() {
        for bytes in [
            &[9][..],
            &[9, 0, 0, 0, 1, 1],
            &[255, 255, 255, 255, 1],
            &[1, 0, 0, 0, 4, b'x'],
            &[1, 0, 0, 0, 3, b'x'],
            &[1, 0, 0, 0, 5, b'7'],
            &[1, 0, 0, 0, 7, b'x'],
        ] {
            assert!(MonitorFrame::read(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }
}
