//! Messages between agent and server, as protocol buffers by derive. Field numbers are never reused; the default of a
//! new field has the previous meaning. Lists are limited by the size of a frame.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;

/// Supported protocol versions: the current one and the previous one.
pub const VERSIONS: RangeInclusive<u32> = 1..=1;

/// A sequence of records from one start of a job's monitor on an agent. The agent's name is that of its certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub struct RecordLane {
    /// Incarnation of the agent.
    #[prost(fixed64, tag = "1")]
    pub boot: u64,
    /// Number of the job.
    #[prost(uint64, tag = "2")]
    pub job: u64,
    /// Number of the start of the job's monitor on this agent.
    #[prost(uint32, tag = "3")]
    pub attempt: u32,
}

/// First message of an agent: its identity, and all state that the server may have lost.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Hello {
    /// Lowest supported version.
    #[prost(uint32, tag = "1")]
    pub version_min: u32,
    /// Highest supported version.
    #[prost(uint32, tag = "2")]
    pub version_max: u32,
    /// Name, to be compared with the certificate.
    #[prost(string, tag = "3")]
    pub agent: String,
    /// Incarnation.
    #[prost(fixed64, tag = "4")]
    pub boot: u64,
    /// Labels, by which jobs select agents.
    #[prost(btree_map = "string, string", tag = "5")]
    pub labels: BTreeMap<String, String>,
    /// Capabilities, by name: `af_packet`, `af_xdp`, …
    #[prost(string, repeated, tag = "6")]
    pub capabilities: Vec<String>,
    /// Properties of its host.
    #[prost(message, required, tag = "7")]
    pub capacity: HostCapacity,
    /// States of all its jobs.
    #[prost(message, required, tag = "8")]
    pub observed: ObservedJobs,
    /// Lanes in its spool.
    #[prost(message, repeated, tag = "9")]
    pub lanes: Vec<LaneRange>,
    /// Version of the program, for people.
    #[prost(string, tag = "10")]
    pub program: String,
    /// Identity of the server whose orders it runs and whose records its spool holds, by [`Welcome::server`]; 0:
    /// unknown.
    #[prost(fixed64, tag = "40")]
    pub server: u64,
    /// Previous incarnation, if it ended in order: all results of its monitors are in the spool or were sent. 0: it did
    /// not.
    #[prost(fixed64, tag = "41")]
    pub boot_ended: u64,
}

/// Properties of a host.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HostCapacity {
    /// Cores available to jobs.
    #[prost(uint32, tag = "1")]
    pub cores: u32,
    /// Memory available to jobs, in bytes.
    #[prost(uint64, tag = "2")]
    pub memory_bytes: u64,
    /// Permitted capture interfaces.
    #[prost(string, repeated, tag = "3")]
    pub interfaces: Vec<String>,
    // 4 was a cost without a unit.
    /// Addresses of these interfaces, each of 4 or 16 bytes.
    #[prost(bytes = "bytes", repeated, tag = "40")]
    pub addresses: Vec<Bytes>,
    /// Addresses by interface; empty for older agents.
    #[prost(message, repeated, tag = "41")]
    pub passing: Vec<InterfaceAddresses>,
    /// Recent packets per second on the interfaces.
    #[prost(uint64, tag = "17")]
    pub packets_per_second: u64,
    /// Maximum cores of all jobs, in thousandths; 0 together with `jobs_memory_bytes_max` 0: unknown.
    #[prost(uint64, tag = "18")]
    pub jobs_cpu_millis_max: u64,
    /// Maximum memory of all jobs, in bytes.
    #[prost(uint64, tag = "19")]
    pub jobs_memory_bytes_max: u64,
}

/// Addresses whose traffic passes an interface: its own, and those of interfaces above it (a bridge, a bond, a VLAN).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InterfaceAddresses {
    /// Name of the interface.
    #[prost(string, tag = "1")]
    pub interface: String,
    /// Addresses, each of 4 or 16 bytes.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub addresses: Vec<Bytes>,
}

/// Records of a lane in a spool.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LaneRange {
    /// Lane.
    #[prost(message, required, tag = "1")]
    pub lane: RecordLane,
    /// Lowest sequence number.
    #[prost(uint64, tag = "2")]
    pub oldest: u64,
    /// Highest sequence number.
    #[prost(uint64, tag = "3")]
    pub newest: u64,
}

