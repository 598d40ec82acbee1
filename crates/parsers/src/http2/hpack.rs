//! Header compression of one direction (RFC 7541), also when earlier blocks are unknown.
//!
//! The dynamic table is addressed from its newest entry. So the entries inserted since the decoder started
//! resolve exactly, and a reference to an older one is unknown, never a guess. An entry whose name is such a
//! reference stays as one without a name, so that the count holds. Size updates only evict, and an encoder does
//! not refer to what it has evicted: entries kept too long do no harm.

use std::collections::VecDeque;

use super::huffman;
use super::static_table::STATIC_TABLE;

/// Bytes of a dynamic table, as HPACK counts them.
pub const TABLE_BYTES_MAX: usize = 64 << 10;
/// Size of a dynamic table before any update.
const TABLE_BYTES_DEFAULT: usize = 4096;
/// Size of an entry besides its texts.
const ENTRY_BYTES: usize = 32;

/// The dynamic table of one direction, from some block of the connection on.
#[derive(Debug)]
pub struct HpackDecoder {
    /// The newest entry is first.
    entries: VecDeque<HpackEntry>,
    bytes: usize,
    bytes_max: usize,
    /// Whether the first entry of the connection was seen, and every one after it.
    is_whole: bool,
    /// The encoder uses a larger table than the maximum.
    is_cut: bool,
    /// Decoded texts of the current field.
    name: Vec<u8>,
    value: Vec<u8>,
    /// Text of an evicted entry, to be reused.
    spare: Vec<u8>,
}

#[derive(Debug)]
struct HpackEntry {
    text: Vec<u8>,
    /// Length of the name in `text`; `None`: unknown.
    name: Option<usize>,
}

/// A header field; unknown parts are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderField<'a> {
    pub name: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
}

/// An invalid block: the entries that it inserts are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidBlock;

