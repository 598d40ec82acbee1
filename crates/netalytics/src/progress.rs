//! How far reading has come, on standard error: a bar on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::flags::Progress as When;
use crate::output;

/// A run that is shorter shows nothing, unless asked to.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two updates of the bar.
const BAR_EVERY: Duration = Duration::from_millis(100);
/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);

const KNOWN_SIZE: &str =
    "{bar:30} {decimal_bytes:>10} of {decimal_total_bytes}  {decimal_bytes_per_sec:>12}  {eta} left";
const UNKNOWN_SIZE: &str = "{spinner} {decimal_bytes:>10}  {decimal_bytes_per_sec:>12}  {elapsed}";

/// Shows how far reading has come.
pub struct Progress {
    shown: Shown,
    next: Instant,
}

enum Shown {
    Nothing,
    Bar(ProgressBar),
    Lines,
}

impl Progress {
    /// A display that appears when `when` says so.
    pub fn new(when: When) -> Progress {
        let terminal = io::stderr().is_terminal();
        let shown = match when {
            When::Never => Shown::Nothing,
            When::Auto if !terminal => Shown::Nothing,
            When::Always if !terminal => Shown::Lines,
            _ => Shown::Bar(ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())),
        };
        let wait = if when == When::Always { Duration::ZERO } else { PATIENCE };
        Progress { shown, next: Instant::now() + wait }
    }

    /// Called again and again; `position` asks how far the source is.
    pub fn tick(&mut self, position: impl FnOnce() -> (u64, Option<u64>)) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        let (bytes, total) = position();
        match &self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                draw(bar, bytes, total);
                self.next = now + BAR_EVERY;
            }
            Shown::Lines => {
                output::complain(&line(bytes, total));
                self.next = now + LINE_EVERY;
            }
        }
    }

    /// Lets `write` write to the terminal without the bar in its way.
    pub fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(write),
            _ => write(),
        }
    }

    /// Takes the bar away; of `always` elsewhere, the last line is written.
    pub fn finish(&self, position: (u64, Option<u64>)) {
        match &self.shown {
            Shown::Nothing => {}
            Shown::Bar(bar) => bar.finish_and_clear(),
            Shown::Lines => output::complain(&line(position.0, position.1)),
        }
    }
}

fn draw(bar: &ProgressBar, bytes: u64, total: Option<u64>) {
    if bar.is_hidden() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
        let template = if total.is_some() { KNOWN_SIZE } else { UNKNOWN_SIZE };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
    }
    if let Some(total) = total {
        bar.set_length(total);
    }
    bar.set_position(bytes);
}

fn line(bytes: u64, total: Option<u64>) -> String {
    let read = sinks::units::bytes(bytes as f64);
    match total {
        Some(total) if total > 0 => {
            let share = 100 * u128::from(bytes) / u128::from(total);
            format!("read {read} of {} ({share} %)", sinks::units::bytes(total as f64))
        }
        _ => format!("read {read}"),
    }
}