/// Reply of the server to [`Hello`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Welcome {
    /// Version used from here on.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// Desired set of the agent.
    #[prost(message, required, tag = "2")]
    pub desired: DesiredJobs,
    /// Committed positions of all lanes in Hello, and of all lanes open at the server.
    #[prost(message, repeated, tag = "3")]
    pub lanes: Vec<LaneResume>,
    /// Bytes of records that may be sent.
    #[prost(uint64, tag = "4")]
    pub credit_bytes: u64,
    /// Identity of the server's data directory. Job numbers are only valid together with it. 0: unknown.
    #[prost(fixed64, tag = "40")]
    pub server: u64,
}

/// Committed position of a lane. Uncommitted records of earlier sessions are dropped.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LaneResume {
    /// Lane.
    #[prost(message, required, tag = "1")]
    pub lane: RecordLane,
    /// Highest committed sequence number; 0: none.
    #[prost(uint64, tag = "2")]
    pub durable: u64,
    /// Last committed watermark.
    #[prost(int64, tag = "3")]
    pub watermark_ns: i64,
    /// Whether the lane's last record is committed.
    #[prost(bool, tag = "4")]
    pub is_closed: bool,
}

/// The server rejects this agent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Refuse {
    /// Reason, for people.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// Lowest version supported by the server.
    #[prost(uint32, tag = "2")]
    pub server_min: u32,
    /// Highest version supported by the server.
    #[prost(uint32, tag = "3")]
    pub server_max: u32,
    /// Lowest version supported by the agent.
    #[prost(uint32, tag = "4")]
    pub agent_min: u32,
    /// Highest version supported by the agent.
    #[prost(uint32, tag = "5")]
    pub agent_max: u32,
    /// Identity of this server if it differs from that in Hello; 0: another reason.
    #[prost(fixed64, tag = "40")]
    pub server: u64,
}

/// Last message before an intentional disconnection.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Bye {
    /// Reason, for people.
    #[prost(string, tag = "1")]
    pub reason: String,
}

/// Request of the server for the agent's time.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Ping {
    /// Server's clock at the request.
    #[prost(int64, tag = "1")]
    pub sent_ns: i64,
}

/// Reply of the agent.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Pong {
    /// Time of the ping.
    #[prost(int64, tag = "1")]
    pub sent_ns: i64,
    /// Agent's clock at the receipt.
    #[prost(int64, tag = "2")]
    pub received_ns: i64,
    /// Agent's clock at the reply.
    #[prost(int64, tag = "3")]
    pub answered_ns: i64,
}

/// Complete set of jobs that an agent should run; all others must be stopped.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DesiredJobs {
    /// Increases with every change of the set; the higher one applies.
    #[prost(uint64, tag = "1")]
    pub generation: u64,
    /// Jobs.
    #[prost(message, repeated, tag = "2")]
    pub jobs: Vec<AgentOrder>,
    /// Tap tables referenced by jobs, without duplicates.
    #[prost(message, repeated, tag = "40")]
    pub taps: Vec<TapTableMessage>,
}

/// Owners of addresses among a job's agents; each address of 4 or 16 bytes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TapTableMessage {
    /// Addresses of this agent.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub own: Vec<Bytes>,
    /// Addresses of other agents.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub others: Vec<Bytes>,
}

/// A job for an agent.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AgentOrder {
    /// Number of the job.
    #[prost(uint64, tag = "1")]
    pub job: u64,
    /// Plan, inputs and limits, decoded only by the monitor.
    #[prost(bytes = "bytes", tag = "2")]
    pub body: Bytes,
    /// Total packet limit over all agents, distributed in grants. 0: no limit.
    #[prost(uint64, tag = "3")]
    pub packets_max: u64,
    /// Index in [`DesiredJobs::taps`], from 1; 0: none.
    #[prost(uint32, tag = "40")]
    pub taps: u32,
    /// The monitor is restarted without limit, with growing backoff. Older agents stop after three failures.
    #[prost(bool, tag = "41")]
    pub is_retried: bool,
}

