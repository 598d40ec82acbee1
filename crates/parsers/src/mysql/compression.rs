//! The compressed protocol: packets with a seven-byte header and a payload that is stored, zlib, or zstd.
//!
//! Decompresses one direction through a small buffer. A gap inside a payload becomes a gap of known length in
//! the output. ("Compression" in the MySQL source documentation.)

use flate2::{Decompress, FlushDecompress, Status};

const HEADER: usize = 7;

/// Output of decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecompressedPiece<'a> {
    /// Bytes of the inner protocol.
    Bytes(&'a [u8]),
    /// Nothing can be read from here on.
    Unreadable,
}

/// Compression method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MysqlCompression {
    /// zlib, detected by the payload.
    Zlib,
    /// zstd.
    Zstd,
}

/// One direction.
#[derive(Default)]
pub struct MysqlDecompressor {
    header: [u8; HEADER],
    header_len: usize,
    /// Remaining payload bytes.
    left: u64,
    /// Remaining bytes of its output; `None`: stored.
    inside: Option<u64>,
    /// The rest of the payload is unusable: an earlier part is missing.
    broken: bool,
    zlib: Option<Box<Decompress>>,
    /// Detected method.
    pub method: Option<MysqlCompression>,
}

impl MysqlDecompressor {
    /// Returns the next piece in `bytes`; `None` when they are consumed.
    pub fn next<'a, 'b: 'a>(
        &mut self,
        bytes: &mut &'b [u8],
        scratch: &'a mut [u8],
    ) -> Option<DecompressedPiece<'a>> {
        loop {
            if self.header_len < HEADER && !self.take_header(bytes) {
                return None;
            }
            if self.left == 0 && (self.broken || self.inside.unwrap_or(0) == 0) {
                self.header_len = 0;
                continue;
            }
            if self.left > 0 && bytes.is_empty() {
                return None;
            }
            let n = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
            let (here, rest) = bytes.split_at(n);
            if !self.broken && self.inside.is_some() {
                return Some(self.inflate(bytes, n, scratch));
            }
            *bytes = rest;
            self.left -= n as u64;
            if !self.broken {
                return Some(DecompressedPiece::Bytes(here));
            }
        }
    }

    /// Handles `len` missing bytes: returns the length of the gap in the output; `None` if the position of
    /// the next packet is unknown.
    pub fn gap(&mut self, len: u64) -> Option<u64> {
        if self.header_len < HEADER || len > self.left {
            return None;
        }
        self.left -= len;
        match self.inside {
            _ if self.broken => Some(0),
            None => Some(len),
            Some(inside) => {
                self.broken = true;
                Some(inside)
            }
        }
    }

    /// Completes a packet header; returns whether it is complete.
    fn take_header(&mut self, bytes: &mut &[u8]) -> bool {
        let n = bytes.len().min(HEADER - self.header_len);
        self.header[self.header_len..self.header_len + n].copy_from_slice(&bytes[..n]);
        self.header_len += n;
        *bytes = &bytes[n..];
        if self.header_len < HEADER {
            return false;
        }
        let h = self.header;
        let inside = u64::from(u32::from_le_bytes([h[4], h[5], h[6], 0]));
        self.left = u64::from(u32::from_le_bytes([h[0], h[1], h[2], 0]));
        self.inside = (inside > 0).then_some(inside);
        self.broken = false;
        if let Some(zlib) = &mut self.zlib {
            zlib.reset(true);
        }
        true
    }

    /// Decompresses a piece of the next `n` bytes of a payload.
    fn inflate<'a>(
        &mut self,
        bytes: &mut &[u8],
        n: usize,
        scratch: &'a mut [u8],
    ) -> DecompressedPiece<'a> {
        if self.method.is_none() && n > 0 {
            // zstd frames begin with 28 b5 2f fd, zlib streams with x8 for window size x.
            self.method = Some(if bytes[0] & 0x0f == 8 && bytes[0] != 0x28 {
                MysqlCompression::Zlib
            } else {
                MysqlCompression::Zstd
            });
        }
        if self.method != Some(MysqlCompression::Zlib) {
            return DecompressedPiece::Unreadable;
        }
        let inside = self.inside.unwrap_or(0);
        let zlib = self
            .zlib
            .get_or_insert_with(|| Box::new(Decompress::new(true)));
        let room = usize::try_from(inside).map_or(scratch.len(), |i| i.min(scratch.len()));
        let before = (zlib.total_in(), zlib.total_out());
        let status = zlib.decompress(&bytes[..n], &mut scratch[..room], FlushDecompress::None);
        let read = (zlib.total_in() - before.0) as usize;
        let made = (zlib.total_out() - before.1) as usize;
        *bytes = &bytes[read..];
        self.left -= read as u64;
        let inside = inside - made as u64;
        self.inside = Some(inside);
        // The rest of the payload after the output (a checksum) is skipped.
        self.broken = inside == 0;
        let stuck = matches!(status, Ok(Status::StreamEnd)) || read == 0 && made == 0;
        if status.is_err() || stuck && inside > 0 {
            DecompressedPiece::Unreadable
        } else {
            DecompressedPiece::Bytes(&scratch[..made])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A compressed packet of `payload`, stored or zlib.
    fn packet(payload: &[u8], zlib: bool) -> Vec<u8> {
        let mut body = payload.to_vec();
        if zlib {
            let mut c = flate2::Compress::new(flate2::Compression::default(), true);
            body = Vec::with_capacity(payload.len() + 100);
            c.compress_vec(payload, &mut body, flate2::FlushCompress::Finish)
                .expect("compresses in memory");
        }
        let len = |n: usize| (n as u32).to_le_bytes()[..3].to_vec();
        let inside = if zlib { payload.len() } else { 0 };
        [len(body.len()), vec![0], len(inside), body].concat()
    }

    fn unpack(u: &mut MysqlDecompressor, mut bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let mut scratch = [0; 64];
        while let Some(piece) = u.next(&mut bytes, &mut scratch) {
            match piece {
                DecompressedPiece::Bytes(b) => out.extend_from_slice(b),
                _ => return false,
            }
        }
        true
    }

    #[test]
    fn decompression_is_independent_of_segmentation() {
        let long: Vec<u8> = (0..5000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        let wire = [
            packet(b"hello", false),
            packet(&long, true),
            packet(b"", false),
            packet(b"end", true),
        ]
        .concat();
        let expected = [&b"hello"[..], &long, b"end"].concat();
        for cut in [1, 2, 3, 7, 100, 100_000] {
            let mut u = MysqlDecompressor::default();
            let mut out = Vec::new();
            assert!(
                wire.chunks(cut)
                    .all(|chunk| unpack(&mut u, chunk, &mut out)),
                "{cut}"
            );
            assert!(out == expected, "{cut}");
        }
    }

    #[test]
    fn gaps_have_a_known_length_inside() {
        let mut u = MysqlDecompressor::default();
        let mut out = Vec::new();
        let first = packet(&[b'a'; 1000], true);
        assert!(unpack(&mut u, &first[..9], &mut out));
        let made = out.len() as u64;
        assert_eq!(u.gap(2), Some(1000 - made));
        assert!(unpack(&mut u, &first[11..], &mut out));
        assert_eq!(out.len() as u64, made);
        assert!(unpack(&mut u, &packet(b"next", false)[..9], &mut out));
        assert_eq!((u.gap(2), u.gap(1)), (Some(2), None));
        assert!(out.ends_with(b"ne"));
    }

    #[test]
    fn other_bytes_are_unreadable() {
        for body in [
            &b"\x28\xb5\x2f\xfd1234"[..],
            b"\x78\x9c\xff\xff\xff\xff\xff",
            b"\x00\x01",
        ] {
            let wire = [&[body.len() as u8, 0, 0, 0, 99, 0, 0], body].concat();
            assert!(
                !unpack(&mut MysqlDecompressor::default(), &wire, &mut Vec::new()),
                "{body:?}"
            );
        }
    }
}
