//! Records per CPU second: decodes the export datagrams of captures for two seconds each.
//! `cargo run --release -p telemetry --example decode_rate CAPTURE…`

use std::net::SocketAddr;
use std::path::PathBuf;

use telemetry::{ExportDecoder, ExportLimits};
use wire::{Packet, Timestamp};

fn main() {
    for capture in std::env::args_os().skip(1).map(PathBuf::from) {
        let datagrams = datagrams(&capture);
        let mut decoder = ExportDecoder::new(ExportLimits::default());
        let mut events = 0u64;
        let start = cpu_seconds();
        while cpu_seconds() - start < 2.0 {
            for (exporter, datagram) in &datagrams {
                decoder.decode(*exporter, Timestamp(0), datagram, |_| events += 1);
            }
        }
        let rate = events as f64 / (cpu_seconds() - start) / 1e6;
        println!(
            "{}: {rate:.2} million records per CPU second",
            capture.display()
        );
    }
}

/// CPU time of the process, in steps of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let ticks = stat
        .rsplit(')')
        .next()
        .into_iter()
        .flat_map(|rest| rest.split(' '))
        .skip(12)
        .take(2);
    ticks
        .map(|ticks| ticks.parse::<f64>().expect("a number"))
        .sum::<f64>()
        / 100.0
}

fn datagrams(capture: &std::path::Path) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut found = Vec::new();
    let mut source = capture::open(&[capture.to_path_buf()]);
    let mut block = capture::PacketBlock::default();
    while source.next_block(&mut block) {
        for captured in block.packets() {
            if let Ok(packet) = Packet::decode(&captured) {
                let source = packet.five_tuple.src;
                found.push((
                    SocketAddr::new(source.addr.to_ip(), source.port),
                    packet.payload.to_vec(),
                ));
            }
        }
    }
    found
}
