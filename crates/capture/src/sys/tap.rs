//! A network interface that exists while the process holds it open, however the process ends. Packets that the kernel
//! sends to it are visible to captures; the process reads none, so the kernel drops what exceeds its queue.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// The interface.
#[derive(Debug)]
pub struct TapInterface {
    _file: File,
    name: String,
}

impl TapInterface {
    /// Creates an interface with this name of at most 15 characters; it is down.
    ///
    /// # Errors
    /// Without permission to create interfaces, or if the name is in use.
    pub fn new(name: &str) -> io::Result<TapInterface> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['/', '%', '\0']) {
            return Err(io::Error::other(format!(
                "{name:?} is not an interface name"
            )));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/net/tun")?;
        // SAFETY: all zeros is a valid `ifreq`, which is integers and arrays of them.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL) as libc::c_short;
        // SAFETY: the descriptor is open, and the kernel reads and writes one `ifreq`, which lives as long as the call.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(TapInterface {
            _file: file,
            name: name.to_owned(),
        })
    }

    /// Name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}
