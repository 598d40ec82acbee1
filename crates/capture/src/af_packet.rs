//! Live packets from the kernel's AF_PACKET ring (format 3), one ring per worker; the kernel distributes the flows,
//! both directions to the same ring. Packets are not copied; a block of the ring is returned when it is no longer
//! referenced.
//!
//! Packets are as on the wire: VLAN tags removed by the kernel are restored, and a packet on the loopback interface
//! is delivered once. For interfaces without Ethernet headers, and for `any`, packets begin with a Linux cooked
//! header. While an interface is down, the source waits; when it is removed, the source ends with an error.

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracing::warn;
use wire::{LinkType, Timestamp};

use crate::block::{BLOCK_PACKETS, PacketBlock, PacketRecord};
use crate::filter::{filtered_again, fits_packets, or_tunnels};
use crate::interfaces::{NetworkInterface, interfaces};
use crate::live::options::{ANY, LiveError, LiveOptions, StopSignal, TimestampClock};
use crate::source::{PacketSource, SourceCounters, SourceError};
use crate::sys::bpf::{ClassicBpfProgram, FilterTarget};
use crate::sys::packet_socket::{PacketSocket, SocketReadiness};
use crate::sys::ring::{PacketRing, RingBlock};

/// Length of a ring block: a few hundred packets, and sufficient for the longest.
const BLOCK_LEN: usize = 256 << 10;
/// Time after which the kernel returns a partly filled block.
const BLOCK_TIMEOUT: Duration = Duration::from_millis(20);
/// Interval at which the time is reported without packets.
const IDLE: Duration = Duration::from_millis(100);
/// Lag of that time behind the wall clock: a packet may wait in the kernel's block, and timers are late.
const CLOCK_LAG: Duration = Duration::from_millis(100);
/// Time after a stop by which the last blocks have arrived.
const DRAIN: Duration = Duration::from_millis(60);
/// Polling interval while all blocks are referenced elsewhere.
const HELD: Duration = Duration::from_millis(1);
/// Minimum interval for reading the adapter's drop counter, which requires a list of all interfaces.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Bytes reserved before a packet: more than a cooked header and less than what would misalign its IP header.
const RESERVE: u32 = 32;

/// Opens `options.workers` sources of `interface`, or of all interfaces. Reception starts when all of them are ready:
/// if the fanout group changed later, a flow could go to two of them.
pub(crate) fn open(
    options: &LiveOptions,
    interface: Option<&NetworkInterface>,
) -> Result<Vec<Box<dyn PacketSource>>, LiveError> {
    let headers = LinkHeaderKind::of(interface);
    let filter = compile(options, interface, headers)?;
    let mut sources = Vec::new();
    let mut group = None;
    for worker in 0..options.workers.max(1) {
        let socket = ready_socket(options, interface, headers)?;
        let ring = make_ring(&socket, options.buffer_bytes)?;
        bind(&socket, options, interface)?;
        group = Some(match group {
            None => system("make a fanout group", socket.found_fanout())?,
            Some(group) => {
                system("join the fanout group", socket.join_fanout(group))?;
                group
            }
        });
        let watched = WatchedInterface::new(interface, worker == 0);
        sources.push(AfPacketSource::new(socket, ring, watched, headers, options));
    }
    for source in &sources {
        system("attach the capture filter", source.socket.attach(&filter))?;
    }
    let sources = sources
        .into_iter()
        .map(|source| Box::new(source) as Box<dyn PacketSource>);
    match options.filter.trim() {
        text if text.is_empty() || !fits_packets(text) => Ok(sources.collect()),
        text => sources.map(|source| filtered_again(source, text)).collect(),
    }
}

/// First header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkHeaderKind {
    /// An Ethernet header.
    Ethernet,
    /// An IP header: the interface has no link header.
    Raw,
    /// A network header; a cooked header is generated.
    Cooked,
}

