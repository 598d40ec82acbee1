//! Blocks for the tests of this crate, in either byte order.

/// Writes blocks.
#[derive(Default)]
pub struct PcapngBlockWriter {
    pub big_endian: bool,
    pub bytes: Vec<u8>,
}

impl PcapngBlockWriter {
    /// A file that begins with a section.
    pub fn new(big_endian: bool) -> PcapngBlockWriter {
        PcapngBlockWriter {
            big_endian,
            bytes: Vec::new(),
        }
        .section(big_endian)
    }

    pub fn word(&self, word: u32) -> [u8; 4] {
        if self.big_endian {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        }
    }

    pub fn short(&self, short: u16) -> [u8; 2] {
        if self.big_endian {
            short.to_be_bytes()
        } else {
            short.to_le_bytes()
        }
    }

    pub fn long(&self, long: u64) -> [u8; 8] {
        if self.big_endian {
            long.to_be_bytes()
        } else {
            long.to_le_bytes()
        }
    }

    /// Any block: its body is padded.
    pub fn block(mut self, kind: u32, body: &[&[u8]]) -> PcapngBlockWriter {
        let mut body = body.concat();
        body.resize(body.len().next_multiple_of(4), 0);
        let len = self.word(12 + body.len() as u32);
        let kind = self.word(kind);
        self.bytes.extend([&kind[..], &len, &body, &len].concat());
        self
    }

    pub fn section(mut self, big_endian: bool) -> PcapngBlockWriter {
        self.big_endian = big_endian;
        let magic = self.word(super::BYTE_ORDER_MAGIC);
        let one = self.short(1);
        let zero = self.short(0);
        self.block(super::SECTION_HEADER, &[&magic, &one, &zero, &[0xff; 8]])
    }

    /// With options as in the file.
    pub fn interface(self, link_type: u16, snaplen: u32, options: &[u8]) -> PcapngBlockWriter {
        let link_type = self.short(link_type);
        let snaplen = self.word(snaplen);
        self.block(
            super::INTERFACE_DESCRIPTION,
            &[&link_type, &[0, 0], &snaplen, options],
        )
    }

    pub fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [
            &self.short(code)[..],
            &self.short(value.len() as u16),
            value,
        ]
        .concat();
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    pub fn enhanced(
        self,
        interface: u32,
        units: u64,
        original_len: u32,
        bytes: &[u8],
    ) -> PcapngBlockWriter {
        let words = [
            interface,
            (units >> 32) as u32,
            units as u32,
            bytes.len() as u32,
            original_len,
        ];
        let fields = words.map(|w| self.word(w)).concat();
        self.block(super::ENHANCED_PACKET, &[&fields, bytes])
    }
}
