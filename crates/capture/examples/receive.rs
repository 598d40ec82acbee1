//! Receives and does nothing: prints the numbers of packets, bytes, and losses every second. Baseline for the cost of a
//! capture method.
//!
//! ```text
//! receive IFACE [--capture af-packet|af-xdp|dpdk] [--workers N] [--buffer BYTES] [--seconds S] [--packets N]
//!               [--mode auto|native|generic] [--steal] [--to ADDRESS:PORT]… [--filter TEXT] [--dpdk-args ARGS]
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use capture::af_xdp::XdpMode;
use capture::live::{self, CaptureBackend, LiveOptions};
use capture::xdp_filter::XdpEndMatch;
use capture::{PacketBlock, PacketSource, SourceCounters};

struct Arguments {
    options: LiveOptions,
    seconds: f64,
    packets: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let Arguments {
        options,
        seconds,
        packets,
    } = arguments()?;
    let sources = live::open(&options)?;
    eprintln!("{} sources of {}", sources.len(), options.interface);
    let received = Arc::new(AtomicU64::new(0));
    let count = |source| {
        let received = received.clone();
        thread::spawn(move || receive(source, &received))
    };
    let began = Instant::now();
    let threads: Vec<_> = sources.into_iter().map(count).collect();
    let mut before = 0;
    while began.elapsed().as_secs_f64() < seconds && received.load(Ordering::Relaxed) < packets {
        thread::sleep(Duration::from_millis(100));
        let now = received.load(Ordering::Relaxed);
        if began.elapsed().subsec_millis() < 100 {
            eprintln!("{:>12} packets/s", now - before);
            before = now;
        }
    }
    options.stop.stop();
    let mut total = SourceCounters::default();
    for thread in threads {
        let c = thread.join().expect("a source does not panic");
        total.packets += c.packets;
        total.captured_bytes += c.captured_bytes;
        total.lost_before_us = total
            .lost_before_us
            .zip(c.lost_before_us)
            .map(|(a, b)| a + b)
            .or(c.lost_before_us);
        total.nic_drops = total.nic_drops.or(c.nic_drops);
        total.buffer_overflows += c.buffer_overflows;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{total:?}");
    println!(
        "{:.0} packets/s over {seconds:.1} s",
        total.packets as f64 / seconds
    );
    Ok(())
}

/// Reads a source to its end.
fn receive(mut source: Box<dyn PacketSource>, received: &AtomicU64) -> SourceCounters {
    let mut block = PacketBlock::default();
    while source.next_block(&mut block) {
        received.fetch_add(block.len() as u64, Ordering::Relaxed);
    }
    source
        .errors()
        .iter()
        .for_each(|error| eprintln!("{error}"));
    source.counters()
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let mut arguments = Arguments {
        options: LiveOptions::new(&words.next().ok_or("which interface?")?),
        seconds: f64::INFINITY,
        packets: u64::MAX,
    };
    let options = &mut arguments.options;
    while let Some(word) = words.next() {
        if word == "--steal" {
            options.xdp.steal = true;
            continue;
        }
        let value = words
            .next()
            .ok_or_else(|| format!("{word} needs a value"))?;
        match (word.as_str(), value.as_str()) {
            ("--capture", "af-packet") => options.backend = CaptureBackend::AfPacket,
            ("--capture", "af-xdp") => options.backend = CaptureBackend::AfXdp,
            ("--capture", "dpdk") => options.backend = CaptureBackend::Dpdk,
            ("--workers", n) => options.workers = n.parse()?,
            ("--buffer", n) => options.buffer_bytes = n.parse()?,
            ("--seconds", n) => arguments.seconds = n.parse()?,
            ("--packets", n) => arguments.packets = n.parse()?,
            ("--filter", text) => options.filter = text.to_owned(),
            ("--dpdk-args", args) => {
                options.dpdk_args = args.split_whitespace().map(str::to_owned).collect()
            }
            ("--mode", "auto") => options.xdp.mode = XdpMode::Auto,
            ("--mode", "native") => options.xdp.mode = XdpMode::Native,
            ("--mode", "generic") => options.xdp.mode = XdpMode::Generic,
            ("--to", end) => options.xdp.filter.servers.push(server(end.parse()?)),
            (word, value) => return Err(format!("{word} {value} is not understood").into()),
        }
    }
    Ok(arguments)
}

fn server(end: SocketAddr) -> XdpEndMatch {
    XdpEndMatch {
        net: Some((end.ip(), if end.is_ipv4() { 32 } else { 128 })),
        port: Some(end.port()),
    }
}
