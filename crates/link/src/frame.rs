//! Frames: u32 length (big endian, of the rest), u8 kind, body. A message longer than a frame is sent in parts,
//! completed by the last frame; parts of control messages and of records are assembled separately, so that control
//! messages can overtake. Unknown kinds under 128 are skipped: a newer peer may send more, and uses higher kinds for
//! messages that must be understood.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use crate::message::{
    Ack, Bye, Credit, DataRecord, DesiredJobs, GrantedLease, Hello, LostRecords, ObserveAll,
    ObservedJobs, PacketReply, PacketRequest, Ping, Pong, PreservePackets, Refuse, Renew, Welcome,
};

/// Maximum length of a frame: kind and body.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// Records are split into parts of this size, so that control messages wait for at most one.
const PIECE_BYTES: usize = 1 << 16;
/// Kinds from this one on must be understood.
const CRITICAL: u8 = 128;
const LENGTH_BYTES: usize = 4;

/// The other end violated the protocol; the session has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PeerMisbehaved {
    /// A frame of length zero, or longer than [`FRAME_BYTES_MAX`].
    #[error("frame of {0} bytes")]
    FrameLength(u32),
    /// An assembled message exceeds the maximum of its kind.
    #[error("message of kind {kind} is longer than {max} bytes")]
    TooLong {
        /// Kind.
        kind: u8,
        /// Maximum length.
        max: usize,
    },
    /// The body does not match its kind.
    #[error("malformed message of kind {0}")]
    Malformed(u8),
    /// Unknown kind that must be understood.
    #[error("unknown kind {0}")]
    UnknownKind(u8),
    /// A message not allowed from this end, or in this state.
    #[error("message of kind {0} is out of place")]
    OutOfPlace(u8),
    /// A record does not follow the previous one.
    #[error("record {seq} where {expected} was expected")]
    Gap {
        /// Sequence number of the record.
        seq: u64,
        /// Expected sequence number.
        expected: u64,
    },
    /// Records exceed the credit.
    #[error("more bytes than the credit")]
    NoCredit,
    /// Too many lanes in a session.
    #[error("too many lanes")]
    TooManyLanes,
    /// Acknowledgment of an unsent record.
    #[error("acknowledgment of record {0}, which was not sent")]
    NeverSent(u64),
    /// The peer does not read.
    #[error("does not read")]
    DoesNotRead,
}

/// MessageClass of a message; each is assembled separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageClass {
    Control,
    Record,
}

impl MessageClass {
    /// Kind of a frame with a part that is not the last.
    const fn part_kind(self) -> u8 {
        match self {
            Self::Control => 1,
            Self::Record => 2,
        }
    }

    fn of_part(kind: u8) -> Option<Self> {
        [Self::Control, Self::Record]
            .into_iter()
            .find(|class| class.part_kind() == kind)
    }

    /// Unknown kinds from 32 to 63 are records.
    fn of_unknown(kind: u8) -> Self {
        if (32..64).contains(&kind) {
            Self::Record
        } else {
            Self::Control
        }
    }

    /// Maximum length of a message.
    const fn bytes_max(self) -> usize {
        16 << 20
    }
}

