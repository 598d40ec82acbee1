//! A query at work whose results are wanted by another process: what its workers find is put together and said in frames, as
//! reports that a collector takes there.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use capture::live::Stop;
use collect::{Frame, Lanes, Part, Report, TAKEN, TakeRows, WAITING};
use monitor::allowance::{Allowance, TakenBack};
use monitor::job::{Config, Windows};
use monitor::vitals::Reading;
use monitor::{Input, Job, Step};
use plan::Plan;
use stream::{Loss, Output, Partials, Stretch};
use wire::Timestamp;

use crate::summary::Summary;

/// So much of rows is said at once.
const PART_BYTES: usize = 256 << 10;
/// Between two looks at whether to stop.
const PATIENCE: Duration = Duration::from_millis(50);
/// How often counters are told.
const ACCOUNT_EVERY: Duration = Duration::from_secs(1);
/// How often, in event time, it is said what there is of windows that are still open: so much is lost with the process.
const OPEN_EVERY_NS: i64 = 5_000_000_000;

/// See the module's text.
pub struct Relay<'w> {
    job: Box<Job>,
    out: Outgoing<'w>,
    started: Instant,
    counted: Instant,
    /// Of a limit of packets of several processes.
    allowance: Option<Allowance>,
    /// What was said of it last: packets that were taken, and whether there are others that may not be.
    taken: (u64, bool),
}

/// What is not said yet, and where it goes.
struct Outgoing<'w> {
    out: &'w mut dyn Write,
    part: Part,
    /// What the last report said of event time, and of what packets seem to lack.
    watermark: Timestamp,
    loss: Loss,
    rows: u64,
    /// What went wrong with `out`; it gets nothing more then.
    failed: Option<io::Error>,
}

impl<'w> Relay<'w> {
    /// Starts the threads, and says so.
    ///
    /// # Errors
    /// When the system gives no more threads, and those of `out`.
    pub fn start(
        plan: &Plan,
        config: &Config,
        input: Input,
        out: &'w mut dyn Write,
    ) -> io::Result<Relay<'w>> {
        let started = Instant::now();
        let config = Config { windows: Windows::HandedOn { open_every_ns: OPEN_EVERY_NS }, ..config.clone() };
        let job = Box::new(Job::start(plan, &config, input)?);
        let (watermark, loss) = (Timestamp::MIN, Loss::default());
        let mut out = Outgoing { out, part: Part::default(), watermark, loss, rows: 0, failed: None };
        out.say(&Frame::Started);
        out.flush();
        let allowance = config.allowance.clone();
        Ok(Relay { job, out, started, counted: started, allowance, taken: (0, false) })
    }

    /// Says all until the input has ended, or `stop` is asked for where the source does not heed it itself. A reader that is
    /// slow makes the workers wait.
    ///
    /// # Errors
    /// Those of the output.
    pub fn go(&mut self, stop: Option<&Stop>) -> io::Result<()> {
        loop {
            if stop.is_some_and(Stop::is_asked) {
                self.job.stop();
            }
            let step = self.job.next_parts(PATIENCE, &mut self.out);
            self.report(step);
            self.account(step);
            match self.out.failed.take() {
                Some(error) => return Err(error),
                None if step == Step::Done => return Ok(()),
                None => {}
            }
        }
    }

    /// Ends it and says how it went; `cut_short`: why it did not go on.
    ///
    /// # Errors
    /// Those of the output.
    pub fn end(mut self, plan: &Plan, cut_short: Option<String>) -> io::Result<Summary> {
        let (rows, elapsed) = (self.out.rows, self.started.elapsed());
        let summary = Summary { rows, cut_short, ..Summary::of(plan, self.job.end(), elapsed) };
        let closing = Frame::Closing { cut_short: summary.cut_short.clone(), summary: summary.json() };
        self.out.say(&closing);
        self.out.flush();
        self.out.failed.map_or(Ok(summary), Err)
    }

    /// Says how much was counted, when it is time. Who deals the packets of a LIMIT hears soon what was taken of them.
    fn account(&mut self, step: Step) {
        let taken = self.allowance.as_ref().map(|of| (of.taken(), of.is_waited_for()));
        let every = if taken.is_some_and(|taken| taken != self.taken) { PATIENCE } else { ACCOUNT_EVERY };
        if self.counted.elapsed() >= every || step == Step::Done {
            self.counted = Instant::now();
            self.taken = taken.unwrap_or_default();
            let mut counts = counts(&self.job.readings());
            let said = taken.map(|(n, waits)| [(TAKEN.to_owned(), n), (WAITING.to_owned(), waits.into())]);
            counts.extend(said.into_iter().flatten());
            self.out.say(&Frame::Account(counts));
            self.out.flush();
        }
        let taken_back = self.allowance.as_ref().and_then(Allowance::taken_back);
        if let Some(TakenBack { grant, taken }) = taken_back {
            self.out.say(&Frame::TookBack { grant, taken });
            self.out.flush();
        }
    }

    /// Says what was found up to where the job has come, if that is anything.
    fn report(&mut self, step: Step) {
        let (watermark, lost) = (self.job.watermark(), self.job.take_lost());
        let is_news = watermark > self.out.watermark || lost.is_some() || !self.out.part.is_empty();
        if is_news || step == Step::Done {
            (self.out.watermark, self.out.loss) = (watermark, self.job.capture_loss());
            self.out.say_part(lost);
            self.out.flush();
        }
    }
}

impl TakeRows for Outgoing<'_> {
    fn take(&mut self, output: Output, _: &Lanes) {
        self.rows += output.batch.rows() as u64;
        self.part.add_rows(output.batch);
        if self.part.bytes >= PART_BYTES {
            self.say_part(None);
        }
    }

    fn hand_on(&mut self, windows: Partials) {
        self.part.add_windows(windows);
    }
}

impl Outgoing<'_> {
    /// Says what was found by now.
    fn say_part(&mut self, lost: Option<Stretch>) {
        let part = std::mem::take(&mut self.part);
        let Outgoing { watermark, loss, .. } = *self;
        let report = Report { epoch: 0, watermark, part, loss, lost, open: None };
        self.say(&Frame::Report(report.encode()));
    }

    fn say(&mut self, frame: &Frame) {
        if self.failed.is_none() {
            self.failed = frame.write(self.out).err();
        }
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
    }
}

/// The share of flows that is looked at, in millionths: of the worker that looks at the fewest.
fn sample_ppm(readings: &[Reading]) -> u64 {
    let least = readings.iter().map(|reading| reading.sample_rate).fold(1.0, f64::min);
    (least * 1e6).round() as u64
}

/// The workers' counters, all together.
fn counts(readings: &[Reading]) -> Vec<(String, u64)> {
    let sum = |name: &str, of: fn(&Reading) -> u64| (name.to_owned(), readings.iter().map(of).sum());
    vec![
        sum("packets", |reading| reading.packets),
        sum("bytes", |reading| reading.bytes),
        sum("tuples", |reading| reading.tuples),
        sum("flows", |reading| reading.flows),
        sum("gaps", |reading| reading.gaps),
        sum("lost", |reading| reading.lost),
        ("sample_ppm".to_owned(), sample_ppm(readings)),
    ]
}
