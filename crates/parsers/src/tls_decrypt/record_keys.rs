//! Cipher suites, keys derived from secrets (RFC 8446 section 7, RFC 5246 section 6.3), and protected records.
//!
//! AES-GCM and ChaCha20-Poly1305 are those of `ring`, which the program's own TLS connections use. It has neither CBC
//! nor CCM: their blocks are those of the crate `aes`, which is maintained, uses the processor's instructions, and needs
//! little else; HMAC is `ring`'s.

use std::ops::Range;

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305};
use ring::aead::{LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use ring::hmac;
use zeroize::Zeroizing;

use super::aes_blocks::AesKey;
use super::cbc_records::CbcRecordKeys;
use crate::tls::cipher_name;

/// Length of a record's header.
pub const HEAD: usize = 5;
/// Length of the authentication tag of AES-GCM, ChaCha20-Poly1305, and AES-CCM but CCM_8.
const TAG: usize = 16;
/// Part of a nonce that TLS 1.2 sends with each record of AES-GCM and AES-CCM.
const EXPLICIT_NONCE: usize = 8;
/// Initialization vector that TLS 1.2 sends with each record of AES-CBC.
const EXPLICIT_IV: usize = 16;

/// Cipher of a suite; lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SuiteCipher {
    /// AES-GCM or ChaCha20-Poly1305.
    Aead(&'static Algorithm),
    /// AES-CCM.
    Ccm { key_len: usize, tag_len: usize },
    /// AES-CBC with HMAC.
    Cbc {
        key_len: usize,
        mac: hmac::Algorithm,
        encrypt_then_mac: bool,
    },
}

impl SuiteCipher {
    /// The cipher that a suite's name has after `WITH`, or in TLS 1.3 after `TLS`.
    fn of_name(name: &str) -> Option<SuiteCipher> {
        let ccm = |key_len, tag_len| Self::Ccm { key_len, tag_len };
        let cbc = |key_len, mac| Self::Cbc {
            key_len,
            mac,
            encrypt_then_mac: false,
        };
        Some(match name {
            "AES_128_GCM_SHA256" => Self::Aead(&AES_128_GCM),
            "AES_256_GCM_SHA384" => Self::Aead(&AES_256_GCM),
            "CHACHA20_POLY1305_SHA256" => Self::Aead(&CHACHA20_POLY1305),
            "AES_128_CCM" | "AES_128_CCM_SHA256" => ccm(16, TAG),
            "AES_128_CCM_8" | "AES_128_CCM_8_SHA256" => ccm(16, 8),
            "AES_256_CCM" | "AES_256_CCM_SHA384" => ccm(32, TAG),
            "AES_256_CCM_8" => ccm(32, 8),
            "AES_128_CBC_SHA" => cbc(16, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            "AES_256_CBC_SHA" => cbc(32, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            "AES_128_CBC_SHA256" => cbc(16, hmac::HMAC_SHA256),
            "AES_256_CBC_SHA256" => cbc(32, hmac::HMAC_SHA256),
            "AES_256_CBC_SHA384" => cbc(32, hmac::HMAC_SHA384),
            _ => return None,
        })
    }

    fn key_len(self) -> usize {
        match self {
            Self::Aead(algorithm) => algorithm.key_len(),
            Self::Ccm { key_len, .. } | Self::Cbc { key_len, .. } => key_len,
        }
    }

    /// Length of the key of a separate MAC.
    fn mac_len(self) -> usize {
        match self {
            Self::Cbc { mac, .. } => mac.digest_algorithm().output_len(),
            Self::Aead(_) | Self::Ccm { .. } => 0,
        }
    }
}

/// A supported cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsSuite {
    cipher: SuiteCipher,
    /// SHA-384 instead of SHA-256 in the key schedule.
    sha384: bool,
    tls13: bool,
}

impl TlsSuite {
    /// The suite with this number, if supported.
    pub fn of_code(code: u16) -> Option<TlsSuite> {
        let name = cipher_name(code)?;
        let cipher = match name.split_once("_WITH_") {
            Some((_, cipher)) => cipher,
            None => name.strip_prefix("TLS_")?,
        };
        Some(TlsSuite {
            cipher: SuiteCipher::of_name(cipher)?,
            sha384: name.ends_with("_SHA384"),
            tls13: code >> 8 == 0x13,
        })
    }

    /// The suite with encrypt-then-MAC, if it has CBC.
    pub fn with_encrypt_then_mac(mut self) -> TlsSuite {
        if let SuiteCipher::Cbc {
            encrypt_then_mac, ..
        } = &mut self.cipher
        {
            *encrypt_then_mac = true;
        }
        self
    }

    /// The suites of TLS 1.3 whose secrets have this length.
    pub fn of_secret(len: usize) -> &'static [u16] {
        match len {
            32 => &[0x1301, 0x1303, 0x1304, 0x1305],
            48 => &[0x1302],
            _ => &[],
        }
    }

    /// Whether it belongs to TLS 1.3.
    pub fn is_tls13(self) -> bool {
        self.tls13
    }

    /// Length of the part of a nonce or initialization vector that is sent with a record.
    fn explicit(self) -> usize {
        match self.cipher {
            SuiteCipher::Cbc { .. } => EXPLICIT_IV,
            SuiteCipher::Aead(cipher) if cipher == &CHACHA20_POLY1305 => 0,
            _ if self.tls13 => 0,
            SuiteCipher::Aead(_) | SuiteCipher::Ccm { .. } => EXPLICIT_NONCE,
        }
    }

    /// Length of the secret part of a nonce.
    fn implicit(self) -> usize {
        12_usize.saturating_sub(self.explicit())
    }

    /// Minimum number of bytes after the content: a tag, or a MAC and the length of padding.
    fn trailer(self) -> usize {
        match self.cipher {
            SuiteCipher::Aead(_) => TAG,
            SuiteCipher::Ccm { tag_len, .. } => tag_len,
            SuiteCipher::Cbc { .. } => self.cipher.mac_len() + 1,
        }
    }
}

/// Keys of a cipher.
enum RecordCipher {
    Aead(LessSafeKey),
    Ccm(AesKey, usize),
    Cbc(CbcRecordKeys),
}

impl RecordCipher {
    fn new(cipher: SuiteCipher, mac_key: &[u8], key: &[u8]) -> Option<RecordCipher> {
        Some(match cipher {
            SuiteCipher::Aead(algorithm) => {
                Self::Aead(LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?))
            }
            SuiteCipher::Ccm { tag_len, .. } => Self::Ccm(AesKey::new(key)?, tag_len),
            SuiteCipher::Cbc {
                mac,
                encrypt_then_mac,
                ..
            } => Self::Cbc(CbcRecordKeys {
                cipher: AesKey::new(key)?,
                mac: hmac::Key::new(mac, mac_key),
                encrypt_then_mac,
            }),
        })
    }
}

