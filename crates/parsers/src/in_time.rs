//! Puts what the two sides of a connection say into the order in which they said it, where bytes are missing.
//!
//! Bytes behind a hole come late: when the missing ones have come, or are given up. What the other side said meanwhile
//! would overtake them, and a parser would hear answers before questions. So it waits here, up to a limit, as long as
//! something that was said earlier may still come. Where nothing is missing nothing passes through here.
//!
//! Knows no bytes, no protocol and no flow table. Holds at most [`HELD_BYTES_MAX`] of each connection.

use std::collections::VecDeque;

use flow::Place;
use wire::{Side, Timestamp};

/// Most bytes held of one connection, overhead included; beyond, nothing waits any more.
pub const HELD_BYTES_MAX: usize = 512 << 10;
/// What a piece costs besides its bytes.
const OVERHEAD_BYTES: usize = 64;

/// A part of what one side says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the stream.
    Bytes(Vec<u8>, Place),
    /// So many bytes that are missing.
    Gap(u64),
    /// The end of the stream.
    End,
}

/// The pieces of one connection that wait.
#[derive(Debug, Default)]
pub struct InTime {
    sides: [VecDeque<(Timestamp, Piece)>; 2],
    /// The latest of each side so far.
    heard: [Option<Timestamp>; 2],
    held_bytes: usize,
}

impl InTime {
    /// Adds what `side` said at `ts`, or a gap that showed then.
    pub fn push(&mut self, side: Side, ts: Timestamp, piece: Piece) {
        self.held_bytes += cost(&piece);
        let heard = &mut self.heard[side.index()];
        *heard = Some(heard.map_or(ts, |heard| heard.max(ts)));
        self.sides[side.index()].push_back((ts, piece));
    }

    /// Whether more waits than may.
    #[must_use]
    pub fn overflows(&self) -> bool {
        self.held_bytes > HELD_BYTES_MAX
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sides.iter().all(VecDeque::is_empty)
    }

    /// Takes out the earliest piece, if nothing earlier can still come; `lacks`: of which side bytes may.
    pub fn pop(&mut self, lacks: [bool; 2]) -> Option<(Side, Timestamp, Piece)> {
        let [a, b] = [0, 1].map(|side| self.sides[side].front().map(|(ts, piece)| (*ts, !is_gap(piece))));
        let side = match (a, b) {
            (None, None) => return None,
            (Some(_), None) => Side::A,
            (None, Some(_)) => Side::B,
            // A gap has shown before what shows it.
            (Some(a), Some(b)) => {
                if a <= b {
                    Side::A
                } else {
                    Side::B
                }
            }
        };
        let other = side.other().index();
        let ts = self.sides[side.index()].front()?.0;
        if self.sides[other].is_empty() && lacks[other] && self.heard[other].is_none_or(|heard| heard < ts) {
            return None;
        }
        let (ts, piece) = self.sides[side.index()].pop_front()?;
        self.held_bytes -= cost(&piece);
        Some((side, ts, piece))
    }
}

fn is_gap(piece: &Piece) -> bool {
    matches!(piece, Piece::Gap(_))
}

fn cost(piece: &Piece) -> usize {
    let bytes = if let Piece::Bytes(bytes, _) = piece { bytes.len() } else { 0 };
    bytes + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [bool; 2] = [false; 2];
    const A_LACKS: [bool; 2] = [true, false];

    fn take(line: &mut InTime, lacks: [bool; 2]) -> String {
        let mut out = Vec::new();
        while let Some((side, ts, piece)) = line.pop(lacks) {
            out.push(format!("{side:?}{}{}", ts.0, if is_gap(&piece) { "-" } else { "" }));
        }
        out.join(" ")
    }

    #[test]
    fn the_earlier_comes_first() {
        let mut line = InTime::default();
        for (side, ts, piece) in [
            (Side::B, 3, Piece::End),
            (Side::B, 6, Piece::End),
            (Side::A, 2, Piece::End),
            (Side::A, 6, Piece::Gap(5)),
            (Side::A, 6, Piece::End),
        ] {
            line.push(side, Timestamp(ts), piece);
        }
        assert_eq!(take(&mut line, WHOLE), "A2 B3 A6- A6 B6");
        assert!(line.is_empty() && line.held_bytes == 0);
    }

    #[test]
    fn what_may_be_overtaken_waits() {
        let mut line = InTime::default();
        line.push(Side::B, Timestamp(3), Piece::End);
        assert_eq!(take(&mut line, A_LACKS), "");
        // Up to the next hole A is known.
        line.push(Side::A, Timestamp(2), Piece::Gap(1));
        line.push(Side::A, Timestamp(5), Piece::End);
        line.push(Side::B, Timestamp(6), Piece::End);
        assert_eq!(take(&mut line, A_LACKS), "A2- B3 A5");
        assert_eq!(take(&mut line, WHOLE), "B6");
    }
}
