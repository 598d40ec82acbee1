//! Huffman code of HPACK (RFC 7541 appendix B). The code is canonical: the lengths of its codes define it.

/// Lengths of the codes in bits, by symbol; the last is the end of the string.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// The longest code in bits.
const BITS_MAX: usize = 30;
/// Bits that the table of short codes has as an index.
const SHORT_BITS: usize = 8;
/// Symbol of the end, which only pads a string.
const END: u16 = 256;

/// Tables for decoding.
struct HuffmanTables {
    /// Symbols in the order of their codes.
    symbols: [u16; 257],
    /// Per length: the code after its last one, aligned to 30 bits.
    ends: [u32; BITS_MAX + 1],
    /// Per length: its first code, and the index of the first symbol.
    starts: [(u32, u16); BITS_MAX + 1],
    /// Symbol and length of the code that begins with these bits; length 0: longer.
    short: [(u8, u8); 1 << SHORT_BITS],
}

static TABLES: HuffmanTables = HuffmanTables::new();

impl HuffmanTables {
    const fn new() -> HuffmanTables {
        let mut tables = HuffmanTables {
            symbols: [0; 257],
            ends: [0; BITS_MAX + 1],
            starts: [(0, 0); BITS_MAX + 1],
            short: [(0, 0); 1 << SHORT_BITS],
        };
        let mut code = 0;
        let mut count = 0;
        let mut bits = 1;
        while bits <= BITS_MAX {
            code <<= 1;
            tables.starts[bits] = (code, count as u16);
            let mut symbol = 0;
            while symbol < 257 {
                if LENGTHS[symbol] as usize == bits {
                    tables.symbols[count] = symbol as u16;
                    if bits <= SHORT_BITS {
                        let first = (code as usize) << (SHORT_BITS - bits);
                        let mut i = 0;
                        while i < 1 << (SHORT_BITS - bits) {
                            tables.short[first + i] = (symbol as u8, bits as u8);
                            i += 1;
                        }
                    }
                    code += 1;
                    count += 1;
                }
                symbol += 1;
            }
            tables.ends[bits] = code << (BITS_MAX - bits);
            bits += 1;
        }
        tables
    }
}

/// Appends the decoded `bytes` to `out`. Returns false if they are invalid.
pub fn decode(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = bytes.iter();
    // The next bits, from the highest one on.
    let mut window: u64 = 0;
    let mut held = 0;
    loop {
        while held <= 56 {
            let Some(byte) = rest.next() else { break };
            window |= u64::from(*byte) << (56 - held);
            held += 8;
        }
        let (symbol, bits) = TABLES.short[(window >> 56) as usize];
        let (symbol, bits) = if bits > 0 {
            (u16::from(symbol), usize::from(bits))
        } else {
            long((window >> (64 - BITS_MAX)) as u32)
        };
        if bits > held {
            // Padding: fewer than eight bits, all set.
            return held < 8 && window == window_mask(held);
        }
        if symbol == END {
            return false;
        }
        out.push(symbol as u8);
        window <<= bits;
        held -= bits;
    }
}

/// The highest `held` bits.
fn window_mask(held: usize) -> u64 {
    if held == 0 { 0 } else { !0 << (64 - held) }
}

/// Symbol and length of a code of more than eight bits.
fn long(next: u32) -> (u16, usize) {
    let mut bits = SHORT_BITS + 1;
    while bits < BITS_MAX && next >= TABLES.ends[bits] {
        bits += 1;
    }
    let (first, at) = TABLES.starts[bits];
    let symbol = usize::from(at) + ((next >> (BITS_MAX - bits)) - first) as usize;
    (TABLES.symbols[symbol.min(256)], bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends the code of each symbol, by the lengths alone.
    fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = String::new();
        for byte in text {
            let at = TABLES.symbols.iter().position(|s| *s == u16::from(*byte));
            let at = at.expect("a symbol") as u32;
            let len = usize::from(LENGTHS[usize::from(*byte)]);
            let (first, start) = TABLES.starts[len];
            let code = first + at - u32::from(start);
            bits += &format!("{code:0len$b}");
        }
        while !bits.len().is_multiple_of(8) {
            bits.push('1');
        }
        let byte = |i: usize| u8::from_str_radix(&bits[i..i + 8], 2).expect("bits");
        (0..bits.len()).step_by(8).map(byte).collect()
    }

    #[test]
    fn every_symbol() {
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        for text in [&all[..], b"www.example.com", b"", b"0", b"\0\n\xff"] {
            let mut out = Vec::new();
            assert!(decode(&encode(text), &mut out));
            assert_eq!(out, text);
        }
    }

    #[test]
    fn invalid_strings() {
        // Padding of zeros, of eight bits, and the code of the end.
        for bytes in [&b"\x00"[..], b"\xff", b"\x1f\xff", b"\xff\xff\xff\xff"] {
            assert!(!decode(bytes, &mut Vec::new()), "{bytes:?}");
        }
    }
}
