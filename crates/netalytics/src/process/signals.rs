//! Signals. SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal was closed) end reading; results so far are printed or
//! stored. `timeout`, shells and service managers send several of them within milliseconds, so further ones have no
//! effect: only a SIGINT at least [`GRACE`] after the first one abandons the output.
//!
//! SIGUSR1 requests statistics, if a command has any; SIGUSR2 is ignored. A file that reaches the size limit of the
//! process (`ulimit -f`) is a write error, not a fatal signal.

use std::fs;
use std::io::{self, PipeReader, Read};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use capture::live::StopSignal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::{flag, low_level};

/// Minimum time between the first end signal and a SIGINT that abandons the output.
const GRACE: Duration = Duration::from_secs(1);

/// Last end signal received; 0: none. It ends all runs of a command, as those of `compare`.
static CAME: AtomicUsize = AtomicUsize::new(0);

/// Signals that a run handles.
#[derive(Clone, Debug, Default)]
pub struct SignalHandlers {
    stats: Arc<AtomicBool>,
    watch: Arc<Mutex<Option<SignalWatch>>>,
}

/// State of the thread that waits for the first end signal.
#[derive(Debug)]
struct SignalWatch {
    came: PipeReader,
    may_abandon: Arc<AtomicBool>,
}

impl SignalHandlers {
    /// Sets `stop` on SIGINT, SIGTERM and SIGHUP from now on. `nohup` leaves SIGHUP ignored.
    pub fn end(stop: &StopSignal) -> io::Result<SignalHandlers> {
        let signals = SignalHandlers::end_unwatched(stop)?;
        signals.watch()?;
        Ok(signals)
    }

    /// Like [`SignalHandlers::end`], for SIGINT and SIGTERM only.
    pub fn end_but_for_hangup(stop: &StopSignal) -> io::Result<SignalHandlers> {
        let signals = SignalHandlers::end_by(&[SIGINT, SIGTERM], stop)?;
        signals.watch()?;
        Ok(signals)
    }

    /// Like [`SignalHandlers::end`], but a SIGINT abandons the output only after [`SignalHandlers::watch`]: for live captures, whose
    /// threads all start after system calls are restricted.
    pub fn end_unwatched(stop: &StopSignal) -> io::Result<SignalHandlers> {
        let ends: &[i32] = if is_hangup_ignored() {
            &[SIGINT, SIGTERM]
        } else {
            &[SIGINT, SIGTERM, SIGHUP]
        };
        SignalHandlers::end_by(ends, stop)
    }

    /// Starts the thread that permits a late SIGINT to abandon the output.
    pub fn watch(&self) -> io::Result<()> {
        let Some(watch) = self.watch.lock().ok().and_then(|mut watch| watch.take()) else {
            return Ok(());
        };
        let arm = move || arm(watch.came, &watch.may_abandon);
        thread::Builder::new()
            .name("signals".into())
            .spawn(arm)
            .map(drop)
    }

    fn end_by(ends: &[i32], stop: &StopSignal) -> io::Result<SignalHandlers> {
        let may_abandon = Arc::new(AtomicBool::new(false));
        flag::register_conditional_default(SIGINT, may_abandon.clone())?;
        let (came, wake) = io::pipe()?;
        for signal in ends {
            flag::register_usize(*signal, &CAME, *signal as usize)?;
            flag::register(*signal, stop.flag())?;
            low_level::pipe::register(*signal, wake.try_clone()?)?;
        }
        let stats = Arc::new(AtomicBool::new(false));
        flag::register(SIGUSR1, stats.clone())?;
        if CAME.load(Ordering::SeqCst) != 0 {
            stop.stop();
        }
        Ok(SignalHandlers {
            stats,
            watch: Arc::new(Mutex::new(Some(SignalWatch { came, may_abandon }))),
        })
    }

    /// Set by SIGUSR1; cleared when the statistics are printed.
    pub fn stats(&self) -> Arc<AtomicBool> {
        self.stats.clone()
    }

    /// The name of the last end signal.
    pub fn name(&self) -> Option<&'static str> {
        match CAME.load(Ordering::Relaxed) as i32 {
            SIGINT => Some("SIGINT"),
            SIGTERM => Some("SIGTERM"),
            SIGHUP => Some("SIGHUP"),
            _ => None,
        }
    }
}

/// Waits for the first end signal; after [`GRACE`], permits a SIGINT to abandon the output.
fn arm(mut came: PipeReader, may_abandon: &AtomicBool) {
    let mut byte = [0];
    while came.read(&mut byte).is_ok_and(|n| n > 0) {
        if !may_abandon.load(Ordering::Relaxed) {
            thread::sleep(GRACE);
            may_abandon.store(true, Ordering::SeqCst);
        }
    }
}

/// Whether an end signal has been received.
pub fn is_end_requested() -> bool {
    CAME.load(Ordering::Relaxed) != 0
}

/// Installs handlers, so that SIGUSR1 and SIGUSR2 do not end the process.
pub fn survive_user_signals() -> io::Result<()> {
    [SIGUSR1, SIGUSR2]
        .into_iter()
        .try_for_each(|signal| flag::register(signal, Arc::default()).map(drop))
}

/// Ignores SIGXFSZ, so that a write beyond the file size limit fails instead.
pub fn survive_size_limits() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Whether SIGHUP was ignored at the start of the process, as under `nohup`.
pub fn is_hangup_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status).is_some_and(|set| set & (1 << (SIGHUP - 1)) != 0)
}

/// Bit mask of ignored signals, from `/proc/PID/status`.
fn ignored(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals() {
        for (status, set) in [
            (
                "Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n",
                Some(0x1001),
            ),
            ("SigIgn:\tnothing\n", None),
            ("", None),
        ] {
            assert_eq!(ignored(status), set, "{status:?}");
        }
    }
}
