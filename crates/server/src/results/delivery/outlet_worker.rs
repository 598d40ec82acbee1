//! One outlet of one job: a thread that reads the job's committed rows, delivers them, and stores its position. A row
//! is delivered when the receiver has acknowledged it. The range of rows is stored before the attempt, so that after a
//! crash the same messages are sent again with the same identifiers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use connect::RetryPolicy;
use outlets::{DeliveryAttempt, DirectOutlet, PreparedMessage};
use plan::Plan;

use super::pages;
use super::result_heads::heads;
use crate::job::{JobId, JobState};
use crate::results::notifier::{DeliveryNotifier, DeliveryWakeup};
use crate::store::history::RowHistory;
use crate::store::persist_error::PersistError;
use crate::store::sqlite::{
    DeliveryPosition, DeliveryStore, JobStore, KeptResult, ResultStore, StoreError,
};

/// Polling interval without a wakeup.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// State of an outlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutletCondition {
    /// All available rows were acknowledged.
    Up,
    /// The receiver does not accept rows; retrying.
    Retrying,
    /// The address cannot be used: a file that it names is missing.
    Broken,
}

/// State shown to users in addition to the store's.
#[derive(Clone, Debug)]
pub struct OutletStatus {
    /// State.
    pub condition: OutletCondition,
    /// Last error.
    pub problem: Option<String>,
}

/// See the module documentation.
pub struct OutletWorker {
    /// The job.
    pub job: JobId,
    /// Index among the job's outlets.
    pub place: usize,
    /// Wakes the thread.
    pub bell: Arc<DeliveryNotifier>,
    /// Attempts beyond the first.
    pub retries: AtomicU64,
    said: Mutex<OutletStatus>,
}

/// Resources of an outlet.
pub struct OutletContext {
    /// Positions.
    pub store: DeliveryStore,
    /// Jobs.
    pub jobs: JobStore,
    /// Results.
    pub results: ResultStore,
    /// Stored rows.
    pub history: Arc<RowHistory>,
    /// Plan of the job.
    pub plan: Arc<Plan>,
    /// Maximum number of waiting rows.
    pub backlog_max: i64,
    /// Connects to the receiver; called again after a failure.
    pub prepare: Box<dyn Fn() -> Result<DirectOutlet, String> + Send>,
}

/// The server ends.
struct ServerStopping;

/// Reason to stop.
enum DeliveryStop {
    Ended,
    Failed(PersistError),
}

impl From<ServerStopping> for DeliveryStop {
    fn from(_: ServerStopping) -> DeliveryStop {
        DeliveryStop::Ended
    }
}

impl From<PersistError> for DeliveryStop {
    fn from(error: PersistError) -> DeliveryStop {
        DeliveryStop::Failed(error)
    }
}

impl From<StoreError> for DeliveryStop {
    fn from(error: StoreError) -> DeliveryStop {
        DeliveryStop::Failed(error.into())
    }
}

impl OutletWorker {
    /// An outlet of a job.
    pub fn new(job: JobId, place: usize) -> OutletWorker {
        let said = OutletStatus {
            condition: OutletCondition::Up,
            problem: None,
        };
        OutletWorker {
            job,
            place,
            bell: Arc::default(),
            retries: AtomicU64::new(0),
            said: Mutex::new(said),
        }
    }

    /// Current state.
    pub fn said(&self) -> OutletStatus {
        self.said
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn say(&self, condition: OutletCondition, problem: Option<String>) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.condition = condition;
        // The last error remains visible after recovery.
        if problem.is_some() {
            said.problem = problem;
        }
    }

    /// Delivers until the job has ended and everything is delivered, or the server ends.
    pub fn run(&self, work: &OutletContext) {
        let carrier = loop {
            match (work.prepare)() {
                Ok(carrier) => break carrier,
                Err(why) => {
                    self.say(OutletCondition::Broken, Some(why));
                    if self.bell.pause(LOOK_EVERY) == DeliveryWakeup::Over {
                        return;
                    }
                }
            }
        };
        self.say(OutletCondition::Up, None);
        let mut hands = DeliveryRun {
            line: self,
            work,
            carrier,
            announced: 0,
        };
        loop {
            let wait = match hands.deliver_all() {
                Ok(RemainingRows::Nothing) => return,
                Ok(RemainingRows::More) => LOOK_EVERY,
                Err(DeliveryStop::Ended) => return,
                Err(DeliveryStop::Failed(error)) => {
                    tracing::warn!("cannot deliver rows of job {}: {error}", self.job);
                    RetryPolicy::STORE.delay(0, self.job.0)
                }
            };
            if self.bell.wait(wait) == DeliveryWakeup::Over {
                return;
            }
        }
    }
}

/// Whether more rows may follow.
enum RemainingRows {
    Nothing,
    More,
}

/// A running outlet.
struct DeliveryRun<'l> {
    line: &'l OutletWorker,
    work: &'l OutletContext,
    carrier: DirectOutlet,
    /// Number of results announced to the other program.
    announced: usize,
}

impl DeliveryRun<'_> {
    fn key(&self) -> (JobId, usize) {
        (self.line.job, self.line.place)
    }

    /// Delivers all available rows.
    fn deliver_all(&mut self) -> Result<RemainingRows, DeliveryStop> {
        // Read before the rows: a job that has ended by now adds none.
        let state = self.work.jobs.get(self.line.job)?.map(|job| job.state);
        let results = self.work.results.of_job(self.line.job)?;
        if results.len() > self.announced {
            self.carrier.announce(&heads(&self.work.plan, &results));
            self.announced = results.len();
        }
        for result in &results {
            while self.deliver_some(result)? {}
        }
        match state {
            Some(JobState::Ended(_)) | None => {
                self.write(|store, key| store.finish(key))?;
                Ok(RemainingRows::Nothing)
            }
            Some(_) => Ok(RemainingRows::More),
        }
    }

    fn write(
        &self,
        act: impl FnOnce(&DeliveryStore, (JobId, usize)) -> Result<(), StoreError>,
    ) -> Result<(), DeliveryStop> {
        let written = self.line.bell.write(|| act(&self.work.store, self.key()));
        Ok(written.ok_or(ServerStopping)??)
    }

    /// Delivers some rows of a result; returns whether there were any.
    fn deliver_some(&mut self, result: &KeptResult) -> Result<bool, DeliveryStop> {
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
        let rows = pages::read(
            &self.work.history,
            (self.line.job, result),
            at.next_row,
            tried,
        )?;
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

    fn note(&self, result: usize, at: &DeliveryPosition) -> Result<(), DeliveryStop> {
        self.write(|store, key| store.set_position(key, result, at))
    }

    /// Sends a message until it is acknowledged or rejected; returns the number of rejected rows.
    fn deliver(&mut self, parcel: &PreparedMessage) -> Result<u64, ServerStopping> {
        let line = self.line;
        let seed = line.job.0.rotate_left(32) ^ line.place as u64;
        let mut waits = RetryPolicy::RECEIVER.delays(seed);
        loop {
            match self.carrier.attempt(parcel) {
                DeliveryAttempt::Taken => {
                    line.say(OutletCondition::Up, None);
                    return Ok(0);
                }
                DeliveryAttempt::Refused(rows, why) => {
                    line.say(OutletCondition::Up, Some(why));
                    return Ok(rows);
                }
                DeliveryAttempt::Failed(why) => line.say(OutletCondition::Retrying, Some(why)),
            }
            line.retries.fetch_add(1, Relaxed);
            if line.bell.pause(waits.next_delay()) == DeliveryWakeup::Over {
                return Err(ServerStopping);
            }
        }
    }
}
