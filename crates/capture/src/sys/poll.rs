//! Waiting for a descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Whether `input` can be read without blocking, or has ended; waits at most `timeout`.
pub(crate) fn is_readable(input: &impl AsFd, timeout: Duration) -> io::Result<bool> {
    is_ready(input, libc::POLLIN, timeout)
}

/// Whether `output` accepts data, or has failed; waits at most `timeout`.
pub(crate) fn is_writable(output: &impl AsFd, timeout: Duration) -> io::Result<bool> {
    is_ready(output, libc::POLLOUT, timeout)
}

/// Bytes of a pipe that its reader has not read; of a socket or on error, a constant.
pub(crate) fn unread_bytes(pipe: &impl AsFd) -> libc::c_int {
    let mut unread: libc::c_int = 0;
    // SAFETY: the call writes one integer, which outlives it, as does the borrowed descriptor.
    unsafe { libc::ioctl(pipe.as_fd().as_raw_fd(), libc::FIONREAD, &raw mut unread) };
    unread
}

fn is_ready(of: &impl AsFd, events: libc::c_short, timeout: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd {
        fd: of.as_fd().as_raw_fd(),
        events,
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
