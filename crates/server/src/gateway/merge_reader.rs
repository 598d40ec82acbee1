//! Reads a job's results from the bus: a thread per job runs the merge and passes rows of completed windows to the
//! gateway. It waits until the rows are stored before it continues, so that after a failure or a restart only missing
//! rows are merged again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender, SyncSender};
use std::time::{Duration, Instant};

use connect::RetryPolicy;
use stream::EngineOutput;

use super::GatewayEvent;
use crate::gateway::merge_backend::{MergeBackend, MergeRequest, MergeStatus, ResultMerge};
use crate::job::{JobEnding, JobId};

/// Interval at which the thread checks for commands.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time limit for the merge of the last results after the end of a job.
const LAST: Duration = Duration::from_secs(300);

/// Command to the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum MergeCommand {
    GoOn,
    /// Agents have stopped publishing: merge the rest and end.
    ComeToTheEnd,
    /// The job was removed: end now.
    Leave,
}

/// Rows passed to the gateway.
pub struct MergedRows {
    pub rows: Vec<EngineOutput>,
    /// Time at which the rows were passed.
    since: Instant,
    /// Signals that the rows are stored.
    kept: SyncSender<()>,
}

/// Message of the thread.
pub enum MergeEvent {
    /// Rows of completed windows.
    Rows(MergedRows),
    /// Current problem; `None`: resolved.
    Trouble(Option<String>),
    /// The merge is complete.
    Over,
}

/// Handle of the thread, owned by the gateway.
pub struct MergeReader {
    wish: Arc<AtomicU8>,
    /// Rows not stored yet.
    pub handed: Option<MergedRows>,
    pub trouble: Option<String>,
    pub is_over: bool,
}

impl MergeReader {
    /// Starts the thread, which sends events. If the system cannot create a thread, it ends immediately.
    pub fn begin(
        job: JobId,
        bus: Arc<dyn MergeBackend>,
        wanted: MergeRequest,
        events: Sender<GatewayEvent>,
    ) -> MergeReader {
        let wish = Arc::new(AtomicU8::new(MergeCommand::GoOn as u8));
        let mut work = MergeThread {
            job,
            bus,
            wanted,
            events,
            wish: wish.clone(),
            last: None,
            told: None,
        };
        let work = move || work.run().unwrap_or(());
        let thread = std::thread::Builder::new()
            .name(format!("job {job}"))
            .spawn(work);
        let trouble = thread
            .err()
            .map(|why| format!("data published by its agents is not merged: {why}"));
        MergeReader {
            wish,
            handed: None,
            is_over: trouble.is_some(),
            trouble,
        }
    }

    /// Ends the reading of an ending job, whose agents have stopped publishing; returns whether everything is read.
    /// `ending`: collects its errors.
    pub fn finish(&self, ending: &mut JobEnding) -> bool {
        self.wish
            .fetch_max(MergeCommand::ComeToTheEnd as u8, Ordering::Relaxed);
        if let (true, Some(trouble)) = (self.is_over, &self.trouble) {
            ending.why = format!("{}; {trouble}", ending.why);
        }
        self.is_over
    }

    /// Signals that the rows passed are stored.
    pub fn kept(&mut self) {
        if let Some(handed) = self.handed.take() {
            let _ = handed.kept.send(());
        }
    }
}

impl Drop for MergeReader {
    fn drop(&mut self) {
        self.wish
            .store(MergeCommand::Leave as u8, Ordering::Relaxed);
    }
}

impl MergedRows {
    /// Time since the rows were passed.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

/// State of the thread.
struct MergeThread {
    job: JobId,
    bus: Arc<dyn MergeBackend>,
    wanted: MergeRequest,
    events: Sender<GatewayEvent>,
    wish: Arc<AtomicU8>,
    /// Deadline for the last results.
    last: Option<Instant>,
    /// Last reported problem.
    told: Option<String>,
}

/// The job was removed.
struct JobRemoved;

impl MergeThread {
    fn run(&mut self) -> Result<(), JobRemoved> {
        loop {
            let why = match self.bus.merge(&self.wanted) {
                Ok(merge) => {
                    self.tell(None)?;
                    self.merge(merge)?
                }
                Err(why) => Some(why),
            };
            let Some(why) = why else { break };
            self.tell(Some(why))?;
            if self.is_late() {
                break;
            }
            self.pause(RetryPolicy::MERGE.delay(0, self.job.0))?;
        }
        if let Err(why) = self.bus.forget(&self.wanted.topics) {
            tracing::warn!("cannot delete the topics of job {}: {why}", self.job);
        }
        self.say(MergeEvent::Over)
    }

