//! Which response answers which request, where the protocol says it by order alone: one model of how a client behaves
//! ([`client`]) and one queue of transactions ([`queue`]), for every protocol. A protocol supplies framing (where its
//! messages begin and end) and meaning (what they say); it keeps no order of its own.
//!
//! What is relied on:
//!
//! 1. **Segments know their [`flow::Place`]**: `seq`, where their bytes are in their stream, and `ack`, up to where their
//!    sender had heard the other side when it spoke. The flow table delivers them so that everything a sender had heard
//!    comes first. Times and the order of a capture file decide nothing.
//! 2. **The n-th response answers the n-th request**, as long as nothing is missing ([`queue::Counting::Exact`]).
//! 3. **Rounds.** Requests with the same `ack` were asked after the same had been heard: they are one round. A client that
//!    only asks when it has been answered ends a round when it begins the next one. So the responses to a round are the
//!    server's bytes between the two acknowledgments, whatever is missing elsewhere. Where messages are missing, the
//!    responses of the round are held until it is over, and requests and responses are then numbered from both ends
//!    ([`numbering`]): those with the same number belong together.
//!
//! What cannot be told is handed out in halves: two halves are true, a wrong pair is not.

mod client;
mod numbering;
mod queue;
mod rounds;
mod slots;
#[cfg(test)]
mod tests;
mod transaction;

pub use self::queue::{RESPONSES_HELD_MAX, Spot, TRANSACTIONS_MAX, Transactions};
pub(crate) use self::transaction::can_answer;
pub use self::transaction::{Answers, Expects, Fit, Outcome, Transaction};
