//! Restricts system calls to those that a packet-processing program needs (seccomp(2)): if hostile packets exploit a
//! bug, their code can start no program, open no connection, trace no process, and change nothing but this program's
//! own output.
//!
//! Allowed are memory, threads, time, signals, reading and writing open files, opening files for reading, and, if
//! output needs new files, creating, renaming, and removing them. All other calls fail with ENOSYS, which libraries
//! handle. DPDK needs more calls and is not supported.

use std::collections::BTreeMap;

use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// Files that may be opened from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// For reading.
    ReadOnly,
    /// New files, too, for output files created during the run.
    New,
}

/// Connections that may be opened from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkAccess {
    /// None.
    Closed,
    /// Thread that delivers results: TCP connections in both directions, and name lookups.
    Internet,
}

/// Errors when restricting system calls.
#[derive(Debug, thiserror::Error)]
pub enum SeccompError {
    /// No filter exists for this processor architecture.
    #[error("system calls are not restricted: not supported on this processor ({0})")]
    Processor(BackendError),
    /// The kernel rejected the filter.
    #[error("system calls are not restricted: {0}")]
    Refused(#[from] seccompiler::Error),
}

/// Restricts this thread and its future children permanently.
///
/// # Errors
/// When the kernel does not support it; nothing has changed then.
pub fn restrict(files: FileAccess, network: NetworkAccess) -> Result<(), SeccompError> {
    let arch = std::env::consts::ARCH
        .try_into()
        .map_err(SeccompError::Processor)?;
    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules(files, network)?, refused, SeccompAction::Allow, arch);
    let program: BpfProgram = filter
        .and_then(TryInto::try_into)
        .map_err(seccompiler::Error::from)?;
    Ok(apply_filter(&program)?)
}

type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules(files: FileAccess, network: NetworkAccess) -> Result<SeccompRules, seccompiler::Error> {
    let mut rules = SeccompRules::new();
    let mut allow = |calls: &[i64]| rules.extend(calls.iter().map(|call| (*call, Vec::new())));
    allow(ALWAYS);
    #[cfg(target_arch = "x86_64")]
    allow(ALWAYS_OLD);
    if files == FileAccess::New {
        allow(NEW_FILES);
        #[cfg(target_arch = "x86_64")]
        allow(NEW_FILES_OLD);
    }
    if network == NetworkAccess::Internet {
        allow(CONNECTIONS);
        #[cfg(target_arch = "x86_64")]
        allow(&[libc::SYS_pipe]);
    }
    // Without CLONE_THREAD it would be a process. clone3, whose flags are not visible to the filter, fails.
    let thread = libc::CLONE_THREAD as u64;
    only(
        &mut rules,
        libc::SYS_clone,
        0,
        &[(MaskedEq(thread), thread)],
    )?;
    only(
        &mut rules,
        libc::SYS_prctl,
        0,
        &[(Eq, libc::PR_SET_NAME as u64)],
    )?;
    // Reads limits only.
    only(&mut rules, libc::SYS_prlimit64, 2, &[(Eq, 0)])?;
    // Sizes of terminals, unread bytes of pipes, and states of interfaces.
    let questions = [
        libc::TCGETS,
        libc::TIOCGWINSZ,
        libc::FIONREAD,
        libc::SIOCGIFINDEX,
        libc::SIOCGIFFLAGS,
    ];
    let is_closed = network == NetworkAccess::Closed;
    let requests = questions
        .iter()
        .chain(Some(&libc::FIONBIO).filter(|_| !is_closed));
    let requests: Vec<_> = requests.map(|request| (Eq, *request)).collect();
    only(&mut rules, libc::SYS_ioctl, 1, &requests)?;
    // Counters of adapters are read by netlink.
    let families = [libc::AF_NETLINK, libc::AF_INET, libc::AF_INET6];
    let families = if is_closed {
        &families[..1]
    } else {
        &families[..]
    };
    let families: Vec<_> = families.iter().map(|family| (Eq, *family as u64)).collect();
    only(&mut rules, libc::SYS_socket, 0, &families)?;
    if files == FileAccess::ReadOnly {
        let writes = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u64;
        only(&mut rules, libc::SYS_openat, 2, &[(MaskedEq(writes), 0)])?;
    }
    Ok(rules)
}

/// Allows a call if argument `argument` has one of these values.
fn only(
    rules: &mut SeccompRules,
    call: i64,
    argument: u8,
    values: &[(seccompiler::SeccompCmpOp, u64)],
) -> Result<(), seccompiler::Error> {
    let rule = |(op, value): &(seccompiler::SeccompCmpOp, u64)| {
        SeccompRule::new(vec![SeccompCondition::new(
            argument,
            Dword,
            op.clone(),
            *value,
        )?])
    };
    rules.insert(call, values.iter().map(rule).collect::<Result<_, _>>()?);
    Ok(())
}

