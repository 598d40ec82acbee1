//! Rust crates used as programs on captures: `peers httparse|sources|flows FILE.pcap`.
//!
//! `httparse`: requests parsed packet by packet, without reassembly, pairing or times. `sources`, `flows`: packets and
//! bytes by source address, or by one-way five-tuple, in a HashMap with ahash. Little-endian pcap, Ethernet, IPv4.

use std::collections::HashMap;
use std::fs::File;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, job, path] = &arguments[..] else {
        panic!("usage: peers httparse|sources|flows FILE.pcap")
    };
    let file = File::open(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    // SAFETY: the captures do not change during the measurement.
    let bytes = unsafe { memmap2::Mmap::map(&file) }.expect("a mapping");
    let packets = packets(&bytes);
    let found = match job.as_str() {
        "httparse" => packets.filter(|(p, _)| is_request(p)).count(),
        "sources" => {
            tally(packets.filter_map(|(p, n)| Some((*ipv4(p)?.get(12..)?.first_chunk::<4>()?, n))))
        }
        "flows" => tally(packets.filter_map(|(p, n)| Some((five_tuple(p)?, n)))),
        _ => panic!("no such job: {job}"),
    };
    println!("{found}");
}

/// Packets and their original lengths.
fn packets(bytes: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
    let mut at = 24;
    std::iter::from_fn(move || {
        let head: &[u8; 16] = bytes.get(at..)?.first_chunk()?;
        let [_, _, kept, original] = std::array::from_fn(|k| {
            u32::from_le_bytes([
                head[4 * k],
                head[4 * k + 1],
                head[4 * k + 2],
                head[4 * k + 3],
            ])
        });
        at += 16 + kept as usize;
        Some((bytes.get(at - kept as usize..at)?, original))
    })
}

fn ipv4(packet: &[u8]) -> Option<&[u8]> {
    (packet.get(12..14)? == [8, 0]).then(|| &packet[14..])
}

fn tcp(packet: &[u8]) -> Option<&[u8]> {
    let ip = ipv4(packet)?;
    let length = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    (*ip.get(9)? == 6).then(|| ip.get(usize::from(ip[0] & 15) * 4..length.min(ip.len())))?
}

fn is_request(packet: &[u8]) -> bool {
    let Some(payload) = tcp(packet).and_then(|tcp| tcp.get(usize::from(tcp.get(12)? >> 4) * 4..))
    else {
        return false;
    };
    if !payload.first().is_some_and(u8::is_ascii_uppercase) || payload.starts_with(b"HTTP/") {
        return false;
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    request.parse(payload).is_ok() && request.path.is_some()
}

fn five_tuple(packet: &[u8]) -> Option<[u8; 13]> {
    let ip = ipv4(packet)?;
    let ports = ip
        .get(usize::from(ip.first()? & 15) * 4..)?
        .first_chunk::<4>()?;
    let mut key = [0; 13];
    key[..8].copy_from_slice(ip.get(12..20)?);
    key[8..12].copy_from_slice(ports);
    key[12] = ip[9];
    Some(key)
}

fn tally<K: std::hash::Hash + Eq>(packets: impl Iterator<Item = (K, u32)>) -> usize {
    let mut counts: HashMap<K, (u64, u64), ahash::RandomState> = HashMap::default();
    for (key, bytes) in packets {
        let (n, sum) = counts.entry(key).or_default();
        *n += 1;
        *sum += u64::from(bytes);
    }
    counts.len()
}
