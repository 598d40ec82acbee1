//! AES on blocks of 16 bytes, and the two modes that `ring` lacks: CBC, and CCM (RFC 3610).
//!
//! Comparisons take no constant time: only the owner of the keys sees their result.

use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit, array::sizes::U16};
use aes::{Aes128, Aes256};

/// Length of a block.
pub const BLOCK: usize = 16;
/// Blocks decrypted at once; processors decrypt several in parallel.
const GROUP: usize = 16;

type Block = Array<u8, U16>;

/// A key, which is overwritten when dropped.
pub enum AesKey {
    Aes128(Aes128),
    Aes256(Aes256),
}

impl AesKey {
    /// A key of 16 or 32 bytes.
    pub fn new(key: &[u8]) -> Option<AesKey> {
        match key.len() {
            16 => Aes128::new_from_slice(key).ok().map(Self::Aes128),
            _ => Aes256::new_from_slice(key).ok().map(Self::Aes256),
        }
    }

    fn encrypt(&self, block: &mut Block) {
        match self {
            Self::Aes128(key) => key.encrypt_block(block),
            Self::Aes256(key) => key.encrypt_block(block),
        }
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        match self {
            Self::Aes128(key) => key.decrypt_blocks(blocks),
            Self::Aes256(key) => key.decrypt_blocks(blocks),
        }
    }

    /// Decrypts whole blocks in CBC mode, in place.
    pub fn decrypt_cbc(&self, iv: [u8; BLOCK], bytes: &mut [u8]) {
        let mut before = Block::from(iv);
        let (blocks, _) = Block::slice_as_chunks_mut(bytes);
        let mut sealed = [Block::default(); GROUP];
        for group in blocks.chunks_mut(GROUP) {
            let sealed = &mut sealed[..group.len()];
            sealed.copy_from_slice(group);
            self.decrypt(group);
            for (block, sealed) in group.iter_mut().zip(sealed) {
                add(block, &before);
                before = *sealed;
            }
        }
    }

    /// Decrypts content followed by a tag of `tag_len` bytes in CCM mode, in place. `about` is authenticated too and has
    /// at most 14 bytes. Returns nothing if the tag is wrong.
    pub fn open_ccm(
        &self,
        nonce: [u8; 12],
        about: &[u8],
        sealed: &mut [u8],
        tag_len: usize,
    ) -> Option<()> {
        let (content, tag) = sealed.split_at_mut(sealed.len().checked_sub(tag_len)?);
        // Three bytes are left for lengths and counters.
        let block = |flags: usize, number: usize| {
            let mut block = Block::default();
            block[0] = flags as u8 | 2;
            block[1..13].copy_from_slice(&nonce);
            block[13..].copy_from_slice(&number.to_be_bytes()[5..]);
            block
        };
        let keystream = |number| {
            let mut block = block(0, number);
            self.encrypt(&mut block);
            block
        };
        let mut mac = block(0x40 | (((tag_len - 2) / 2) << 3), content.len());
        self.encrypt(&mut mac);
        mac[1] ^= about.len() as u8;
        add(&mut mac[2..], about);
        self.encrypt(&mut mac);
        for (number, content) in (1..).zip(content.chunks_mut(BLOCK)) {
            add(content, &keystream(number));
            add(&mut mac, content);
            self.encrypt(&mut mac);
        }
        add(&mut mac, &keystream(0));
        (mac[..tag_len] == *tag).then_some(())
    }
}

/// Adds bytes to others by XOR.
fn add(to: &mut [u8], bytes: &[u8]) {
    for (to, byte) in to.iter_mut().zip(bytes) {
        *to ^= byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    /// Vectors of NIST SP 800-38A, F.2.2 and F.2.6, repeated beyond a group of blocks.
    #[test]
    fn cbc_is_that_of_nist() {
        let iv = bytes("000102030405060708090a0b0c0d0e0f");
        let plain = bytes(
            "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
             30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
        );
        for (key, sealed) in [
            (
                "2b7e151628aed2a6abf7158809cf4f3c",
                "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2\
                 73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
            ),
            (
                "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
                "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d\
                 39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b",
            ),
        ] {
            let key = AesKey::new(&bytes(key)).expect("a key");
            let sealed = bytes(sealed);
            let mut text = [&sealed[..]; 11].concat();
            key.decrypt_cbc(iv.clone().try_into().expect("a block"), &mut text);
            assert_eq!(text[..64], plain);
            for (n, part) in text.chunks(64).enumerate().skip(1) {
                assert_eq!(part[16..], plain[16..], "{n}");
                let mut first = plain[..16].to_vec();
                add(&mut first, &iv);
                add(&mut first, &sealed[48..]);
                assert_eq!(part[..16], first, "{n}");
            }
        }
    }
}
