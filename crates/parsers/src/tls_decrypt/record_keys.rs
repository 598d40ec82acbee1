//! Cipher suites, keys derived from secrets (RFC 8446 section 7, RFC 5246 section 6.3), and protected records.
//!
//! The ciphers are those of `ring`, which the program's own TLS connections use. It has AES-GCM and
//! ChaCha20-Poly1305, but neither CBC nor CCM: suites with those are counted by name.

use std::ops::Range;

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305};
use ring::aead::{LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use ring::hmac;
use zeroize::Zeroizing;

use crate::tls::cipher_name;

/// Length of a record's header.
pub const HEAD: usize = 5;
/// Length of the authentication tag of every supported suite.
const TAG: usize = 16;
/// Part of a nonce that TLS 1.2 sends with each record of AES-GCM.
const EXPLICIT_NONCE: usize = 8;

/// A supported cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsSuite {
    cipher: &'static Algorithm,
    /// SHA-384 instead of SHA-256.
    sha384: bool,
    tls13: bool,
}

impl TlsSuite {
    /// The suite with this number, if supported.
    pub fn of_code(code: u16) -> Option<TlsSuite> {
        let name = cipher_name(code)?;
        let cipher = match () {
            () if name.contains("_AES_128_GCM_SHA") => &AES_128_GCM,
            () if name.contains("_AES_256_GCM_SHA") => &AES_256_GCM,
            () if name.contains("_CHACHA20_POLY1305_SHA256") => &CHACHA20_POLY1305,
            () => return None,
        };
        Some(TlsSuite {
            cipher,
            sha384: name.ends_with("_SHA384"),
            tls13: code >> 8 == 0x13,
        })
    }

    /// The suites of TLS 1.3 whose secrets have this length.
    pub fn of_secret(len: usize) -> &'static [u16] {
        match len {
            32 => &[0x1301, 0x1303],
            48 => &[0x1302],
            _ => &[],
        }
    }

    /// Whether it belongs to TLS 1.3.
    pub fn is_tls13(self) -> bool {
        self.tls13
    }

    /// Length of the part of a nonce that is sent with a record.
    fn explicit(self) -> usize {
        if self.tls13 || self.cipher == &CHACHA20_POLY1305 {
            0
        } else {
            EXPLICIT_NONCE
        }
    }
}

/// Keys of one direction, and the number of the next record.
pub struct TlsRecordKeys {
    suite: TlsSuite,
    key: LessSafeKey,
    iv: [u8; 12],
    /// Secret from which the next keys of TLS 1.3 are derived.
    secret: Zeroizing<Vec<u8>>,
    /// Number of the next record.
    pub sequence: u64,
}

