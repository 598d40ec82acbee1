//! Carries rules that copy packets to switches, and takes them away. What the rules are, and that they are right, [`mirror`] knows; here is
//! only how they travel: a [`Backend`] for each kind of switch; [`install`], which asks one switch what it has, proves what it is to get,
//! gives it, and proves what it then has; and a [`Fabric`], which does so for the jobs of a process, over all switches of a network. What is
//! joined to what [`explore`] finds out.

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
