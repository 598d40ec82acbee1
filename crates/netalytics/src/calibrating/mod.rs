//! What `calibrate` measures by packets that it sends itself: a switch that copies, and a monitor that receives.

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

/// What a switch takes to copy a packet.
pub fn copying(lab: &Lab, rounds: u8) -> anyhow::Result<Copying> {
    switch::measure(lab, rounds)
}
