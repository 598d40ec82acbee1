//! Signals that end a run, whatever it reads: Ctrl-C (SIGINT), SIGTERM, and SIGHUP, which comes when the terminal or the
//! connection to it goes. The first ends reading, and all that is known by then is printed or kept; the second ends the
//! program at once.
//!
//! A file that reaches the size limit of the process (`ulimit -f`) is an error of writing, not a signal that kills.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use capture::live::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// Which signal has come.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    came: Arc<AtomicUsize>,
}

impl Signals {
    /// Has signals ask for `stop` from now on. Whoever started us with `nohup` wants SIGHUP to do nothing.
    pub fn end(stop: &Stop) -> io::Result<Signals> {
        let signals = Signals::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if signal == SIGHUP && is_ignored(SIGHUP) {
                continue;
            }
            // In this order: at the first signal the flag is not up yet.
            flag::register_conditional_default(signal, stop.flag())?;
            flag::register_usize(signal, signals.came.clone(), signal as usize)?;
            flag::register(signal, stop.flag())?;
        }
        Ok(signals)
    }

    /// The name of the signal that has come, if one has.
    pub fn name(&self) -> Option<&'static str> {
        match self.came.load(Ordering::Relaxed) as i32 {
            SIGINT => Some("SIGINT"),
            SIGTERM => Some("SIGTERM"),
            SIGHUP => Some("SIGHUP"),
            _ => None,
        }
    }
}

/// Has writing fail where a file would become larger than the process may make it.
pub fn survive_size_limits() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Whether the signal was ignored when we were started.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status).is_some_and(|set| set & (1 << (signal - 1)) != 0)
}

/// The signals that are ignored, a bit each, of what `/proc/PID/status` says.
fn ignored(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals() {
        for (status, set) in [
            ("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n", Some(0x1001)),
            ("SigIgn:\tnothing\n", None),
            ("", None),
        ] {
            assert_eq!(ignored(status), set, "{status:?}");
        }
    }
}
