//! Lifetime of a monitor: it runs while its parent process holds its standard input open and renews its lease, if it
//! has one. Commands are lines: `renew MILLISECONDS` renews the lease from now, `end` ends it, `taps OWN;OTHERS` sets
//! the address table, `slice COIN LEVEL BITS` the slice of flows that switches mirror ([`plan::Slice`]). For a LIMIT in
//! packets over several monitors, `allow PACKETS` sets the total since its start, and `take-back NUMBER` stops further
//! packets. However it ends, it has a grace period to deliver its results; a pipe without a reader does not delay it
//! longer.

use std::io::{self, BufRead};
use std::net::AddrParseError;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use capture::live::Stop;
use monitor::allowance::Allowance;
use monitor::{SharedSlice, SharedTaps};
use plan::{Slice, TapTable};

/// Grace period to deliver results.
const GRACE: Duration = Duration::from_secs(10);

/// A timer delayed by more than this means that the process was suspended.
const LATE: Duration = Duration::from_millis(500);
/// Time to read commands received during the suspension.
const WAKE_TIME: Duration = Duration::from_secs(1);

/// Reason of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Requested.
    Asked,
    /// Standard input was closed.
    Abandoned,
    /// Its lease was not renewed.
    RanOut,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Renew(Duration),
    Taps(TapTable),
    Slice(Slice),
    End,
    Allow(u64),
    TakeBack(u64),
}

/// Receivers of other commands: the address table, the slice of flows, and the packet limit.
pub type Told = (SharedTaps, SharedSlice, Option<Allowance>);

/// See the module documentation.
#[derive(Clone, Default)]
pub struct Lease(Arc<OnceLock<End>>);

impl Lease {
    /// Reads standard input from now on and sets `stop` at the end; other commands go to `told`.
    ///
    /// # Errors
    /// If the system cannot create more threads.
    pub fn keep(lasts: Option<Duration>, stop: &Stop, told: Told) -> io::Result<Lease> {
        let (tell, lines) = mpsc::channel();
        let read = move || {
            let known = io::stdin().lock().lines().map_while(Result::ok).filter_map(|line| parse(&line));
            // The receiver is dropped after the end.
            let _ = known.map(|line| tell.send(line)).take_while(Result::is_ok).count();
        };
        std::thread::Builder::new().name("orders".into()).spawn(read)?;
        let (lease, stop) = (Lease::default(), stop.clone());
        let kept = lease.clone();
        let keep = move || {
            // Set only here.
            let _ = kept.0.set(wait(&lines, lasts, &told));
            stop.stop();
            std::thread::sleep(GRACE);
            std::process::exit(1);
        };
        std::thread::Builder::new().name("lease".into()).spawn(keep)?;
        Ok(lease)
    }

    /// Reason for its end, if it has ended.
    pub fn ended(&self) -> Option<End> {
        self.0.get().copied()
    }
}

impl End {
    /// Message if the result is incomplete because of this end.
    pub fn why(self) -> Option<&'static str> {
        match self {
            End::Asked => None,
            End::Abandoned => Some("the process that started it has ended"),
            End::RanOut => Some("its lease was not renewed"),
        }
    }
}

/// Blocks until the end.
fn wait(lines: &Receiver<Line>, lasts: Option<Duration>, (taps, slice, allowance): &Told) -> End {
    let allowance = allowance.as_ref();
    let mut until = lasts.and_then(|lasts| Instant::now().checked_add(lasts));
    loop {
        let line = match until {
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                // This process was suspended: renewals received in the meantime are still to be read.
                Err(RecvTimeoutError::Timeout) if until.elapsed() > LATE => lines.recv_timeout(WAKE_TIME),
                line => line,
            },
        };
        match line {
            Ok(Line::Renew(lasts)) => until = Instant::now().checked_add(lasts),
            Ok(Line::Taps(table)) => taps.set(table),
            Ok(Line::Slice(to)) => slice.set(to),
            Ok(Line::End) => return End::Asked,
            Ok(Line::Allow(packets)) => allowance.into_iter().for_each(|of| of.allow(packets)),
            Ok(Line::TakeBack(grant)) => allowance.into_iter().for_each(|of| of.take_back(grant)),
            Err(RecvTimeoutError::Disconnected) => return End::Abandoned,
            Err(RecvTimeoutError::Timeout) => return End::RanOut,
        }
    }
}

/// Parses a command; unknown ones are ignored.
fn parse(line: &str) -> Option<Line> {
    match line.trim().split_once(' ') {
        None if line.trim() == "end" => Some(Line::End),
        Some(("taps", lists)) => {
            let (own, others) = lists.split_once(';')?;
            let list = |text: &str| text.split(',').filter(|ip| !ip.is_empty()).map(str::parse).collect();
            let (own, others): (Result<_, _>, Result<_, AddrParseError>) = (list(own), list(others));
            Some(Line::Taps(TapTable { own: own.ok()?, others: others.ok()? }))
        }
        Some(("slice", slice)) => slice.parse().ok().map(Line::Slice),
        Some((word, number)) => {
            let number = number.trim().parse().ok()?;
            match word {
                "renew" => Some(Line::Renew(Duration::from_millis(number))),
                "allow" => Some(Line::Allow(number)),
                "take-back" => Some(Line::TakeBack(number)),
                _ => None,
            }
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let taps = |own: &[&str], others: &[&str]| {
            let all = |list: &[&str]| list.iter().map(|ip| ip.parse().expect("an address")).collect();
            Some(Line::Taps(TapTable { own: all(own), others: all(others) }))
        };
        let renew = |ms| Some(Line::Renew(Duration::from_millis(ms)));
        for (line, expected) in [
            ("renew 1500", renew(1500)),
            ("end", Some(Line::End)),
            ("taps 10.0.0.1;10.0.0.2,::1", taps(&["10.0.0.1"], &["10.0.0.2", "::1"])),
            ("taps ;", taps(&[], &[])),
            ("taps 10.0.0.1", None),
            ("taps x;10.0.0.1", None),
            ("slice ports 3 5", Some(Line::Slice(Slice { level: 3, drawn: 5, ..Slice::default() }))),
            ("slice ports 3", None),
            ("allow 12", Some(Line::Allow(12))),
            ("take-back 3", Some(Line::TakeBack(3))),
            ("take 3", None),
            ("renew", None),
            ("renew x", None),
            ("", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }

    /// Lines received so far, and whether the input is open, with the expected end.
    fn check(lasts: Option<Duration>, said: &[Line], is_open: bool, expected: End) {
        let (tell, lines) = mpsc::channel();
        said.iter().for_each(|line| tell.send(line.clone()).expect("it is heard"));
        let tell = is_open.then_some(tell);
        assert_eq!(wait(&lines, lasts, &Told::default()), expected, "{said:?}");
        drop(tell);
    }

    #[test]
    fn how_it_ends() {
        let (short, long) = (Duration::ZERO, Duration::from_secs(3600));
        check(None, &[], false, End::Abandoned);
        check(None, &[Line::End], true, End::Asked);
        check(Some(short), &[], true, End::RanOut);
        check(Some(long), &[Line::Renew(long)], false, End::Abandoned);
        check(Some(long), &[Line::Renew(long), Line::Renew(short)], true, End::RanOut);
    }
}