impl HpackDecoder {
    /// The decoder of a connection captured from its start, or of one joined later.
    pub fn new(is_whole: bool) -> HpackDecoder {
        HpackDecoder {
            entries: VecDeque::new(),
            bytes: 0,
            bytes_max: if is_whole {
                TABLE_BYTES_DEFAULT
            } else {
                TABLE_BYTES_MAX
            },
            is_whole,
            is_cut: false,
            name: Vec::new(),
            value: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Forgets everything: a block was lost.
    pub fn restart(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        self.bytes_max = TABLE_BYTES_MAX;
        self.is_whole = false;
    }

    /// Whether the encoder uses a larger table than the maximum, so that references may be unknown.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Decodes a block and passes its fields to `sink`.
    pub fn decode(
        &mut self,
        block: &[u8],
        mut sink: impl FnMut(HeaderField<'_>),
    ) -> Result<(), InvalidBlock> {
        let mut rest = block;
        while let Some(first) = rest.first().copied() {
            match first {
                0x80.. => {
                    let index = integer(&mut rest, 7)?;
                    sink(self.field(index)?);
                }
                0x40..=0x7f => {
                    let name = self.literal(&mut rest, 6)?;
                    self.insert(name);
                    sink(self.field(STATIC_TABLE.len() + 1)?);
                    self.evict(0);
                }
                0x20..=0x3f => {
                    let size = integer(&mut rest, 5)?;
                    self.is_cut |= size > TABLE_BYTES_MAX;
                    self.bytes_max = size.min(TABLE_BYTES_MAX);
                    self.evict(0);
                }
                _ => {
                    let name = self.literal(&mut rest, 4)?;
                    sink(HeaderField {
                        name: name.then_some(&self.name),
                        value: Some(&self.value),
                    });
                }
            }
        }
        Ok(())
    }

    /// Reads a literal's name and value. Returns whether the name is known.
    fn literal(&mut self, rest: &mut &[u8], bits: u32) -> Result<bool, InvalidBlock> {
        let index = integer(rest, bits)?;
        self.name.clear();
        let mut is_known = true;
        if index == 0 {
            string(rest, &mut self.name)?;
        } else {
            let mut name = std::mem::take(&mut self.name);
            let known = self
                .field(index)?
                .name
                .map(|text| name.extend_from_slice(text));
            is_known = known.is_some();
            self.name = name;
        }
        self.value.clear();
        string(rest, &mut self.value)?;
        Ok(is_known)
    }

    /// The field of an index.
    fn field(&self, index: usize) -> Result<HeaderField<'_>, InvalidBlock> {
        if index == 0 {
            return Err(InvalidBlock);
        }
        if let Some((name, value)) = STATIC_TABLE.get(index - 1) {
            return Ok(HeaderField {
                name: Some(name),
                value: Some(value),
            });
        }
        match self.entries.get(index - 1 - STATIC_TABLE.len()) {
            Some(HpackEntry {
                text,
                name: Some(at),
            }) => Ok(HeaderField {
                name: Some(&text[..*at]),
                value: Some(&text[*at..]),
            }),
            Some(HpackEntry { text, name: None }) => Ok(HeaderField {
                name: None,
                value: Some(text),
            }),
            None if self.is_whole && !self.is_cut => Err(InvalidBlock),
            None => Ok(HeaderField {
                name: None,
                value: None,
            }),
        }
    }

    /// Inserts the current literal.
    fn insert(&mut self, has_name: bool) {
        let mut text = std::mem::take(&mut self.spare);
        text.clear();
        if has_name {
            text.extend_from_slice(&self.name);
        }
        let name = has_name.then_some(text.len());
        text.extend_from_slice(&self.value);
        self.bytes += text.len() + ENTRY_BYTES;
        self.entries.push_front(HpackEntry { text, name });
        // The new field is still to be read, even if it does not fit.
        self.evict(1);
    }

    /// Evicts the oldest entries while the table is too large, except the `kept` newest.
    fn evict(&mut self, kept: usize) {
        while self.bytes > self.bytes_max && self.entries.len() > kept {
            if let Some(entry) = self.entries.pop_back() {
                self.bytes -= entry.text.len() + ENTRY_BYTES;
                self.spare = entry.text;
            }
        }
    }
}

/// An integer with a prefix of `bits` bits (RFC 7541 section 5.1).
fn integer(rest: &mut &[u8], bits: u32) -> Result<usize, InvalidBlock> {
    let (first, mut more) = rest.split_first().ok_or(InvalidBlock)?;
    let max = (1_usize << bits) - 1;
    let mut value = usize::from(*first) & max;
    if value == max {
        let mut shift = 0;
        loop {
            let (byte, after) = more.split_first().ok_or(InvalidBlock)?;
            more = after;
            if shift > 21 {
                return Err(InvalidBlock);
            }
            value += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = more;
    Ok(value)
}

/// Appends a string literal to `out`.
fn string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), InvalidBlock> {
    let first = *rest.first().ok_or(InvalidBlock)?;
    let len = integer(rest, 7)?;
    if len > rest.len() {
        return Err(InvalidBlock);
    }
    let (text, after) = rest.split_at(len);
    *rest = after;
    if first & 0x80 == 0 {
        out.extend_from_slice(text);
    } else if !huffman::decode(text, out) {
        return Err(InvalidBlock);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(decoder: &mut HpackDecoder, block: &[u8]) -> String {
        let part = |text: Option<&[u8]>| text.map_or("?".into(), |t| t.escape_ascii().to_string());
        let mut out = Vec::new();
        let result = decoder.decode(block, |field| {
            out.push(format!("{}={}", part(field.name), part(field.value)));
        });
        if result.is_err() {
            out.push("invalid".to_owned());
        }
        out.join(" ")
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| {
            u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("digits")
        };
        digits.chunks(2).map(byte).collect()
    }

    /// The examples of RFC 7541 appendices C.3 to C.6.
    #[test]
    fn examples_of_the_specification() {
        let requests = [
            (
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
                "",
            ),
            (
                "8286 84be 5808 6e6f 2d63 6163 6865",
                "8286 84be 5886 a8eb 1064 9cbf",
                " cache-control=no-cache",
            ),
        ];
        let mut plain = HpackDecoder::new(true);
        let mut coded = HpackDecoder::new(true);
        for (text, huffman, more) in requests {
            let expected =
                format!(":method=GET :scheme=http :path=/ :authority=www.example.com{more}");
            assert_eq!(fields(&mut plain, &bytes(text)), expected);
            assert_eq!(fields(&mut coded, &bytes(huffman)), expected);
        }
        // Responses with a table of 256 bytes, from which entries are evicted.
        let mut decoder = HpackDecoder::new(true);
        decoder.bytes_max = 256;
        let first = "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
        assert_eq!(
            fields(&mut decoder, &bytes(first)),
            ":status=302 cache-control=private date=Mon, 21 Oct 2013 20:13:21 GMT location=https://www.example.com"
        );
        assert_eq!(
            fields(&mut decoder, &bytes("4883 640e ffc1 c0bf")),
            ":status=307 cache-control=private date=Mon, 21 Oct 2013 20:13:21 GMT location=https://www.example.com"
        );
        assert_eq!(decoder.entries.len(), 4);
        assert_eq!(decoder.bytes, 222);
    }

    #[test]
    fn a_decoder_that_joined_late_is_never_wrong() {
        // The table has x: 1 before the decoder joins, then y: 2 and, by the name of the older entry, x: 3.
        let mut joined = HpackDecoder::new(false);
        assert_eq!(fields(&mut joined, b"\x40\x01y\x012"), "y=2");
        assert_eq!(fields(&mut joined, b"\x7f\x00\x013"), "?=3");
        assert_eq!(fields(&mut joined, b"\xbe\xbf\xc0"), "?=3 y=2 ?=?");
        assert_eq!(fields(&mut joined, b"\x0f\x2f\x01!"), "?=!");
        joined.restart();
        assert_eq!(fields(&mut joined, b"\xbf"), "?=?");
        let mut whole = HpackDecoder::new(true);
        assert_eq!(fields(&mut whole, b"\xbe"), "invalid");
    }

    #[test]
    fn the_table_is_bounded() {
        let mut decoder = HpackDecoder::new(true);
        // A table of 1 MiB.
        fields(&mut decoder, b"\x3f\xe1\xff\x3f");
        assert!(decoder.is_cut());
        let insertion = [&b"\x40\x01a\x7f\x81\x01"[..], &[b'x'; 256]].concat();
        for _ in 0..1000 {
            fields(&mut decoder, &insertion);
        }
        assert!(decoder.bytes <= TABLE_BYTES_MAX && decoder.entries.len() > 200);
        fields(&mut decoder, b"\x20");
        assert_eq!((decoder.bytes, decoder.entries.len()), (0, 0));
        // An entry larger than the table empties it, and is a field nevertheless.
        assert_eq!(fields(&mut decoder, b"\x40\x01a\x01b"), "a=b");
        assert!(decoder.entries.is_empty());
    }

    #[test]
    fn invalid_blocks() {
        let invalid: [&[u8]; 6] = [
            b"\x80",
            b"\x40\x05ab",
            b"\xff\xff\xff\xff\xff\xff",
            b"\x40\x81\x00\x00",
            b"\x40\x84\xff\xff\xff\xff\x00",
            b"\x00\x01a\x82\xff\xff",
        ];
        for block in invalid {
            assert!(fields(&mut HpackDecoder::new(false), block).ends_with("invalid"));
        }
    }
}
