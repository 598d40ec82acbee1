//! A session between an agent and the server, as a state machine with four interfaces: bytes in, bytes out, timers, and
//! events.
//!
//! It guarantees that every record in an agent's [`Spool`] is delivered once and in the order of its lane, or counted
//! as lost; that an acknowledgment means *committed*; and that neither end can make the other hold more than its limit.
//! It uses no socket, clock, file, or job: time is an argument, files are behind [`SegmentStore`], and the contents of records
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

pub use clock::{ClockOffset, OffsetEstimator, SessionTime};
pub use frame::{FRAME_BYTES_MAX, Frame, FrameDecoder, IncomingMessage, PeerMisbehaved};
pub use message::{
    Ack, AgentOrder, BudgetRequest, Bye, Credit, DataRecord, DesiredJobs, GrantedLease, HEALTH,
    Hello, HostCapacity, InterfaceAddresses, KEEPS_PACKETS, LaneRange, LaneResume, LostRecords,
    ObserveAll, ObservedJob, ObservedJobs, ObservedState, PACKETS_PART_BYTES, PacketBudget,
    PacketReply, PacketRequest, PayloadFormat, Ping, Pong, PreservePackets, RecordLane, Refuse,
    Renew, TapTableMessage, VERSIONS, Welcome,
};
pub use session::{
    AgentSession, AgentSessionEvent, LaneRecord, ServerSession, ServerSessionEvent,
    SessionCounters, SessionEnd, SessionLimits,
};
pub use spool::{NoDisk, SegmentStore, SegmentStoreError, Spool, SpoolCounters, SpoolLimits};
