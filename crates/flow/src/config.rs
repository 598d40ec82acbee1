//! Configuration of a flow table: detail, limits, and timeouts. `timeouts` defines which flows a timeout applies to.

use std::sync::Arc;

use crate::FlowBudget;

/// Level of detail; the cost increases with each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrackingDetail {
    /// Packets and bytes with their times, and the start and end of connections. Sequence numbers are tracked, so
    /// that RSTs out of window and early FINs are treated as on the other levels; but packets copied by a mirror
    /// count again, or as retransmissions.
    Life,
    /// Also identifies copies ([`crate::SideCounters::duplicates`]), and therefore exact counts of everything else.
    Segments,
    /// Also payload: `Bytes`, `Gap`, and `Datagram` events.
    Payload,
}

/// Limits and timeouts.
#[derive(Clone, Debug)]
pub struct FlowTableConfig {
    /// Maximum number of flows or bytes.
    pub room: FlowBudget,
    /// Idle timeout of established TCP, and of TCP joined midstream.
    pub tcp_idle_ns: i64,
    /// Idle timeout while the handshake is incomplete, and after a FIN in a capture of one direction only.
    pub tcp_opening_idle_ns: i64,
    /// Time that a terminated flow is kept for stragglers.
    pub tcp_closed_idle_ns: i64,
    /// Idle timeout of all other flows.
    pub udp_idle_ns: i64,
    /// Interval of reports on active flows.
    pub active_timeout_ns: Option<i64>,
    /// Maximum held bytes per direction of a flow, overhead included.
    pub held_bytes_max_per_direction: usize,
    /// Maximum held bytes of the table, overhead included.
    pub held_bytes_max: usize,
    /// Wait time for acknowledged bytes that are missing: the maximum reordering of packets in the capture.
    /// Five times as long while fewer than four packets of the connection have arrived since.
    pub reorder_wait_ns: i64,
    /// Wait time for missing bytes that are not acknowledged.
    pub gap_wait_ns: i64,
    /// Whether to verify the checksum of every packet, and not only of contradictory ones.
    pub verify_checksums: bool,
    /// Level of detail.
    pub detail: TrackingDetail,
    /// Server ports, ascending: used to guess the client if no SYN was seen.
    pub server_ports: Arc<[u16]>,
    /// Seed of the hash; a secret seed prevents chosen collisions.
    pub seed: u64,
}

impl Default for FlowTableConfig {
    fn default() -> FlowTableConfig {
        const SECOND: i64 = 1_000_000_000;
        FlowTableConfig {
            room: FlowBudget::of_flows(1 << 20),
            tcp_idle_ns: 300 * SECOND,
            tcp_opening_idle_ns: 30 * SECOND,
            tcp_closed_idle_ns: 5 * SECOND,
            udp_idle_ns: 60 * SECOND,
            active_timeout_ns: None,
            held_bytes_max_per_direction: 8 << 20,
            held_bytes_max: 64 << 20,
            reorder_wait_ns: SECOND / 50,
            gap_wait_ns: 30 * SECOND,
            verify_checksums: false,
            detail: TrackingDetail::Payload,
            server_ports: Arc::default(),
            seed: 0,
        }
    }
}
