//! Redaction of texts: a [`TextFold`] is the method of a field, a [`RedactionSecret`] the key of hashes.
//!
//! Redaction cannot be undone. Equal texts stay equal if needed: they become a 64-bit SipHash-2-4 with a secret key,
//! without which texts cannot be found by trying. Among 4 billion texts, two may share a hash.

use std::fmt;

use siphasher::sip::SipHasher24;

/// Prefix of a hash.
const MARK: u8 = b'~';
/// Input of the hash that identifies a secret.
const NAME: &[u8] = b"netalytics redaction key";

/// A method of redaction.
#[derive(Clone, Copy)]
pub struct TextFold {
    /// Name in files.
    pub name: &'static str,
    /// Appends the redacted text.
    pub fold: fn(&RedactionSecret, &[u8], &mut Vec<u8>),
}

/// The whole text as one hash.
pub const HASH: TextFold = TextFold {
    name: "hash",
    fold: |secret, text, out| secret.push_hash(text, out),
};

/// The components of a path as separate hashes, so that entries of one directory keep a common prefix. `.` and `..`
/// are unchanged.
pub const PATH: TextFold = TextFold {
    name: "path",
    fold: |secret, path, out| {
        for (i, name) in path.split(|b| *b == b'/').enumerate() {
            if i > 0 {
                out.push(b'/');
            }
            match name {
                b"" | b"." | b".." => out.extend_from_slice(name),
                _ => secret.push_hash(name, out),
            }
        }
    },
};

/// The key of hashes.
#[derive(Clone)]
pub struct RedactionSecret(SipHasher24);

impl RedactionSecret {
    /// Creates a secret from a key.
    #[must_use]
    pub fn new(key: &[u8; 16]) -> RedactionSecret {
        RedactionSecret(SipHasher24::new_with_key(key))
    }

    /// A fingerprint that identifies the key without revealing it.
    #[must_use]
    pub fn name(&self) -> u64 {
        self.0.hash(NAME)
    }

    /// Appends the hash of `text`: a prefix and 16 hexadecimal digits.
    pub fn push_hash(&self, text: &[u8], out: &mut Vec<u8>) {
        out.push(MARK);
        let hash = self.0.hash(text);
        let digit = |i: u32| b"0123456789abcdef"[(hash >> (60 - 4 * i) & 15) as usize];
        out.extend((0..16).map(digit));
    }
}

impl PartialEq for TextFold {
    fn eq(&self, other: &TextFold) -> bool {
        self.name == other.name
    }
}

impl Eq for TextFold {}

impl fmt::Debug for TextFold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Does not reveal the key.
impl fmt::Debug for RedactionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({:016x})", self.name())
    }
}
