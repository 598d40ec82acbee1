//! Installs rules that copy packets on switches, and removes them. The rules and their proofs are in [`mirror`]; this
//! crate transports them: a [`SwitchBackend`] for each kind of switch; [`install`], which reads the state of one switch,
//! proves the new one, installs it, and proves the result; and a [`SwitchFabric`], which does so for the jobs of a process
//! over all switches of a network. [`RunningExporters`] configures their sFlow or IPFIX export for one query. [`explore`]
//! discovers links and hosts.

#![forbid(unsafe_code)]

mod backend;
mod cleanup_process;
mod controller;
mod copy_job;
mod desired_rules;
mod explore;
mod exporter_slots;
mod exporters;
mod fabric;
mod install;
mod interface;
mod orphans;
mod ovs;
mod ports;
mod program;
mod reconcile;
mod rpc;
mod trace;

pub use backend::{
    CopyPortRecord, ObservedMirror, ObservedSwitch, Out, OwnedRules, SwitchBackend,
    SwitchCapabilities, SwitchError,
};
pub use controller::{SwitchController, datapaths};
pub use copy_job::{
    CopyJob, CopyRoute, CopyTap, NetworkMap, PortPlace, SelectionMethod, SwitchSite,
};
pub use explore::{Answers, At, DiscoveredLinks, PortDescription, SwitchDescription, explore};
pub use exporters::{ExporterError, ExporterSite, RunningExporters};
pub use fabric::{RunningCopies, SwitchFabric};
pub use install::{
    InstallError, InstallRequest, InstalledRules, JobStartError, install, remove, renew,
};
pub use ovs::OpenVSwitch;
