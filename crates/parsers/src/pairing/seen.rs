//! How much of a message was seen.

/// How much of a message was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// All of it.
    #[default]
    Whole,
    /// Not some bytes inside.
    Holed,
    /// Not its last byte: when that came is not known.
    OpenEnd,
    /// Nor anything behind: how long it was, and what it said there, is not known.
    Cut,
}

impl Seen {
    /// Bytes are missing; `apart`: they did not come with those before them.
    pub fn miss(&mut self, apart: bool) {
        *self = if apart { Seen::OpenEnd } else { Seen::Holed };
    }

    /// Bytes behind the missing ones came.
    #[inline]
    pub fn go_on(&mut self) {
        if *self == Seen::OpenEnd {
            *self = Seen::Holed;
        }
    }

    /// Whether the time of its last byte is known.
    #[must_use]
    pub fn has_end(self) -> bool {
        matches!(self, Seen::Whole | Seen::Holed)
    }
}
