//! A fleet in this process: each job is a run over a capture on its own thread, or is controlled by the test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use capture::live;
use monitor::JobInput;
use monitor::job::JobConfig;
use plan::Plan;
use runner::QueryRun;
use server::{
    AgentCoverage, AgentView, Fleet, FleetOrder, FleetRefusal, JobId, JobState, NetworkHost,
    NetworkRule, NetworkSwitch, NetworkView, ResultDelivery, ResultHub, ResultTable, StopCause,
    WindowState,
};
use sinks::Sink;
use stream::{ServerTap, TapSightings};
use tuple::Batch;

use crate::gateway::tuples;

/// Treatment of jobs.
#[derive(Clone)]
pub enum Way {
    /// Jobs are rejected.
    Refuse(FleetRefusal),
    /// Runs them over a capture.
    Replay(PathBuf),
    /// Runs them over a capture near the clients, and one near the servers.
    TwoTaps(PathBuf, PathBuf),
    /// Jobs are noted; the test reports their progress.
    Note,
}

/// See the module documentation.
pub struct TestFleet {
    way: Way,
    hub: OnceLock<Arc<ResultHub>>,
    stops: Mutex<BTreeMap<JobId, live::StopSignal>>,
    /// Orders received.
    pub orders: Mutex<Vec<FleetOrder>>,
    /// Jobs with a stop request.
    pub stopped: Mutex<Vec<JobId>>,
    panicked: Arc<AtomicBool>,
}

impl TestFleet {
    pub fn new(way: Way) -> Arc<TestFleet> {
        Arc::new(TestFleet {
            way,
            hub: OnceLock::new(),
            stops: Mutex::default(),
            orders: Mutex::default(),
            stopped: Mutex::default(),
            panicked: Arc::default(),
        })
    }

    /// Uses the capture of the shop.
    pub fn shop() -> Arc<TestFleet> {
        TestFleet::new(Way::Replay(shop("in.pcap")))
    }

    /// Sets the receiver of results, before the first job.
    pub fn attach(&self, hub: &Arc<ResultHub>) {
        assert!(self.hub.set(hub.clone()).is_ok(), "a fleet has one hub");
    }

    pub fn hub(&self) -> &Arc<ResultHub> {
        self.hub.get().expect("the fleet has a hub")
    }

    pub fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::Relaxed)
    }
}

/// A file of the capture of the shop.
pub fn shop(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../captures/shop")
        .join(name)
}

impl Fleet for TestFleet {
    fn agents(&self) -> Vec<AgentView> {
        if let Way::Refuse(_) = self.way {
            return Vec::new();
        }
        vec![AgentView {
            name: "here".into(),
            labels: [("role".to_owned(), "test".to_owned())].into(),
            connected: true,
            version: "0.1.0".into(),
            interfaces: vec!["lo".into()],
            cores: 2,
            memory_bytes: 1 << 30,
            capabilities: vec!["af_packet".into()],
            addresses: vec!["10.0.0.1".into()],
            addresses_shared: Vec::new(),
            packets_per_second: Some(1500),
            jobs: self
                .orders
                .lock()
                .expect("orders")
                .iter()
                .map(|order| order.id)
                .collect(),
            clock_offset_ns: Some(-1_500),
            last_seen_ns: Some(1_795_291_157_229_334_000),
        }]
    }

    fn network(&self) -> NetworkView {
        let name = |name: &str| name.to_owned();
        let rule = NetworkRule {
            job: Some(JobId(1)),
            cookie: name("0x6e61000000010100"),
            table: 0,
            priority: 40_000,
            matches: name("tcp,nw_dst=10.0.1.2,tp_dst=80"),
            actions: name("output:9,NORMAL"),
            lease_seconds: 10,
        };
        let switch = NetworkSwitch {
            name: name("leaf1"),
            tier: name("edge"),
            reached: Some(name("ovsdb")),
            agent: None,
            rules: vec![rule],
            mirrors: Vec::new(),
        };
        let host = NetworkHost {
            name: name("spare1"),
            addresses: Vec::new(),
            switch: name("leaf1"),
            port: 9,
            spare: true,
            agent: Some(name("here")),
        };
        NetworkView {
            is_known: true,
            switches: vec![switch],
            hosts: vec![host],
            ..NetworkView::default()
        }
    }

