//! gRPC over HTTP/2: messages in DATA, names of statuses, and trailers in the body (gRPC-web).

/// Flag of a message of gRPC-web that contains trailers.
const TRAILERS: u8 = 0x80;
/// Bytes of trailers in the body that are read.
const TRAILERS_BYTES_MAX: usize = 4096;

/// Counts the messages of one direction of a stream. Their contents are not read.
#[derive(Debug, Default)]
pub struct GrpcMessages {
    /// Messages that began.
    pub count: u64,
    /// The prefix of a message was lost.
    pub is_unknown: bool,
    prefix: [u8; 5],
    have: u8,
    /// Bytes of the message still to come.
    left: u32,
    /// Trailers in the body.
    pub trailers: Vec<u8>,
}

impl GrpcMessages {
    /// Starts anew, with the buffer kept.
    pub fn clear(&mut self) {
        let mut trailers = std::mem::take(&mut self.trailers);
        trailers.clear();
        *self = GrpcMessages {
            trailers,
            ..GrpcMessages::default()
        };
    }

    /// Reads the next bytes of the body.
    pub fn read(&mut self, mut bytes: &[u8]) {
        if self.is_unknown {
            return;
        }
        while !bytes.is_empty() {
            if self.left > 0 {
                let part = bytes.len().min(self.left as usize);
                if self.prefix[0] & TRAILERS != 0 {
                    let room = TRAILERS_BYTES_MAX - self.trailers.len();
                    self.trailers.extend_from_slice(&bytes[..part.min(room)]);
                }
                self.left -= part as u32;
                bytes = &bytes[part..];
                continue;
            }
            let part = bytes.len().min(5 - usize::from(self.have));
            let have = usize::from(self.have);
            self.prefix[have..have + part].copy_from_slice(&bytes[..part]);
            self.have += part as u8;
            bytes = &bytes[part..];
            if self.have == 5 {
                let [flags, len @ ..] = self.prefix;
                self.left = u32::from_be_bytes(len);
                self.have = 0;
                self.count += u64::from(flags & TRAILERS == 0);
            }
        }
    }

    /// Whether the last message is complete.
    pub fn is_between(&self) -> bool {
        !self.is_unknown && self.have == 0 && self.left == 0
    }

    /// Handles missing bytes of the body.
    pub fn miss(&mut self, len: u32) {
        self.is_unknown |= self.have > 0 || len > self.left;
        self.left = self.left.saturating_sub(len);
    }
}

/// Name of a status.
pub fn status_name(code: &[u8]) -> &[u8] {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let number = std::str::from_utf8(code)
        .ok()
        .and_then(|text| text.parse().ok());
    number
        .and_then(|number: usize| NAMES.get(number))
        .map_or(code, |name| name.as_bytes())
}

/// Appends a grpc-message to `out`, without percent-encoding.
pub fn decode_message(text: &[u8], out: &mut Vec<u8>) {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| (*byte as char).to_digit(16));
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, digit(after.first()), digit(after.get(1))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                rest = &after[2..];
            }
            _ => out.push(*first),
        }
    }
}

/// Value of a field in trailers of the body.
pub fn trailer<'a>(trailers: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    trailers.split(|byte| *byte == b'\n').find_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        line[..colon]
            .trim_ascii()
            .eq_ignore_ascii_case(name)
            .then(|| line[colon + 1..].trim_ascii())
    })
}

/// Service and method of a path.
pub fn names(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = memchr::memrchr(b'/', path)?;
    let service = path.get(..slash)?.strip_prefix(b"/")?;
    (!service.is_empty()).then_some((service, &path[slash + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        let body = b"\0\0\0\0\x03abc\0\0\0\0\0\x01\0\0\0\x01z\x80\0\0\0\x0fgrpc-status: 5\n";
        for piece in 1..body.len() {
            let mut messages = GrpcMessages::default();
            body.chunks(piece).for_each(|bytes| messages.read(bytes));
            assert_eq!((messages.count, messages.is_unknown), (3, false));
            assert_eq!(messages.trailers, b"grpc-status: 5\n");
        }
        let mut messages = GrpcMessages::default();
        messages.read(&body[..6]);
        messages.miss(2);
        messages.read(&body[8..13]);
        assert_eq!((messages.count, messages.is_unknown), (2, false));
        messages.miss(1);
        assert!(messages.is_unknown);
    }

    #[test]
    fn names_and_texts() {
        assert_eq!(status_name(b"4"), b"DEADLINE_EXCEEDED");
        assert_eq!(status_name(b"17"), b"17");
        assert_eq!(names(b"/a.B/C"), Some((&b"a.B"[..], &b"C"[..])));
        assert_eq!(names(b"/C"), None);
        let trailers = b"grpc-status:5\r\nGrpc-Message: no\r\n";
        assert_eq!(trailer(trailers, b"grpc-message"), Some(&b"no"[..]));
        let mut out = Vec::new();
        decode_message(b"no%20such%2", &mut out);
        assert_eq!(out, b"no such%2");
    }
}
