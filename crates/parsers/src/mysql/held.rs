//! Server bytes that have to wait for what the client said at the time: the missing segment of a client makes its whole
//! byte stream late, and the responses come first. Bounded; knows nothing of what the bytes mean.

use std::collections::VecDeque;

use flow::Place;
use wire::Timestamp;

/// Bytes that may wait, with what each piece costs besides.
const HELD_BYTES_MAX: usize = 1 << 18;
const PIECE_OVERHEAD_BYTES: usize = 64;

/// What the server said.
#[derive(Debug)]
pub enum Piece {
    /// Bytes, when they arrived and where they belong.
    Bytes(Timestamp, Vec<u8>, Option<Place>),
    /// So many bytes are missing; whether they arrived with those before them.
    Gap(u64, bool),
}

/// What waits, in order.
#[derive(Debug, Default)]
pub struct Held {
    pieces: VecDeque<Piece>,
    bytes: usize,
}

impl Held {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether more waits than may.
    pub fn overflows(&self) -> bool {
        self.bytes > HELD_BYTES_MAX
    }

    /// When the oldest piece arrived, where that is known.
    pub fn since(&self) -> Option<Timestamp> {
        match self.pieces.front()? {
            Piece::Bytes(ts, ..) => Some(*ts),
            Piece::Gap(..) => None,
        }
    }

    /// Another piece.
    pub fn push(&mut self, piece: Piece) {
        self.bytes += piece.cost();
        self.pieces.push_back(piece);
    }

    /// The oldest piece.
    pub fn pop(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.cost();
        Some(piece)
    }

    /// Whether any bytes arrived between these times.
    pub fn heard_between(&self, after: Timestamp, before: Timestamp) -> bool {
        self.pieces.iter().any(|p| matches!(p, Piece::Bytes(ts, ..) if *ts > after && *ts < before))
    }
}

impl Piece {
    fn cost(&self) -> usize {
        match self {
            Piece::Bytes(_, bytes, _) => bytes.len() + PIECE_OVERHEAD_BYTES,
            Piece::Gap(..) => PIECE_OVERHEAD_BYTES,
        }
    }
}