impl LinkHeaderKind {
    fn of(interface: Option<&NetworkInterface>) -> LinkHeaderKind {
        /// Interface type of mobile modems.
        const ARPHRD_RAWIP: u16 = 519;
        match interface.map(|i| i.kind) {
            Some(libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) => LinkHeaderKind::Ethernet,
            Some(libc::ARPHRD_NONE | ARPHRD_RAWIP) => LinkHeaderKind::Raw,
            _ => LinkHeaderKind::Cooked,
        }
    }
}

fn compile(
    options: &LiveOptions,
    interface: Option<&NetworkInterface>,
    headers: LinkHeaderKind,
) -> Result<ClassicBpfProgram, LiveError> {
    /// libpcap's link type for packets that begin with an IP header.
    const RAW: u16 = 12;
    if options.filter.trim().is_empty() {
        return Ok(ClassicBpfProgram::all(options.snaplen));
    }
    let target = match (headers, interface) {
        (LinkHeaderKind::Ethernet, Some(interface)) => FilterTarget::Ethernet(&interface.name),
        _ => FilterTarget::Packets(RAW),
    };
    let bad = |message| LiveError::BadFilter {
        text: options.filter.clone(),
        message,
    };
    // The filter itself must be valid; if the extended one is not, it applies to outer headers only.
    let program =
        ClassicBpfProgram::compile(&options.filter, &target, options.snaplen).map_err(bad)?;
    if !fits_packets(&options.filter) {
        return Ok(program);
    }
    let wider = or_tunnels(&options.filter, headers == LinkHeaderKind::Ethernet);
    Ok(ClassicBpfProgram::compile(&wider, &target, options.snaplen).unwrap_or(program))
}

/// Creates a configured socket that receives nothing yet.
fn ready_socket(
    options: &LiveOptions,
    interface: Option<&NetworkInterface>,
    headers: LinkHeaderKind,
) -> Result<PacketSocket, LiveError> {
    let socket =
        PacketSocket::new(headers == LinkHeaderKind::Cooked).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => LiveError::NoPermission,
                _ => LiveError::System {
                    what: "open a packet socket",
                    error,
                },
            }
        })?;
    system("attach a filter", socket.attach(&ClassicBpfProgram::none()))?;
    system("set the ring's format", socket.set_format(RESERVE))?;
    if interface.is_some_and(|i| i.kind == libc::ARPHRD_LOOPBACK) {
        // Older kernels lack this option; then both copies arrive, and one is removed later.
        let _ = socket.ignore_outgoing();
    }
    if options.clock == TimestampClock::Adapter {
        use_adapter_clock(&socket, interface)?;
    }
    Ok(socket)
}

fn use_adapter_clock(
    socket: &PacketSocket,
    interface: Option<&NetworkInterface>,
) -> Result<(), LiveError> {
    let Some(interface) = interface else {
        return Err(LiveError::Unsupported(
            "the adapter's clock needs one interface, not any".into(),
        ));
    };
    socket
        .use_adapter_clock(&interface.name)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => LiveError::Unsupported(format!(
                "no permission to enable hardware timestamps on {}: it needs CAP_NET_ADMIN",
                interface.name
            )),
            _ => LiveError::Unsupported(format!(
                "{} does not support hardware timestamps: {error}",
                interface.name
            )),
        })
}

fn make_ring(socket: &PacketSocket, bytes: usize) -> Result<Arc<PacketRing>, LiveError> {
    const BLOCKS_MIN: usize = 2;
    let blocks = bytes.div_ceil(BLOCK_LEN).max(BLOCKS_MIN);
    let too_large = |_| LiveError::NoMemory(bytes);
    let count = u32::try_from(blocks)
        .ok()
        .filter(|n| n.checked_mul(BLOCK_LEN as u32 / 2048).is_some());
    let count = count.ok_or(LiveError::NoMemory(bytes))?;
    socket
        .make_ring(BLOCK_LEN as u32, count, BLOCK_TIMEOUT)
        .map_err(too_large)?;
    PacketRing::map(socket, BLOCK_LEN, blocks).map_err(too_large)
}

