//! Installs rules that copy packets on switches, and removes them. The rules and their proofs are in [`mirror`]; this
//! crate transports them: a [`Backend`] for each kind of switch; [`install`], which reads the state of one switch,
//! proves the new one, installs it, and proves the result; and a [`Fabric`], which does so for the jobs of a process
//! over all switches of a network. [`explore`] discovers links and hosts.

#![forbid(unsafe_code)]

mod backend;
mod carry;
mod controller;
mod explore;
mod fabric;
mod install;
mod interface;
mod keeper;
mod order;
mod orphans;
mod ovs;
mod ports;
mod rpc;
mod tool;
mod trace;
mod wishes;

pub use backend::{Backend, Capabilities, Failed, Mirrored, Observed, Ours, Out, Record};
pub use controller::{Controller, datapaths};
pub use explore::{Answers, At, Described, Found, PortOf, explore};
pub use fabric::{Fabric, Running};
pub use install::{Installed, NotInstalled, NotStarted, Wish, install, remove, renew};
pub use order::{How, Job, Map, Place, Site, Tap, To};
pub use ovs::OpenVSwitch;
