//! Headers of wireless drivers before 802.11 frames: radiotap (LINKTYPE_IEEE802_11_RADIOTAP,
//! <https://www.radiotap.org>), Prism (LINKTYPE_IEEE802_11_PRISM), and AVS (LINKTYPE_IEEE802_11_AVS).

use crate::DecodeError;
use crate::extent::{Extent, be32};

const AVS_MAGIC: u32 = 0x8021_1000;
/// Maximum words of presence bits in a radiotap header.
const PRESENT_MAX: usize = 8;
const HAS_TIME: u32 = 1;
const HAS_FLAGS: u32 = 2;
const HAS_MORE: u32 = 1 << 31;
const IS_PADDED: u8 = 0x20;
const IS_DAMAGED: u8 = 0x40;

/// The frame after a radiotap header, and whether its header is padded.
///
/// # Errors
/// When the header is cut or inconsistent; [`DecodeError::Malformed`] also for frames with a failed checksum.
pub fn radiotap(packet: Extent<'_>) -> Result<(Extent<'_>, bool), DecodeError> {
    let (start, _) = packet.split_header::<8>()?;
    let len = u16::from_le_bytes([start[2], start[3]]);
    let (header, frame) = packet.split_at(len.into())?;
    let flags = radiotap_flags(header).ok_or(DecodeError::Malformed)?;
    match flags & IS_DAMAGED {
        0 => Ok((frame, flags & IS_PADDED != 0)),
        _ => Err(DecodeError::Malformed),
    }
}

/// Reads the flags, the second field, after an optional time of eight bytes at a multiple of eight.
fn radiotap_flags(header: &[u8]) -> Option<u8> {
    let mut words = header
        .get(4..)?
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let present = words.next()?;
    let mut end = 8;
    let mut more = present & HAS_MORE;
    while more != 0 {
        more = words.next()? & HAS_MORE;
        end += 4;
        if end > 4 + 4 * PRESENT_MAX {
            return None;
        }
    }
    if present & HAS_FLAGS == 0 {
        return Some(0);
    }
    let at = if present & HAS_TIME == 0 {
        end
    } else {
        end.next_multiple_of(8) + 8
    };
    header.get(at).copied()
}

/// The frame after a Prism header, or an AVS header, which some drivers use with the same link type.
///
/// # Errors
/// When the header is cut or has an impossible length.
pub fn prism(packet: Extent<'_>) -> Result<Extent<'_>, DecodeError> {
    let (start, _) = packet.split_header::<8>()?;
    if be32(start, 0..4) & 0xffff_f000 == AVS_MAGIC {
        return avs(packet);
    }
    // In the byte order of the capturing machine.
    let len = be32(start, 4..8);
    behind(packet, len.min(len.swap_bytes()))
}

/// The frame after an AVS header.
///
/// # Errors
/// As [`prism`].
pub fn avs(packet: Extent<'_>) -> Result<Extent<'_>, DecodeError> {
    let (start, _) = packet.split_header::<8>()?;
    behind(packet, be32(start, 4..8))
}

fn behind(packet: Extent<'_>, len: u32) -> Result<Extent<'_>, DecodeError> {
    match len {
        8.. => Ok(packet.split_at(len as usize)?.1),
        _ => Err(DecodeError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radiotap_flags_are_found() {
        let check = |header: &[u8], expected: Result<bool, DecodeError>| {
            let packet = [header, &[9]].concat();
            let found = radiotap(Extent::whole(&packet));
            assert_eq!(
                found,
                expected.map(|padded| (Extent::whole(&[9]), padded)),
                "{header:x?}"
            );
        };
        check(&[0, 0, 8, 0, 0, 0, 0, 0], Ok(false));
        check(&[0, 0, 9, 0, 2, 0, 0, 0, 0x20], Ok(true));
        check(
            &[0, 0, 17, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20],
            Ok(true),
        );
        check(&[0, 0, 13, 0, 2, 0, 0, 0x80, 0, 0, 0, 0, 0x30], Ok(true));
        check(&[0, 0, 9, 0, 2, 0, 0, 0, 0x40], Err(DecodeError::Malformed));
        check(&[0, 0, 8, 0, 2, 0, 0, 0], Err(DecodeError::Malformed));
        check(&[0, 0, 44, 0], Err(DecodeError::Malformed));
    }

    #[test]
    fn lengths_in_front_of_frames() {
        let prism_header = [&[0x44, 0, 0, 0, 12, 0, 0, 0][..], &[0; 4], &[9]].concat();
        assert_eq!(prism(Extent::whole(&prism_header)), Ok(Extent::whole(&[9])));
        let avs_header = [0x80, 0x21, 0x10, 1, 0, 0, 0, 8, 9];
        assert_eq!(prism(Extent::whole(&avs_header)), Ok(Extent::whole(&[9])));
        assert_eq!(avs(Extent::whole(&[0; 9])), Err(DecodeError::Malformed));
    }
}
