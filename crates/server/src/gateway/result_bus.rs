//! Jobs with results published on a bus: merged rows are stored once the agents have reported the same progress to the
//! server. After a timeout, an agent counts as missing in them, as in other jobs.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use collect::{LaneActivity, TakeRows};
use stream::EngineOutput;

use super::GatewayEvent;
use super::fleet::FleetOrder;
use super::job_input::JobInput;
use super::job_runtime::{JobResults, JobRuntime};
use super::merge_backend::{MergeBackend, MergeRequest};
use super::merge_reader::{self, MergeReader};
use super::window_results::ReleasedRows;
use crate::job::fleet_refusal::FleetRefusal;

/// The bus to which agents of some jobs publish.
pub struct ResultBus {
    /// `None` for a server without a bus.
    pub bus: Option<Arc<dyn MergeBackend>>,
    /// Identity of the server's data directory.
    pub server: u64,
    /// Maximum memory of a job's open windows, in bytes.
    pub window_bytes_max: usize,
    /// Receiver of the events of reading threads.
    pub events: Sender<GatewayEvent>,
}

impl ResultBus {
    /// Merge settings of a job, if its agents publish. `from`: position of its published rows.
    pub fn request(
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
        let name = format!("{:016x}-{}", self.server, order.id);
        let request = MergeRequest {
            topics: bus.topics(&order.plan, &name),
            name,
            plan: order.plan.clone(),
            by,
            from,
            window_bytes_max: self.window_bytes_max,
        };
        bus.check(&request).map_err(FleetRefusal::Unable)?;
        Ok(Some(request))
    }

    /// Starts reading the results that the agents of a job publish. Tuples are not read: they stay on the bus.
    pub fn begin_reading(&self, runtime: &mut JobRuntime, request: Option<MergeRequest>) {
        let is_merged = |request: &MergeRequest| !request.plan.dataflow.pipelines.is_empty();
        if let (Some(request), Some(bus)) = (request.filter(is_merged), &self.bus) {
            let bus = bus.clone();
            let events = self.events.clone();
            runtime.input = JobInput::Bus(MergeReader::begin(runtime.id, bus, request, events));
        }
    }
}

impl JobRuntime {
    /// Adds the rows that the reader has passed to the job's, once all working lanes have reported the same progress, or
    /// after `patience`. Returns whether the reader may continue when they are committed.
    pub fn take_ready_rows(&mut self, patience: Duration) -> bool {
        let handed = self
            .input
            .reader()
            .and_then(|reading| reading.handed.as_ref());
        let Some(handed) = handed else {
            return false;
        };
        if !handed.rows.is_empty() {
            if handed.age() < patience && !self.have_come(&handed.rows) {
                return false;
            }
            self.take_merged();
        }
        true
    }

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
