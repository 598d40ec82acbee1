//! Compressed bodies of versions 3 and 4, decompressed up to a limit. The algorithm is known from STARTUP; in a connection joined
//! midway both are tried.

use crate::block_compression::{lz4, snappy};

/// Maximum length of a decompressed body, and its ratio to the compressed one.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
const RATIO_MAX: usize = 256;
/// Length before a block of LZ4.
const LZ4_HEADER: usize = 4;

/// Compression algorithm of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CqlCompression {
    Lz4,
    Snappy,
}

impl CqlCompression {
    /// The algorithm with this name in STARTUP.
    pub fn of(name: &[u8]) -> Option<CqlCompression> {
        [CqlCompression::Lz4, CqlCompression::Snappy]
            .into_iter()
            .find(|algorithm| algorithm.name().as_bytes().eq_ignore_ascii_case(name))
    }

    pub fn name(self) -> &'static str {
        match self {
            CqlCompression::Lz4 => "lz4",
            CqlCompression::Snappy => "snappy",
        }
    }

    /// Decompresses up to `max` bytes of the body in `input`, its first bytes; appends them to `out`. Returns the length that the body
    /// states.
    fn decompress(self, input: &[u8], max: usize, out: &mut Vec<u8>) -> Option<usize> {
        let length = match self {
            CqlCompression::Lz4 => u32::from_be_bytes(*input.first_chunk()?) as usize,
            CqlCompression::Snappy => snappy_length(input)?,
        };
        let limit = length
            .min(max)
            .min(OUTPUT_BYTES_MAX)
            .min(input.len().saturating_mul(RATIO_MAX));
        match self {
            CqlCompression::Lz4 => {
                lz4(&input[LZ4_HEADER..], limit, out);
            }
            CqlCompression::Snappy => snappy(input, limit, out),
        }
        Some(length)
    }
}

/// A decompressed body.
pub struct DecompressedBody {
    /// As many bytes as were decompressed.
    pub bytes: Vec<u8>,
    pub algorithm: CqlCompression,
    /// Whether these are all its bytes.
    pub is_whole: bool,
}

/// Decompresses up to `max` bytes of a body, of which `input` are the first bytes or all. Without a known algorithm, the one that gives
/// the length that the body states; of the first bytes of a body that is not possible.
pub fn body(known: Option<CqlCompression>, input: &[u8], max: usize) -> Option<DecompressedBody> {
    let of = |algorithm: CqlCompression| {
        let mut bytes = Vec::new();
        let length = algorithm.decompress(input, max, &mut bytes)?;
        let is_whole = bytes.len() == length;
        Some(DecompressedBody {
            bytes,
            algorithm,
            is_whole,
        })
    };
    match known {
        Some(algorithm) => of(algorithm),
        None => {
            let mut both = [CqlCompression::Lz4, CqlCompression::Snappy]
                .into_iter()
                .filter_map(of)
                .filter(|body| body.is_whole && !body.bytes.is_empty());
            let first = both.next()?;
            both.next().is_none().then_some(first)
        }
    }
}

/// Length in front of a Snappy block: groups of 7 bits, the lowest first.
fn snappy_length(input: &[u8]) -> Option<usize> {
    let mut length = 0;
    for (place, byte) in input.iter().take(5).enumerate() {
        length |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return usize::try_from(length).ok();
        }
    }
    None
}
