//! A session between an agent and the server, as a state machine with four interfaces: bytes in, bytes out, timers, and
//! events.
//!
//! It guarantees that every record in an agent's [`Spool`] is delivered once and in the order of its lane, or counted
//! as lost; that an acknowledgment means *committed*; and that neither end can make the other hold more than its limit.
//! It uses no socket, clock, file, or job: time is an argument, files are behind [`Store`], and the contents of records
//! and orders are bytes.
//!
//! ```text
//! agent:   Spool ─ AgentSession ══ bytes ══ ServerSession ─ records ─► store ─ committed(lane, seq) ─► ack
//! ```

mod clock;
mod frame;
mod message;
mod session;
mod spool;

pub use clock::{Ahead, Now, Offset};
pub use frame::{Decoder, FRAME_BYTES_MAX, Frame, Incoming, PeerMisbehaved};
pub use message::{
    Ack, Budget, BudgetAsk, Bye, Capacity, Credit, Data, Desired, Form, Granted, HEALTH, Hello, Lane,
    LaneRange, Lost, ObserveAll, Observed, ObservedJob, ObservedState, Order, Passing, Ping, Pong, Refuse,
    Renew, Resume, TapTable, VERSIONS, Welcome,
};
pub use session::{
    AgentEvent, AgentSession, Closed, Record, ServerCounters, ServerEvent, ServerLimits, ServerSession,
};
pub use spool::{NoDisk, Spool, SpoolCounters, SpoolLimits, Store, StoreFailed};
