//! Live capture for real: the program captures in network namespaces that the tests make, joined by a veth pair, and
//! what it says is held against what the ends of the wire know. Needs root; where there is none, or a server is not
//! installed, a test says loudly that it has checked nothing.

mod autoscaling;
mod bed;
mod calibrated;
mod capture;
mod chaos;
mod ends;
mod filters;
mod folders;
mod gone;
mod links;
mod load;
mod net;
mod outlets;
mod pages;
mod redis;
mod sampled;
mod servers;
mod team;
mod terminal;
mod testbed;
mod truth;
mod tunnels;