/// Calls allowed with any arguments.
const ALWAYS: &[i64] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads, and exit.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_membarrier,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_tgkill,
    // Signals.
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // Time and random numbers.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    // Open files.
    libc::SYS_close,
    libc::SYS_fadvise64,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
    // Open sockets: packets, filter, losses, connections of exporters.
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_ppoll,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
];

/// Calls that newer architectures lack.
#[cfg(target_arch = "x86_64")]
const ALWAYS_OLD: &[i64] = &[
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_stat,
    libc::SYS_time,
];

/// For connections.
const CONNECTIONS: &[i64] = &[
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_listen,
    libc::SYS_pipe2,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
];

/// For creating files.
const NEW_FILES: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_mkdirat,
    libc::SYS_openat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
];

#[cfg(target_arch = "x86_64")]
const NEW_FILES_OLD: &[i64] = &[libc::SYS_mkdir, libc::SYS_rename, libc::SYS_unlink];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::path::PathBuf;
    use std::process::Command;
    use std::thread;

    use super::*;

    /// Runs `act` in a restricted thread; `None` if restriction is not possible and `ALLOW_MISSING` names `seccomp`.
    fn restricted<T: Send + 'static>(
        files: FileAccess,
        network: NetworkAccess,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let done = thread::spawn(move || restrict(files, network).map(|()| act()))
            .join()
            .expect("no panic");
        Some(testkit::require!("seccomp" => done))
    }

    #[test]
    fn no_programs_and_no_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = listener.local_addr().expect("bound");
        let attempts = move || {
            [
                Command::new("true").status().is_ok(),
                TcpStream::connect(to).is_ok(),
                UdpSocket::bind("127.0.0.1:0").is_ok(),
                std::os::unix::net::UnixStream::pair().is_ok(),
            ]
        };
        assert_eq!(attempts(), [true; 4]);
        let Some(done) = restricted(FileAccess::New, NetworkAccess::Closed, attempts) else {
            return;
        };
        assert_eq!(done, [false; 4]);
        let Some(done) = restricted(FileAccess::ReadOnly, NetworkAccess::Internet, attempts) else {
            return;
        };
        assert_eq!(
            done,
            [false, true, true, false],
            "what delivers results may connect, and no more"
        );
    }

    /// A socket that listened before accepts connections of exporters; a new one cannot be opened.
    #[test]
    fn open_sockets_accept_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = listener.local_addr().expect("bound");
        let client = TcpStream::connect(to).expect("a connection");
        let work = move || {
            let is_accepted = listener.accept().is_ok();
            (is_accepted, TcpListener::bind("127.0.0.1:0").is_ok())
        };
        let Some(done) = restricted(FileAccess::ReadOnly, NetworkAccess::Closed, work) else {
            return;
        };
        assert_eq!(done, (true, false));
        drop(client);
    }

    #[test]
    fn required_system_calls_are_allowed() {
        let work = || {
            let inner = thread::spawn(|| {
                vec![1_u8; 64 << 20]
                    .iter()
                    .map(|b| u64::from(*b))
                    .sum::<u64>()
            });
            thread::sleep(std::time::Duration::from_millis(1));
            let interfaces = crate::interfaces::interfaces().map_or(0, |all| all.len());
            (
                inner.join().ok(),
                fs::read("/proc/self/status").is_ok(),
                interfaces > 0,
            )
        };
        let Some(done) = restricted(FileAccess::ReadOnly, NetworkAccess::Closed, work) else {
            return;
        };
        assert_eq!(done, (Some(64 << 20), true, true));
    }

    #[test]
    fn output_files_can_be_created() {
        let folder = tempfile::tempdir().expect("a folder");
        for (files, expected) in [
            (FileAccess::ReadOnly, [false; 3]),
            (FileAccess::New, [true; 3]),
        ] {
            let path = |name: &str| -> PathBuf { folder.path().join(format!("{name} {files:?}")) };
            let made = path("made");
            let moved = path("moved");
            let work = move || {
                let created =
                    fs::create_dir(&made).and_then(|()| fs::write(made.join("file"), b"abc"));
                [
                    created.is_ok(),
                    fs::rename(&made, &moved).is_ok(),
                    fs::remove_file(moved.join("file")).is_ok(),
                ]
            };
            let Some(done) = restricted(files, NetworkAccess::Closed, work) else {
                return;
            };
            assert_eq!(done, expected, "{files:?}");
        }
    }
}