    /// Merges until the end; otherwise returns the reason for stopping.
    fn merge(&mut self, mut merge: Box<dyn ResultMerge>) -> Result<Option<String>, JobRemoved> {
        let mut is_ending = false;
        loop {
            if self.wish()? == MergeCommand::ComeToTheEnd && !is_ending {
                match merge.come_to_the_end() {
                    Ok(()) => is_ending = true,
                    Err(why) => self.tell(Some(why))?,
                }
            }
            let mut rows = Vec::new();
            let merged = merge.next(&mut rows);
            if let MergeStatus::Failed(why) = merged {
                return Ok(Some(why));
            }
            if let Some(note) = merge.note() {
                self.tell(Some(note))?;
            }
            if !rows.is_empty() {
                self.hand_over(rows)?;
                // The problem has been resolved.
                self.tell(merge.left_out())?;
            }
            match merged {
                MergeStatus::Over => {
                    self.tell(merge.left_out())?;
                    return Ok(None);
                }
                _ if self.is_late() => {
                    return Ok(Some(
                        "the last published data could not be merged in time".into(),
                    ));
                }
                _ => {}
            }
        }
    }

    /// Last command of the gateway.
    fn wish(&self) -> Result<MergeCommand, JobRemoved> {
        match self.wish.load(Ordering::Relaxed) {
            n if n == MergeCommand::GoOn as u8 => Ok(MergeCommand::GoOn),
            n if n == MergeCommand::ComeToTheEnd as u8 => Ok(MergeCommand::ComeToTheEnd),
            _ => Err(JobRemoved),
        }
    }

    /// Whether the deadline for the last results has passed.
    fn is_late(&mut self) -> bool {
        if self.last.is_none()
            && self
                .wish()
                .is_ok_and(|wish| wish == MergeCommand::ComeToTheEnd)
        {
            self.last = Some(Instant::now() + LAST);
        }
        self.last.is_some_and(|last| Instant::now() >= last)
    }

    /// Reports a problem if it has changed.
    fn tell(&mut self, trouble: Option<String>) -> Result<(), JobRemoved> {
        if self.told == trouble {
            return Ok(());
        }
        self.told.clone_from(&trouble);
        self.say(MergeEvent::Trouble(trouble))
    }

    fn say(&self, said: MergeEvent) -> Result<(), JobRemoved> {
        self.events
            .send(GatewayEvent::Merged(self.job, said))
            .map_err(|_| JobRemoved)
    }

    /// Passes rows and waits until they are stored.
    fn hand_over(&mut self, rows: Vec<EngineOutput>) -> Result<(), JobRemoved> {
        let come = rows
            .iter()
            .map(|output| output.watermark_ns)
            .max()
            .unwrap_or(i64::MIN);
        let pipelines = self.wanted.plan.dataflow.pipelines.len();
        let (at, latest) = self
            .wanted
            .from
            .get_or_insert_with(|| (i64::MIN, vec![None; pipelines]));
        *at = (*at).max(come);
        for (known, start) in rows
            .iter()
            .filter_map(|output| Some((output.pipeline?, start(output)?)))
        {
            latest[known] = latest[known].max(Some(start));
        }
        let (kept, is_kept) = mpsc::sync_channel(1);
        self.say(MergeEvent::Rows(MergedRows {
            rows,
            since: Instant::now(),
            kept,
        }))?;
        loop {
            match is_kept.recv_timeout(LOOK_EVERY) {
                Ok(()) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => drop(self.wish()?),
                Err(RecvTimeoutError::Disconnected) => return Err(JobRemoved),
            }
        }
    }

    fn pause(&self, wait: Duration) -> Result<(), JobRemoved> {
        let until = Instant::now() + wait;
        while Instant::now() < until {
            self.wish()?;
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

/// Start of the last window in these rows.
pub fn start(output: &EngineOutput) -> Option<i64> {
    let starts = output.batch.schema().find("window_start")?;
    output.batch.i64(starts).iter().flatten().max()
}

/// End of the last window in these rows; the maximum if there are no windows.
pub fn end(output: &EngineOutput) -> i64 {
    let ends = output.batch.schema().find("window_end");
    ends.and_then(|id| output.batch.i64(id).iter().flatten().max())
        .unwrap_or(i64::MAX)
}
