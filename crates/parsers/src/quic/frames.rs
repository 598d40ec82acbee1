//! Frames of Initial packets (RFC 9000 section 19): only these are allowed there.

use super::header::QuicReader;

/// A frame that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicFrame<'a> {
    Crypto {
        offset: u64,
        data: &'a [u8],
    },
    /// CONNECTION_CLOSE with its error code.
    Close(u64),
}

/// Removes the next frame that is used from the rest of a payload. `None`: there is none, or a frame is not
/// allowed or truncated.
pub fn next<'a>(payload: &mut QuicReader<'a>) -> Option<QuicFrame<'a>> {
    loop {
        match payload.varint()? {
            // PADDING, PING
            0 | 1 => {}
            kind @ (2 | 3) => skip_ack(payload, kind == 3)?,
            6 => {
                let offset = payload.varint()?;
                let data = payload.vector()?;
                return Some(QuicFrame::Crypto { offset, data });
            }
            0x1c => {
                let code = payload.varint()?;
                // Type of the frame that caused it, reason.
                let _ = payload.varint().and_then(|_| payload.vector());
                return Some(QuicFrame::Close(code));
            }
            _ => return None,
        }
    }
}

fn skip_ack(payload: &mut QuicReader<'_>, has_counts: bool) -> Option<()> {
    // Largest packet number, delay.
    payload.varint()?;
    payload.varint()?;
    let ranges = payload.varint()?;
    payload.varint()?;
    for _ in 0..ranges {
        payload.varint()?;
        payload.varint()?;
    }
    if has_counts {
        for _ in 0..3 {
            payload.varint()?;
        }
    }
    Some(())
}
