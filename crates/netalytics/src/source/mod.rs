//! Sources of a query on this host: live capture, files, recordings, the server's tap; and the period that is read.

pub mod dns_names;
pub mod live_capture;
pub mod packet_input;
pub mod period;
pub mod recording_replay;
pub mod server_tap;
pub mod tls_keys;
