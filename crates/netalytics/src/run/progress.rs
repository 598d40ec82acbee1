//! Progress of reading on standard error: a bar on a terminal, otherwise periodic lines.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use monitor::vitals::VitalsReading;
use runner::RunPosition;
use sinks::units;

use crate::cli::flags::ProgressMode as When;
use crate::process::output;

/// Minimum duration of a run before progress is shown, unless requested.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between updates of the bar.
const BAR_EVERY: Duration = Duration::from_millis(100);
/// Interval between updates of a text, which must be readable.
const WORDS_EVERY: Duration = Duration::from_millis(500);
/// Interval between lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);

const KNOWN_SIZE: &str = "{bar:30} {decimal_bytes:>10} of {decimal_total_bytes}  {decimal_bytes_per_sec:>12}  {eta} left";
const UNKNOWN_SIZE: &str = "{spinner} {decimal_bytes:>10}  {decimal_bytes_per_sec:>12}  {elapsed}";
const CAPTURED: &str = "captured {msg}  {elapsed}";

/// Display of progress.
pub struct ReadProgress {
    shown: ProgressDisplay,
    next: Instant,
}

enum ProgressDisplay {
    Nothing,
    Bar(ProgressBar),
    Lines,
}

impl ReadProgress {
    /// A display controlled by `when`.
    pub fn new(when: When) -> ReadProgress {
        let terminal = io::stderr().is_terminal();
        let shown = match when {
            When::Never => ProgressDisplay::Nothing,
            When::Auto if !terminal => ProgressDisplay::Nothing,
            When::Always if !terminal => ProgressDisplay::Lines,
            _ => ProgressDisplay::Bar(ProgressBar::with_draw_target(
                None,
                ProgressDrawTarget::hidden(),
            )),
        };
        let wait = if when == When::Always {
            Duration::ZERO
        } else {
            PATIENCE
        };
        ReadProgress {
            shown,
            next: Instant::now() + wait,
        }
    }

    /// Must be called regularly; `position` returns the current position.
    pub fn tick(&mut self, position: impl FnOnce() -> RunPosition) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        let position = position();
        match &self.shown {
            ProgressDisplay::Nothing => {}
            ProgressDisplay::Bar(bar) => {
                draw(bar, position);
                self.next = now
                    + if matches!(position, RunPosition::Captured(_)) {
                        WORDS_EVERY
                    } else {
                        BAR_EVERY
                    };
            }
            ProgressDisplay::Lines => {
                output::complain(&line(position));
                self.next = now + LINE_EVERY;
            }
        }
    }

    /// Runs `write`, which writes to the terminal, with the bar hidden.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.shown {
            ProgressDisplay::Bar(bar) => bar.suspend(write),
            _ => write(),
        }
    }

    /// Removes the bar, or with `always` and no terminal, prints the last line.
    pub fn finish(&self, position: RunPosition) {
        match &self.shown {
            ProgressDisplay::Nothing => {}
            ProgressDisplay::Bar(bar) => bar.finish_and_clear(),
            ProgressDisplay::Lines => output::complain(&line(position)),
        }
    }
}

fn draw(bar: &ProgressBar, position: RunPosition) {
    if bar.is_hidden() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
        let template = match position {
            RunPosition::Read(_, Some(_)) => KNOWN_SIZE,
            RunPosition::Read(_, None) => UNKNOWN_SIZE,
            RunPosition::Captured(_) => CAPTURED,
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
    }
    match position {
        RunPosition::Read(bytes, total) => {
            total.into_iter().for_each(|total| bar.set_length(total));
            bar.set_position(bytes);
        }
        RunPosition::Captured(reading) => bar.set_message(captured(&reading)),
    }
}

/// `read 500 B of 2.0 kB (25 %)`.
pub fn line(position: RunPosition) -> String {
    match position {
        RunPosition::Read(bytes, Some(total)) if total > 0 => {
            let share = 100 * u128::from(bytes) / u128::from(total);
            format!("read {} of {} ({share} %)", read(bytes), read(total))
        }
        RunPosition::Read(bytes, _) => format!("read {}", read(bytes)),
        RunPosition::Captured(reading) => format!("captured {}", captured(&reading)),
    }
}

fn read(bytes: u64) -> String {
    units::bytes(bytes as f64)
}

/// `1234 packets, 1.2 MB, 56 tuples, 7 flows, 8 lost`.
fn captured(reading: &VitalsReading) -> String {
    let VitalsReading {
        packets,
        bytes,
        tuples,
        flows,
        lost,
        ..
    } = *reading;
    // Workers after a reader do not know the bytes.
    let bytes = if bytes > 0 {
        format!(", {}", read(bytes))
    } else {
        String::new()
    };
    let lost = if lost > 0 {
        format!(", {lost} lost")
    } else {
        String::new()
    };
    format!("{packets} packets{bytes}, {tuples} tuples, {flows} flows{lost}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let some = VitalsReading {
            packets: 1234,
            bytes: 1_200_000,
            tuples: 56,
            flows: 7,
            ..VitalsReading::default()
        };
        for (position, expected) in [
            (
                RunPosition::Read(500, Some(2000)),
                "read 500 B of 2.0 kB (25 %)",
            ),
            (RunPosition::Read(500, None), "read 500 B"),
            (
                RunPosition::Captured(some),
                "captured 1234 packets, 1.2 MB, 56 tuples, 7 flows",
            ),
            (
                RunPosition::Captured(VitalsReading {
                    lost: 8,
                    bytes: 0,
                    ..some
                }),
                "captured 1234 packets, 56 tuples, 7 flows, 8 lost",
            ),
        ] {
            assert_eq!(line(position), expected);
        }
    }
}
