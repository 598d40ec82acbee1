//! Reduces the privileges of a process: user, group, capabilities. Each system call as a safe function with its
//! error; used by `privileges`.

use std::ffi::CString;
use std::io;

/// Effective user id of the process.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: the call takes nothing and always succeeds.
    unsafe { libc::geteuid() }
}

/// User and group id of an account; `None` if there is none with that name.
pub(crate) fn account(name: &str) -> Option<(u32, u32)> {
    const TEXT_LEN: usize = 4096;
    let name = CString::new(name).ok()?;
    let mut text = [0; TEXT_LEN];
    let mut found = std::ptr::null_mut();
    // SAFETY: all zeros is a valid entry, though one without texts; none of them is looked at.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    // SAFETY: the name ends with a zero; the call writes to the entry, at most the given length of texts, and where
    // the entry is.
    unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            &raw mut entry,
            text.as_mut_ptr(),
            text.len(),
            &raw mut found,
        );
    }
    (!found.is_null()).then_some((entry.pw_uid, entry.pw_gid))
}

/// Switches all threads to another user permanently, with this group only.
pub(crate) fn become_user(user: u32, group: u32) -> io::Result<()> {
    // SAFETY: one group, read only.
    check(unsafe { libc::setgroups(1, &raw const group) })?;
    // SAFETY: the calls take a number each.
    unsafe {
        check(libc::setresgid(group, group, group))?;
        check(libc::setresuid(user, user, user))
    }
}

/// Prevents programs started from now on from getting capabilities from their files. Without CAP_SETPCAP,
/// [`forbid_new_privileges`] must suffice.
pub(crate) fn drop_bounding_set() {
    /// Above the kernel's last capability, where the loop ends.
    const CAPABILITIES: libc::c_ulong = 64;
    for capability in 0..CAPABILITIES {
        // SAFETY: the call takes numbers only.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } < 0 {
            return;
        }
    }
}

/// Clears all capabilities of this thread and its future children.
pub(crate) fn clear_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct CapabilityHeader {
        version: u32,
        pid: i32,
    }
    /// `_LINUX_CAPABILITY_VERSION_3`: two sets of three words.
    const VERSION: u32 = 0x2008_0522;
    let header = CapabilityHeader {
        version: VERSION,
        pid: 0,
    };
    let none = [[0u32; 3]; 2];
    // SAFETY: the kernel reads a header and, by its version, six words; both outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const none) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Prevents programs started from now on from gaining privileges.
pub(crate) fn forbid_new_privileges() -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts() {
        assert_eq!(account("root"), Some((0, 0)));
        assert_eq!(account("there is no such user"), None);
        assert_eq!(account("a\0b"), None);
    }
}
