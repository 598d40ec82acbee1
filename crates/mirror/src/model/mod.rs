//! A network of switches, on paper: what they do with a packet.
//!
//! [`Switch::run`] takes a box of packets through the tables of one switch and returns it in classes, each with its effects;
//! [`Network::behaviours`] follows what leaves through links, up to the monitors. Nothing is sampled: every packet of a box is in a
//! class. Where a switch may do one thing or another, as one that learns addresses may, all of it is looked at.

pub mod network;
mod normal;
mod run;
pub mod switch;

pub use network::{At, Behaviour, Counts, Host, Link, Network};
pub use run::{Class, Effect, State, Step, Terms};
pub use switch::{Flooded, Leads, Mirror, Port, Switch, Vlans};
