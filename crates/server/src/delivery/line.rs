//! One outlet of one job at work: a thread that reads the job's committed rows, delivers them, and notes how far it has come. A row counts
//! as delivered when the other side has taken it; what is tried is noted before, so that after a kill the same messages are made again,
//! under the same identifiers.

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

/// How often is looked for rows without having been woken.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// After a failure of our own store.
const PAUSE: Duration = Duration::from_secs(5);

/// How it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// What there was has been taken.
    Up,
    /// The other side does not take it.
    Retrying,
    /// The address cannot be used: a file that it names is gone.
    Broken,
}

/// State shown to users in addition to the store's.
#[derive(Clone, Debug)]
pub struct Said {
    /// How it goes.
    pub condition: Condition,
    /// What failed last.
    pub problem: Option<String>,
}

/// See the module's text.
pub struct Line {
    /// Of which job.
    pub job: JobId,
    /// Its place among the job's outlets.
    pub place: usize,
    /// Wakes it.
    pub bell: Arc<Bell>,
    /// Attempts beyond the first.
    pub retries: AtomicU64,
    said: Mutex<Said>,
}

/// What a line works with.
pub struct Work {
    /// Where its rows are noted.
    pub store: Arc<Store>,
    /// Where they lie.
    pub history: Arc<History>,
    /// The job's.
    pub plan: Arc<Plan>,
    /// Rows that may wait.
    pub backlog_max: i64,
    /// Makes what takes them; again, where that fails.
    pub prepare: Box<dyn Fn() -> Result<Carrier, String> + Send>,
}

/// The server ends.
struct Ended;

/// Why nothing more is done now.
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

    /// How it goes.
    pub fn said(&self) -> Said {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn say(&self, condition: Condition, problem: Option<String>) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.condition = condition;
        // What failed last is of interest also when it goes on.
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

/// Whether more may come.
enum Left {
    Nothing,
    More,
}

/// A line at work.
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

    /// Delivers what there is.
    fn deliver_all(&mut self) -> Result<Left, Stop> {
        let store = &self.work.store;
        // Asked before the rows: there will be no more of a job that has ended by now.
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

    /// Delivers some rows of a result; whether there were any.
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
        // No other message of this outlet has the number of one of these rows.
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

    /// Tries a message until it is taken or refused; how many of its rows were refused.
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