impl TlsRecordKeys {
    /// Keys of a traffic secret of TLS 1.3.
    pub fn of_traffic(suite: TlsSuite, secret: Zeroizing<Vec<u8>>) -> Option<TlsRecordKeys> {
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..suite.cipher.key_len()];
        let mut iv = [0; 12];
        expand_label(suite, &secret, b"key", key)?;
        expand_label(suite, &secret, b"iv", &mut iv)?;
        TlsRecordKeys::new(suite, key, iv, secret)
    }

    /// Keys of both directions by a master secret of TLS 1.2: those of the client, then of the server.
    pub fn of_master(
        suite: TlsSuite,
        master: &[u8],
        client_random: &[u8; 32],
        server_random: &[u8; 32],
    ) -> Option<[TlsRecordKeys; 2]> {
        let key_len = suite.cipher.key_len();
        let iv_len = 12 - suite.explicit();
        let mut block = Zeroizing::new([0; 2 * (32 + 12)]);
        let seed = [b"key expansion".as_slice(), server_random, client_random].concat();
        prf(suite, master, &seed, &mut block[..2 * key_len + 2 * iv_len]);
        let keys = |n: usize| {
            let mut iv = [0; 12];
            let at = 2 * key_len + n * iv_len;
            iv[..iv_len].copy_from_slice(&block[at..at + iv_len]);
            let key = &block[n * key_len..(n + 1) * key_len];
            TlsRecordKeys::new(suite, key, iv, Zeroizing::default())
        };
        Some([keys(0)?, keys(1)?])
    }

    fn new(
        suite: TlsSuite,
        key: &[u8],
        iv: [u8; 12],
        secret: Zeroizing<Vec<u8>>,
    ) -> Option<TlsRecordKeys> {
        let key = UnboundKey::new(suite.cipher, key).ok()?;
        Some(TlsRecordKeys {
            suite,
            key: LessSafeKey::new(key),
            iv,
            secret,
            sequence: 0,
        })
    }

    /// The keys after a KeyUpdate; none in TLS 1.2.
    pub fn updated(&self) -> Option<TlsRecordKeys> {
        if !self.suite.tls13 {
            return None;
        }
        let mut secret = Zeroizing::new(vec![0; self.secret.len()]);
        expand_label(self.suite, &self.secret, b"traffic upd", &mut secret)?;
        TlsRecordKeys::of_traffic(self.suite, secret)
    }

    /// Whether they belong to TLS 1.3.
    pub fn is_tls13(&self) -> bool {
        self.suite.tls13
    }

    /// Bytes of a record that are no content: header, nonce, tag, and in TLS 1.3 the type.
    pub fn overhead(&self) -> usize {
        HEAD + self.suite.explicit() + TAG + usize::from(self.suite.tls13)
    }

    /// Decrypts a record, with its header, as number `sequence`. Returns the range of its content; the record is
    /// unchanged otherwise, if `copy` has room for it.
    pub fn open(&self, record: &mut [u8], sequence: u64) -> Option<Range<usize>> {
        let explicit = self.suite.explicit();
        let sealed_at = HEAD + explicit;
        let content = record.len().checked_sub(sealed_at + TAG)?;
        let (head, sealed) = record.split_at_mut(sealed_at);
        let nonce = self.nonce(&head[HEAD..], sequence);
        if self.suite.tls13 {
            self.key
                .open_in_place(nonce, Aad::from(&head[..HEAD]), sealed)
                .ok()?;
        } else {
            let mut aad = [0; 13];
            aad[..8].copy_from_slice(&sequence.to_be_bytes());
            aad[8..11].copy_from_slice(&head[..3]);
            aad[11..].copy_from_slice(&(content as u16).to_be_bytes());
            self.key.open_in_place(nonce, Aad::from(aad), sealed).ok()?;
        }
        Some(sealed_at..sealed_at + content)
    }

    fn nonce(&self, explicit: &[u8], sequence: u64) -> Nonce {
        let mut nonce = self.iv;
        if explicit.is_empty() {
            for (byte, number) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
                *byte ^= number;
            }
        } else {
            nonce[4..].copy_from_slice(explicit);
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Output length of HKDF.
struct OutputLength(usize);

impl KeyType for OutputLength {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label without a context (RFC 8446 section 7.1).
fn expand_label(suite: TlsSuite, secret: &[u8], label: &[u8], output: &mut [u8]) -> Option<()> {
    let hash = if suite.sha384 {
        HKDF_SHA384
    } else {
        HKDF_SHA256
    };
    let len = (output.len() as u16).to_be_bytes();
    let info = [&len[..], &[6 + label.len() as u8], b"tls13 ", label, &[0]];
    Prk::new_less_safe(hash, secret)
        .expand(&info, OutputLength(output.len()))
        .and_then(|okm| okm.fill(output))
        .ok()
}

/// The pseudorandom function of TLS 1.2 (RFC 5246 section 5); `seed` begins with the label.
fn prf(suite: TlsSuite, secret: &[u8], seed: &[u8], output: &mut [u8]) {
    let hash = if suite.sha384 {
        hmac::HMAC_SHA384
    } else {
        hmac::HMAC_SHA256
    };
    let key = hmac::Key::new(hash, secret);
    let mut a = hmac::sign(&key, seed);
    let digest = a.as_ref().len();
    for block in output.chunks_mut(digest) {
        let part = hmac::sign(&key, &[a.as_ref(), seed].concat());
        block.copy_from_slice(&part.as_ref()[..block.len()]);
        a = hmac::sign(&key, a.as_ref());
    }
}
