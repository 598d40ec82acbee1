//! Headers of record batches (version 2), and of messages before them (versions 0 and 1).

/// A record batch, or a message of the formats before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBatch {
    pub base_offset: i64,
    pub last_offset: i64,
    /// `None`: inside of a compressed message.
    pub records: Option<u32>,
    /// As in the attributes: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    pub compression: u8,
    /// It marks the end of a transaction, and has no records of a client.
    pub is_control: bool,
}

/// Result of reading a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRead {
    NeedMore,
    Batch {
        used: usize,
        skip: usize,
        batch: RecordBatch,
    },
    /// A broker cuts the last batch of a response at the maximum size: the client ignores it.
    Cut,
    Unknown,
}

/// Length of a batch header.
const HEADER: usize = 61;
/// Position of the format version.
const MAGIC: usize = 16;
/// Minimum length of a message of version 0.
const MESSAGE_BYTES_MIN: usize = 26;
/// Bytes read of such a message: up to its attributes.
const MESSAGE_HEAD: usize = 18;
/// Bytes in front of what the length counts.
const LENGTH_FROM: usize = 12;
const IS_CONTROL: u8 = 1 << 5;

impl RecordBatch {
    /// Reads the batch at the start of `bytes`, where `left` bytes of the record set follow.
    pub fn read(bytes: &[u8], left: usize) -> BatchRead {
        if left <= MESSAGE_HEAD {
            return BatchRead::Cut;
        }
        if bytes.len() < MESSAGE_HEAD {
            return BatchRead::NeedMore;
        }
        let base_offset = i64_at(bytes, 0);
        let length = i32_at(bytes, 8);
        let Some(whole) = usize::try_from(length).ok().map(|n| n + LENGTH_FROM) else {
            return BatchRead::Unknown;
        };
        match bytes[MAGIC] {
            2 if whole < HEADER => BatchRead::Unknown,
            0 | 1 if whole < MESSAGE_BYTES_MIN => BatchRead::Unknown,
            0..=2 if whole > left => BatchRead::Cut,
            2 if bytes.len() < HEADER => BatchRead::NeedMore,
            2 => BatchRead::Batch {
                used: HEADER,
                skip: whole - HEADER,
                batch: RecordBatch {
                    base_offset,
                    last_offset: base_offset.wrapping_add(i32_at(bytes, 23).into()),
                    records: u32::try_from(i32_at(bytes, 57)).ok(),
                    compression: bytes[22] & 7,
                    is_control: bytes[22] & IS_CONTROL != 0,
                },
            },
            0 | 1 => {
                let compression = bytes[17] & 7;
                BatchRead::Batch {
                    used: MESSAGE_HEAD,
                    skip: whole - MESSAGE_HEAD,
                    batch: RecordBatch {
                        base_offset,
                        last_offset: base_offset,
                        records: (compression == 0).then_some(1),
                        compression,
                        is_control: false,
                    },
                }
            }
            _ => BatchRead::Unknown,
        }
    }
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |number| i64::from_be_bytes(*number))
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |number| i32::from_be_bytes(*number))
}
