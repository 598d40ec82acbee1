//! Test packets: UDP datagrams of one size, sent from within the lab slowly enough for the receiver.

use std::net::UdpSocket;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};

use super::namespace_lab::{NamespaceLab, processor_ns, processor_ns_between};

/// Packets per burst: more than the receiver reads at once, and no more than its queue holds.
const BURST: u32 = 128;
/// Pause between bursts.
const PAUSE: Duration = Duration::from_micros(1200);
/// Maximum packets per run.
const PACKETS_MAX: u32 = 1_000_000;
/// A port without a listener.
const PORT: u16 = 9;

/// Description of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestTraffic<'a> {
    /// Number of packets.
    pub packets: u32,
    /// Payload bytes per packet.
    pub payload: u32,
    /// Destination address.
    pub to: &'a str,
}

/// Sends packets from within the lab; returns the CPU time per packet, including that of the kernel.
pub fn send(lab: &NamespaceLab, sent: TestTraffic<'_>) -> anyhow::Result<f64> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = program
        .to_str()
        .context("the path of this program is not UTF-8")?;
    let TestTraffic {
        packets,
        payload,
        to,
    } = sent;
    let said = lab.run(&[
        program,
        "calibrate",
        "--send",
        &format!("{packets},{payload},{to}"),
    ])?;
    said.trim().parse().context("the sender returned no number")
}

/// Runs as the sender; `order`: `PACKETS,BYTES,ADDRESS`.
pub fn be_sender(order: &str) -> anyhow::Result<String> {
    let words: Vec<&str> = order.split(',').collect();
    let [packets, payload, to] = words[..] else {
        bail!("{order:?} is not a valid send order")
    };
    let packets: u32 = packets.parse()?;
    let payload: usize = payload.parse()?;
    if packets == 0 || packets > PACKETS_MAX {
        bail!("{packets} packets are not sent");
    }
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect((to, PORT))?;
    let bytes = vec![0; payload.min(1472)];
    // Process ids are those of the lab, but /proc is the host's, so only `self` is valid.
    let own = own_ns()?;
    for nth in 1..=packets {
        // No host rejects the datagram.
        let _ = socket.send(&bytes);
        if nth % BURST == 0 {
            thread::sleep(PAUSE);
        }
    }
    let taken = processor_ns_between(own, own_ns()?)?;
    Ok(format!("{}\n", taken as f64 / f64::from(packets)))
}

fn own_ns() -> anyhow::Result<u64> {
    let own = std::fs::read_link(Path::new("/proc/self")).context("there is no /proc/self")?;
    let number = own
        .to_str()
        .and_then(|text| text.parse().ok())
        .context("cannot resolve /proc/self")?;
    Ok(processor_ns(number)?)
}
