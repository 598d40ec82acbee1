//! What a packet takes on its way from an interface into a monitor: a monitor that looks at nothing listens at one end of a cable, packets of two
//! sizes are sent into the other, and the time of both is taken, with the monitor and without it.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::lab::{LOOK, Lab, PATIENCE, processor_ns};
use super::sender::{Sent, send};
use super::switch::reachable;

/// Packets of a round.
const PACKETS: u32 = 20_000;
/// What small and large ones carry.
const PAYLOADS: [u32; 2] = [58, 1358];
/// Link, network and transport headers of them.
const HEADERS: u32 = 42;
/// How long a monitor is left alone.
const IDLE: Duration = Duration::from_secs(3);
/// Where they go.
const BEYOND: &str = "10.97.0.2";

/// Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Receiving {
    /// For a packet.
    pub packet: f64,
    /// For a byte of it.
    pub byte: f64,
    /// Cores of a monitor to which nothing comes.
    pub idle_cores: f64,
}

/// Measures; `refuse_ns` is what the monitor takes to find out that it does not want a packet.
pub fn measure(lab: &Lab, refuse_ns: f64, rounds: u8) -> anyhow::Result<Receiving> {
    lab.run(&["ip", "link", "add", "r0", "type", "veth", "peer", "name", "r1"])?;
    for end in ["r0", "r1"] {
        lab.run(&["ip", "link", "set", end, "up", "arp", "off"])?;
    }
    reachable(lab, "r0", "10.97.0.1/24", BEYOND)?;
    let alone = least(rounds, |payload| send(lab, Sent { packets: PACKETS, payload, to: BEYOND }))?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = program.to_str().context("this program's path is no text")?;
    let query = "PARSE packet TO 203.0.113.1:1 PROCESS (count)";
    let others = listening(lab)?;
    let monitor = lab.start(&[program, "query", query, "-i", "r1", "--workers", "1", "-q"])?;
    let begun = Instant::now();
    while listening(lab)? == others {
        if begun.elapsed() > PATIENCE || fs::metadata(format!("/proc/{}", monitor.pid)).is_err() {
            bail!("no monitor listens");
        }
        thread::sleep(LOOK);
    }
    let idle_cores = idle(monitor.pid)?;
    let both = least(rounds, |payload| {
        let before = processor_ns(monitor.pid)?;
        let sender = send(lab, Sent { packets: PACKETS, payload, to: BEYOND })?;
        thread::sleep(LOOK * 5);
        Ok(sender + (processor_ns(monitor.pid)? - before) as f64 / f64::from(PACKETS))
    })?;
    let of = [both[0] - alone[0], both[1] - alone[1]];
    let byte = ((of[1] - of[0]) / f64::from(PAYLOADS[1] - PAYLOADS[0])).max(0.001);
    let packet = of[0] - byte * f64::from(PAYLOADS[0] + HEADERS) - refuse_ns;
    if packet <= 0.0 {
        bail!("others at work take so much that it cannot be told");
    }
    Ok(Receiving { packet, byte, idle_cores })
}

/// Cores that a process takes while nothing comes to it.
fn idle(pid: u32) -> anyhow::Result<f64> {
    let (begun, before) = (Instant::now(), processor_ns(pid)?);
    thread::sleep(IDLE);
    Ok((processor_ns(pid)? - before) as f64 / begun.elapsed().as_nanos() as f64)
}

/// The least of some rounds, of small and of large packets.
fn least(rounds: u8, mut of: impl FnMut(u32) -> anyhow::Result<f64>) -> anyhow::Result<[f64; 2]> {
    let mut least = [f64::INFINITY; 2];
    for _ in 0..rounds {
        for (known, payload) in least.iter_mut().zip(PAYLOADS) {
            *known = known.min(of(payload)?);
        }
    }
    Ok(least)
}

/// How many in the lab take packets from an interface.
fn listening(lab: &Lab) -> anyhow::Result<usize> {
    Ok(lab.run(&["cat", "/proc/net/packet"])?.lines().count())
}
