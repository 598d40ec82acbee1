//! Host name of this machine, as the kernel reports it.

use std::fs;

/// Host name of this machine.
pub fn machine_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
