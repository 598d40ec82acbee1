//! Lifetime of a monitor: it runs while its parent process holds its standard input open and renews its lease, if it
//! has one. Commands are lines: `renew MILLISECONDS` renews the lease from now, `end` ends it, `taps OWN;OTHERS` sets
//! the address table, `slice COIN LEVEL BITS` the slice of flows that switches mirror ([`plan::FlowSlice`]). For a LIMIT in
//! packets over several monitors, `allow PACKETS` sets the total since its start, and `take-back NUMBER` stops further
//! packets. `flush NUMBER` requests all results so far, without an end. However it ends, it has a grace period to deliver its results; a pipe without a reader does not delay it
//! longer.

use std::io::{self, BufRead};
use std::net::AddrParseError;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use capture::live::StopSignal;
use monitor::allowance::PacketAllowance;
use monitor::flush::FlushRequests;
use monitor::{SharedSlice, SharedTaps};
use plan::{FlowSlice, TapTable};

/// Grace period to deliver results.
const GRACE: Duration = Duration::from_secs(10);

/// A timer delayed by more than this means that the process was suspended.
const LATE: Duration = Duration::from_millis(500);
/// Time to read commands received during the suspension.
const WAKE_TIME: Duration = Duration::from_secs(1);

/// Reason of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEnd {
    /// Requested.
    Asked,
    /// Standard input was closed.
    Abandoned,
    /// The lease was not renewed.
    RanOut,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LeaseCommand {
    Renew(Duration),
    Taps(TapTable),
    Slice(FlowSlice),
    End,
    Allow(u64),
    TakeBack(u64),
    Flush(u64),
}

/// Receivers of other commands: the address table, the slice of flows, the packet limit, and requests for results.
pub type LeaseReceivers = (
    SharedTaps,
    SharedSlice,
    Option<PacketAllowance>,
    FlushRequests,
);

/// See the module documentation.
#[derive(Clone, Default)]
pub struct MonitorLease(Arc<OnceLock<LeaseEnd>>);

impl MonitorLease {
    /// Reads standard input from now on and sets `stop` at the end; other commands go to `told`.
    ///
    /// # Errors
    /// If the system cannot create more threads.
    pub fn keep(
        lasts: Option<Duration>,
        stop: &StopSignal,
        told: LeaseReceivers,
    ) -> io::Result<MonitorLease> {
        let (tell, lines) = mpsc::channel();
        let read = move || {
            let known = io::stdin()
                .lock()
                .lines()
                .map_while(Result::ok)
                .filter_map(|line| parse(&line));
            // The receiver is dropped after the end.
            let _ = known
                .map(|line| tell.send(line))
                .take_while(Result::is_ok)
                .count();
        };
        std::thread::Builder::new()
            .name("orders".into())
            .spawn(read)?;
        let lease = MonitorLease::default();
        let stop = stop.clone();
        let kept = lease.clone();
        let keep = move || {
            // Set only here.
            let _ = kept.0.set(wait(&lines, lasts, &told));
            stop.stop();
            std::thread::sleep(GRACE);
            std::process::exit(1);
        };
        std::thread::Builder::new()
            .name("lease".into())
            .spawn(keep)?;
        Ok(lease)
    }

    /// Reason for its end, if it has ended.
    pub fn ended(&self) -> Option<LeaseEnd> {
        self.0.get().copied()
    }
}

impl LeaseEnd {
    /// Message if the result is incomplete because of this end.
    pub fn why(self) -> Option<&'static str> {
        match self {
            LeaseEnd::Asked => None,
            LeaseEnd::Abandoned => Some("the process that started it has ended"),
            LeaseEnd::RanOut => Some("its lease was not renewed"),
        }
    }
}

