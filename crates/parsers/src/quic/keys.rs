//! Keys of Initial packets, and their removal (RFC 9001 sections 5.2 to 5.4). The authentication tag proves that a
//! packet belongs to the connection.

use std::ops::Range;

use ring::aead::quic::{AES_128, HeaderProtectionKey};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

use super::header::{QuicLongPacket, QuicVersion};
use crate::Direction;

const SALT_V1: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
const SALT_V2: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
    0xf9, 0xbd, 0x2e, 0xd9,
];
/// Length of the ciphertext's part that masks the header.
const SAMPLE: usize = 16;
/// Maximum length of a packet number.
const NUMBER_BYTES_MAX: usize = 4;

/// Keys of one direction.
pub struct QuicInitialKeys {
    header: HeaderProtectionKey,
    packet: LessSafeKey,
    iv: [u8; 12],
    /// The largest packet number so far.
    largest: Option<u64>,
}

impl QuicInitialKeys {
    /// Derives the keys of a direction from the destination connection ID of the client's first packet.
    pub fn derive(version: QuicVersion, id: &[u8], direction: Direction) -> QuicInitialKeys {
        let (salt, prefix) = match version {
            QuicVersion::V1 => (&SALT_V1, "quic "),
            QuicVersion::V2 => (&SALT_V2, "quicv2 "),
        };
        let initial = Salt::new(HKDF_SHA256, salt).extract(id);
        let secret: [u8; 32] = expand(
            &initial,
            match direction {
                Direction::ClientToServer => "client in",
                Direction::ServerToClient => "server in",
            },
        );
        let secret = Prk::new_less_safe(HKDF_SHA256, &secret);
        let part = |name: &str| format!("{prefix}{name}");
        let key: [u8; 16] = expand(&secret, &part("key"));
        let mask: [u8; 16] = expand(&secret, &part("hp"));
        QuicInitialKeys {
            header: HeaderProtectionKey::new(&AES_128, &mask).expect("16 bytes"),
            packet: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).expect("16 bytes")),
            iv: expand(&secret, &part("iv")),
            largest: None,
        }
    }

    /// Decrypts a packet into `room` and returns the range of its payload. `None`: it was not encrypted with these
    /// keys, or it is not whole.
    pub fn open(
        &mut self,
        packet: &QuicLongPacket<'_>,
        room: &mut Vec<u8>,
    ) -> Option<Range<usize>> {
        let at = packet.number_at;
        let sample = packet.bytes.get(at + NUMBER_BYTES_MAX..)?.get(..SAMPLE)?;
        let mask = self.header.new_mask(sample).ok()?;
        room.clear();
        room.extend_from_slice(packet.bytes);
        room[0] ^= mask[0] & 0x0f;
        let length = usize::from(room[0] & 3) + 1;
        for (byte, mask) in room[at..at + length].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
        }
        let sent = room[at..at + length]
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte));
        let number = complete_number(sent, length, self.largest);
        // The fuzz targets are built with `--cfg fuzzing`: none of their inputs has a valid tag.
        #[allow(unexpected_cfgs)]
        if cfg!(fuzzing) {
            return Some(at + length..room.len());
        }
        let (header, payload) = room.split_at_mut(at + length);
        let plain = self
            .packet
            .open_in_place(self.nonce(number), Aad::from(&*header), payload)
            .ok()?;
        let end = at + length + plain.len();
        self.largest = self.largest.max(Some(number));
        Some(at + length..end)
    }

    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

/// The complete packet number (RFC 9000 appendix A.3): that closest to the next expected one. `length`: bytes of
/// the number that was sent.
pub fn complete_number(sent: u64, length: usize, largest: Option<u64>) -> u64 {
    let expected = largest.map_or(0, |largest| largest + 1);
    let window = 1 << (8 * length);
    let candidate = expected & !(window - 1) | sent;
    if candidate + window / 2 <= expected {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
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
fn expand<const N: usize>(secret: &Prk, label: &str) -> [u8; N] {
    let info = [
        &(N as u16).to_be_bytes()[..],
        &[6 + label.len() as u8],
        b"tls13 ",
        label.as_bytes(),
        &[0],
    ];
    let mut output = [0; N];
    secret
        .expand(&info, OutputLength(N))
        .and_then(|okm| okm.fill(&mut output))
        .expect("at most 255 blocks");
    output
}

#[cfg(test)]
impl QuicInitialKeys {
    /// The inverse of [`QuicInitialKeys::open`]: encrypts `payload` behind `header`, which ends with a packet number
    /// of four bytes.
    pub fn seal(&self, header: &[u8], number: u32, payload: &[u8]) -> Vec<u8> {
        let mut sealed = payload.to_vec();
        self.packet
            .seal_in_place_append_tag(self.nonce(number.into()), Aad::from(header), &mut sealed)
            .expect("sealed");
        let mask = self.header.new_mask(&sealed[..SAMPLE]).expect("a sample");
        let mut packet = [header, &sealed].concat();
        packet[0] ^= mask[0] & 0x0f;
        let number_at = header.len() - NUMBER_BYTES_MAX..header.len();
        for (byte, mask) in packet[number_at].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
        }
        packet
    }
}
