//! One session between an agent and the server, as a state machine of four doors: bytes in, bytes out, timers, events.
//!
//! It promises that every record an agent has put into its [`Spool`] is delivered once and in the order of its lane, or is
//! counted as lost; that an acknowledgment means *committed*; and that neither end can make the other hold more than it
//! was told it may. It knows no socket, clock, file or job: time is an argument, files stand behind [`Store`], and what
//! records and orders contain is bytes.
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
