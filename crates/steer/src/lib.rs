//! Carries rules that copy packets to switches, and takes them away. What the rules are, and that they are right, [`mirror`] knows; here is
//! only how they travel: a [`Backend`] for each kind of switch, and [`install`], which asks the switch what it has, proves what it is to
//! get, gives it, and proves what it then has.

#![forbid(unsafe_code)]

mod backend;
mod install;
mod ovs;
mod tool;
mod trace;

pub use backend::{Backend, Capabilities, Failed, Mirrored, Observed, Out};
pub use install::{Installed, NotInstalled, Wish, install, remove, renew};
pub use ovs::OpenVSwitch;
