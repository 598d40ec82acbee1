//! One outlet of one job: a thread that reads the job's committed rows, delivers them, and stores its position. A row
//! is delivered when the receiver has acknowledged it. The range of rows is stored before the attempt, so that after a
//! crash the same messages are sent again with the same identifiers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outlets::{Attempt, Backoff, Carrier, Parcel};
use plan::Plan;

use super::heads::heads;
use super::pages;
use crate::bell::{Bell, Woken};
use crate::history::History;
use crate::job::{JobId, State};
use crate::store::{KeptResult, Position, Store, StoreError};
use crate::unkept::Unkept;

/// Polling interval without a wakeup.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Delay after a failure of the local store.
const PAUSE: Duration = Duration::from_secs(5);

/// State of an outlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// All available rows were acknowledged.
    Up,
    /// The receiver does not accept rows; retrying.
    Retrying,
    /// The address cannot be used: a file that it names is missing.
    Broken,
}

/// State shown to users in addition to the store's.
#[derive(Clone, Debug)]
pub struct Said {
    /// State.
    pub condition: Condition,
    /// Last error.
    pub problem: Option<String>,
}

/// See the module documentation.
pub struct Line {
    /// The job.
    pub job: JobId,
    /// Index among the job's outlets.
    pub place: usize,
    /// Wakes the thread.
    pub bell: Arc<Bell>,
    /// Attempts beyond the first.
    pub retries: AtomicU64,
    said: Mutex<Said>,
}

/// Resources of an outlet.
pub struct Work {
    /// Store of positions and results.
    pub store: Arc<Store>,
    /// Stored rows.
    pub history: Arc<History>,
    /// Plan of the job.
    pub plan: Arc<Plan>,
    /// Maximum number of waiting rows.
    pub backlog_max: i64,
    /// Connects to the receiver; called again after a failure.
    pub prepare: Box<dyn Fn() -> Result<Carrier, String> + Send>,
}

/// The server ends.
struct Ended;

/// Reason to stop.
enum Stop {
    Ended,
    Failed(Unkept),
}

impl From<Ended> for Stop {
    fn from(_: Ended) -> Stop {
        Stop::Ended
    }
}

impl From<Unkept> for Stop {
    fn from(error: Unkept) -> Stop {
        Stop::Failed(error)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Stop {
        Stop::Failed(error.into())
    }
}

impl Line {
    /// An outlet of a job.
    pub fn new(job: JobId, place: usize) -> Line {
        let said = Said { condition: Condition::Up, problem: None };
        Line { job, place, bell: Arc::default(), retries: AtomicU64::new(0), said: Mutex::new(said) }
    }

    /// Current state.
    pub fn said(&self) -> Said {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn say(&self, condition: Condition, problem: Option<String>) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.condition = condition;
        // The last error remains visible after recovery.
        if problem.is_some() {
            said.problem = problem;
        }
    }

    /// Delivers until the job has ended and everything is delivered, or the server ends.
    pub fn run(&self, work: &Work) {
        let carrier = loop {
            match (work.prepare)() {
                Ok(carrier) => break carrier,
                Err(why) => {
                    self.say(Condition::Broken, Some(why));
                    if self.bell.pause(LOOK_EVERY) == Woken::Over {
                        return;
                    }
                }
            }
        };
        self.say(Condition::Up, None);
        let mut hands = Hands { line: self, work, carrier, announced: 0 };
        loop {
            let wait = match hands.deliver_all() {
                Ok(Left::Nothing) => return,
                Ok(Left::More) => LOOK_EVERY,
                Err(Stop::Ended) => return,
                Err(Stop::Failed(error)) => {
                    tracing::warn!("rows of job {} are not delivered: {error}", self.job);
                    PAUSE
                }
            };
            if self.bell.wait(wait) == Woken::Over {
                return;
            }
        }
    }
}

/// Whether more rows may follow.
enum Left {
    Nothing,
    More,
}

/// A running outlet.
struct Hands<'l> {
    line: &'l Line,
    work: &'l Work,
    carrier: Carrier,
    /// Number of results announced to the other program.
    announced: usize,
}

impl Hands<'_> {
    fn key(&self) -> (JobId, usize) {
        (self.line.job, self.line.place)
    }

    /// Delivers all available rows.
    fn deliver_all(&mut self) -> Result<Left, Stop> {
        let store = &self.work.store;
        // Read before the rows: a job that has ended by now adds none.
        let state = store.job(self.line.job)?.map(|job| job.state);
        let results = store.results(self.line.job)?;
        if results.len() > self.announced {
            self.carrier.announce(&heads(&self.work.plan, &results));
            self.announced = results.len();
        }
        for result in &results {
            while self.deliver_some(result)? {}
        }
        match state {
            Some(State::Ended(_)) | None => {
                self.write(|store, key| store.finish_outlet(key))?;
                Ok(Left::Nothing)
            }
            Some(_) => Ok(Left::More),
        }
    }

    fn write(&self, act: impl FnOnce(&Store, (JobId, usize)) -> Result<(), StoreError>) -> Result<(), Stop> {
        let written = self.line.bell.write(|| act(&self.work.store, self.key()));
        Ok(written.ok_or(Ended)??)
    }

    /// Delivers some rows of a result; returns whether there were any.
    fn deliver_some(&mut self, result: &KeptResult) -> Result<bool, Stop> {
        let place = result.place;
        let mut at = self.work.store.position(self.key(), place)?;
        let behind = result.next_row - at.next_row;
        if behind <= 0 {
            return Ok(false);
        }
        if behind > self.work.backlog_max {
            let skipped = behind - self.work.backlog_max;
            at.sums.backlog += skipped;
            at.next_row += skipped;
        }
        let tried = Some(at.until_row).filter(|until| *until > at.next_row);
        let rows = pages::read(&self.work.history, (self.line.job, result), at.next_row, tried)?;
        at.sums.gone += rows.end - at.next_row - rows.count() as i64;
        let first = rows.end - rows.count() as i64;
        at.until_row = rows.end;
        self.note(place, &at)?;
        // Unique: no other message of this outlet starts at the same row.
        let number = ((place as u64) << 48) | first.unsigned_abs();
        for parcel in self.carrier.pack(place, &rows.batches, number) {
            let refused = self.deliver(&parcel)?;
            at.sums.delivered += (parcel.rows() - refused).cast_signed();
            at.sums.refused += refused.cast_signed();
        }
        at.next_row = rows.end;
        self.note(place, &at)?;
        Ok(true)
    }

    fn note(&self, result: usize, at: &Position) -> Result<(), Stop> {
        self.write(|store, key| store.set_position(key, result, at))
    }

    /// Sends a message until it is acknowledged or rejected; returns the number of rejected rows.
    fn deliver(&mut self, parcel: &Parcel) -> Result<u64, Ended> {
        let line = self.line;
        let mut waits = Backoff::new(line.job.0.unsigned_abs().rotate_left(32) ^ line.place as u64);
        loop {
            match self.carrier.attempt(parcel) {
                Attempt::Taken => {
                    line.say(Condition::Up, None);
                    return Ok(0);
                }
                Attempt::Refused(rows, why) => {
                    line.say(Condition::Up, Some(why));
                    return Ok(rows);
                }
                Attempt::Failed(why) => line.say(Condition::Retrying, Some(why)),
            }
            line.retries.fetch_add(1, Relaxed);
            if line.bell.pause(waits.next().unwrap_or(LOOK_EVERY)) == Woken::Over {
                return Err(Ended);
            }
        }
    }
}
