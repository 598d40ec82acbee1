//! The least work of each job, a function per job: a pass over a capture that returns a check value.
//!
//! Supports Ethernet, IPv4, and IPv6 without extension headers, TCP, and UDP, without validation: an upper bound, not an
//! implementation. Tables have a fixed size that the measured captures do not fill.

use crate::capture::{Capture, Record, memory};
use crate::prefetch::prefetch;
use memmap2::MmapMut;

type Pass = Box<dyn FnMut(&Capture) -> u64>;

pub fn all() -> Vec<(&'static str, Pass)> {
    let mut flows = Table::<Flow>::new(21);
    let mut more = Table::<Flow>::new(21);
    let mut sources = Table::<Source>::new(20);
    vec![
        (
            "record headers",
            Box::new(|c: &Capture| c.records::<false>().map(|r| u64::from(r.original)).sum()),
        ),
        (
            "54 header bytes",
            Box::new(|c: &Capture| {
                c.records::<false>()
                    .map(|r| header_bytes(r.packet))
                    .fold(0, u64::wrapping_add)
            }),
        ),
        (
            "parse and hash",
            Box::new(|c: &Capture| {
                c.records::<false>()
                    .filter_map(key_of)
                    .map(|k| k.hash())
                    .fold(0, u64::wrapping_add)
            }),
        ),
        (
            "parse and hash, prefetch",
            Box::new(|c: &Capture| {
                c.records::<true>()
                    .filter_map(key_of)
                    .map(|k| k.hash())
                    .fold(0, u64::wrapping_add)
            }),
        ),
        (
            "flow table, one by one",
            Box::new(move |c: &Capture| flows_one_by_one(&mut flows, c)),
        ),
        (
            "flow table",
            Box::new(move |c: &Capture| flows_in_batches(&mut more, c)),
        ),
        (
            "per source",
            Box::new(move |c: &Capture| per_source(&mut sources, c)),
        ),
        ("GET and newline", Box::new(gets)),
        ("every payload byte", Box::new(newlines)),
    ]
}

fn header_bytes(packet: &[u8]) -> u64 {
    let Some(head) = packet.first_chunk::<54>() else {
        return 0;
    };
    let (words, _) = head.as_chunks::<8>();
    words
        .iter()
        .map(|w| u64::from_le_bytes(*w))
        .fold(0, u64::wrapping_add)
}

#[derive(Clone, Copy, Default)]
struct Key {
    a: u64,
    b: u64,
    bytes: u32,
    seconds: u32,
}

fn mix(a: u64, b: u64) -> u64 {
    let m = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xbf58_476d_1ce4_e5b9);
    m as u64 ^ (m >> 64) as u64
}

impl Key {
    fn hash(&self) -> u64 {
        mix(self.a, self.b)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|w| u32::from_ne_bytes(*w))
}

fn double(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|w| u64::from_ne_bytes(*w))
}

/// One key for both directions: the smaller address first, with its port.
#[inline(always)]
fn key_of(record: Record) -> Option<Key> {
    let p = record.packet;
    let head: &[u8; 34] = p.first_chunk()?;
    let seconds = record.seconds;
    match [head[12], head[13]] {
        [8, 0] => {
            let transport = 14 + usize::from(head[14] & 15) * 4;
            let ports = if matches!(head[23], 6 | 17) {
                word(p, transport).unwrap_or(0)
            } else {
                0
            };
            let from = word(p, 26)?;
            let to = word(p, 30)?;
            let swap = (from.swap_bytes(), ports as u16) > (to.swap_bytes(), (ports >> 16) as u16);
            let (low, high) = if swap { (to, from) } else { (from, to) };
            let ports = if swap { ports.rotate_left(16) } else { ports };
            let bytes = u32::from(u16::from_be_bytes([head[16], head[17]]));
            Some(Key {
                a: u64::from(low) << 32 | u64::from(high),
                b: u64::from(ports) << 8 | u64::from(head[23]),
                bytes,
                seconds,
            })
        }
        [0x86, 0xdd] => {
            let ports = if matches!(head[20], 6 | 17) {
                word(p, 54).unwrap_or(0)
            } else {
                0
            };
            let from = mix(double(p, 22)?, double(p, 30)? ^ u64::from(ports as u16));
            let to = mix(double(p, 38)?, double(p, 46)? ^ u64::from(ports >> 16));
            let bytes = 40 + u32::from(u16::from_be_bytes([head[18], head[19]]));
            Some(Key {
                a: from ^ to,
                b: from.wrapping_add(to) | 1 << 63,
                bytes,
                seconds,
            })
        }
        _ => None,
    }
}

/// Two flows per cache line.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Flow {
    a: u64,
    b: u64,
    bytes: u64,
    packets: u32,
    last: u32,
}

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Source {
    bytes: u64,
    address: u32,
    packets: u32,
}

