//! Configuration of a flow table: detail, limits, and timeouts. `timeouts` defines which flows a timeout applies to.

use std::sync::Arc;

use crate::Room;

/// How much the table finds out; what it costs grows from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Who spoke when and how much, and how connections began and ended. Sequence numbers are followed all the same,
    /// so a RST out of window or a FIN before its time mean here what they mean below; but packets that a mirror
    /// copied count again, or as retransmissions.
    Life,
    /// Also which packets are copies ([`crate::SideCounters::duplicates`]), and so the true counts of all others.
    Segments,
    /// Also the payload: `Bytes`, `Gap` and `Datagram` events.
    Payload,
}

/// Limits and timeouts.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many flows there may be at once.
    pub room: Room,
    /// Idle timeout of established TCP, and of TCP joined midstream.
    pub tcp_idle_ns: i64,
    /// Idle timeout while the handshake is incomplete, and of a FIN in a capture without the other direction.
    pub tcp_opening_idle_ns: i64,
    /// How long a terminated flow stays for stragglers.
    pub tcp_closed_idle_ns: i64,
    /// Idle timeout of everything else.
    pub udp_idle_ns: i64,
    /// Report a living flow this often.
    pub active_timeout_ns: Option<i64>,
    /// Bytes that may wait in one direction of a flow, overhead included.
    pub held_bytes_max_per_direction: usize,
    /// Bytes that may wait in the whole table.
    pub held_bytes_max: usize,
    /// How long bytes that were acknowledged may still come late: how much a capture may have its packets out of order. Five times
    /// as long where fewer than four packets of the connection have come since.
    pub reorder_wait_ns: i64,
    /// How long bytes that were not acknowledged may still come.
    pub gap_wait_ns: i64,
    /// What is wanted.
    pub detail: Detail,
    /// Ports that servers listen on, in ascending order: by them the client is guessed where no SYN names it.
    pub server_ports: Arc<[u16]>,
    /// For the hash; a secret one keeps strangers from choosing colliding flows.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Config {
        const SECOND: i64 = 1_000_000_000;
        Config {
            room: Room::of_flows(1 << 20),
            tcp_idle_ns: 300 * SECOND,
            tcp_opening_idle_ns: 30 * SECOND,
            tcp_closed_idle_ns: 5 * SECOND,
            udp_idle_ns: 60 * SECOND,
            active_timeout_ns: None,
            held_bytes_max_per_direction: 8 << 20,
            held_bytes_max: 64 << 20,
            reorder_wait_ns: SECOND / 50,
            gap_wait_ns: 30 * SECOND,
            detail: Detail::Payload,
            server_ports: Arc::default(),
            seed: 0,
        }
    }
}
