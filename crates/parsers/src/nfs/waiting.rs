//! Calls that wait for their replies: found by xid, bounded in number and bytes. A place that becomes free keeps its
//! buffers for the next call.

use super::rpc::Target;
use crate::{Quality, Span};

/// Most calls that wait.
pub const CALLS_MAX: usize = 1024;
/// Most bytes kept of all of them.
const BYTES_MAX: usize = 1 << 20;
/// Most memory that a free place keeps.
const KEPT_BYTES: usize = 4096;
/// Most free places kept.
const SPARE_MAX: usize = 64;

/// A call.
#[derive(Debug)]
pub struct Call {
    /// What is called.
    pub target: Target,
    /// Its place in the order of all calls.
    pub number: u64,
    /// When it was on the wire.
    pub span: Span,
    /// When it ended is known.
    pub ended: bool,
    /// Bytes of it are missing.
    pub gap: bool,
    /// How it was found, unless it followed another.
    pub found: Option<Quality>,
    /// How often it was sent again.
    pub repeats: u32,
    /// Length of the message, if it is known.
    pub bytes: Option<u64>,
    /// Header and arguments, without file data.
    pub head: Vec<u8>,
    /// Check-sums of its data.
    pub checksums: Vec<u64>,
}

impl Default for Call {
    fn default() -> Self {
        Call {
            target: Target::default(),
            number: 0,
            span: Span::at(wire::Timestamp::MIN),
            ended: false,
            gap: false,
            found: None,
            repeats: 0,
            bytes: None,
            head: Vec::new(),
            checksums: Vec::new(),
        }
    }
}

impl Call {
    fn held_bytes(&self) -> usize {
        self.head.len() + size_of_val(&self.checksums[..])
    }
}

/// All calls of one direction.
#[derive(Default)]
pub struct Waiting {
    xids: Vec<u32>,
    /// Those that wait, in no order, then spare places.
    calls: Vec<Call>,
    coming: Call,
    bytes: usize,
    numbers: u64,
}

impl Waiting {
    /// Where the call `xid` is.
    #[inline]
    pub fn find(&self, xid: u32) -> Option<usize> {
        self.xids.iter().position(|x| *x == xid)
    }

    /// The call at `place`.
    #[inline]
    pub fn get(&mut self, place: usize) -> &mut Call {
        &mut self.calls[place]
    }

    /// The call that comes in, to be filled and then taken in with [`Waiting::enter`].
    #[inline]
    pub fn coming(&mut self) -> &mut Call {
        &mut self.coming
    }

    /// The call that came in waits now. Returns its number.
    #[inline]
    pub fn enter(&mut self, xid: u32) -> u64 {
        if self.calls.len() == self.xids.len() {
            self.calls.push(Call::default());
        }
        self.numbers += 1;
        self.coming.number = self.numbers;
        self.bytes += self.coming.held_bytes();
        std::mem::swap(&mut self.calls[self.xids.len()], &mut self.coming);
        self.xids.push(xid);
        self.numbers
    }

    /// Where a call of this number is.
    pub fn of_number(&self, number: u64) -> Option<usize> {
        self.calls[..self.xids.len()].iter().position(|c| c.number == number)
    }

    /// The oldest, if there are too many.
    #[inline]
    pub fn too_many(&self) -> Option<usize> {
        if self.xids.len() <= CALLS_MAX && self.bytes <= BYTES_MAX { None } else { self.oldest() }
    }

    /// The oldest.
    pub fn oldest(&self) -> Option<usize> {
        (0..self.xids.len()).min_by_key(|place| self.calls[*place].number)
    }

    /// Takes a call out.
    #[inline]
    pub fn remove(&mut self, place: usize) {
        let last = self.xids.len() - 1;
        self.xids.swap_remove(place);
        self.calls.swap(place, last);
        let call = &mut self.calls[last];
        self.bytes -= call.held_bytes();
        if call.head.capacity() + size_of::<u64>() * call.checksums.capacity() > KEPT_BYTES {
            (call.head, call.checksums) = (Vec::new(), Vec::new());
        }
        if self.calls.len() > last + SPARE_MAX {
            self.calls.truncate(last + SPARE_MAX);
        }
    }
}