macro_rules! frames {
    ($($(#[$doc:meta])* $kind:literal $name:ident $class:ident up to $max:expr;)*) => {
        /// A message with its kind.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "the messages have their own")]
        pub enum Frame { $($name($name),)* }

        impl Frame {
            /// Kind number on the wire.
            pub fn kind(&self) -> u8 {
                match self { $(Self::$name(_) => $kind,)* }
            }

            fn body(&self) -> Vec<u8> {
                match self { $(Self::$name(message) => message.encode_to_vec(),)* }
            }

            fn class_and_max(kind: u8) -> Option<(MessageClass, usize)> {
                match kind { $($kind => Some((MessageClass::$class, $max)),)* _ => None }
            }

            fn decode(kind: u8, body: Bytes) -> Result<Self, PeerMisbehaved> {
                match kind {
                    $($kind => $name::decode(body).map(Self::$name).map_err(|_| PeerMisbehaved::Malformed(kind)),)*
                    _ => Err(PeerMisbehaved::UnknownKind(kind)),
                }
            }
        }

        $(impl From<$name> for Frame { fn from(message: $name) -> Self { Self::$name(message) } })*
    };
}

const SMALL: usize = 4 << 10;
/// Maximum bytes of lists from agents, so that their decoded size is limited.
const LIST: usize = 256 << 10;
const LONG: usize = MessageClass::Control.bytes_max();

frames! {
    3 Hello Control up to LIST;
    4 Welcome Control up to LONG;
    5 Refuse Control up to SMALL;
    6 Bye Control up to SMALL;
    7 Ping Control up to SMALL;
    8 Pong Control up to SMALL;
    9 DesiredJobs Control up to LONG;
    10 ObservedJobs Control up to LIST;
    11 ObserveAll Control up to SMALL;
    12 Renew Control up to LIST;
    13 GrantedLease Control up to LIST;
    14 Ack Control up to SMALL;
    15 Credit Control up to SMALL;
    16 PacketRequest Control up to SMALL;
    17 PacketReply Control up to LIST;
    18 PreservePackets Control up to SMALL;
    32 DataRecord Record up to MessageClass::Record.bytes_max();
    33 LostRecords Record up to SMALL;
}

impl Frame {
    /// Encodes the message as frames.
    pub fn encode(&self) -> Vec<Bytes> {
        encode(self.kind(), self.body().into())
    }
}

/// Frames of an encoded message.
pub(crate) fn encode(kind: u8, body: Bytes) -> Vec<Bytes> {
    let class = Frame::class_and_max(kind).map_or(MessageClass::Control, |(class, _)| class);
    let mut frames = Vec::with_capacity(body.len() / PIECE_BYTES + 1);
    let mut rest = body;
    while rest.len() > PIECE_BYTES {
        frames.push(frame(class.part_kind(), &rest.split_to(PIECE_BYTES)));
    }
    frames.push(frame(kind, &rest));
    frames
}

fn frame(kind: u8, body: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(LENGTH_BYTES + 1 + body.len());
    bytes.put_u32(u32::try_from(body.len() + 1).expect("pieces are short"));
    bytes.put_u8(kind);
    bytes.put_slice(body);
    bytes.freeze()
}

/// A received message.
#[derive(Debug)]
pub struct IncomingMessage {
    /// Message.
    pub frame: Frame,
    /// Size of its body in bytes.
    pub bytes: usize,
}

/// Decodes bytes to messages. Holds one frame, and one incomplete message per class.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: BytesMut,
    control: BytesMut,
    record: BytesMut,
    /// Number of skipped frames of unknown kinds.
    pub skipped: u64,
}

impl FrameDecoder {
    /// Adds received bytes. [`FrameDecoder::next`] must be called until it returns none.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message; `None`: incomplete.
    #[allow(
        clippy::should_implement_trait,
        reason = "it can fail, and go on later"
    )]
    pub fn next(&mut self) -> Result<Option<IncomingMessage>, PeerMisbehaved> {
        while let Some((kind, body)) = self.next_frame()? {
            if let Some(class) = MessageClass::of_part(kind) {
                self.add_part(class, kind, &body)?;
            } else if let Some((class, max)) = Frame::class_and_max(kind) {
                let body = self.complete(class, body);
                if body.len() > max {
                    return Err(PeerMisbehaved::TooLong { kind, max });
                }
                let bytes = body.len();
                return Ok(Some(IncomingMessage {
                    frame: Frame::decode(kind, body)?,
                    bytes,
                }));
            } else if kind >= CRITICAL {
                return Err(PeerMisbehaved::UnknownKind(kind));
            } else {
                self.parts(MessageClass::of_unknown(kind)).clear();
                self.skipped += 1;
            }
        }
        Ok(None)
    }

    fn next_frame(&mut self) -> Result<Option<(u8, Bytes)>, PeerMisbehaved> {
        let Some(head) = self.buffer.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*head);
        if length == 0 || length as usize > FRAME_BYTES_MAX {
            return Err(PeerMisbehaved::FrameLength(length));
        }
        if self.buffer.len() < LENGTH_BYTES + length as usize {
            return Ok(None);
        }
        self.buffer.advance(LENGTH_BYTES);
        let mut frame = self.buffer.split_to(length as usize).freeze();
        let kind = frame.get_u8();
        Ok(Some((kind, frame)))
    }

    fn parts(&mut self, class: MessageClass) -> &mut BytesMut {
        match class {
            MessageClass::Control => &mut self.control,
            MessageClass::Record => &mut self.record,
        }
    }

    fn add_part(
        &mut self,
        class: MessageClass,
        kind: u8,
        body: &[u8],
    ) -> Result<(), PeerMisbehaved> {
        let parts = self.parts(class);
        if parts.len() + body.len() > class.bytes_max() {
            return Err(PeerMisbehaved::TooLong {
                kind,
                max: class.bytes_max(),
            });
        }
        parts.extend_from_slice(body);
        Ok(())
    }

    /// The complete body, from earlier parts and the last.
    fn complete(&mut self, class: MessageClass, last: Bytes) -> Bytes {
        let parts = self.parts(class);
        if parts.is_empty() {
            return last;
        }
        let mut whole = std::mem::take(parts);
        whole.extend_from_slice(&last);
        whole.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::RecordLane;

    fn data(payload: usize) -> Frame {
        let lane = RecordLane {
            boot: 1,
            job: 2,
            attempt: 3,
        };
        DataRecord {
            lane,
            seq: 1,
            payload: vec![7; payload].into(),
            ..DataRecord::default()
        }
        .into()
    }

    /// Decodes bytes in chunks of `step`.
    fn decode(bytes: &[u8], step: usize) -> Result<Vec<Frame>, PeerMisbehaved> {
        let mut decoder = FrameDecoder::default();
        let mut frames = Vec::new();
        for piece in bytes.chunks(step) {
            decoder.push(piece);
            while let Some(incoming) = decoder.next()? {
                frames.push(incoming.frame);
            }
        }
        Ok(frames)
    }

    #[test]
    fn frames_round_trip_for_any_split() {
        let frames = [
            Ping { sent_ns: -5 }.into(),
            data(0),
            data(3_000_000),
            Frame::from(Hello::default()),
            data(PIECE_BYTES),
        ];
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).flatten().collect();
        for step in [1 << 12, 99_991, bytes.len()] {
            assert_eq!(decode(&bytes, step).as_deref(), Ok(&frames[..]), "{step}");
        }
    }

    #[test]
    fn control_overtakes_between_the_parts_of_a_record() {
        let mut parts = data(200_000).encode();
        assert!(parts.len() > 2);
        parts.insert(1, Frame::from(Ping { sent_ns: 1 }).encode().remove(0));
        let bytes: Vec<u8> = parts.concat();
        assert_eq!(
            decode(&bytes, 1000),
            Ok(vec![Ping { sent_ns: 1 }.into(), data(200_000)])
        );
    }

    #[test]
    fn rules_are_held() {
        let long = |kind: u8, length: usize| frame(kind, &vec![0; length]).to_vec();
        let cases: [(Vec<u8>, Result<usize, PeerMisbehaved>); 7] = [
            (vec![0, 0, 0, 0], Err(PeerMisbehaved::FrameLength(0))),
            (
                vec![0, 16, 0, 1],
                Err(PeerMisbehaved::FrameLength((1 << 20) + 1)),
            ),
            (long(127, 5), Ok(0)),
            (long(128, 5), Err(PeerMisbehaved::UnknownKind(128))),
            (
                long(7, SMALL + 1),
                Err(PeerMisbehaved::TooLong {
                    kind: 7,
                    max: SMALL,
                }),
            ),
            (long(7, 5), Err(PeerMisbehaved::Malformed(7))),
            (
                long(1, 1 << 19).repeat(40),
                Err(PeerMisbehaved::TooLong { kind: 1, max: LONG }),
            ),
        ];
        for (bytes, expected) in cases {
            assert_eq!(decode(&bytes, 1 << 16).map(|frames| frames.len()), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_error_or_messages(bytes in proptest::collection::vec(0u8..40, 0..200)) {
            let _ = decode(&bytes, 7);
        }
    }
}
