//! Records of TLS 1.2 with AES-CBC and HMAC: MAC-then-encrypt (RFC 5246 section 6.2.3.2), or encrypt-then-MAC
//! (RFC 7366), which both hellos must name.

use std::ops::Range;

use ring::hmac;

use super::aes_blocks::{AesKey, BLOCK};

/// Length of a record's header; the initialization vector follows.
const HEAD: usize = 5;
/// Position of the first encrypted block.
const SEALED_AT: usize = HEAD + BLOCK;

/// Keys of one direction.
pub struct CbcRecordKeys {
    pub cipher: AesKey,
    pub mac: hmac::Key,
    pub encrypt_then_mac: bool,
}

impl CbcRecordKeys {
    /// Decrypts a record in place as number `sequence`. Returns the range of its content if padding and MAC are valid.
    pub fn open(&self, record: &mut [u8], sequence: u64) -> Option<Range<usize>> {
        let mac_len = self.mac.algorithm().digest_algorithm().output_len();
        let mac_before = if self.encrypt_then_mac { mac_len } else { 0 };
        let end = record.len().checked_sub(mac_before)?;
        let sealed = end.checked_sub(SEALED_AT)?;
        if sealed % BLOCK != 0
            || self.encrypt_then_mac && !self.is_valid(record, HEAD, end, sequence)
        {
            return None;
        }
        let (head, blocks) = record[..end].split_at_mut(SEALED_AT);
        let iv = head[HEAD..].try_into().ok()?;
        self.cipher.decrypt_cbc(iv, blocks);
        // The last byte is the number of padding bytes before it, which have its value.
        let last = *blocks.last()?;
        let unpadded = sealed.checked_sub(usize::from(last) + 1)?;
        if blocks[unpadded..].iter().any(|byte| *byte != last) {
            return None;
        }
        let content_end = SEALED_AT + unpadded;
        if self.encrypt_then_mac {
            return Some(SEALED_AT..content_end);
        }
        let content_end = content_end
            .checked_sub(mac_len)
            .filter(|end| *end >= SEALED_AT)?;
        self.is_valid(record, SEALED_AT, content_end, sequence)
            .then_some(SEALED_AT..content_end)
    }

    /// Whether the MAC of `record[from..to]` is behind it.
    fn is_valid(&self, record: &[u8], from: usize, to: usize, sequence: u64) -> bool {
        let mut mac = hmac::Context::with_key(&self.mac);
        mac.update(&sequence.to_be_bytes());
        mac.update(&record[..3]);
        mac.update(&((to - from) as u16).to_be_bytes());
        mac.update(&record[from..to]);
        record[to..].starts_with(mac.sign().as_ref())
    }
}
