//! Model of a client's behavior: whether it sends the next request only after all responses. Every client is
//! assumed to wait until it is seen not to; pairs that rely on this are on trial (`trial`), unless the
//! protocol requires clients to wait.

/// Model of one client.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientModel {
    /// The client has sent a request while an earlier one was unanswered: there are no rounds.
    asks_any_time: bool,
    /// The client has sent several requests in one round.
    batches: bool,
    /// The protocol requires it to wait, and it has always done so.
    must_wait: bool,
}

impl ClientModel {
    /// A client whose protocol requires it to wait.
    pub fn that_waits() -> ClientModel {
        ClientModel {
            must_wait: true,
            ..ClientModel::default()
        }
    }

    /// Whether it has always waited for all responses.
    #[inline]
    pub fn waits(&self) -> bool {
        !self.asks_any_time
    }

    /// Whether the protocol requires it to wait.
    pub fn must_wait(&self) -> bool {
        self.must_wait
    }

    /// Whether it has always sent one request at a time.
    pub fn asks_singly(&self) -> bool {
        !self.batches && self.waits()
    }

    /// Records a round with more than one request.
    #[inline]
    pub fn asked_several(&mut self) {
        self.batches = true;
    }

    /// Records a request sent while an earlier one was unanswered.
    pub fn asked_unanswered(&mut self) {
        self.asks_any_time = true;
        self.must_wait = false;
    }

    /// Records a round that cannot have had as many responses as requests.
    pub fn misfitted(&mut self) {
        self.must_wait = false;
    }
}
