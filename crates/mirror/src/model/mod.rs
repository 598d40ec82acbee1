//! A model of a network of switches and their treatment of packets.
//!
//! [`SwitchModel::run`] takes a box of packets through the tables of one switch and returns it in classes, each with its
//! effects; [`SwitchNetwork::behaviors`] follows the output through links to the monitors. Nothing is sampled: every packet
//! of a box is in a class. If a switch has several possible behaviors, as a learning switch does, all are examined.

pub mod network;
mod normal;
mod run;
pub mod switch;

pub use network::{At, Counts, KnownHost, PacketBehavior, SwitchLink, SwitchNetwork};
pub use run::{PacketClass, PacketEffect, PathState, RuleStep, UnmodeledTerms};
pub use switch::{FloodSetting, PortNeighbor, PortVlans, SwitchMirror, SwitchModel, SwitchPort};