fn bind(
    socket: &PacketSocket,
    options: &LiveOptions,
    interface: Option<&NetworkInterface>,
) -> Result<(), LiveError> {
    system(
        "bind to the interface",
        socket.bind(interface.map_or(0, |i| i.index)),
    )?;
    match (socket.take_error(), interface) {
        (Some(_), Some(interface)) => return Err(LiveError::InterfaceDown(interface.name.clone())),
        (Some(error), None) => {
            return Err(LiveError::System {
                what: "bind to all interfaces",
                error,
            });
        }
        (None, _) => (),
    }
    match interface {
        Some(interface) if options.promiscuous && interface.kind != libc::ARPHRD_LOOPBACK => {
            system(
                "make the interface promiscuous",
                socket.set_promiscuous(interface.index),
            )
        }
        _ => Ok(()),
    }
}

fn system<T>(what: &'static str, result: io::Result<T>) -> Result<T, LiveError> {
    result.map_err(|error| LiveError::System { what, error })
}

/// One ring and its socket.
struct AfPacketSource {
    socket: PacketSocket,
    ring: Arc<PacketRing>,
    /// Next block of the ring.
    next: usize,
    /// Block being delivered, and the positions of its packets.
    block: Option<Arc<RingBlock>>,
    records: Vec<PacketRecord>,
    /// Number of `records` delivered.
    given: usize,
    headers: LinkHeaderKind,
    watched: WatchedInterface,
    stop: StopSignal,
    /// Time after a stop, or the removal of the interface, by which all packets have arrived.
    ends: Option<Instant>,
    counters: SourceCounters,
    /// Time of the last packet, and when it was read.
    last: Option<(Timestamp, Instant)>,
    /// Total losses reported by the kernel, which resets its counters on reading.
    lost: Cell<(u64, u64)>,
    errors: Vec<SourceError>,
}

/// Result of waiting for packets.
enum RingWait {
    Packets,
    Nothing,
    End,
}

impl AfPacketSource {
    fn new(
        socket: PacketSocket,
        ring: Arc<PacketRing>,
        watched: WatchedInterface,
        headers: LinkHeaderKind,
        options: &LiveOptions,
    ) -> AfPacketSource {
        AfPacketSource {
            socket,
            ring,
            next: 0,
            block: None,
            records: Vec::new(),
            given: 0,
            headers,
            watched,
            stop: options.stop.clone(),
            ends: None,
            counters: SourceCounters {
                clock: Some(options.clock),
                ..SourceCounters::default()
            },
            last: None,
            lost: Cell::new((0, 0)),
            errors: Vec::new(),
        }
    }

    fn wait(&mut self) -> RingWait {
        if self.take() {
            return RingWait::Packets;
        }
        let now = Instant::now();
        if self.ends.is_some_and(|end| now >= end) {
            return RingWait::End;
        }
        let waited = self.socket.wait(if self.ends.is_some() {
            BLOCK_TIMEOUT
        } else {
            IDLE
        });
        if self.take() {
            return RingWait::Packets;
        }
        match waited {
            SocketReadiness::Nothing => (),
            // The kernel also reports blocks that are still referenced.
            SocketReadiness::Block => std::thread::sleep(HELD),
            SocketReadiness::Trouble => self
                .socket
                .take_error()
                .iter()
                .for_each(|error| self.watched.on_error(error)),
        }
        self.watched.look(&self.socket);
        if self.watched.removed && self.ends.is_none() {
            self.ends = Some(now + DRAIN);
            self.errors
                .extend(self.watched.removal(self.counters.packets));
        }
        RingWait::Nothing
    }

    /// Takes the next filled block of the ring and finds its packets.
    fn take(&mut self) -> bool {
        let Some(mut block) = self.ring.take(self.next) else {
            return false;
        };
        self.next = (self.next + 1) % self.ring.blocks();
        self.records.clear();
        self.given = 0;
        let stamped = find_packets(block.bytes_mut(), self.headers, &mut self.records);
        if self.counters.clock == Some(TimestampClock::Adapter) {
            self.counters.unstamped_packets += self.records.len() as u64 - stamped;
        }
        self.block = Some(Arc::new(block));
        self.note_losses();
        true
    }

