//! Live capture in network namespaces created by the tests, connected by a veth pair; output is compared with the known
//! traffic. Requires root; without it, or without a server program, a test prints that it has checked nothing.

mod autoscaling;
mod bed;
mod calibrated;
mod capture;
mod chaos;
mod cost_of_measuring;
mod ends;
mod filters;
mod folders;
mod gone;
mod kept_packets;
mod links;
mod load;
mod net;
mod outlets;
mod pages;
mod rate_goal;
mod redis;
mod sampled;
mod servers;
mod steered;
mod team;
mod terminal;
mod testbed;
mod truth;
mod tunnels;
mod turn;
