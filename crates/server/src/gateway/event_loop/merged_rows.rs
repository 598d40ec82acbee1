//! Jobs with results published on a bus: merged rows are stored once the agents have reported the same progress to the
//! server. After a timeout, an agent counts as missing in them, as in other jobs.

use std::time::Duration;

use collect::{LaneActivity, TakeRows};
use plan::Plan;
use stream::EngineOutput;

use super::EventLoop;
use crate::gateway::fleet::FleetOrder;
use crate::gateway::job_input::JobInput;
use crate::gateway::job_runtime::{JobResults, JobRuntime};
use crate::gateway::merge_backend::MergeRequest;
use crate::gateway::merge_reader::{self, MergeEvent, MergeReader};
use crate::gateway::window_results::ReleasedRows;
use crate::job::fleet_refusal::FleetRefusal;
use crate::job::{JobEnding as JobEnd, JobId};

impl EventLoop {
    /// Merge settings of a job, if its agents publish. `from`: position of its published rows.
    pub fn wanted(
        &self,
        order: &FleetOrder,
        from: Option<(i64, Vec<Option<i64>>)>,
    ) -> Result<Option<MergeRequest>, FleetRefusal> {
        let Some(by) = order.spec.merged_by else {
            return Ok(None);
        };
        let Some(bus) = &self.bus else {
            return Err(FleetRefusal::Unable(
                "this server has no bus: serve --kafka HOST:PORT names one".into(),
            ));
        };
        if planner::both_taps(&order.plan).is_ok_and(|both| both.is_some()) {
            return Err(FleetRefusal::Unable(
                "both taps of a connection (tap.…) are joined at the server: omit the bus".into(),
            ));
        }
        let name = format!("{:016x}-{}", self.identity, order.id);
        let wanted = MergeRequest {
            topics: bus.topics(&order.plan, &name),
            name,
            plan: order.plan.clone(),
            by,
            from,
            window_bytes_max: self.settings.window_bytes_max,
        };
        bus.check(&wanted).map_err(FleetRefusal::Unable)?;
        Ok(Some(wanted))
    }

    /// Starts reading the results that the agents of a job publish. Tuples are not read: they stay on the bus.
    pub fn begin_reading(&mut self, job: JobId, wanted: Option<MergeRequest>) {
        let is_merged = |plan: &Plan| !plan.dataflow.pipelines.is_empty();
        let wanted = wanted.filter(|wanted| is_merged(&wanted.plan));
        let (Some(wanted), Some(bus), Some(work)) = (wanted, &self.bus, self.works.get_mut(&job))
        else {
            return;
        };
        work.input = JobInput::Bus(MergeReader::begin(
            job,
            bus.clone(),
            wanted,
            self.events.clone(),
        ));
    }

    /// Handles a message of the reading thread.
    pub fn hear_merged(&mut self, job: JobId, said: MergeEvent) {
        let Some(reading) = self
            .works
            .get_mut(&job)
            .and_then(|work| work.input.reader_mut())
        else {
            return;
        };
        match said {
            MergeEvent::Rows(handed) => {
                reading.handed = Some(handed);
                self.settle_merged(job);
            }
            MergeEvent::Trouble(why) => {
                reading.trouble = why;
                self.show_state(job);
            }
            MergeEvent::Over => {
                reading.is_over = true;
                self.end_jobs();
            }
        }
    }
}

impl EventLoop {
    /// Stores merged rows for which all working agents have reported progress or timed out.
    pub fn settle_merged(&mut self, job: JobId) {
        let patience = Duration::from_nanos(self.settings.first_report_ns);
        let Some(work) = self.works.get_mut(&job) else {
            return;
        };
        let Some(handed) = work
            .input
            .reader()
            .and_then(|reading| reading.handed.as_ref())
        else {
            return;
        };
        if !handed.rows.is_empty() {
            if handed.age() < patience && !work.have_come(&handed.rows) {
                return;
            }
            work.take_merged();
        }
        if self.publish(job)
            && let Some(reading) = self
                .works
                .get_mut(&job)
                .and_then(|work| work.input.reader_mut())
        {
            reading.kept();
        }
    }

    /// Whether all published results of a job have been read; stores its rows. `end`: collects its errors.
    pub fn is_read(&mut self, job: JobId, end: &mut JobEnd) -> bool {
        let Some(reading) = self.works.get(&job).and_then(|work| work.input.reader()) else {
            return true;
        };
        reading.come_to_the_end();
        if let (true, Some(trouble)) = (reading.is_over, &reading.trouble) {
            end.why = format!("{}; {trouble}", end.why);
        }
        reading.is_over
    }
}

impl JobRuntime {
    /// Whether all working lanes have passed these rows.
    fn have_come(&self, rows: &[EngineOutput]) -> bool {
        let JobResults::Windows(windows) = &self.results else {
            return true;
        };
        let lateness = windows.collector.engine().lateness_ns();
        let over = |output: &EngineOutput| {
            merge_reader::end(output).saturating_add(lateness[output.pipeline.unwrap_or(0)])
        };
        let needed = rows.iter().map(over).max().unwrap_or(i64::MIN);
        let lanes = windows.collector.lanes();
        lanes
            .states()
            .all(|(id, state)| state != LaneActivity::Active || lanes.told(id).0.0 >= needed)
    }

    /// Stores merged rows as the job's.
    fn take_merged(&mut self) {
        let JobResults::Windows(windows) = &self.results else {
            return;
        };
        let Some(handed) = self
            .input
            .reader_mut()
            .and_then(|reading| reading.handed.as_mut())
        else {
            return;
        };
        let mut released = ReleasedRows::default();
        for output in std::mem::take(&mut handed.rows) {
            let come = output.watermark_ns.min(i64::MAX - 1);
            self.progress.watermark_ns = self.progress.watermark_ns.max(come);
            released.take(output, windows.collector.lanes());
        }
        self.add_rows(released);
    }
}
