//! On real Open vSwitch, userspace datapaths in network namespaces: what is copied is counted against what was sent, and what the
//! switch says of a packet is compared with what the model says.

mod bed;
mod controlled;
mod explored;
mod fabrics;
mod floods;
mod holder;
mod killed;
mod leases;
mod modes;
mod packets;
mod traced;
mod valid;
