//! What the two ends say to each other, as protocol buffers by derive. Numbers of fields are never used again; what is
//! added later has a default that means what was meant before. Lists in messages are bounded by the size of their frame.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;

/// The versions of the protocol that this program speaks: its own and the one before.
pub const VERSIONS: RangeInclusive<u32> = 1..=1;

/// A sequence of records: what one start of one job's monitor on one agent has to say. The agent's name comes from its
/// certificate, not from here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub struct Lane {
    /// Which life of the agent's process.
    #[prost(fixed64, tag = "1")]
    pub boot: u64,
    /// The job.
    #[prost(uint64, tag = "2")]
    pub job: u64,
    /// Which start of the job's monitor on this agent.
    #[prost(uint32, tag = "3")]
    pub attempt: u32,
}

/// The first frame of an agent: who it is, and everything that the server may have forgotten.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Hello {
    /// The lowest version it speaks.
    #[prost(uint32, tag = "1")]
    pub version_min: u32,
    /// The highest version it speaks.
    #[prost(uint32, tag = "2")]
    pub version_max: u32,
    /// Its name, to be compared with its certificate.
    #[prost(string, tag = "3")]
    pub agent: String,
    /// Which life of its process this is.
    #[prost(fixed64, tag = "4")]
    pub boot: u64,
    /// Labels, by which jobs choose agents.
    #[prost(btree_map = "string, string", tag = "5")]
    pub labels: BTreeMap<String, String>,
    /// What it can do, by name: `af_packet`, `af_xdp`, …
    #[prost(string, repeated, tag = "6")]
    pub capabilities: Vec<String>,
    /// What its host has.
    #[prost(message, required, tag = "7")]
    pub capacity: Capacity,
    /// All that it runs.
    #[prost(message, required, tag = "8")]
    pub observed: Observed,
    /// What its spool holds.
    #[prost(message, repeated, tag = "9")]
    pub lanes: Vec<LaneRange>,
    /// The program's version, for people.
    #[prost(string, tag = "10")]
    pub program: String,
    /// Identity of the server whose orders it runs and whose records its spool holds, by [`Welcome::server`]; 0:
    /// unknown.
    #[prost(fixed64, tag = "40")]
    pub server: u64,
    /// The life before this one, if it ended in order: all that its monitors found is in the spool or was sent. 0: it did not.
    #[prost(fixed64, tag = "41")]
    pub boot_ended: u64,
}

/// What a host has for jobs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Capacity {
    /// Cores that jobs may use.
    #[prost(uint32, tag = "1")]
    pub cores: u32,
    /// Memory that jobs may use.
    #[prost(uint64, tag = "2")]
    pub memory_bytes: u64,
    /// Interfaces that may be listened on.
    #[prost(string, repeated, tag = "3")]
    pub interfaces: Vec<String>,
    // 4 was a cost in no unit.
    /// Addresses of those interfaces, each of 4 bytes or 16.
    #[prost(bytes = "bytes", repeated, tag = "40")]
    pub addresses: Vec<Bytes>,
    /// Which of them pass which interface; an agent of an older version says nothing of that.
    #[prost(message, repeated, tag = "41")]
    pub passing: Vec<Passing>,
    /// Packets a second that the interfaces have seen of late.
    #[prost(uint64, tag = "17")]
    pub packets_per_second: u64,
    /// Thousandths of a core that all jobs together may take; with `jobs_memory_bytes_max` 0: the host does not say.
    #[prost(uint64, tag = "18")]
    pub jobs_cpu_millis_max: u64,
    /// Memory that all jobs together may take.
    #[prost(uint64, tag = "19")]
    pub jobs_memory_bytes_max: u64,
}

/// The addresses whose traffic passes an interface: its own, and those of interfaces above it (a bridge, a bond, a VLAN).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Passing {
    /// The interface.
    #[prost(string, tag = "1")]
    pub interface: String,
    /// Each of 4 bytes or 16.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub addresses: Vec<Bytes>,
}

