//! Real Open vSwitch with userspace datapaths in network namespaces: copied packets are compared with those sent, and
//! the switch's trace of a packet with the model.

mod bed;
mod controlled;
mod explored;
mod exporters;
mod fabrics;
mod floods;
mod holder;
mod killed;
mod leases;
mod modes;
mod packets;
mod traced;
mod valid;
