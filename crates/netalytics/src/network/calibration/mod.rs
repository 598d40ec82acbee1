//! Measurements of `calibrate` with generated packets: a mirroring switch, and a receiving monitor.

mod namespace_lab;
mod receive;
mod sender;
mod switch;

pub use namespace_lab::NamespaceLab;
pub use receive::ReceiveCost;
pub use sender::be_sender;
pub use switch::SwitchCopyCost;

/// Measures the cost of receiving a packet, given the cost of rejecting it.
pub fn receiving(lab: &NamespaceLab, refuse_ns: f64, rounds: u8) -> anyhow::Result<ReceiveCost> {
    receive::measure(lab, refuse_ns, rounds)
}

/// Measures a switch's cost of copying a packet.
pub fn copying(lab: &NamespaceLab, rounds: u8) -> anyhow::Result<SwitchCopyCost> {
    switch::measure(lab, rounds)
}
