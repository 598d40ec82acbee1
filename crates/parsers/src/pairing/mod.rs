//! Which response answers which request, where only their order says it, or now and then a name: one model of how a client
//! behaves (`client`) and one queue of transactions (`queue`), for every protocol. A protocol supplies framing (where its
//! messages begin and end) and meaning (what they say); it keeps no order of its own.
//!
//! What is relied on:
//!
//! 1. **Segments know their [`flow::Place`]**: `seq`, where their bytes are in their stream, and `ack`, up to where their
//!    sender had heard the other side when it spoke. The flow table delivers them so that everything a sender had heard
//!    comes first. Times and the order of a capture file decide nothing.
//! 2. **The n-th response answers the n-th request**, as long as nothing is missing (`queue::Counting::Exact`).
//! 3. **Bounds.** A response answers no request that its sender had not received, and none before those that are answered already,
//!    the ones that missing bytes hide at least included. Where that leaves one request, the pair is proven.
//! 4. **Rounds.** Requests with the same `ack` are one round. A client that sends only when it has been answered ends a round when
//!    it begins the next one; so the responses to a round are the server's bytes between the two acknowledgments, whatever is missing
//!    elsewhere. Requests and responses of a round are numbered from both ends (`numbering`): those with the same number belong
//!    together. Nothing on the wire proves that a client waits, unless its protocol makes it: what rests on that is held until
//!    enough later rounds agree, and becomes halves when one does not (`trial`).
//! 5. **A name** is stronger than any count: a response that names its request answers it ([`Transactions::response_to`]). As
//!    long as every response does, nothing is counted and there are no rounds (`queue::Naming::Unique`).
//!
//! What cannot be told is handed out in halves: two halves are true, a wrong pair is not.
//!
//! # In which state a transaction is
//!
//! Three of its fields say so: how much of the request was seen (`asked`), how much of the response (`answered`), and what may
//! still come (`outcome`).
//!
//! | `asked` | `answered` | `outcome` | it |
//! |---|---|---|---|
//! | Begun | Unseen | Open | is a request that is being sent |
//! | Ended | Unseen | Open | waits for its response |
//! | Begun, Ended | Begun | Open | is being answered |
//! | Ended | Ended | Open | is over: a pair |
//! | Ended | Unseen | Silent | is over: it has no response by its meaning |
//! | Ended | Unseen | Half | is over: its response was not seen, or cannot be told from others |
//! | Unseen | Begun, Ended | Open | is the response to a missing request; or, kept apart, one held until its round is over |
//! | Unseen | Ended | Half | is over: a response of which the request is not known |
//! | Unseen | Unseen | Open | stands for a request that is missing, and counts |
//! | any | any | BrokenOff | is handed out as it is: the connection ended, or there were too many. (Without both: it was moved to its pair.) |
//!
//! A transaction that is `apart` had a response that may be another's: both are handed out as halves.
//!
//! Why it got there:
//!
//! - **A pair.** The response named the request; or counting is exact and it was the next one; or counting was lost, and it was
//!   the only one possible, or the round ended and request and response have the same number in it (`recounted`).
//! - **Half.** Counting was lost and the round ended without a pair for it; or the client keeps no rounds
//!   (`client::Client::waits`); or the server said all it had to say.
//!
//! How far counting holds is a state of the connection, `queue::Counting`:
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
mod count;
mod eviction;
mod missing;
mod names;
mod numbering;
mod places;
mod queue;
mod room;
mod rounds;
mod seen;
mod slots;
#[cfg(test)]
mod tests;
mod transaction;
mod trial;

pub use self::queue::{RESPONSES_HELD_MAX, Spot, TRANSACTIONS_MAX, Transactions};
pub use self::room::{OUTSTANDING_MIN, Room};
pub use self::seen::Seen;
pub(crate) use self::transaction::can_answer;
pub use self::transaction::{Answers, Expects, Fit, Outcome, Transaction};
