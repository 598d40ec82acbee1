//! The message header of IPFIX (RFC 7011 section 3.1), by which a stream is divided into messages.

/// Version number of IPFIX.
const VERSION: u16 = 10;
/// Bytes of a message header.
const HEADER_LEN: usize = 16;

/// A message was expected, and other bytes were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotIpfix;

/// Passes the complete messages at the beginning of `stream` to `take`; returns the number of their bytes.
///
/// # Errors
/// [`NotIpfix`] behind the messages that were passed on: another version, or a length shorter than a header.
pub fn split_messages(stream: &[u8], mut take: impl FnMut(&[u8])) -> Result<usize, NotIpfix> {
    let mut rest = stream;
    while let [a, b, c, d, ..] = *rest {
        let len = usize::from(u16::from_be_bytes([c, d]));
        if u16::from_be_bytes([a, b]) != VERSION || len < HEADER_LEN {
            return Err(NotIpfix);
        }
        let Some(message) = rest.get(..len) else {
            break;
        };
        take(message);
        rest = &rest[len..];
    }
    Ok(stream.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(stream: &[u8]) -> (Vec<usize>, Result<usize, NotIpfix>) {
        let mut lengths = Vec::new();
        let used = split_messages(stream, |message| lengths.push(message.len()));
        (lengths, used)
    }

    #[test]
    fn messages_end_at_the_length_of_their_header() {
        let message = |len: u8| [vec![0, 10, 0, len], vec![7; usize::from(len) - 4]].concat();
        let stream = [message(16), message(40), message(20)].concat();
        assert_eq!(split(&stream), (vec![16, 40, 20], Ok(76)));
        assert_eq!(split(&stream[..75]), (vec![16, 40], Ok(56)));
        assert_eq!(split(&stream[..3]), (vec![], Ok(0)));
        assert_eq!(split(&[]), (vec![], Ok(0)));
        let other = [message(16), b"GET / HTTP".to_vec()].concat();
        assert_eq!(split(&other), (vec![16], Err(NotIpfix)));
        assert_eq!(split(&[0, 10, 0, 15, 0]), (vec![], Err(NotIpfix)));
    }
}
