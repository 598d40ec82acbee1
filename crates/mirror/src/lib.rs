//! Rules that copy packets, as values. The requested packets of a query ([`asked`](mod@asked), [`mode`]) are compiled
//! to rules of switches ([`compose`](mod@compose)), which are proved on a model of the network ([`model`], [`proof`])
//! before they are installed, and again on the rules reported by the switch; [`diff`](mod@diff) computes the operations
//! between two states. Pure: no I/O.

#![forbid(unsafe_code)]

pub mod asked;
pub mod compose;
pub mod diff;
pub mod exporter;
pub mod json;
pub mod mode;
pub mod model;
pub mod openflow;
pub mod ovsdb;
pub mod packets;
pub mod proof;
pub mod sliced;
mod transports;

pub use asked::asked;
pub use compose::{ComposeError, RuleLayout, SwitchCopy, TunnelExit, compose, compose_ends};
pub use diff::{RuleOperation, diff};
pub use mode::{MirrorMode, ModeOffer, PacketPart, PacketSelection, offers};
pub use packets::{MatchField, ModelPacket, PacketCube};
pub use proof::{CopyExpectation, Counterexample, ProofFault, ProofResult, StrayPolicy, prove};
pub use transports::Transports;
