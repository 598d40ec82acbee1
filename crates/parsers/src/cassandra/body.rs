//! Reads the notations of a message body ("Notations" in the protocol's specification). `None`: the bytes end before.

/// A position in a body, or in its first bytes.
#[derive(Clone, Copy, Debug)]
pub struct BodyReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BodyReader<'a> {
    pub fn new(bytes: &'a [u8]) -> BodyReader<'a> {
        BodyReader { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.rest().get(..length)?;
        self.at += length;
        Some(taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub fn short(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub fn int(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    }

    /// `[string]` and `[short bytes]`.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.short()?;
        self.take(length.into())
    }

    /// `[long string]`.
    pub fn long_string(&mut self) -> Option<&'a [u8]> {
        let length = self.int()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// `[bytes]` and `[value]`: a negative length has no bytes.
    pub fn skip_bytes(&mut self) -> Option<()> {
        let length = self.int()?.cast_signed();
        self.take(usize::try_from(length).unwrap_or(0))?;
        Some(())
    }

    /// `[bytes map]`.
    pub fn skip_bytes_map(&mut self) -> Option<()> {
        for _ in 0..self.short()? {
            self.string()?;
            self.skip_bytes()?;
        }
        Some(())
    }

    /// `[option]`, the type of a column, inside `depth` others.
    pub fn skip_type(&mut self, depth: u32) -> Option<()> {
        /// Maximum depth of types.
        const DEPTH_MAX: u32 = 32;
        if depth == DEPTH_MAX {
            return None;
        }
        match self.short()? {
            0x00 => drop(self.string()?),
            0x20 | 0x22 => self.skip_type(depth + 1)?,
            0x21 => {
                self.skip_type(depth + 1)?;
                self.skip_type(depth + 1)?;
            }
            0x30 => {
                self.string()?;
                self.string()?;
                for _ in 0..self.short()? {
                    self.string()?;
                    self.skip_type(depth + 1)?;
                }
            }
            0x31 => {
                for _ in 0..self.short()? {
                    self.skip_type(depth + 1)?;
                }
            }
            _ => {}
        }
        Some(())
    }
}