/// What a spool holds of a lane.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LaneRange {
    /// Which lane.
    #[prost(message, required, tag = "1")]
    pub lane: Lane,
    /// The oldest sequence number held.
    #[prost(uint64, tag = "2")]
    pub oldest: u64,
    /// The newest.
    #[prost(uint64, tag = "3")]
    pub newest: u64,
}

/// The server's answer to [`Hello`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Welcome {
    /// The version spoken from here on.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// All that the agent is to run.
    #[prost(message, required, tag = "2")]
    pub desired: Desired,
    /// How far the agent's lanes are committed: all that Hello named, and all that the server has open.
    #[prost(message, repeated, tag = "3")]
    pub lanes: Vec<Resume>,
    /// Bytes of records that may be sent.
    #[prost(uint64, tag = "4")]
    pub credit_bytes: u64,
    /// Which server this is: its data directory's identity. Numbers of jobs mean something together with it only. 0: it does
    /// not say.
    #[prost(fixed64, tag = "40")]
    pub server: u64,
}

/// Where a lane goes on. Nothing of it that came by an earlier session and is not committed will be any more.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Resume {
    /// Which lane.
    #[prost(message, required, tag = "1")]
    pub lane: Lane,
    /// The last sequence number that is committed; 0: none.
    #[prost(uint64, tag = "2")]
    pub durable: u64,
    /// The last watermark that is committed.
    #[prost(int64, tag = "3")]
    pub watermark_ns: i64,
    /// The lane's last record is committed.
    #[prost(bool, tag = "4")]
    pub is_closed: bool,
}

/// The server does not speak with this agent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Refuse {
    /// Why, for people.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// The lowest version the server speaks.
    #[prost(uint32, tag = "2")]
    pub server_min: u32,
    /// The highest version the server speaks.
    #[prost(uint32, tag = "3")]
    pub server_max: u32,
    /// The lowest version the agent said it speaks.
    #[prost(uint32, tag = "4")]
    pub agent_min: u32,
    /// The highest version the agent said it speaks.
    #[prost(uint32, tag = "5")]
    pub agent_max: u32,
    /// This is another server than the one that Hello named; 0: that is not why.
    #[prost(fixed64, tag = "40")]
    pub server: u64,
}

/// The last frame of an end that leaves on purpose.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Bye {
    /// Why, for people.
    #[prost(string, tag = "1")]
    pub reason: String,
}

/// The server asks what time it is at the agent.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Ping {
    /// The server's clock when it asked.
    #[prost(int64, tag = "1")]
    pub sent_ns: i64,
}

/// The agent's answer.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Pong {
    /// The ping's time.
    #[prost(int64, tag = "1")]
    pub sent_ns: i64,
    /// The agent's clock when the ping came.
    #[prost(int64, tag = "2")]
    pub received_ns: i64,
    /// The agent's clock when it answered.
    #[prost(int64, tag = "3")]
    pub answered_ns: i64,
}

/// The whole set of jobs that an agent is to run; what is not in it is to be stopped.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Desired {
    /// Rises with every change of the set; of two sets the later counts.
    #[prost(uint64, tag = "1")]
    pub generation: u64,
    /// The jobs.
    #[prost(message, repeated, tag = "2")]
    pub jobs: Vec<Order>,
    /// The tables of addresses that jobs go by, each once.
    #[prost(message, repeated, tag = "40")]
    pub taps: Vec<TapTable>,
}

/// Whose addresses are whose among the agents of a job; each of 4 bytes or 16.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TapTable {
    /// Those of this agent.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub own: Vec<Bytes>,
    /// Those of others.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub others: Vec<Bytes>,
}

