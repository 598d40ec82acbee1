//! Redaction of texts: a [`Fold`] belongs to a field, a [`Secret`] is the key of hashes.
//!
//! Redaction cannot be undone. Equal texts stay equal where needed: they become a 64-bit SipHash-2-4 with a secret key,
//! without which texts cannot be found by trying. Among 4 billion texts, two may share a hash.

use std::fmt;

use siphasher::sip::SipHasher24;

/// Marks a hash.
const MARK: u8 = b'~';
/// What is hashed for a secret's own name.
const NAME: &[u8] = b"netalytics redaction key";

/// A way to fold texts.
#[derive(Clone, Copy)]
pub struct Fold {
    /// What files call it.
    pub name: &'static str,
    /// Appends what is left of a text.
    pub fold: fn(&Secret, &[u8], &mut Vec<u8>),
}

/// The whole text as one hash.
pub const HASH: Fold = Fold { name: "hash", fold: |secret, text, out| secret.push_hash(text, out) };

/// A path's names as hashes, one by one: what lies in one folder still does. `.` and `..` say nothing, and stay.
pub const PATH: Fold = Fold {
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
pub struct Secret(SipHasher24);

impl Secret {
    /// With this key.
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Secret {
        Secret(SipHasher24::new_with_key(key))
    }

    /// By what two uses of one key are known; it tells nothing of the key.
    #[must_use]
    pub fn name(&self) -> u64 {
        self.0.hash(NAME)
    }

    /// Appends the hash of `text`: a mark and 16 hexadecimal digits.
    pub fn push_hash(&self, text: &[u8], out: &mut Vec<u8>) {
        out.push(MARK);
        let hash = self.0.hash(text);
        let digit = |i: u32| b"0123456789abcdef"[(hash >> (60 - 4 * i) & 15) as usize];
        out.extend((0..16).map(digit));
    }
}

impl PartialEq for Fold {
    fn eq(&self, other: &Fold) -> bool {
        self.name == other.name
    }
}

impl Eq for Fold {}

impl fmt::Debug for Fold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Says nothing of the key.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({:016x})", self.name())
    }
}
