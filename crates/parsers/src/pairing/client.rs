//! The model of a client: whether it sends again only when everything was answered. Every client is taken for one that does until
//! it is seen to do otherwise; pairs that rest on that are on trial (`trial`), unless the protocol makes its clients wait.

/// The model of one client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client {
    /// It has sent a request while an earlier one was not answered: there are no rounds.
    asks_any_time: bool,
    /// It has sent several requests in one round.
    batches: bool,
    /// The protocol makes it wait, and nothing seen contradicts that.
    must_wait: bool,
}

impl Client {
    /// A client whose protocol requires it to wait.
    pub fn that_waits() -> Client {
        Client { must_wait: true, ..Client::default() }
    }

    /// Whether it waits, as far as was seen.
    #[inline]
    pub fn waits(&self) -> bool {
        !self.asks_any_time
    }

    /// Whether the protocol makes it wait.
    pub fn must_wait(&self) -> bool {
        self.must_wait
    }

    /// Sends one request at a time, as far as was seen.
    pub fn asks_singly(&self) -> bool {
        !self.batches && self.waits()
    }

    /// A round had more than one request.
    #[inline]
    pub fn asked_several(&mut self) {
        self.batches = true;
    }

    /// It sent a request although an earlier one was not answered.
    pub fn asked_unanswered(&mut self) {
        (self.asks_any_time, self.must_wait) = (true, false);
    }

    /// A round cannot have had as many responses as requests.
    pub fn misfitted(&mut self) {
        self.must_wait = false;
    }
}