/// A job for an agent.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Order {
    /// Which job.
    #[prost(uint64, tag = "1")]
    pub job: u64,
    /// The plan, the inputs and their limits: bytes to everyone but the monitor.
    #[prost(bytes = "bytes", tag = "2")]
    pub body: Bytes,
    /// The job ends with this many packets of all agents together: each asks for its share. 0: no such limit.
    #[prost(uint64, tag = "3")]
    pub packets_max: u64,
    /// Which of [`Desired::taps`] it goes by, from 1; 0: none.
    #[prost(uint32, tag = "40")]
    pub taps: u32,
    /// Its monitor is started again however often it fails, after longer and longer pauses. Older agents give up after three failures.
    #[prost(bool, tag = "41")]
    pub is_retried: bool,
}

/// What an agent runs: changes, or everything.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Observed {
    /// Changes are numbered; after a gap everything is asked for.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// The last set that the agent has taken in.
    #[prost(uint64, tag = "2")]
    pub generation: u64,
    /// Whether `jobs` is everything.
    #[prost(bool, tag = "3")]
    pub is_everything: bool,
    /// Jobs and how they do.
    #[prost(message, repeated, tag = "4")]
    pub jobs: Vec<ObservedJob>,
}

/// How a job does on an agent.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ObservedJob {
    /// Which job.
    #[prost(uint64, tag = "1")]
    pub job: u64,
    /// How it does.
    #[prost(enumeration = "ObservedState", tag = "2")]
    pub state: i32,
    /// Which start of its monitor.
    #[prost(uint32, tag = "3")]
    pub attempt: u32,
    /// Why, for people, where it failed.
    #[prost(string, tag = "4")]
    pub reason: String,
}

/// How a job does on an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ObservedState {
    /// Not there any more; only in changes.
    Gone = 0,
    /// Wanted, and waiting for a lease or for the end of a pause after a crash.
    Waiting = 1,
    /// Its monitor was started.
    Starting = 2,
    /// Its monitor has reported.
    Running = 3,
    /// Its monitor has been asked to stop.
    Stopping = 4,
    /// Its monitor has ended; the spool still holds of it.
    Flushing = 5,
    /// Its monitor has ended by itself, with everything delivered.
    Finished = 6,
    /// Its monitor crashed so often that it is not started again.
    Poisoned = 7,
    /// The host does not allow it, or cannot do it: it is not started.
    Refused = 8,
}

impl ObservedState {
    /// Whether the agent will never run it.
    pub fn is_hopeless(self) -> bool {
        matches!(self, Self::Poisoned | Self::Refused)
    }
}

/// The agent asks for everything it runs to go on.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Renew {
    /// The agent's monotonic clock: the lease that is granted counts from here, however long the grant travels.
    #[prost(uint64, tag = "1")]
    pub asked_ns: u64,
    /// Jobs with a limit of packets.
    #[prost(message, repeated, tag = "2")]
    pub budgets: Vec<BudgetAsk>,
    /// Packets a second that the interfaces see now; 0: it is not known.
    #[prost(uint64, tag = "17")]
    pub packets_per_second: u64,
    /// How the agent itself does, by the words of [`HEALTH`].
    #[prost(btree_map = "string, uint64", tag = "15")]
    pub health: BTreeMap<String, u64>,
}

/// What an agent says of how it does: what waits in its spool and how much may; what that had no room for; its monitors; the time that
/// it has computed and its memory, its monitors' aside.
pub const HEALTH: [&str; 8] = [
    "spool_bytes",
    "spool_bytes_max",
    "spool_records",
    "spool_lost_records",
    "spool_lost_tuples",
    "monitors",
    "cpu_ns",
    "memory_bytes",
];

/// What an agent has of a job's packets.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct BudgetAsk {
    /// Which job.
    #[prost(uint64, tag = "1")]
    pub job: u64,
    /// Packets taken so far.
    #[prost(uint64, tag = "2")]
    pub used: u64,
    /// Packets that it may take, in all.
    #[prost(uint64, tag = "3")]
    pub allowed: u64,
    /// The last grant it has seen, by which the server knows what `allowed` is in answer to.
    #[prost(uint64, tag = "4")]
    pub grant: u64,
    /// It has packets that it may not take yet.
    #[prost(bool, tag = "5")]
    pub waits: bool,
}

