//! `repeat N FILE.pcap`: writes the capture N times as one pcap to standard output, with increasing times. Used to observe
//! memory over a long run.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, rounds, path] = &arguments[..] else {
        panic!("usage: repeat N FILE.pcap")
    };
    let mut bytes = std::fs::read(path)?;
    let starts = starts(&bytes);
    let second = |bytes: &[u8], at: usize| {
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    let span = starts
        .last()
        .map_or(0, |&last| second(&bytes, last) - second(&bytes, starts[0]))
        + 2;
    let mut out = io::stdout().lock();
    out.write_all(&bytes[..24])?;
    for _ in 0..rounds.parse::<u32>().expect("a number of rounds") {
        out.write_all(&bytes[24..])?;
        for &at in &starts {
            let later = second(&bytes, at).wrapping_add(span);
            bytes[at..at + 4].copy_from_slice(&later.to_le_bytes());
        }
    }
    Ok(())
}

/// Offset of the records.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let mut at = 24;
    let mut starts = Vec::new();
    while let Some(head) = bytes.get(at..).and_then(|b| b.first_chunk::<16>()) {
        starts.push(at);
        at += 16 + u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
    }
    starts
}
