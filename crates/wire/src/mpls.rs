//! MPLS label stack entries (RFC 3032 §2.1). The stack does not name its content: the first nibble distinguishes IPv4
//! and IPv6 (RFC 4928 §3); 0 is the control word of a pseudowire (RFC 4385 §3) that carries Ethernet (RFC 4448).

use crate::DecodeError;
use crate::extent::{Extent, be32};

/// Maximum labels removed from one packet.
pub const LABELS_MAX: usize = 16;

/// Length of a pseudowire's control word.
pub const CONTROL_WORD_LEN: usize = 4;

/// Removes a complete stack; returns its last label and the content.
///
/// # Errors
/// When an entry is cut, or there are more than [`LABELS_MAX`].
pub fn peel(mut stack: Extent<'_>) -> Result<(u32, Extent<'_>), DecodeError> {
    for _ in 0..LABELS_MAX {
        let (entry, rest) = stack.split_header::<4>()?;
        let entry = be32(entry, 0..4);
        if entry & 0x100 != 0 {
            return Ok((entry >> 12, rest));
        }
        stack = rest;
    }
    Err(DecodeError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_label() {
        let stack = [0, 1, 0x20, 64, 0, 0x06, 0x41, 64, 0x45];
        assert_eq!(
            peel(Extent::whole(&stack)),
            Ok((100, Extent::whole(&[0x45])))
        );
    }

    #[test]
    fn stacks_end() {
        let endless = [0; 4 * (LABELS_MAX + 1)];
        assert_eq!(peel(Extent::whole(&endless)), Err(DecodeError::Malformed));
        assert_eq!(
            peel(Extent::new(&endless[..6], 8)),
            Err(DecodeError::Truncated)
        );
    }
}