/// Keys of one direction, and the number of the next record.
pub struct TlsRecordKeys {
    suite: TlsSuite,
    cipher: RecordCipher,
    /// Nonce of a record, but for its number or its explicit part.
    iv: Zeroizing<[u8; 12]>,
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
        let mut iv = Zeroizing::new([0; 12]);
        expand_label(suite, &secret, b"key", key)?;
        expand_label(suite, &secret, b"iv", &mut *iv)?;
        TlsRecordKeys::new(suite, (&[], key), iv, secret)
    }

    /// Keys of both directions by a master secret of TLS 1.2: those of the client, then of the server.
    pub fn of_master(
        suite: TlsSuite,
        master: &[u8],
        client_random: &[u8; 32],
        server_random: &[u8; 32],
    ) -> Option<[TlsRecordKeys; 2]> {
        const PARTS_MAX: usize = 48 + 32 + 12;
        let mac_len = suite.cipher.mac_len();
        let key_len = suite.cipher.key_len();
        let iv_len = suite.implicit();
        let mut block = Zeroizing::new([0; 2 * PARTS_MAX]);
        let seed = [b"key expansion".as_slice(), server_random, client_random].concat();
        let block = &mut block[..2 * (mac_len + key_len + iv_len)];
        prf(suite, master, &seed, block);
        let (mac_keys, rest) = block.split_at(2 * mac_len);
        let (keys, ivs) = rest.split_at(2 * key_len);
        let of_side = |n: usize| {
            let part = |len: usize| n * len..(n + 1) * len;
            let mut iv = Zeroizing::new([0; 12]);
            iv[..iv_len].copy_from_slice(&ivs[part(iv_len)]);
            let keys = (&mac_keys[part(mac_len)], &keys[part(key_len)]);
            TlsRecordKeys::new(suite, keys, iv, Zeroizing::default())
        };
        Some([of_side(0)?, of_side(1)?])
    }

    fn new(
        suite: TlsSuite,
        (mac_key, key): (&[u8], &[u8]),
        iv: Zeroizing<[u8; 12]>,
        secret: Zeroizing<Vec<u8>>,
    ) -> Option<TlsRecordKeys> {
        Some(TlsRecordKeys {
            suite,
            cipher: RecordCipher::new(suite.cipher, mac_key, key)?,
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

    /// Minimum number of bytes of a record that are no content: header, nonce, tag, and in TLS 1.3 the type. Padding,
    /// which CBC always has and TLS 1.3 permits, is not included.
    pub fn overhead(&self) -> usize {
        HEAD + self.suite.explicit() + self.suite.trailer() + usize::from(self.suite.tls13)
    }

    /// Decrypts a record, with its header, as number `sequence`. Returns the range of its content if its tag is valid;
    /// otherwise, the record may have been changed.
    pub fn open(&self, record: &mut [u8], sequence: u64) -> Option<Range<usize>> {
        let sealed_at = HEAD + self.suite.explicit();
        let len = record.len().checked_sub(sealed_at + self.suite.trailer())?;
        let content = sealed_at..sealed_at + len;
        // No mutation finds a tag: the record number in its last byte replaces it, and nothing is encrypted.
        #[allow(unexpected_cfgs)]
        if cfg!(fuzzing) {
            return (record.last() == Some(&(sequence as u8))).then_some(content);
        }
        let (head, sealed) = record.split_at_mut(sealed_at);
        let mut about = [0; 13];
        let about = if self.suite.tls13 {
            &head[..HEAD]
        } else {
            about[..8].copy_from_slice(&sequence.to_be_bytes());
            about[8..11].copy_from_slice(&head[..3]);
            about[11..].copy_from_slice(&(len as u16).to_be_bytes());
            &about
        };
        match &self.cipher {
            RecordCipher::Aead(key) => {
                let nonce = Nonce::assume_unique_for_key(self.nonce(&head[HEAD..], sequence));
                key.open_in_place(nonce, Aad::from(about), sealed).ok()?;
            }
            RecordCipher::Ccm(key, tag_len) => {
                let nonce = self.nonce(&head[HEAD..], sequence);
                key.open_ccm(nonce, about, sealed, *tag_len)?;
            }
            RecordCipher::Cbc(keys) => return keys.open(record, sequence),
        }
        Some(content)
    }

    fn nonce(&self, explicit: &[u8], sequence: u64) -> [u8; 12] {
        let mut nonce = *self.iv;
        if explicit.is_empty() {
            for (byte, number) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
                *byte ^= number;
            }
        } else {
            nonce[4..].copy_from_slice(explicit);
        }
        nonce
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
