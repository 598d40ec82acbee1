//! Waiting for a descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Whether `input` can be read without blocking, or has ended; waits at most `timeout`.
pub(crate) fn is_readable(input: &impl AsFd, timeout: Duration) -> io::Result<bool> {
    let fd = input.as_fd().as_raw_fd();
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let timeout = timeout.as_millis().min(10_000) as libc::c_int;
    // SAFETY: one entry, which outlives the call, as does the borrowed descriptor.
    match unsafe { libc::poll(&raw mut poll, 1, timeout) } {
        ready @ 0.. => Ok(ready > 0),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
    }
}
