//! Rules that copy packets, as values. What a query asks for ([`asked`](mod@asked), [`mode`]) becomes rules of switches ([`compose`](mod@compose)), which are
//! proved on a model of the network ([`model`], [`proof`]) before a switch has them, and again on what it says it has; [`diff`](mod@diff) gives
//! the operations from one to the other. Pure: how rules travel is not known here.

#![forbid(unsafe_code)]

pub mod asked;
pub mod compose;
pub mod diff;
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
pub use compose::{Copy, Landing, Layout, Refused, compose, compose_ends};
pub use diff::{Operation, diff};
pub use mode::{Mode, Offer, Part, Which, offers};
pub use packets::{Cube, Field, Packet};
pub use proof::{Counterexample, Fault, Others, Proved, Wanted, prove};
pub use transports::Transports;
