//! An interface of this process: it is there as long as the process holds it open, and no longer, however the process ends. What the kernel
//! sends out of it is seen by those who listen there; the process itself reads nothing, so the kernel drops what does not fit in its queue.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// See the module's text.
#[derive(Debug)]
pub struct Tap {
    _file: File,
    name: String,
}

impl Tap {
    /// Makes one with this name, of at most 15 characters; it is down.
    ///
    /// # Errors
    /// Without the right to make interfaces, or where one of that name is there.
    pub fn new(name: &str) -> io::Result<Tap> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['/', '%', '\0']) {
            return Err(io::Error::other(format!("{name:?} is no name of an interface")));
        }
        let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
        // SAFETY: all zeros is a valid `ifreq`, which is integers and arrays of them.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL) as libc::c_short;
        // SAFETY: the descriptor is open, and the kernel reads and writes one `ifreq`, which lives as long as the call.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Tap { _file: file, name: name.to_owned() })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}
