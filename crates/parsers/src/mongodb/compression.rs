//! The inner message of OP_COMPRESSED, decompressed up to a limit.

use flate2::{Decompress, FlushDecompress};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::bson::length_at;
use super::header::{HEADER, MessageHeader};
use crate::block_compression::snappy;

/// Length of the fields before the compressed bytes.
const COMPRESSED_HEADER: usize = 25;
/// Maximum length of the decompressed bytes, and its ratio to the compressed ones.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
const RATIO_MAX: usize = 256;
/// Maximum window of zstd, in bits: a stream with a larger one is not read.
const WINDOW_LOG_MAX: u32 = 23;

/// Name of a compressor by its number.
pub fn name(compressor: u32) -> Option<&'static str> {
    ["noop", "snappy", "zlib", "zstd"]
        .get(compressor as usize)
        .copied()
}

/// A decompressed message.
pub struct InnerMessage {
    /// Its header, and as many bytes as were decompressed.
    pub bytes: Vec<u8>,
    pub compressor: u32,
    /// Whether these are all its bytes.
    pub is_whole: bool,
}

/// Decompresses up to `max` bytes of the message in `outer`, an OP_COMPRESSED or its first bytes.
pub fn inner(outer: &[u8], max: usize) -> Option<InnerMessage> {
    let header = MessageHeader::read(outer)?;
    let opcode = length_at(outer, HEADER)?;
    let size = length_at(outer, 20)? as usize;
    let compressor = u32::from(*outer.get(COMPRESSED_HEADER - 1)?);
    let input = &outer[COMPRESSED_HEADER..];
    let limit = size
        .min(max)
        .min(OUTPUT_BYTES_MAX)
        .min(input.len().saturating_mul(RATIO_MAX));
    let mut bytes = Vec::with_capacity(HEADER + limit);
    let length = size.saturating_add(HEADER).min(u32::MAX as usize) as u32;
    for field in [length, header.request_id, header.response_to, opcode] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    match compressor {
        0 => bytes.extend_from_slice(&input[..input.len().min(limit)]),
        1 => snappy(input, limit, &mut bytes),
        2 => zlib(input, limit, &mut bytes),
        3 => zstd(input, limit, &mut bytes),
        _ => {}
    }
    let is_whole = bytes.len() == HEADER + size;
    Some(InnerMessage {
        bytes,
        compressor,
        is_whole,
    })
}

fn zlib(input: &[u8], limit: usize, out: &mut Vec<u8>) {
    let from = out.len();
    out.resize(from + limit, 0);
    let mut zlib = Decompress::new(true);
    // An error ends the output.
    let _ = zlib.decompress(input, &mut out[from..], FlushDecompress::Sync);
    let made = zlib.total_out() as usize;
    out.truncate(from + made);
}

fn zstd(input: &[u8], limit: usize, out: &mut Vec<u8>) {
    let from = out.len();
    out.resize(from + limit, 0);
    let mut made = 0;
    if let Ok(mut decoder) = Decoder::new()
        && decoder
            .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
            .is_ok()
    {
        let mut input = InBuffer::around(input);
        let mut output = OutBuffer::around(&mut out[from..]);
        loop {
            let before = (input.pos(), output.pos());
            let run = decoder.run(&mut input, &mut output);
            let is_stuck = (input.pos(), output.pos()) == before;
            if is_stuck || matches!(run, Ok(0) | Err(_)) {
                break;
            }
        }
        made = output.pos();
    }
    out.truncate(from + made);
}