    /// Delivers packets of the current block.
    fn give(&mut self, block: &mut PacketBlock) {
        let Some(held) = &self.block else { return };
        let buffer = block.add_buffer(held.clone());
        let records = &self.records[self.given..];
        let records = &records[..records.len().min(BLOCK_PACKETS)];
        for record in records {
            block.push(PacketRecord { buffer, ..*record });
        }
        self.counters.count(block);
        self.given += records.len();
        if let Some(last) = records.last() {
            self.last = Some((last.ts, Instant::now()));
        }
        if self.given == self.records.len() {
            self.block = None;
        }
    }

    /// Stops reception once a stop is requested.
    fn heed_stop(&mut self) {
        if self.ends.is_none() && self.stop.is_asked() {
            // If this fails, packets still arrive, but only those already in the ring are read.
            let _ = self.socket.attach(&ClassicBpfProgram::none());
            self.ends = Some(Instant::now() + DRAIN);
        }
    }

    fn note_losses(&self) {
        if let Ok(new) = self.socket.statistics() {
            let (drops, freezes) = self.lost.get();
            self.lost.set((
                drops + u64::from(new.drops),
                freezes + u64::from(new.freezes),
            ));
        }
    }

    /// Time up to which all packets have been delivered if none arrives: the wall clock or, for an adapter's clock,
    /// the last packet's time plus the elapsed time.
    fn idle_clock(&self) -> Option<Timestamp> {
        let lag = CLOCK_LAG.as_nanos() as i64;
        match (self.counters.clock, self.last) {
            (Some(TimestampClock::Adapter), last) => last.map(|(ts, read)| {
                Timestamp((ts.0 + read.elapsed().as_nanos() as i64 - lag).max(ts.0))
            }),
            _ => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
                Some(Timestamp(i64::try_from(now.as_nanos()).ok()? - lag))
            }
        }
    }
}

impl PacketSource for AfPacketSource {
    fn next_block(&mut self, block: &mut PacketBlock) -> bool {
        block.clear();
        self.heed_stop();
        if self.block.is_none() {
            match self.wait() {
                RingWait::Packets => (),
                RingWait::End => return false,
                RingWait::Nothing => {
                    if let Some(clock) = self.idle_clock() {
                        block.set_clock(clock);
                    }
                    return true;
                }
            }
        }
        self.give(block);
        true
    }

    fn errors(&self) -> &[SourceError] {
        &self.errors
    }

    fn counters(&self) -> SourceCounters {
        self.note_losses();
        let (drops, freezes) = self.lost.get();
        SourceCounters {
            lost_before_us: Some(drops),
            buffer_overflows: freezes,
            nic_drops: self.watched.drops(),
            ..self.counters
        }
    }

    fn backlog(&self) -> f32 {
        self.ring.n_ready(self.next) as f32 / self.ring.blocks() as f32
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.counters.captured_bytes, None)
    }
}

/// State of the captured interface and its adapter's drops. One of the workers reports it.
struct WatchedInterface {
    interface: Option<NetworkInterface>,
    reports: bool,
    down: bool,
    removed: bool,
    /// Drops since the start of the capture; the last value of the adapter's counter.
    drops: Cell<(u64, u32)>,
    looked: Cell<Instant>,
}

impl WatchedInterface {
    fn new(interface: Option<&NetworkInterface>, reports: bool) -> WatchedInterface {
        let drops = Cell::new((0, interface.map_or(0, |i| i.drops)));
        let interface = interface.cloned();
        let looked = Cell::new(Instant::now());
        WatchedInterface {
            interface,
            reports,
            down: false,
            removed: false,
            drops,
            looked,
        }
    }

