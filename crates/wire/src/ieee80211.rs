//! Data frames of wireless networks (IEEE 802.11-2020 §9.3.2). The frame check sequence after them is ignored.

use crate::DecodeError;
use crate::extent::{Extent, be16};

const KIND_DATA: u8 = 2;
const IS_QOS: u8 = 0x80;
const HAS_NO_DATA: u8 = 0x40;
const TO_AND_FROM_AP: u8 = 0x03;
const MORE_FRAGMENTS: u8 = 0x04;
const PROTECTED: u8 = 0x40;
const HAS_HT_CONTROL: u8 = 0x80;
const IS_A_MSDU: u8 = 0x80;
/// Destination, source and length in front of each frame of an A-MSDU.
const SUBFRAME_LEN: u32 = 14;

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WifiFrame<'a> {
    /// An LLC header follows.
    Data(Extent<'a>),
    /// One frame in an aggregate (A-MSDU): its header, which ends with the length, and the content, which begins with
    /// an LLC header.
    Aggregate(Extent<'a>, Extent<'a>),
    /// Contents that are not decoded.
    Unread(UnreadFrame),
}

/// Reason why a frame is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnreadFrame {
    /// Beacons, probes, associations.
    Management,
    /// Acknowledgments, requests to send.
    Control,
    /// A data frame without content.
    Null,
    /// The content is encrypted.
    Encrypted,
    /// A fragment of a frame.
    Fragment,
    /// Several frames in one (A-MSDU).
    Aggregate,
}

impl UnreadFrame {
    /// Name in the summary.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Management => "wifi_management",
            Self::Control => "wifi_control",
            Self::Null => "wifi_null",
            Self::Encrypted => "wifi_encrypted",
            Self::Fragment => "wifi_fragment",
            Self::Aggregate => "wifi_aggregate",
        }
    }
}

/// Parses a frame; `padded`: its header is padded to a multiple of four bytes.
///
/// # Errors
/// When a header is cut, or the protocol version is not 0.
pub fn open(frame: Extent<'_>, padded: bool) -> Result<WifiFrame<'_>, DecodeError> {
    let ([first, flags], _) = frame.split_header::<2>()?;
    if first & 0x03 != 0 {
        return Err(DecodeError::Malformed);
    }
    let unread = |why| Ok(WifiFrame::Unread(why));
    match (first >> 2) & 0x03 {
        KIND_DATA => {}
        0 => return unread(UnreadFrame::Management),
        _ => return unread(UnreadFrame::Control),
    }
    let is_qos = first & IS_QOS != 0;
    let addresses = if flags & TO_AND_FROM_AP == TO_AND_FROM_AP {
        30
    } else {
        24
    };
    let qos = if is_qos { 2 } else { 0 };
    let control = if is_qos && flags & HAS_HT_CONTROL != 0 {
        4
    } else {
        0
    };
    let (header, content) = frame.split_at(addresses + qos + control)?;
    let is_part = flags & MORE_FRAGMENTS != 0 || header[22] & 0x0f != 0;
    if flags & PROTECTED != 0 {
        return unread(UnreadFrame::Encrypted);
    } else if first & HAS_NO_DATA != 0 {
        return unread(UnreadFrame::Null);
    } else if is_part {
        return unread(UnreadFrame::Fragment);
    }
    let padding = if padded {
        header.len().next_multiple_of(4) - header.len()
    } else {
        0
    };
    let (_, content) = content.split_at(padding)?;
    if is_qos && header[addresses] & IS_A_MSDU != 0 {
        aggregate(content)
    } else {
        Ok(WifiFrame::Data(content))
    }
}

/// An aggregate of exactly one frame, because one packet stands for one frame. A length of 0 means unlimited.
fn aggregate(content: Extent<'_>) -> Result<WifiFrame<'_>, DecodeError> {
    let (header, inside) = content.split_header::<{ SUBFRAME_LEN as usize }>()?;
    let len = u32::from(be16(header, 12..14));
    // Padding and a frame check sequence may follow; another frame does not fit in that.
    if len == 0 || inside.original_len < len.next_multiple_of(4) + SUBFRAME_LEN {
        Ok(WifiFrame::Aggregate(content, inside))
    } else {
        Ok(WifiFrame::Unread(UnreadFrame::Aggregate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with a header of `len` bytes that begins with `start`, followed by `rest`.
    fn frame(start: [u8; 2], len: usize, rest: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; len];
        frame[..2].copy_from_slice(&start);
        frame.extend(rest);
        frame
    }

    fn check(frame: &[u8], padded: bool, expected: Result<WifiFrame<'_>, DecodeError>) {
        assert_eq!(open(Extent::whole(frame), padded), expected, "{frame:x?}");
    }

    #[test]
    fn headers_of_every_length() {
        let data = Ok(WifiFrame::Data(Extent::whole(&[9])));
        check(&frame([0x08, 0x01], 24, &[9]), false, data);
        check(&frame([0x08, 0x03], 30, &[9]), false, data);
        check(&frame([0x88, 0x02], 26, &[9]), false, data);
        check(&frame([0x88, 0x82], 30, &[9]), false, data);
        check(&frame([0x88, 0x02], 26, &[0, 0, 9]), true, data);
        check(
            &frame([0x08, 0x01], 23, &[]),
            false,
            Err(DecodeError::Malformed),
        );
        check(
            &frame([0x09, 0x01], 24, &[]),
            false,
            Err(DecodeError::Malformed),
        );
    }

    #[test]
    fn unsupported_frames_are_named() {
        for (start, why) in [
            ([0x80, 0], UnreadFrame::Management),
            ([0xd4, 0], UnreadFrame::Control),
            ([0x48, 0x01], UnreadFrame::Null),
            ([0x08, 0x41], UnreadFrame::Encrypted),
            ([0x08, 0x05], UnreadFrame::Fragment),
        ] {
            check(&frame(start, 24, &[9]), false, Ok(WifiFrame::Unread(why)));
        }
        let mut last = frame([0x08, 0x01], 24, &[9]);
        last[22] = 1;
        check(&last, false, Ok(WifiFrame::Unread(UnreadFrame::Fragment)));
    }

    #[test]
    fn aggregates() {
        let mut one = frame([0x88, 0x01], 26, &[&[0; 13][..], &[1, 9]].concat());
        one[24] = 0x80;
        let content = Extent::whole(&one[26..]);
        let inside = Extent::whole(&[9]);
        check(&one, false, Ok(WifiFrame::Aggregate(content, inside)));
        let two = [&one[..], &[0; 3], &one[26..]].concat();
        check(&two, false, Ok(WifiFrame::Unread(UnreadFrame::Aggregate)));
    }
}
