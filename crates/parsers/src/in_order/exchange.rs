//! A request and its response, as far as they are known.

use flow::Place;
use wire::Timestamp;

/// A request and its response, as far as they are known. Used again and again, so what is absent is not gone.
/// Laid out as written.
#[derive(Debug)]
#[repr(C)]
pub struct Exchange<Q, R> {
    pub(super) is: u8,
    /// Where the request begins in what both sides say; as long as there is none, where the response does.
    pub(super) asked: Option<Place>,
    pub(super) request_first: Timestamp,
    pub(super) response_first: Timestamp,
    pub(super) request: Q,
    pub(super) response: R,
}

/// What an exchange is.
pub(super) mod is {
    /// Its request was seen.
    pub const ASKED: u8 = 1;
    /// All of it.
    pub const REQUEST_OVER: u8 = 2;
    /// Its response was seen.
    pub const ANSWERED: u8 = 4;
    /// All of it.
    pub const RESPONSE_OVER: u8 = 8;
    /// What is missing will not come.
    pub const GIVEN_UP: u8 = 16;
    /// Not even the rest of what is here.
    pub const FORCED: u8 = 32;
    /// Matched after a loss, by what the client is known to do.
    pub const RESYNC: u8 = 64;
    /// Its request is the first after the client had heard something, and the request before it was seen.
    pub const OPENS: u8 = 128;
}

impl<Q: Default, R: Default> Default for Exchange<Q, R> {
    fn default() -> Self {
        let never = Timestamp::MIN;
        Exchange {
            request: Q::default(),
            response: R::default(),
            request_first: never,
            response_first: never,
            asked: None,
            is: 0,
        }
    }
}

impl<Q, R> Exchange<Q, R> {
    /// The request, unless it was not seen.
    #[inline]
    pub fn request(&self) -> Option<&Q> {
        self.has(is::ASKED).then_some(&self.request)
    }

    /// The response, unless there was none or it could not be attributed.
    #[inline]
    pub fn response(&self) -> Option<&R> {
        self.has(is::ANSWERED).then_some(&self.response)
    }

    /// Both places, whatever is in them: to let go of memory.
    #[inline]
    pub fn places(&mut self) -> (&mut Q, &mut R) {
        (&mut self.request, &mut self.response)
    }

    /// First byte of the request, else of the response.
    #[inline]
    pub fn first(&self) -> Timestamp {
        if self.has(is::ASKED) { self.request_first } else { self.response_first }
    }

    /// First byte of the response, if there is one.
    #[inline]
    pub fn response_first(&self) -> Timestamp {
        self.response_first
    }

    /// Matched after a loss, by what the client is known to do.
    #[inline]
    pub fn resync(&self) -> bool {
        self.has(is::RESYNC)
    }

    /// A new one, of which nothing is known, not begun before `first`.
    #[inline]
    pub(super) fn begin(&mut self, first: Timestamp) {
        (self.request_first, self.response_first, self.asked, self.is) = (first, first, None, 0);
    }

    /// Whether it is any of these.
    #[inline]
    pub(super) fn has(&self, any: u8) -> bool {
        self.is & any != 0
    }

    #[inline]
    pub(super) fn set(&mut self, what: u8, yes: bool) {
        self.is |= if yes { what } else { 0 };
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        let over = |seen, over| self.has(if self.has(seen) { over } else { is::GIVEN_UP });
        self.has(is::FORCED) || over(is::ASKED, is::REQUEST_OVER) && over(is::ANSWERED, is::RESPONSE_OVER)
    }
}