    /// Handles a socket error, usually because the interface went down.
    fn on_error(&mut self, error: &io::Error) {
        let Some(interface) = &self.interface else {
            return;
        };
        if !self.down && self.reports {
            match error.raw_os_error() {
                Some(libc::ENETDOWN) => {
                    warn!(
                        "{} went down; waiting for it to come up again",
                        interface.name
                    )
                }
                _ => warn!("{}: {error}; still waiting for packets", interface.name),
            }
        }
        self.down = true;
    }

    /// Checks, when no packets arrive, whether an interface that went down is up again or removed.
    fn look(&mut self, socket: &PacketSocket) {
        let Some(interface) = &self.interface else {
            return;
        };
        if !self.down {
            return;
        }
        match socket.interface_flags(&interface.name, interface.index) {
            None => self.removed = true,
            Some(flags) if flags & libc::IFF_UP != 0 => {
                self.down = false;
                if self.reports {
                    warn!("{} is up again", interface.name);
                }
            }
            Some(_) => (),
        }
    }

    /// Packets dropped by the adapter since the start of the capture.
    fn drops(&self) -> Option<u64> {
        let interface = self.interface.as_ref().filter(|_| self.reports)?;
        let (mut total, before) = self.drops.get();
        if self.looked.get().elapsed() < LOOK_EVERY {
            return Some(total);
        }
        self.looked.set(Instant::now());
        let all = interfaces().ok()?;
        if let Some(now) = all.iter().find(|i| i.index == interface.index) {
            total += u64::from(now.drops.wrapping_sub(before));
            self.drops.set((total, now.drops));
        }
        Some(total)
    }

    fn removal(&self, packets: u64) -> Option<SourceError> {
        self.reports.then(|| SourceError {
            path: PathBuf::from(self.interface.as_ref().map_or(ANY, |i| &i.name)),
            offset: None,
            message: "the interface has been removed; the result includes all earlier packets"
                .into(),
            after_packets: packets,
        })
    }
}

/// Offsets in a block and in a packet's header (`tpacket_block_desc`, `tpacket3_hdr`, `sockaddr_ll`).
mod field {
    pub const BLOCK_PACKETS: usize = 12;
    pub const BLOCK_FIRST: usize = 16;
    pub const NEXT: usize = 0;
    pub const SECONDS: usize = 4;
    pub const NANOSECONDS: usize = 8;
    pub const CAPTURED_LEN: usize = 12;
    pub const ORIGINAL_LEN: usize = 16;
    pub const STATUS: usize = 20;
    pub const MAC: usize = 24;
    pub const VLAN_TCI: usize = 32;
    pub const VLAN_TPID: usize = 36;
    pub const HEADER_END: usize = 48;
    pub const PROTOCOL: usize = 2;
    pub const INTERFACE: usize = 4;
    pub const HARDWARE: usize = 8;
    pub const PACKET_TYPE: usize = 10;
    pub const ADDRESS_LEN: usize = 11;
    pub const ADDRESS_END: usize = 20;
}

/// Header of a packet in a block, with the address after it.
type RingPacketHeader = [u8; field::HEADER_END + field::ADDRESS_END];

/// Length of the generated cooked header (LINKTYPE_LINUX_SLL2).
const COOKED_LEN: usize = 20;
/// Length of a VLAN tag.
const TAG_LEN: usize = 4;
/// Offset of a VLAN tag in an Ethernet frame: after both addresses.
const TAG_OFFSET: usize = 12;

/// Finds the packets of a filled block, completes their headers, and stores their positions in `records`. Returns the
/// number stamped by the adapter.
fn find_packets(block: &mut [u8], headers: LinkHeaderKind, records: &mut Vec<PacketRecord>) -> u64 {
    let mut stamped = 0;
    let mut at = u32_at(block, field::BLOCK_FIRST) as usize;
    for _ in 0..u32_at(block, field::BLOCK_PACKETS) {
        let Some(header) = block
            .get(at..)
            .and_then(|rest| rest.first_chunk::<{ size_of::<RingPacketHeader>() }>())
        else {
            break;
        };
        let header = *header;
        if !is_loopback_copy(&header)
            && let Some(record) = place(block, at, &header, headers)
        {
            records.push(record);
            stamped +=
                u64::from(u32_at(&header, field::STATUS) & libc::TP_STATUS_TS_RAW_HARDWARE != 0);
        }
        at += u32_at(&header, field::NEXT) as usize;
    }
    stamped
}

