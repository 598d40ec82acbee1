//! Matches responses to requests by their order, and in some protocols by a name. One model of a client's behavior
//! (`client`) and one queue of transactions (`queue`) serve every protocol. A protocol supplies framing (message
//! boundaries) and meaning (contents); it keeps no order of its own.
//!
//! Rules:
//!
//! 1. **Segments have a [`flow::StreamPlace`]**: `seq`, the position of their bytes in the stream, and `ack`, the bytes of
//!    the other side that the sender had received. The flow table delivers a segment after all bytes that its sender had
//!    received. Times and file order are not used.
//! 2. **The n-th response answers the n-th request**, while nothing is missing (`queue::CountValidity::Exact`).
//! 3. **Bounds.** A response answers no request that its sender had not received, and none before requests already
//!    answered, including the minimum number hidden in gaps. If that leaves one request, the pair is proven.
//! 4. **Rounds.** Requests with the same `ack` form a round. A client that sends only after all responses ends a round
//!    when it starts the next one, so the responses of a round are the server's bytes between the two acknowledgments,
//!    whatever else is missing. Requests and responses of a round are numbered from both ends (`numbering`); equal numbers
//!    belong together. Nothing on the wire proves that a client waits unless its protocol requires it: pairs that rely on
//!    it are held until enough later rounds agree, and become halves when one does not (`trial`). A round that cannot have
//!    as many responses as requests, whatever is missing, shows that the client does not wait.
//! 5. **A name** overrides any count: a response that names its request answers it ([`TransactionQueue::response_to`]).
//!    While every response does, nothing is counted and there are no rounds (`queue::IdMatching::Unique`). Protocols whose
//!    responses come in any order never count (`queue::IdMatching::AnyOrder`).
//!
//! Uncertain pairs are returned as halves: two halves are true, a wrong pair is not.
//!
//! # States of a transaction
//!
//! Three fields hold the state: how much of the request was seen (`asked`), how much of the response (`answered`), and
//! what may follow (`outcome`).
//!
//! | `asked` | `answered` | `outcome` | state |
//! |---|---|---|---|
//! | Begun | Unseen | Open | request in progress |
//! | Ended | Unseen | Open | waits for its response |
//! | Begun, Ended | Begun | Open | response in progress |
//! | Ended | Ended | Open | finished pair |
//! | Ended | Unseen | Silent | finished; the request has no response by definition |
//! | Ended | Unseen | Half | finished; the response was not seen or is ambiguous |
//! | Unseen | Begun, Ended | Open | response to a missing request; or, if apart, a response held until its round ends |
//! | Unseen | Ended | Half | finished; a response without a known request |
//! | Unseen | Unseen | Open | placeholder of a missing request, which counts |
//! | any | any | BrokenOff | returned unfinished: the connection ended, or there were too many (without both: moved to its pair) |
//!
//! A transaction that is `apart` had a response that may belong to another request: both are returned as halves.
//!
//! Causes:
//!
//! - **A pair.** The response named the request; or counting is exact and it was the next one; or counting was lost,
//!   and it was the only possible one, or the round ended and request and response have the same number in it
//!   (`recounted`).
//! - **Half.** Counting was lost and the round ended without a pair for it; or the client keeps no rounds
//!   (`client::ClientModel::waits`); or the server's stream ended.
//!
//! `queue::CountValidity` is the state of counting on a connection:
//!
//! ```text
//!            bytes of the client are missing            a response comes beyond those below
//!   Exact ────────────────────────────────► ExactBelow ─────────────────────────────────► Lost(Requests)
//!     │ ▲                                        │                                             │
//!     │ └── how many requests they hid is known ─┘                                             │
//!     │ bytes of the server are missing, or a response contradicts the count                   │
//!     └───────────────────────────────────────────────────────────────────► Lost(Responses)    │
//!     ▲                                                                           │            │
//!     └──── a client that waits begins a round, or a response can have one request only ───────┘
//! ```

mod client;
mod completeness;
mod count;
mod eviction;
mod missing;
mod names;
mod numbering;
mod outstanding_budget;
mod pairing_trial;
mod places;
mod queue;
mod request_round;
mod rounds;
mod slot_queue;
#[cfg(test)]
mod tests;
mod transaction;
mod trial;
mod unpaired_responses;

pub use self::completeness::MessageCompleteness;
pub(crate) use self::outstanding_budget::BudgetLoan;
pub use self::outstanding_budget::{OUTSTANDING_MIN, OutstandingBudget, TRANSACTIONS_MAX};
pub use self::queue::{RESPONSES_HELD_MAX, ResponseSlot, TransactionQueue};
pub(crate) use self::transaction::can_answer;
pub use self::transaction::{
    PairedTransaction, RequestMatcher, ResponseExpectation, ResponseMatch, TransactionOutcome,
};
