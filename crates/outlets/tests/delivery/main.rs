//! Outlets with receivers on this machine: HTTP receivers that answer as told, scrapers, Redis, and a collector of packets.

mod desired_states;
mod packets;
mod receivers;
mod scrapes;
