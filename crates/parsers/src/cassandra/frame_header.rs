//! The header of a frame of version 5, and its checksums.

/// Length of the header without and with compression, with its checksum.
const PLAIN: usize = 6;
const COMPRESSED: usize = 8;
/// Maximum length of a header.
pub const FRAME_HEADER_MAX: usize = COMPRESSED;
/// Length of the checksum behind a payload.
pub const TRAILER: usize = 4;
/// Maximum length of a payload: its length has 17 bits.
const PAYLOAD_MASK: u64 = (1 << 17) - 1;

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the header.
    pub size: usize,
    /// Length of the payload on the wire.
    pub payload: usize,
    /// Format of frames with compression: length of the decompressed payload, 0 for one that is not compressed.
    pub inner: Option<usize>,
    /// The payload consists of complete envelopes; otherwise it is a part of one.
    pub is_self_contained: bool,
}

/// Result of reading a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameHeaderRead {
    NeedMore,
    Bad,
    Header(FrameHeader),
}

impl FrameHeader {
    /// The header at the start of `bytes`; `is_compressed`: the format, if known. Its checksum decides between the two.
    pub fn read(bytes: &[u8], is_compressed: Option<bool>) -> FrameHeaderRead {
        let number = |length: usize| {
            let digits = bytes.get(..length)?.iter().rev();
            Some(digits.fold(0, |number, byte| number << 8 | u64::from(*byte)))
        };
        let mut needs_more = false;
        for (size, compressed) in [(PLAIN, false), (COMPRESSED, true)] {
            if is_compressed.is_some_and(|known| known != compressed) {
                continue;
            }
            let Some(all) = number(size) else {
                needs_more = true;
                continue;
            };
            let length = size - 3;
            let fields = all & ((1 << (8 * length)) - 1);
            let header = FrameHeader {
                size,
                payload: (fields & PAYLOAD_MASK) as usize,
                inner: compressed.then_some((fields >> 17 & PAYLOAD_MASK) as usize),
                is_self_contained: fields >> if compressed { 34 } else { 17 } & 1 == 1,
            };
            let padding = fields >> if compressed { 35 } else { 18 };
            if padding == 0
                && header.payload > 0
                && all >> (8 * length) == u64::from(crc24(&bytes[..length]))
            {
                return FrameHeaderRead::Header(header);
            }
        }
        if needs_more {
            FrameHeaderRead::NeedMore
        } else {
            FrameHeaderRead::Bad
        }
    }

    /// Length of the frame.
    pub fn length(self) -> usize {
        self.size + self.payload + TRAILER
    }

    /// Length of the payload's contents.
    pub fn contents(self) -> usize {
        match self.inner {
            Some(inner) if inner > 0 => inner,
            _ => self.payload,
        }
    }

    /// Whether the payload is compressed.
    pub fn is_compressed(self) -> bool {
        self.inner.is_some_and(|inner| inner > 0)
    }

    /// Whether the checksum of the payload is right in `frame`, which has its length.
    pub fn is_intact(self, frame: &[u8]) -> bool {
        let end = self.size + self.payload;
        let Some(stated) = frame.get(end..end + TRAILER).and_then(<[u8]>::first_chunk) else {
            return false;
        };
        crc32(&frame[self.size..end]) == u32::from_le_bytes(*stated)
    }
}

/// CRC-24 of a header: polynomial 0x1974f0b, highest bit first, from 0x875060 ("v5 framing" in the protocol's specification).
pub fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = 0x0087_5060;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0197_4f0b;
            }
        }
    }
    crc & 0x00ff_ffff
}

/// CRC-32 of a payload, behind four bytes that make it differ from that of zeros.
pub fn crc32(payload: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(&[0xfa, 0x2d, 0x55, 0xca]);
    crc.update(payload);
    crc.sum()
}