/// States of an agent's jobs: changes, or a complete report.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ObservedJobs {
    /// Number of the report; a complete report is requested after a gap.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// Generation of the last adopted set.
    #[prost(uint64, tag = "2")]
    pub generation: u64,
    /// Whether `jobs` is complete.
    #[prost(bool, tag = "3")]
    pub is_everything: bool,
    /// States of jobs.
    #[prost(message, repeated, tag = "4")]
    pub jobs: Vec<ObservedJob>,
}

/// State of a job on an agent.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ObservedJob {
    /// Number of the job.
    #[prost(uint64, tag = "1")]
    pub job: u64,
    /// State.
    #[prost(enumeration = "ObservedState", tag = "2")]
    pub state: i32,
    /// Number of the start of its monitor.
    #[prost(uint32, tag = "3")]
    pub attempt: u32,
    /// Reason of a failure, for people.
    #[prost(string, tag = "4")]
    pub reason: String,
}

/// State of a job on an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ObservedState {
    /// Removed; only in changes.
    Gone = 0,
    /// Wanted; waits for a lease or for the end of a backoff.
    Waiting = 1,
    /// The monitor was started.
    Starting = 2,
    /// The monitor has reported.
    Running = 3,
    /// The monitor has been asked to stop.
    Stopping = 4,
    /// The monitor has ended; the spool still has records of the job.
    Flushing = 5,
    /// The monitor has ended by itself, and all results were delivered.
    Finished = 6,
    /// The monitor crashed too often and is not restarted.
    Poisoned = 7,
    /// Forbidden or impossible on the host: not started.
    Refused = 8,
}

impl ObservedState {
    /// Whether the agent will never run the job.
    pub fn is_hopeless(self) -> bool {
        matches!(self, Self::Poisoned | Self::Refused)
    }
}

/// Request for leases of all running jobs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Renew {
    /// Agent's monotonic clock: the granted lease starts at this time, however late the grant arrives.
    #[prost(uint64, tag = "1")]
    pub asked_ns: u64,
    /// Shares of packet limits.
    #[prost(message, repeated, tag = "2")]
    pub budgets: Vec<BudgetRequest>,
    /// Current packets per second on the interfaces; 0: unknown.
    #[prost(uint64, tag = "17")]
    pub packets_per_second: u64,
    /// Counters of the agent, by the names in [`HEALTH`].
    #[prost(btree_map = "string, uint64", tag = "15")]
    pub health: BTreeMap<String, u64>,
}

/// Names of an agent's counters: records in its spool and their limit; records dropped; monitors; its CPU time and
/// memory, without its monitors.
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

/// State of an agent's share of a job's packets.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct BudgetRequest {
    /// Number of the job.
    #[prost(uint64, tag = "1")]
    pub job: u64,
    /// Packets used so far.
    #[prost(uint64, tag = "2")]
    pub used: u64,
    /// Current allowance, in total.
    #[prost(uint64, tag = "3")]
    pub allowed: u64,
    /// Number of the last grant received, to which `allowed` refers.
    #[prost(uint64, tag = "4")]
    pub grant: u64,
    /// Whether packets wait for an allowance.
    #[prost(bool, tag = "5")]
    pub waits: bool,
}

/// Reply of the server to [`Renew`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct GrantedLease {
    /// Time of the request.
    #[prost(uint64, tag = "1")]
    pub asked_ns: u64,
    /// Duration of the lease from that time, in nanoseconds.
    #[prost(uint64, tag = "2")]
    pub ttl_ns: u64,
    /// Jobs with renewed leases.
    #[prost(uint64, repeated, tag = "3")]
    pub jobs: Vec<u64>,
    /// Shares of packet limits.
    #[prost(message, repeated, tag = "4")]
    pub budgets: Vec<PacketBudget>,
}

/// Grant of a job's packets to an agent.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PacketBudget {
    /// Number of the job.
    #[prost(uint64, tag = "1")]
    pub job: u64,
    /// Allowance of the agent, in total.
    #[prost(uint64, tag = "2")]
    pub allowed: u64,
    /// Number of this grant.
    #[prost(uint64, tag = "3")]
    pub grant: u64,
    /// Other agents have no allowance: the unused rest must be returned by a lower allowance in the next request.
    #[prost(bool, tag = "4")]
    pub give_back: bool,
}

/// The server has missed changes and requests a complete report.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ObserveAll {}

