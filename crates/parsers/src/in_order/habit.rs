//! What a client has been seen to do: whether it waits for responses before it asks again, one by one or in batches.

use wire::Timestamp;

/// Silence after which a batch is answered. Longer than the flow table waits for bytes that were acknowledged.
const SILENCE_NS: i64 = 1_000_000_000;
/// Responses after one request each that count as a client that waits, though messages were lost.
const WEAK_TURNS: u8 = 3;

/// What the client has been seen to do.
#[derive(Debug, Default)]
pub(super) struct Habit {
    /// Times it asked after everything earlier had been answered.
    turns: u8,
    /// Responses in a row, while the count was lost, that came after exactly one request each.
    weak_turns: u8,
    /// Most requests that it sent before the first of them was answered.
    depth_max: u16,
    depth: u16,
    /// It asked while only a part of what it had asked was answered.
    overlaps: bool,
    /// First byte of the first response to the present batch.
    batch_answered: When,
    /// Last byte of the last response.
    response_last: When,
    pub(super) responded_since_request: bool,
    /// Requests were lost and none seen since.
    pub(super) fresh_loss: bool,
    /// Messages were lost just before the present batch, and since it began: it may be larger than it seems.
    blurred_before: bool,
    pub(super) blurred: bool,
}

/// A time that may not have come yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct When(Timestamp);

impl When {
    /// It has not come.
    pub const NEVER: When = When(Timestamp::MIN);

    pub fn at(ts: Timestamp) -> When {
        When(ts)
    }

    #[inline]
    pub fn get(self) -> Option<Timestamp> {
        (self.0 > Timestamp::MIN).then_some(self.0)
    }
}

impl Default for When {
    fn default() -> Self {
        When::NEVER
    }
}

impl Habit {
    /// The last byte of a response came at `last`.
    #[inline]
    pub fn responded(&mut self, last: Timestamp) {
        self.response_last.0 = self.response_last.0.max(last);
    }

    /// A response that surely answers a request sent at `request`.
    pub fn observe(&mut self, request: Option<Timestamp>, response: Timestamp) {
        let Some(request) = request else { return };
        match (self.response_last.get(), self.batch_answered.get()) {
            (Some(last), Some(answered)) if request < last => {
                if request <= answered {
                    self.depth = self.depth.saturating_add(1);
                } else {
                    self.overlaps = true;
                }
            }
            (last, _) => {
                let clear = last.is_some() && !self.blurred_before && !self.blurred;
                self.turns = self.turns.saturating_add(u8::from(clear));
                self.blurred_before = std::mem::take(&mut self.blurred);
                self.depth = 1;
                self.batch_answered = When::at(response);
            }
        }
        self.depth_max = self.depth_max.max(self.depth);
    }

    /// Requests were lost; `counted`: how many will be seen by their places.
    pub fn lose_requests(&mut self, counted: bool) {
        (self.fresh_loss, self.blurred) = (true, true);
        self.weak_turns = if counted { self.weak_turns } else { 0 };
    }

    /// It has asked so many times without hearing anything.
    #[inline]
    pub fn asks(&mut self, requests: u64) {
        self.depth_max = self.depth_max.max(u16::try_from(requests).unwrap_or(u16::MAX));
    }

    /// It asked again after `all` that it had asked before had been answered, or a part of it, with nothing missing.
    #[inline]
    pub fn asks_again(&mut self, all: bool) {
        self.turns = self.turns.saturating_add(u8::from(all));
        self.overlaps |= !all;
    }

    /// A batch with losses was over when it asked again, and so many pairs fit together. `None`: it cannot have been over.
    pub fn settles_batch(&mut self, pairs: Option<usize>) {
        match pairs {
            None => self.weak_turns = 0,
            Some(pairs) => self.weak_turns = self.weak_turns.saturating_add(u8::from(pairs > 0)),
        }
    }

    /// It has asked several things at once.
    pub fn pipelines(&self) -> bool {
        self.depth_max > 1
    }

    /// It asked while only a part of what it had asked was answered.
    pub fn overlaps(&self) -> bool {
        self.overlaps
    }

    /// A response after a loss came after so many requests since the last one.
    pub fn alternates(&mut self, requests: u64) {
        self.weak_turns = if requests == 1 { self.weak_turns.saturating_add(1) } else { 0 };
    }

    /// Never asks while it waits for a response.
    pub fn waits(&self) -> bool {
        self.depth_max <= 1 && !self.overlaps && (self.turns >= 1 || self.weak_turns >= WEAK_TURNS)
    }

    /// Asks in batches, and never while it waits for a part of one.
    pub fn asks_in_batches(&self) -> bool {
        (self.turns >= 1 || self.weak_turns >= WEAK_TURNS) && !self.overlaps
    }

    /// A request sent at `first` is the first of a batch, and all earlier ones have been answered: the server has been
    /// silent for longer than bytes of its stream are held back.
    pub fn begins_batch(&self, first: Timestamp) -> bool {
        self.depth_max > 1
            && !self.overlaps
            && self.turns >= 1
            && !self.fresh_loss
            && self.responded_since_request
            && self.response_last.get().is_some_and(|last| first.since(last) >= SILENCE_NS)
    }
}
