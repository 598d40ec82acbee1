//! On real Open vSwitch, a userspace datapath in network namespaces: what is copied is counted against what was sent, and what the
//! switch says of a packet is compared with what the model says.

mod bed;
mod kernel;
mod leases;
mod modes;
mod packets;
mod traced;
mod tunnels;
