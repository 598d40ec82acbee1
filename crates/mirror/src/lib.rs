//! Rules that copy packets, as values. The requested packets of a query ([`asked`](mod@asked), [`mode`]) are compiled
//! to rules of switches ([`compose`](mod@compose)), which are proved on a model of the network ([`model`], [`proof`])
//! before they are installed, and again on the rules reported by the switch; [`diff`](mod@diff) computes the operations
//! between two states. Pure: no I/O.

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