/// Slots on huge pages, open addressing, fixed number.
struct Table<T> {
    map: MmapMut,
    slots: usize,
    taken: u64,
    kind: std::marker::PhantomData<T>,
}

impl<T: bytemuck::Pod> Table<T> {
    fn new(bits: u32) -> Self {
        let slots = 1 << bits;
        Self {
            map: memory(slots * size_of::<T>()),
            slots,
            taken: 0,
            kind: std::marker::PhantomData,
        }
    }

    fn clear(&mut self) -> (&mut [T], &mut u64) {
        self.map.fill(0);
        self.taken = 0;
        (bytemuck::cast_slice_mut(&mut self.map), &mut self.taken)
    }
}

#[inline(always)]
fn count(slots: &mut [Flow], taken: &mut u64, key: &Key, hash: u64) {
    let mut at = hash as usize & (slots.len() - 1);
    loop {
        let flow = &mut slots[at];
        if flow.packets == 0 {
            *flow = Flow {
                a: key.a,
                b: key.b,
                bytes: u64::from(key.bytes),
                packets: 1,
                last: key.seconds,
            };
            *taken += 1;
            return;
        }
        if flow.a == key.a && flow.b == key.b {
            flow.bytes += u64::from(key.bytes);
            flow.packets += 1;
            flow.last = key.seconds;
            return;
        }
        at = (at + 1) & (slots.len() - 1);
    }
}

fn flows_one_by_one(table: &mut Table<Flow>, capture: &Capture) -> u64 {
    let (slots, taken) = table.clear();
    for key in capture.records::<false>().filter_map(key_of) {
        count(slots, taken, &key, key.hash());
    }
    *taken
}

/// Hashes and prefetches 32 items, then counts them: cache misses overlap.
fn flows_in_batches(table: &mut Table<Flow>, capture: &Capture) -> u64 {
    let mask = table.slots - 1;
    let (slots, taken) = table.clear();
    let mut batch = [(Key::default(), 0); 32];
    let mut keys = capture.records::<true>().filter_map(key_of);
    loop {
        let mut n = 0;
        for (place, key) in batch.iter_mut().zip(&mut keys) {
            let hash = key.hash();
            prefetch(slots, hash as usize & mask);
            *place = (key, hash);
            n += 1;
        }
        batch[..n]
            .iter()
            .for_each(|(key, hash)| count(slots, taken, key, *hash));
        if n == 0 {
            return *taken;
        }
    }
}

/// IPv4 only.
fn per_source(table: &mut Table<Source>, capture: &Capture) -> u64 {
    let mask = table.slots - 1;
    let (slots, taken) = table.clear();
    let mut batch = [(0u32, 0u32, 0usize); 32];
    let mut packets = capture
        .records::<true>()
        .filter(|r| r.packet.get(12..14) == Some(&[8, 0]));
    loop {
        let mut n = 0;
        for (place, record) in batch.iter_mut().zip(&mut packets) {
            let address = word(record.packet, 26).unwrap_or(0);
            let at = (mix(u64::from(address), 77) >> 11) as usize & mask;
            prefetch(slots, at);
            *place = (address, record.original, at);
            n += 1;
        }
        for &(address, bytes, mut at) in &batch[..n] {
            loop {
                let source = &mut slots[at];
                if source.packets == 0 {
                    *taken += 1;
                    source.address = address;
                }
                if source.address == address {
                    source.packets += 1;
                    source.bytes += u64::from(bytes);
                    break;
                }
                at = (at + 1) & mask;
            }
        }
        if n == 0 {
            return *taken;
        }
    }
}

/// The payload of a TCP segment over IPv4.
#[inline(always)]
fn payload(packet: &[u8]) -> Option<&[u8]> {
    let head: &[u8; 54] = packet.first_chunk()?;
    if [head[12], head[13], head[23]] != [8, 0, 6] {
        return None;
    }
    let transport = 14 + usize::from(head[14] & 15) * 4;
    let start = transport + usize::from(packet.get(transport + 12)? >> 4) * 4;
    let end = 14 + usize::from(u16::from_be_bytes([head[16], head[17]]));
    packet.get(start..end.min(packet.len()))
}

fn gets(capture: &Capture) -> u64 {
    capture
        .records::<true>()
        .filter_map(|r| payload(r.packet))
        .filter(|p| p.starts_with(b"GET ") && memchr::memchr(b'\n', p).is_some())
        .count() as u64
}

fn newlines(capture: &Capture) -> u64 {
    capture
        .records::<false>()
        .filter_map(|r| payload(r.packet))
        .map(|p| memchr::memchr_iter(b'\n', p).count() as u64)
        .sum()
}