/// A record of a lane.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DataRecord {
    /// Lane.
    #[prost(message, required, tag = "1")]
    pub lane: RecordLane,
    /// Sequence number in the lane, from 1.
    #[prost(uint64, tag = "2")]
    pub seq: u64,
    /// No older tuple follows in the lane, by the agent's clock.
    #[prost(sfixed64, tag = "3")]
    pub watermark_ns: i64,
    /// Earliest event time in the record.
    #[prost(sfixed64, tag = "4")]
    pub from_ns: i64,
    /// Number of tuples aggregated in the record.
    #[prost(uint64, tag = "5")]
    pub tuples: u64,
    /// Form of the payload.
    #[prost(enumeration = "PayloadFormat", tag = "6")]
    pub form: i32,
    /// Whether the record is the last of the lane.
    #[prost(bool, tag = "7")]
    pub is_last: bool,
    /// Counters of the monitor since its start.
    #[prost(btree_map = "string, uint64", tag = "8")]
    pub counters: BTreeMap<String, u64>,
    /// Partial results or tuples, decoded only by the collector.
    #[prost(bytes = "bytes", tag = "9")]
    pub payload: Bytes,
}

/// Form of a record's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum PayloadFormat {
    /// Raw tuples: dropped first without space.
    Tuples = 0,
    /// Partial results.
    Partial = 1,
}

/// Lost records of a lane.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct LostRecords {
    /// Lane.
    #[prost(message, required, tag = "1")]
    pub lane: RecordLane,
    /// First sequence number.
    #[prost(uint64, tag = "2")]
    pub first: u64,
    /// Last sequence number.
    #[prost(uint64, tag = "3")]
    pub last: u64,
    /// Earliest event time of the lost data.
    #[prost(sfixed64, tag = "4")]
    pub from_ns: i64,
    /// Latest event time of the lost data.
    #[prost(sfixed64, tag = "5")]
    pub to_ns: i64,
    /// Number of lost tuples; `None`: unknown, because the process that counted them died.
    #[prost(uint64, optional, tag = "6")]
    pub tuples: Option<u64>,
    /// Whether nothing follows in the lane.
    #[prost(bool, tag = "7")]
    pub is_last: bool,
}

/// All records of a lane up to this one are committed.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Ack {
    /// Lane.
    #[prost(message, required, tag = "1")]
    pub lane: RecordLane,
    /// Sequence number.
    #[prost(uint64, tag = "2")]
    pub seq: u64,
}

/// Total bytes of records that may be sent in this session.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Credit {
    /// Bytes since the start of the session.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
}

/// Request of the server for packets that the agent keeps: those of the flows between two endpoints.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PacketRequest {
    /// Number of the request, chosen by the server; the same for all parts of the file.
    #[prost(fixed64, tag = "1")]
    pub request: u64,
    /// Bytes of the file that the server has.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// Community ID of the flows.
    #[prost(string, tag = "3")]
    pub community_id: String,
    /// Start of the period, by the agent's clock.
    #[prost(sfixed64, tag = "4")]
    pub since_ns: i64,
    /// End of the period.
    #[prost(sfixed64, tag = "5")]
    pub until_ns: i64,
    /// Maximum size of the file, in bytes.
    #[prost(uint64, tag = "6")]
    pub bytes_max: u64,
}

/// Capability of an agent that keeps packets.
pub const KEEPS_PACKETS: &str = "packets";

/// Maximum bytes of a [`PacketReply`]'s part.
pub const PACKETS_PART_BYTES: usize = 128 << 10;

/// Reply of the agent to [`PacketRequest`]: a part of a pcapng file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PacketReply {
    /// Number of the request.
    #[prost(fixed64, tag = "1")]
    pub request: u64,
    /// Position of the part in the file, in bytes.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// Size of the file in bytes; 0: the agent has no such packets.
    #[prost(uint64, tag = "3")]
    pub total: u64,
    /// The part; empty at the end of the file.
    #[prost(bytes = "bytes", tag = "4")]
    pub part: Bytes,
    /// Reason why the packets were not read, for people; empty: they were.
    #[prost(string, tag = "5")]
    pub problem: String,
    /// Whether later packets were omitted because of `bytes_max`.
    #[prost(bool, tag = "6")]
    pub is_cut: bool,
}

/// An alert fires: the agent preserves the packets that it keeps.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PreservePackets {
    /// Name of the alert rule.
    #[prost(string, tag = "1")]
    pub rule: String,
}