/// Whether this is the outgoing copy of a packet on a loopback interface.
fn is_loopback_copy(header: &RingPacketHeader) -> bool {
    let address = &header[field::HEADER_END..];
    address[field::PACKET_TYPE] == libc::PACKET_OUTGOING
        && u16_at(address, field::HARDWARE) == libc::ARPHRD_LOOPBACK
}

/// Position of the packet with its header at `at`; adds missing link headers in front of it.
fn place(
    block: &mut [u8],
    at: usize,
    header: &RingPacketHeader,
    headers: LinkHeaderKind,
) -> Option<PacketRecord> {
    let len = u32_at(header, field::CAPTURED_LEN);
    let start = at + usize::from(u16_at(header, field::MAC));
    block.get(start..start + len as usize)?;
    let free = start.checked_sub(at + size_of::<RingPacketHeader>())?;
    let (link_type, added) = match headers {
        LinkHeaderKind::Raw => (LinkType::Raw, 0),
        LinkHeaderKind::Ethernet => (LinkType::Ethernet, restore_tag(block, start, free, header)),
        LinkHeaderKind::Cooked if free >= COOKED_LEN => {
            block[start - COOKED_LEN..start].copy_from_slice(&cooked_header(header));
            (LinkType::LinuxSll2, COOKED_LEN)
        }
        LinkHeaderKind::Cooked => return None,
    };
    let time = i64::from(u32_at(header, field::SECONDS)) * 1_000_000_000;
    Some(PacketRecord {
        ts: Timestamp(time + i64::from(u32_at(header, field::NANOSECONDS))),
        link_type,
        original_len: u32_at(header, field::ORIGINAL_LEN).saturating_add(added as u32),
        len: len + added as u32,
        start: (start - added) as u32,
        buffer: 0,
    })
}

/// Restores a VLAN tag removed by the kernel; returns the number of bytes added.
fn restore_tag(block: &mut [u8], start: usize, free: usize, header: &RingPacketHeader) -> usize {
    let status = u32_at(header, field::STATUS);
    let len = u32_at(header, field::CAPTURED_LEN) as usize;
    if status & libc::TP_STATUS_VLAN_VALID == 0 || free < TAG_LEN || len < TAG_OFFSET {
        return 0;
    }
    let tpid = match status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => libc::ETH_P_8021Q as u16,
        _ => u16_at(header, field::VLAN_TPID),
    };
    let tci = u32_at(header, field::VLAN_TCI) as u16;
    let new = start - TAG_LEN;
    block.copy_within(start..start + TAG_OFFSET, new);
    let tag = &mut block[new + TAG_OFFSET..][..TAG_LEN];
    tag[..2].copy_from_slice(&tpid.to_be_bytes());
    tag[2..].copy_from_slice(&tci.to_be_bytes());
    TAG_LEN
}

/// Cooked header from the kernel's metadata of a packet.
fn cooked_header(header: &RingPacketHeader) -> [u8; COOKED_LEN] {
    let address = &header[field::HEADER_END..];
    let mut cooked = [0; COOKED_LEN];
    cooked[..2].copy_from_slice(&address[field::PROTOCOL..][..2]);
    cooked[4..8].copy_from_slice(&u32_at(address, field::INTERFACE).to_be_bytes());
    cooked[8..10].copy_from_slice(&u16_at(address, field::HARDWARE).to_be_bytes());
    cooked[10] = address[field::PACKET_TYPE];
    cooked[11..].copy_from_slice(&address[field::ADDRESS_LEN..field::ADDRESS_END]);
    cooked
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |b| u32::from_ne_bytes(*b))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |b| u16::from_ne_bytes(*b))
}

#[cfg(test)]
mod tests;
