//! ONC-RPC messages byte by byte (XDR, RFC 4506), and their records over TCP (RFC 5531, section 11).

/// An XDR message under construction.
#[derive(Clone, Debug, Default)]
pub struct XdrWriter(pub Vec<u8>);

impl XdrWriter {
    /// Appends a 32-bit number.
    #[must_use]
    pub fn u32(mut self, word: u32) -> XdrWriter {
        self.0.extend_from_slice(&word.to_be_bytes());
        self
    }

    /// Appends several 32-bit numbers.
    #[must_use]
    pub fn words(self, words: &[u32]) -> XdrWriter {
        words.iter().fold(self, |x, word| x.u32(*word))
    }

    /// Appends a 64-bit number.
    #[must_use]
    pub fn u64(mut self, word: u64) -> XdrWriter {
        self.0.extend_from_slice(&word.to_be_bytes());
        self
    }

    /// Appends bytes with their length, padded to a multiple of four.
    #[must_use]
    pub fn opaque(mut self, bytes: &[u8]) -> XdrWriter {
        self = self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Appends the attributes of an NFS version 3 file (`fattr3`, RFC 1813).
    #[must_use]
    pub fn attributes(self, size: u64) -> XdrWriter {
        self.words(&[1, 0o644, 1, 10, 20])
            .u64(size)
            .u64(4096)
            .u64(0)
            .u64(7)
            .u64(99)
            .words(&[1, 2, 3, 4, 5, 6])
    }

    /// Returns a record of one fragment.
    #[must_use]
    pub fn record(self) -> Vec<u8> {
        let mut record = (0x8000_0000 | self.0.len() as u32).to_be_bytes().to_vec();
        record.extend_from_slice(&self.0);
        record
    }

    /// Returns a record of fragments of at most `n` bytes.
    #[must_use]
    pub fn fragments(self, n: usize) -> Vec<u8> {
        let mut record = Vec::new();
        let last = self.0.len().div_ceil(n) - 1;
        for (i, piece) in self.0.chunks(n).enumerate() {
            let mark = u32::from(i == last) << 31 | piece.len() as u32;
            record.extend_from_slice(&mark.to_be_bytes());
            record.extend_from_slice(piece);
        }
        record
    }
}
