//! Frames of HTTP/2 (RFC 9113 section 4 and 6).

/// First bytes of a client.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length of a frame's header.
pub const FRAME_HEAD_BYTES: usize = 9;
/// Length of a frame unless the receiver permits more.
pub const FRAME_BYTES_DEFAULT: u32 = 1 << 14;
/// Sum of DATA that a sender may send before any update.
pub const WINDOW_DEFAULT: i64 = 65_535;

/// Types of frames.
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

const END_STREAM: u8 = 0x01;
const END_HEADERS: u8 = 0x04;
const PADDED: u8 = 0x08;
const PRIORITIZED: u8 = 0x20;

/// Header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameHead {
    /// Length of the payload in bytes.
    pub len: u32,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl FrameHead {
    /// Parses a header.
    #[inline]
    pub fn parse(bytes: &[u8; FRAME_HEAD_BYTES]) -> FrameHead {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        FrameHead {
            len: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }

    /// Whether the message of its stream ends with it.
    #[inline]
    pub fn ends_stream(self) -> bool {
        matches!(self.kind, kind::DATA | kind::HEADERS) && self.flags & END_STREAM != 0
    }

    /// Whether the header block ends with it.
    pub fn ends_headers(self) -> bool {
        self.flags & END_HEADERS != 0
    }

    /// SETTINGS or PING that acknowledges one.
    pub fn is_ack(self) -> bool {
        self.flags & 1 != 0
    }

    /// Whether it has a length of padding.
    #[inline]
    pub fn is_padded(self) -> bool {
        matches!(self.kind, kind::DATA | kind::HEADERS | kind::PUSH_PROMISE)
            && self.flags & PADDED != 0
    }

    /// Whether a receiver reads the payload: header blocks, and what controls streams.
    #[inline]
    pub fn is_read(self) -> bool {
        matches!(
            self.kind,
            kind::HEADERS
                | kind::RST_STREAM
                | kind::SETTINGS
                | kind::PUSH_PROMISE
                | kind::GOAWAY
                | kind::WINDOW_UPDATE
                | kind::CONTINUATION
        )
    }

    /// Whether it contains a part of a header block.
    pub fn has_headers(self) -> bool {
        matches!(
            self.kind,
            kind::HEADERS | kind::PUSH_PROMISE | kind::CONTINUATION
        )
    }

    /// Whether nine bytes with this content are a frame's header in all likelihood: type, length, flags, and
    /// stream fit each other. `len_max`: longest frame that the receiver permits.
    pub fn is_plausible(bytes: &[u8; FRAME_HEAD_BYTES], len_max: u32) -> bool {
        let head = FrameHead::parse(bytes);
        let of_all = head.stream == 0;
        let flags = |permitted: u8| head.flags & !permitted == 0;
        let fits = match head.kind {
            // An empty frame that ends nothing has no use.
            kind::DATA => !of_all && flags(0x09) && (head.len > 0 || head.flags & END_STREAM != 0),
            kind::HEADERS => !of_all && flags(0x2d) && head.len > 0,
            kind::PRIORITY => !of_all && flags(0) && head.len == 5,
            kind::RST_STREAM => !of_all && flags(0) && head.len == 4,
            kind::SETTINGS => {
                of_all
                    && flags(1)
                    && head.len.is_multiple_of(6)
                    && (head.len == 0 || !head.is_ack())
            }
            kind::PUSH_PROMISE => !of_all && flags(0x0c) && head.len > 4,
            kind::PING => of_all && flags(1) && head.len == 8,
            kind::GOAWAY => of_all && flags(0) && head.len >= 8,
            kind::WINDOW_UPDATE => flags(0) && head.len == 4,
            kind::CONTINUATION => !of_all && flags(0x04),
            _ => false,
        };
        fits && head.len <= len_max && bytes[5] & 0x80 == 0 && head.stream < 1 << 24
    }

    /// The payload without padding and priority.
    pub fn fragment(self, payload: &[u8]) -> Option<&[u8]> {
        let mut rest = payload;
        let mut padding = 0;
        if self.is_padded() {
            let (first, after) = rest.split_first()?;
            padding = usize::from(*first);
            rest = after;
        }
        if self.kind == kind::HEADERS && self.flags & PRIORITIZED != 0 {
            rest = rest.get(5..)?;
        }
        rest.get(..rest.len().checked_sub(padding)?)
    }
}

/// Name of an error code (RFC 9113 section 7).
pub fn error_name(code: u32) -> Option<&'static str> {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(code as usize).copied()
}
