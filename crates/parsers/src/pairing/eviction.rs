//! Memory for outstanding requests, and eviction when it is used up.

use flow::StreamPlace;
use wire::Timestamp;

use super::outstanding_budget::OUTSTANDING_MIN;
use super::queue::{CountValidity, MissingSide, ResponseSlot, TransactionQueue};
use super::transaction::{PairedTransaction, RequestMatcher, ResponseExpectation};
use crate::ParserOutput;

impl<Q: Default, R: Default + RequestMatcher<Q>> TransactionQueue<Q, R> {
    /// Makes room for another request within the limits of `out`, or evicts the oldest one. `text` returns
    /// the bytes that a request holds besides its slot. To be called before [`TransactionQueue::request`].
    #[inline]
    pub fn make_room(&mut self, out: &ParserOutput<'_>, text: impl Fn(&Q) -> usize) {
        if self.queue.len() >= OUTSTANDING_MIN {
            self.borrow_room(out, text);
        }
    }

    #[cold]
    fn borrow_room(&mut self, out: &ParserOutput<'_>, text: impl Fn(&Q) -> usize) {
        let held = self.queue.len();
        let mut loan = self.queue.loan.take().unwrap_or_default();
        let last = || (held - OUTSTANDING_MIN..held).filter_map(|i| self.queue.get(i)?.request());
        // A held response takes as much memory as a request.
        let each = 2 * size_of::<PairedTransaction<Q, R>>();
        let has_room = held < out.limits.outstanding_max.max(OUTSTANDING_MIN)
            && (held < OUTSTANDING_MIN + loan.places
                || loan.extend(out.room, OUTSTANDING_MIN, each, || last().map(text).sum()));
        self.queue.loan = Some(loan);
        if !has_room {
            self.evict_oldest();
        }
    }

    /// Bytes borrowed for texts.
    #[must_use]
    pub fn text_bytes_borrowed(&self) -> usize {
        self.queue.loan.as_ref().map_or(0, |loan| loan.text)
    }

    /// Evicts the oldest transaction, which is returned unfinished. Returns false if there is none.
    pub fn evict_oldest(&mut self) -> bool {
        let Some(oldest) = self.queue.get_mut(0) else {
            return false;
        };
        if oldest.waits() && oldest.expects == ResponseExpectation::Perhaps {
            self.counting = CountValidity::Lost(MissingSide::Requests);
        }
        oldest.break_off();
        if self.base >= self.held_from {
            oldest.apart = true;
            self.held_from = self.base + 1;
        }
        self.evicted += 1;
        true
    }

    /// Whether transactions were evicted since the last [`TransactionQueue::take_evicted`].
    #[inline]
    #[must_use]
    pub fn has_evicted(&self) -> bool {
        self.evicted > 0
    }

    /// Transactions evicted since the last call because there were too many.
    pub fn take_evicted(&mut self) -> u64 {
        std::mem::take(&mut self.evicted).into()
    }

    /// Whether the request that the next response answers was evicted.
    #[inline]
    pub(super) fn lacks_oldest(&self) -> bool {
        self.next_response < self.base
    }

    /// Handles a response that, by count, answers an evicted request.
    #[cold]
    pub(super) fn separate(
        &mut self,
        first: Timestamp,
        place: StreamPlace,
    ) -> (ResponseSlot, &mut R) {
        self.next_response += 1;
        self.put_separated(first, place)
    }

    /// Handles a response that names an evicted request.
    #[cold]
    pub fn response_to_evicted(&mut self, first: Timestamp, place: StreamPlace) -> ResponseSlot {
        let hole = self.begin_answer(place);
        self.doubt_responses(hole);
        self.put_separated(first, place).0
    }

    /// Stores a response whose request was evicted.
    fn put_separated(&mut self, first: Timestamp, place: StreamPlace) -> (ResponseSlot, &mut R) {
        let (number, response) = self
            .loose
            .get_or_insert_default()
            .push_separated(first, place);
        (ResponseSlot::Apart(number), response)
    }
}
