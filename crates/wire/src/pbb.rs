//! Provider backbone bridging (IEEE 802.1ah): an I-tag after the backbone's frame header, followed by the customer's
//! frame.

use crate::DecodeError;
use crate::extent::{Extent, be32};

/// The service identifier (I-SID) of an I-tag, and the customer's frame.
///
/// # Errors
/// When there are fewer than 4 bytes.
pub fn open(tag: Extent<'_>) -> Result<(u32, Extent<'_>), DecodeError> {
    let (header, frame) = tag.split_header::<4>()?;
    Ok((be32(header, 0..4) & 0x00ff_ffff, frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deconstruct() {
        assert_eq!(
            open(Extent::whole(&[0x10, 0, 1, 2, 9])),
            Ok((258, Extent::whole(&[9])))
        );
        assert_eq!(open(Extent::new(&[0x10], 9)), Err(DecodeError::Truncated));
    }
}