/// Blocks until the end.
fn wait(
    lines: &Receiver<LeaseCommand>,
    lasts: Option<Duration>,
    (taps, slice, allowance, flush): &LeaseReceivers,
) -> LeaseEnd {
    let allowance = allowance.as_ref();
    let mut until = lasts.and_then(|lasts| Instant::now().checked_add(lasts));
    loop {
        let line = match until {
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => {
                match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    // The process was suspended: renewals received in the meantime must be read first.
                    Err(RecvTimeoutError::Timeout) if until.elapsed() > LATE => {
                        lines.recv_timeout(WAKE_TIME)
                    }
                    line => line,
                }
            }
        };
        match line {
            Ok(LeaseCommand::Renew(lasts)) => until = Instant::now().checked_add(lasts),
            Ok(LeaseCommand::Taps(table)) => taps.set(table),
            Ok(LeaseCommand::Slice(to)) => slice.set(to),
            Ok(LeaseCommand::Flush(number)) => flush.request(number),
            Ok(LeaseCommand::End) => return LeaseEnd::Asked,
            Ok(LeaseCommand::Allow(packets)) => {
                allowance.into_iter().for_each(|of| of.allow(packets))
            }
            Ok(LeaseCommand::TakeBack(grant)) => {
                allowance.into_iter().for_each(|of| of.take_back(grant))
            }
            Err(RecvTimeoutError::Disconnected) => return LeaseEnd::Abandoned,
            Err(RecvTimeoutError::Timeout) => return LeaseEnd::RanOut,
        }
    }
}

/// Parses a command; unknown ones are ignored.
fn parse(line: &str) -> Option<LeaseCommand> {
    match line.trim().split_once(' ') {
        None if line.trim() == "end" => Some(LeaseCommand::End),
        Some(("taps", lists)) => {
            let (own, others) = lists.split_once(';')?;
            let list = |text: &str| {
                text.split(',')
                    .filter(|ip| !ip.is_empty())
                    .map(str::parse)
                    .collect()
            };
            let own: Result<_, _> = list(own);
            let others: Result<_, AddrParseError> = list(others);
            Some(LeaseCommand::Taps(TapTable {
                own: own.ok()?,
                others: others.ok()?,
            }))
        }
        Some(("slice", slice)) => slice.parse().ok().map(LeaseCommand::Slice),
        Some((word, number)) => {
            let number = number.trim().parse().ok()?;
            match word {
                "renew" => Some(LeaseCommand::Renew(Duration::from_millis(number))),
                "allow" => Some(LeaseCommand::Allow(number)),
                "take-back" => Some(LeaseCommand::TakeBack(number)),
                "flush" => Some(LeaseCommand::Flush(number)),
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
            let all = |list: &[&str]| {
                list.iter()
                    .map(|ip| ip.parse().expect("an address"))
                    .collect()
            };
            Some(LeaseCommand::Taps(TapTable {
                own: all(own),
                others: all(others),
            }))
        };
        let renew = |ms| Some(LeaseCommand::Renew(Duration::from_millis(ms)));
        for (line, expected) in [
            ("renew 1500", renew(1500)),
            ("end", Some(LeaseCommand::End)),
            (
                "taps 10.0.0.1;10.0.0.2,::1",
                taps(&["10.0.0.1"], &["10.0.0.2", "::1"]),
            ),
            ("taps ;", taps(&[], &[])),
            ("taps 10.0.0.1", None),
            ("taps x;10.0.0.1", None),
            (
                "slice ports 3 5",
                Some(LeaseCommand::Slice(FlowSlice {
                    level: 3,
                    drawn: 5,
                    ..FlowSlice::default()
                })),
            ),
            ("slice ports 3", None),
            ("allow 12", Some(LeaseCommand::Allow(12))),
            ("take-back 3", Some(LeaseCommand::TakeBack(3))),
            ("flush 4", Some(LeaseCommand::Flush(4))),
            ("take 3", None),
            ("renew", None),
            ("renew x", None),
            ("", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }

    /// Lines received so far, and whether the input is open, with the expected end.
    fn check(lasts: Option<Duration>, said: &[LeaseCommand], is_open: bool, expected: LeaseEnd) {
        let (tell, lines) = mpsc::channel();
        said.iter()
            .for_each(|line| tell.send(line.clone()).expect("it is heard"));
        let tell = is_open.then_some(tell);
        assert_eq!(
            wait(&lines, lasts, &LeaseReceivers::default()),
            expected,
            "{said:?}"
        );
        drop(tell);
    }

    #[test]
    fn leases_end_by_request_expiry_or_a_closed_input() {
        let short = Duration::ZERO;
        let long = Duration::from_secs(3600);
        check(None, &[], false, LeaseEnd::Abandoned);
        check(None, &[LeaseCommand::End], true, LeaseEnd::Asked);
        check(Some(short), &[], true, LeaseEnd::RanOut);
        check(
            Some(long),
            &[LeaseCommand::Renew(long)],
            false,
            LeaseEnd::Abandoned,
        );
        check(
            Some(long),
            &[LeaseCommand::Renew(long), LeaseCommand::Renew(short)],
            true,
            LeaseEnd::RanOut,
        );
    }
}
