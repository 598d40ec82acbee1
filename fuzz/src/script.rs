//! Decodes an input into a conversation: a byte of options, then steps of four bytes with their data. Each end
//! numbers its own bytes and acknowledges those of the other; [`Fate`] is the effect of the capture on a packet.

use flow::StreamPlace;
use parsers::Direction;
use wire::TcpSeq;

/// Options of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// Played as packets through the flow table; otherwise directly to the parser.
    pub packets: bool,
    /// The capture starts after the handshake.
    pub midstream: bool,
    /// The protocol must be recognized.
    pub probed: bool,
    pub udp: bool,
    /// Sequence numbers wrap.
    pub wraps: bool,
    /// The client has the higher address.
    pub swapped: bool,
    /// Small memory limits.
    pub tight: bool,
}

/// An action of one end.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    pub by: Direction,
    pub hears: Hears,
    pub fate: Fate,
    pub what: What<'a>,
}

/// Number of unacknowledged bytes that an end has received before it sends.
#[derive(Clone, Copy, Debug)]
pub enum Hears {
    All,
    Half,
    Nothing,
}

/// Captured part of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Captured,
    Lost,
    Twice,
    /// Delayed by this number of packets.
    Late(u8),
    /// Truncated by this number of bytes.
    Cut(usize),
    /// Split into segments of this size.
    Pieces(usize),
}

#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    Say(&'a [u8]),
    /// Retransmits the last bytes.
    Again(usize),
    /// Sends this number of bytes that are not captured.
    Skip(u64),
    /// Sends an acknowledgment.
    Listen,
    Fin,
    Rst,
    /// Moves the capture's clock by this number of nanoseconds.
    Clock(i64),
}

impl Script {
    /// Splits the input into options and steps.
    pub fn of(input: &[u8]) -> Option<(Script, &[u8])> {
        let (bits, steps) = input.split_first()?;
        let bit = |n: u8| bits >> n & 1 == 1;
        let script = Script {
            packets: bit(0),
            midstream: bit(1),
            probed: bit(2),
            udp: bit(3),
            wraps: bit(4),
            swapped: bit(5),
            tight: bit(6),
        };
        Some((script, steps))
    }
}

/// Takes a step from `input`.
pub fn next<'a>(input: &mut &'a [u8]) -> Option<Step<'a>> {
    let ([what, fate, low, high], rest) = input.split_first_chunk::<4>()?;
    let len = u16::from_le_bytes([*low, *high]);
    *input = rest;
    let by = if what & 1 == 0 {
        Direction::ClientToServer
    } else {
        Direction::ServerToClient
    };
    let hears = match what >> 1 & 3 {
        1 => Hears::Nothing,
        2 => Hears::Half,
        _ => Hears::All,
    };
    let n = fate >> 3;
    let what = match what >> 3 {
        0..24 => {
            let (said, rest) = rest.split_at(usize::from(len).min(rest.len()));
            *input = rest;
            What::Say(said)
        }
        24 | 25 => What::Again(usize::from(len)),
        26 => What::Listen,
        27 => What::Fin,
        28 => What::Rst,
        29 => What::Skip(u64::from(len) << n),
        30 => What::Clock(i64::from(*low) << (high & 31)),
        _ => What::Clock(-(i64::from(*low) << (high & 31))),
    };
    let fate = match fate & 7 {
        3 => Fate::Lost,
        4 => Fate::Twice,
        5 => Fate::Late(n + 1),
        6 => Fate::Cut(usize::from(n) + 1),
        7 => Fate::Pieces(1 + usize::from(n) * 16),
        _ => Fate::Captured,
    };
    Some(Step {
        by,
        hears,
        fate,
        what,
    })
}

/// Bytes sent and received by both ends since the start.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    starts: [TcpSeq; 2],
    said: [u64; 2],
    heard: [u64; 2],
    ended: [bool; 2],
}

impl Ends {
    pub fn new(script: Script) -> Ends {
        let starts = [
            TcpSeq(if script.wraps { u32::MAX - 99 } else { 7000 }),
            TcpSeq(1000),
        ];
        Ends {
            starts,
            said: [0; 2],
            heard: [0; 2],
            ended: [false; 2],
        }
    }

    /// Sequence number of the first byte of `by`.
    pub fn start(&self, by: Direction) -> TcpSeq {
        self.starts[by as usize]
    }

    /// Sequence number of the next byte of `by`.
    pub fn next(&self, by: Direction) -> TcpSeq {
        self.start(by).plus(self.said[by as usize] as u32)
    }

    pub fn said(&self, by: Direction) -> u64 {
        self.said[by as usize]
    }

    /// Number of bytes of the other end that `by` has received.
    pub fn heard(&self, by: Direction) -> u64 {
        self.heard[by as usize]
    }

    pub fn has_ended(&self, by: Direction) -> bool {
        self.ended[by as usize]
    }

    pub fn hear(&mut self, by: Direction, hears: Hears) {
        let heard = &mut self.heard[by as usize];
        let said = self.said[1 - by as usize];
        match hears {
            Hears::All => *heard = said,
            Hears::Half => *heard += (said - *heard) / 2,
            Hears::Nothing => {}
        }
    }

    /// Sends `bytes` bytes from `by`; returns their place.
    pub fn say(&mut self, by: Direction, bytes: u64) -> StreamPlace {
        let place = StreamPlace {
            seq: self.next(by),
            ack: Some(self.ack(by)),
        };
        self.said[by as usize] += bytes;
        place
    }

    pub fn end(&mut self, by: Direction) {
        self.ended[by as usize] = true;
    }

    /// Acknowledgment of `by`; the FIN counts as one byte.
    pub fn ack(&self, by: Direction) -> TcpSeq {
        let heard = self.heard[by as usize];
        let other = 1 - by as usize;
        let fin = self.ended[other] && heard == self.said[other];
        self.starts[other].plus((heard + u64::from(fin)) as u32)
    }
}
