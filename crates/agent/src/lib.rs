//! The agent: it runs on each host, starts monitors on request of a server, limits them, and sends their results. It
//! connects to the server and opens no port; the policy of the host's owner ([`policy`]) applies to every request.

#![forbid(unsafe_code)]

pub mod cgroups;
mod crash_notes;
pub mod credentials;
pub mod dial;
pub mod enroll;
mod health;
mod host;
pub mod last_boot;
pub mod orders;
mod packets;
pub mod policy;
pub mod process;
pub mod run;
mod selected_packets;
mod served_server;
mod sharing;
pub mod spool_files;
pub mod traffic;
