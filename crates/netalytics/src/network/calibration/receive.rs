//! Cost of receiving a packet: packets of two sizes are sent into a virtual cable, with and without an idle monitor at
//! the other end, and CPU time is compared.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::namespace_lab::{LOOK, NamespaceLab, PATIENCE, processor_ns, processor_ns_between};
use super::sender::{TestTraffic, send};
use super::switch::reachable;

/// Packets per round.
const PACKETS: u32 = 20_000;
/// Payload bytes of small and large packets.
const PAYLOADS: [u32; 2] = [58, 1358];
/// Bytes of their link, network and transport headers.
const HEADERS: u32 = 42;
/// Duration of the idle measurement.
const IDLE: Duration = Duration::from_secs(3);
/// Destination address.
const BEYOND: &str = "10.97.0.2";

/// Cost of receiving, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiveCost {
    /// Per packet.
    pub packet: f64,
    /// Per byte.
    pub byte: f64,
    /// Cores used by a monitor without traffic.
    pub idle_cores: f64,
}

/// Measures the cost; `refuse_ns`: cost of rejecting a packet, in nanoseconds.
pub fn measure(lab: &NamespaceLab, refuse_ns: f64, rounds: u8) -> anyhow::Result<ReceiveCost> {
    lab.run(&[
        "ip", "link", "add", "r0", "type", "veth", "peer", "name", "r1",
    ])?;
    for end in ["r0", "r1"] {
        lab.run(&["ip", "link", "set", end, "up", "arp", "off"])?;
    }
    reachable(lab, "r0", "10.97.0.1/24", BEYOND)?;
    let alone = least(rounds, |payload| {
        send(
            lab,
            TestTraffic {
                packets: PACKETS,
                payload,
                to: BEYOND,
            },
        )
    })?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = program
        .to_str()
        .context("the path of this program is not UTF-8")?;
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
        let sender = send(
            lab,
            TestTraffic {
                packets: PACKETS,
                payload,
                to: BEYOND,
            },
        )?;
        thread::sleep(LOOK * 5);
        let taken = processor_ns_between(before, processor_ns(monitor.pid)?)?;
        Ok(sender + taken as f64 / f64::from(PACKETS))
    })?;
    let of = [both[0] - alone[0], both[1] - alone[1]];
    let byte = ((of[1] - of[0]) / f64::from(PAYLOADS[1] - PAYLOADS[0])).max(0.001);
    let packet = of[0] - byte * f64::from(PAYLOADS[0] + HEADERS) - refuse_ns;
    if packet <= 0.0 {
        bail!("the load of other processes is too high for a measurement");
    }
    Ok(ReceiveCost {
        packet,
        byte,
        idle_cores,
    })
}

/// Cores used by a process without traffic.
fn idle(pid: u32) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let before = processor_ns(pid)?;
    thread::sleep(IDLE);
    Ok(processor_ns(pid)?.saturating_sub(before) as f64 / begun.elapsed().as_nanos() as f64)
}

/// Minimum over several rounds, for small and large packets.
fn least(rounds: u8, mut of: impl FnMut(u32) -> anyhow::Result<f64>) -> anyhow::Result<[f64; 2]> {
    let mut least = [f64::INFINITY; 2];
    for _ in 0..rounds {
        for (known, payload) in least.iter_mut().zip(PAYLOADS) {
            *known = known.min(of(payload)?);
        }
    }
    Ok(least)
}

/// Number of capturing sockets in the lab.
fn listening(lab: &NamespaceLab) -> anyhow::Result<usize> {
    Ok(lab.run(&["cat", "/proc/net/packet"])?.lines().count())
}
