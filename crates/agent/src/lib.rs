//! The agent: it runs on each host, starts monitors when a server asks for them, bounds them, and ships what they find. It dials
//! out and opens no port; what its host's owner has not allowed ([`policy`]) it does not do, whoever asks.

#![forbid(unsafe_code)]

pub mod bounds;
pub mod credentials;
pub mod dial;
pub mod enrol;
mod health;
mod host;
pub mod last_boot;
mod notes;
pub mod orders;
pub mod policy;
pub mod process;
pub mod run;
mod serves;
pub mod spool_files;
pub mod traffic;