    fn start(&self, order: &FleetOrder) -> Result<(), FleetRefusal> {
        if let Way::Refuse(why) = &self.way {
            return Err(why.clone());
        }
        self.orders.lock().expect("orders").push(order.clone());
        let (capture, config) = match &self.way {
            Way::Replay(capture) => (capture.clone(), JobConfig::default()),
            Way::TwoTaps(clients, servers) => {
                let mut config = JobConfig::default();
                config.stream.server_tap = Some(server_tap(&order.plan, servers));
                (clients.clone(), config)
            }
            Way::Refuse(_) | Way::Note => return Ok(()),
        };
        let hub = self.hub().clone();
        let order = order.clone();
        let stop = live::StopSignal::default();
        self.stops
            .lock()
            .expect("stops")
            .insert(order.id, stop.clone());
        let panicked = self.panicked.clone();
        std::thread::spawn(move || {
            let run = std::panic::AssertUnwindSafe(|| run(&hub, &order, (capture, &config), &stop));
            panicked.fetch_or(std::panic::catch_unwind(run).is_err(), Ordering::Relaxed);
        });
        Ok(())
    }

    fn stop(&self, job: JobId, _: StopCause) {
        self.stopped.lock().expect("stopped").push(job);
        if let Some(stop) = self.stops.lock().expect("stops").get(&job) {
            stop.stop();
        }
    }
}

/// Measurements of the tap near the servers.
fn server_tap(plan: &Plan, capture: &Path) -> ServerTap {
    let mut seen = TapSightings::new(1 << 20);
    let both = planner::both_taps(plan)
        .expect("agents can be asked")
        .expect("it asks for both");
    let mut plan = (*both.agents).clone();
    plan.dataflow.filter = None;
    tuples(&plan, capture, None)
        .iter()
        .for_each(|batch| seen.add(batch));
    seen.done()
}

fn run(
    hub: &ResultHub,
    order: &FleetOrder,
    (capture, config): (PathBuf, &JobConfig),
    stop: &live::StopSignal,
) {
    hub.turn(order.id, JobState::Arming, None)
        .expect("it is noted");
    let input = JobInput::Shared(capture::open_until(&[capture], stop), 1);
    let mut run = QueryRun::start(&order.plan, config, input).expect("threads");
    let heads = run.heads(&order.plan);
    let tables = run
        .tables(&order.plan)
        .into_iter()
        .zip(heads)
        .map(|(table, head)| ResultTable {
            processor: head.processor,
            schema: table.schema,
            columns: table.columns,
            keys: head.keys,
        });
    hub.open(order.id, &tables.collect::<Vec<_>>())
        .expect("the columns are noted");
    hub.turn(order.id, JobState::Running, None)
        .expect("it is noted");
    let mut sink = ToHub {
        hub,
        job: order.id,
        watermark_ns: 0,
    };
    run.go(&mut sink, &mut ()).expect("rows are kept");
    hub.turn(order.id, JobState::Ended("the capture's end".into()), None)
        .expect("it is noted");
}

/// Publishes the rows of a run.
struct ToHub<'h> {
    hub: &'h ResultHub,
    job: JobId,
    watermark_ns: i64,
}

impl Sink for ToHub<'_> {
    fn write(&mut self, result: usize, batch: &Batch) -> std::io::Result<()> {
        let delivery = ResultDelivery {
            job: self.job,
            result,
            batch,
            state: WindowState::Closed,
            watermark_ns: self.watermark_ns,
            coverage: &AgentCoverage::default(),
        };
        self.hub.publish(&delivery).map_err(std::io::Error::other)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    fn advance(&mut self, watermark_ns: i64) -> std::io::Result<()> {
        self.watermark_ns = watermark_ns;
        Ok(())
    }
}