/// The server's answer to [`Renew`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Granted {
    /// The time in the question.
    #[prost(uint64, tag = "1")]
    pub asked_ns: u64,
    /// How long the lease lasts from then on.
    #[prost(uint64, tag = "2")]
    pub ttl_ns: u64,
    /// The jobs that may go on.
    #[prost(uint64, repeated, tag = "3")]
    pub jobs: Vec<u64>,
    /// Jobs with a limit of packets.
    #[prost(message, repeated, tag = "4")]
    pub budgets: Vec<Budget>,
}

/// An agent's share of a job's packets.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Budget {
    /// Which job.
    #[prost(uint64, tag = "1")]
    pub job: u64,
    /// Packets that the agent may take, in all.
    #[prost(uint64, tag = "2")]
    pub allowed: u64,
    /// The number of this grant.
    #[prost(uint64, tag = "3")]
    pub grant: u64,
    /// Others starve: what is not needed at once is to be given back, by allowing oneself less in the next question.
    #[prost(bool, tag = "4")]
    pub give_back: bool,
}

/// The server has missed changes: the agent is to tell everything.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ObserveAll {}

/// A record of a lane.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Data {
    /// Which lane.
    #[prost(message, required, tag = "1")]
    pub lane: Lane,
    /// Its number in the lane, from 1.
    #[prost(uint64, tag = "2")]
    pub seq: u64,
    /// No tuple older than this follows in the lane, by the agent's clock.
    #[prost(sfixed64, tag = "3")]
    pub watermark_ns: i64,
    /// The oldest event time in it.
    #[prost(sfixed64, tag = "4")]
    pub from_ns: i64,
    /// Tuples that went into it.
    #[prost(uint64, tag = "5")]
    pub tuples: u64,
    /// Whether it can be merged.
    #[prost(enumeration = "Form", tag = "6")]
    pub form: i32,
    /// Nothing follows in the lane.
    #[prost(bool, tag = "7")]
    pub is_last: bool,
    /// The monitor's counters since it started.
    #[prost(btree_map = "string, uint64", tag = "8")]
    pub counters: BTreeMap<String, u64>,
    /// Partial results or tuples: bytes to everyone but the collector.
    #[prost(bytes = "bytes", tag = "9")]
    pub payload: Bytes,
}

/// What a record's payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Form {
    /// Raw tuples: where there is no room, these give way first.
    Tuples = 0,
    /// Partial results.
    Partial = 1,
}

/// Records of a lane that will never come.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Lost {
    /// Which lane.
    #[prost(message, required, tag = "1")]
    pub lane: Lane,
    /// The first sequence number.
    #[prost(uint64, tag = "2")]
    pub first: u64,
    /// The last.
    #[prost(uint64, tag = "3")]
    pub last: u64,
    /// The oldest event time of what is lost.
    #[prost(sfixed64, tag = "4")]
    pub from_ns: i64,
    /// The newest.
    #[prost(sfixed64, tag = "5")]
    pub to_ns: i64,
    /// Number of lost tuples; `None`: unknown, because the process that counted them died.
    #[prost(uint64, optional, tag = "6")]
    pub tuples: Option<u64>,
    /// Nothing follows in the lane.
    #[prost(bool, tag = "7")]
    pub is_last: bool,
}

/// All records of a lane up to this one are committed.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Ack {
    /// Which lane.
    #[prost(message, required, tag = "1")]
    pub lane: Lane,
    /// The sequence number.
    #[prost(uint64, tag = "2")]
    pub seq: u64,
}

/// How many bytes of records may be sent in this session, in all.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Credit {
    /// Bytes, counted from the session's begin.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
}
