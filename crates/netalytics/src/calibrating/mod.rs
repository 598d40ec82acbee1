//! Measurements of `calibrate` with generated packets: a mirroring switch, and a receiving monitor.

mod lab;
mod receive;
mod sender;
mod switch;

pub use lab::Lab;
pub use receive::Receiving;
pub use sender::be_sender;
pub use switch::Copying;

/// Measures the cost of receiving a packet, given the cost of rejecting it.
pub fn receiving(lab: &Lab, refuse_ns: f64, rounds: u8) -> anyhow::Result<Receiving> {
    receive::measure(lab, refuse_ns, rounds)
}

/// Measures a switch's cost of copying a packet.
pub fn copying(lab: &Lab, rounds: u8) -> anyhow::Result<Copying> {
    switch::measure(lab, rounds)
}
