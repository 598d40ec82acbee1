//! Completeness of a message.

/// Captured part of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageCompleteness {
    /// All bytes.
    #[default]
    Whole,
    /// Inner bytes are missing.
    Holed,
    /// The last byte is missing: its time is unknown.
    OpenEnd,
    /// All bytes after some point are missing: length and further contents are unknown.
    Cut,
}

impl MessageCompleteness {
    /// Records missing bytes; `apart`: they arrived later than the bytes before them.
    pub fn miss(&mut self, apart: bool) {
        *self = if apart {
            MessageCompleteness::OpenEnd
        } else {
            MessageCompleteness::Holed
        };
    }

    /// Records bytes after a gap.
    #[inline]
    pub fn go_on(&mut self) {
        if *self == MessageCompleteness::OpenEnd {
            *self = MessageCompleteness::Holed;
        }
    }

    /// Whether the time of its last byte is known.
    #[must_use]
    pub fn has_end(self) -> bool {
        matches!(
            self,
            MessageCompleteness::Whole | MessageCompleteness::Holed
        )
    }
}
