//! IPsec authentication headers (RFC 4302 §2) in IPv4. The checksum is not verified. In IPv6 they are extension
//! headers, which [`crate::ipv6`] handles.

use crate::extent::Extent;
use crate::{DecodeError, IpProtocol};

/// Maximum number of these headers in one packet.
pub const HEADERS_MAX: usize = 4;

/// Removes all authentication headers; returns the protocol after them and its segment.
///
/// # Errors
/// When one is cut, or there are more than [`HEADERS_MAX`].
pub fn peel(
    mut protocol: IpProtocol,
    mut payload: Extent<'_>,
) -> Result<(IpProtocol, Extent<'_>), DecodeError> {
    for _ in 0..HEADERS_MAX {
        if protocol != IpProtocol::AH {
            return Ok((protocol, payload));
        }
        let ([next, words], _) = payload.split_header::<2>()?;
        protocol = IpProtocol(*next);
        payload = payload.split_at((usize::from(*words) + 2) * 4)?.1;
    }
    if protocol == IpProtocol::AH {
        Err(DecodeError::Malformed)
    } else {
        Ok((protocol, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_up_to_the_bound() {
        let header = |next: u8| [&[next, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2][..], &[7; 12]].concat();
        let stack = |n: usize| [header(51).repeat(n - 1), header(6), vec![9]].concat();
        for n in 1..=HEADERS_MAX {
            let expected = Ok((IpProtocol::TCP, Extent::whole(&[9])));
            assert_eq!(
                peel(IpProtocol::AH, Extent::whole(&stack(n))),
                expected,
                "{n} headers"
            );
        }
        let deep = stack(HEADERS_MAX + 1);
        assert_eq!(
            peel(IpProtocol::AH, Extent::whole(&deep)),
            Err(DecodeError::Malformed)
        );
        assert_eq!(
            peel(IpProtocol::AH, Extent::new(&stack(1)[..9], 60)),
            Err(DecodeError::Truncated)
        );
    }
}
