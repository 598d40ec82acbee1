//! Metrics of the service in the Prometheus format, with names according to OpenTelemetry. The number of series is
//! bounded by the limits of agents, unfinished jobs, routes and outlets.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use outlets::{ExpositionFormat, MetricsPage};

use crate::api::service::Service;
use crate::gateway::fleet::{AgentHealth, FleetHealth, JobHealth};
use crate::job::counters::{GatewayStage, LimitKind, process_cpu, process_memory};
use crate::job::{Job, JobId, JobKind};
use crate::rules::alerts::RuleView;
use crate::store::access::ClientAccess;
use crate::store::service_error::ServiceError;
use crate::store::sqlite::now_ns;

/// Maximum agents with their own series.
const AGENTS_MAX: usize = 1000;

/// Counters of the HTTP layer.
#[derive(Clone, Copy, Debug)]
pub struct RequestCounters {
    /// Time since the start.
    pub uptime: Duration,
    /// Requests rejected by rate limits.
    pub refused: u64,
    /// Times that connections waited for others to end.
    pub waited: u64,
    /// Unauthenticated connections closed to make room for others.
    pub evicted: u64,
    /// Failed TLS handshakes.
    pub handshakes_failed: u64,
}

/// Metrics of the service.
pub fn page(
    service: &Service,
    requests: &RequestCounters,
    form: ExpositionFormat,
) -> Result<MetricsPage, ServiceError> {
    let mut page = MetricsPage::new(form);
    let health = service.jobs.fleet.health();
    let mut jobs = service.store().jobs.unfinished()?;
    of_process(&mut page, requests);
    of_requests(&mut page, service, requests);
    of_records(&mut page, service, &health);
    of_rows(&mut page, service)?;
    of_alerts(&mut page, service)?;
    of_actions(&mut page, service);
    of_agents(&mut page, &health.agents);
    for (state, count) in service.store().jobs.count_by_state()? {
        page.gauge(
            "netalytics_jobs",
            "jobs, by state",
            &[("state", &state)],
            count as f64,
        );
    }
    of_jobs(&mut page, &jobs, &health.jobs);
    service.jobs.deliveries.health(&mut jobs, &mut page)?;
    Ok(page)
}

/// Results of the standing jobs that `who` may see, as metrics; `only`: restricted to these jobs.
pub fn results(
    service: &Service,
    who: &ClientAccess,
    only: Option<&[JobId]>,
    form: ExpositionFormat,
) -> Result<MetricsPage, ServiceError> {
    let mut page = MetricsPage::new(form);
    let mut jobs = service.store().jobs.unfinished()?;
    jobs.retain(|job| job.spec.kind == JobKind::Standing);
    service.shown.keep(&jobs);
    for job in jobs
        .iter()
        .filter(|job| only.is_none_or(|only| only.contains(&job.id)))
    {
        if !service.jobs.may_see(who, job) || service.jobs.may_see_rows(who, job).is_err() {
            continue;
        }
        // Tuples are not metrics.
        let plan = service
            .jobs
            .queries
            .plan_of(job)
            .ok()
            .filter(|plan| !plan.dataflow.pipelines.is_empty());
        if let Some(plan) = plan {
            let from = (&service.store().results, &*service.history);
            service
                .shown
                .add(from, (job, &plan), service.limits().series_max, &mut page)?;
        }
    }
    Ok(page)
}

fn of_process(page: &mut MetricsPage, requests: &RequestCounters) {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.gauge(
        "netalytics_build_info",
        "the program's version",
        &version,
        1.0,
    );
    let uptime = requests.uptime.as_secs_f64();
    page.gauge(
        "netalytics_uptime_seconds",
        "seconds since the start of the server",
        &[],
        uptime,
    );
    let cpu = process_cpu().as_secs_f64();
    page.counter(
        "process_cpu_time_seconds_total",
        "CPU time of the server",
        &[],
        cpu,
    );
    if let Some(bytes) = process_memory() {
        page.gauge(
            "process_memory_usage_bytes",
            "memory in use by the server",
            &[],
            bytes as f64,
        );
    }
}

fn of_requests(page: &mut MetricsPage, service: &Service, requests: &RequestCounters) {
    let meters = &service.hub().meters;
    for ((method, route, status), times) in meters.requests() {
        let status = status.to_string();
        let labels = [
            ("http_request_method", method),
            ("http_route", &route),
            ("http_response_status_code", &status),
        ];
        page.seconds(
            "http_server_request_duration_seconds",
            "requests answered",
            &labels,
            &times,
        );
    }
    let streams = service.hub().streams.load(Relaxed) as f64;
    page.gauge("netalytics_streams", "live streams", &[], streams);
    let mut reached: Vec<_> = LimitKind::ALL
        .iter()
        .map(|(bound, name)| (*name, meters.times_reached(*bound)))
        .collect();
    reached.push(("requests_per_second", requests.refused));
    reached.push(("connections", requests.waited));
    for (limit, times) in reached {
        let help = "number of times that a limit took effect: rejected, truncated, or delayed";
        page.counter(
            "netalytics_limit_reached_total",
            help,
            &[("limit", limit)],
            times as f64,
        );
    }
    for (cause, times) in [
        ("handshake", requests.handshakes_failed),
        ("request", meters.heads_refused.get()),
        ("silent", meters.connections_silent.get()),
        ("evicted", requests.evicted),
        ("agent", meters.links_broken.get()),
    ] {
        let help = "connections closed: no TLS, no HTTP, incomplete within the timeout, no token at the connection limit, or an agent that violates the protocol";
        page.counter(
            "netalytics_connections_cut_total",
            help,
            &[("cause", cause)],
            times as f64,
        );
    }
}

fn of_records(page: &mut MetricsPage, service: &Service, health: &FleetHealth) {
    let meters = &service.hub().meters;
    for (name, help, count) in [
        (
            "netalytics_records_received_total",
            "records received from agents",
            &meters.records_received,
        ),
        (
            "netalytics_received_bytes_total",
            "their bytes",
            &meters.bytes_received,
        ),
        (
            "netalytics_records_committed_total",
            "records written to disk",
            &meters.records_committed,
        ),
        (
            "netalytics_committed_bytes_total",
            "their bytes",
            &meters.bytes_committed,
        ),
        (
            "netalytics_records_acknowledged_total",
            "records acknowledged to agents",
            &meters.records_acknowledged,
        ),
        (
            "netalytics_records_unclaimed_total",
            "records of abandoned jobs",
            &meters.records_unclaimed,
        ),
    ] {
        page.counter(name, help, &[], count.get() as f64);
    }
    let commits = meters.commits.get();
    page.seconds(
        "netalytics_commit_duration_seconds",
        "transactions of records and rows",
        &[],
        &commits,
    );
    let help = "from the arrival of a commit's oldest record until it is on disk";
    page.seconds(
        "netalytics_commit_delay_seconds",
        help,
        &[],
        &meters.commit_delays.get(),
    );
    for (stage, name) in GatewayStage::ALL {
        let help = "CPU time of the gateway, by purpose";
        let spent = meters.cpu(stage).as_secs_f64();
        page.counter(
            "netalytics_gateway_cpu_time_seconds_total",
            help,
            &[("stage", name)],
            spent,
        );
    }
    page.gauge(
        "netalytics_sessions",
        "connections of agents",
        &[],
        health.sessions as f64,
    );
    let waiting = health.waiting_bytes as f64;
    page.gauge(
        "netalytics_waiting_bytes",
        "records received and not yet on disk",
        &[],
        waiting,
    );
    let is_full = f64::from(u8::from(health.rejects_writes));
    page.gauge(
        "netalytics_store_full",
        "1: the store accepts no more data, and agents wait",
        &[],
        is_full,
    );
}

fn of_rows(page: &mut MetricsPage, service: &Service) -> Result<(), ServiceError> {
    let hub = service.hub();
    let kept = service.history.kept()?;
    for (name, help, count) in [
        (
            "netalytics_windows_closed_total",
            "windows whose rows are final",
            hub.meters.windows_closed.get(),
        ),
        (
            "netalytics_rows_kept_total",
            "rows written to disk",
            hub.meters.rows_kept.get(),
        ),
        (
            "netalytics_rows_dropped_total",
            "rows removed by retention since the store was created",
            kept.rows_dropped,
        ),
        (
            "netalytics_rows_unkept_total",
            "rows that could not be stored, counted per attempt",
            hub.meters.rows_unkept.get(),
        ),
        (
            "netalytics_rows_unshown_total",
            "rows omitted from live streams",
            hub.meters.rows_unshown.get(),
        ),
        (
            "netalytics_history_damaged_total",
            "unreadable parts of the history",
            kept.segments_damaged,
        ),
    ] {
        page.counter(name, help, &[], count as f64);
    }
    page.gauge(
        "netalytics_history_bytes",
        "the history's files",
        &[],
        kept.bytes as f64,
    );
    let bytes = service.store().database.bytes()?;
    page.gauge(
        "netalytics_store_bytes",
        "the store's file",
        &[],
        bytes as f64,
    );
    Ok(())
}

fn of_alerts(page: &mut MetricsPage, service: &Service) -> Result<(), ServiceError> {
    let alerts = &service.rules.alerts;
    let rules = service.rules.alerts.rules();
    let sum = |of: fn(&RuleView) -> usize| rules.iter().map(of).sum::<usize>() as f64;
    for (state, number) in [
        ("pending", sum(|r| r.pending)),
        ("firing", sum(|r| r.firing)),
    ] {
        page.gauge(
            "netalytics_alerts",
            "alerts by state",
            &[("state", state)],
            number,
        );
    }
    for receiver in alerts.receiver_states()? {
        let help = "notifications waiting for a receiver";
        page.gauge(
            "netalytics_notifications",
            help,
            &[("receiver", &receiver.name)],
            receiver.waiting as f64,
        );
    }
    let left_out = rules.iter().map(|rule| rule.groups_left_out).sum();
    for (name, help, count) in [
        (
            "netalytics_notifications_sent_total",
            "notifications accepted by receivers",
            alerts.tally.sent.get(),
        ),
        (
            "netalytics_notifications_retried_total",
            "notification attempts repeated",
            alerts.tally.retried.get(),
        ),
        (
            "netalytics_notifications_lost_total",
            "notifications that no receiver accepted",
            alerts.tally.lost.get(),
        ),
        (
            "netalytics_alert_groups_left_out_total",
            "groups beyond the limit of an alert",
            left_out,
        ),
    ] {
        page.counter(name, help, &[], count as f64);
    }
    Ok(())
}

fn of_actions(page: &mut MetricsPage, service: &Service) {
    let actions = service.actions.registry.shown();
    let tally = &service.actions.registry.tally;
    for action in &actions {
        let labels = [("action", action.name.as_str())];
        let is_ok = f64::from(u8::from(matches!(
            action.state.as_str(),
            "ok" | "carrying_out"
        )));
        page.gauge(
            "netalytics_action_ok",
            "1: the action's decisions are executed",
            &labels,
            is_ok,
        );
        page.gauge(
            "netalytics_action_servers",
            "servers in use",
            &labels,
            action.servers.len() as f64,
        );
        let replicas = action
            .groups
            .iter()
            .map(|group| f64::from(group.replicas))
            .sum();
        page.gauge(
            "netalytics_action_replicas",
            "replicas of the observed groups",
            &labels,
            replicas,
        );
        page.counter(
            "netalytics_action_decisions_total",
            "that were made",
            &labels,
            action.version as f64,
        );
    }
    let left_out = actions.iter().map(|action| action.groups_left_out).sum();
    for (name, help, count) in [
        (
            "netalytics_decisions_done_total",
            "decisions of actions that were executed",
            tally.done.get(),
        ),
        (
            "netalytics_decisions_retried_total",
            "repeated attempts to execute decisions",
            tally.retried.get(),
        ),
        (
            "netalytics_action_groups_left_out_total",
            "groups beyond the limit of an action",
            left_out,
        ),
    ] {
        page.counter(name, help, &[], count as f64);
    }
}

/// Metrics of an agent: its counter, the metric's name, description, and scale.
const OF_AGENT: [(&str, &str, &str, f64); 8] = [
    (
        "spool_bytes",
        "netalytics_agent_spool_bytes",
        "bytes waiting at the agent until they are on the server's disk",
        1.0,
    ),
    (
        "spool_bytes_max",
        "netalytics_agent_spool_limit_bytes",
        "maximum bytes waiting at the agent",
        1.0,
    ),
    (
        "spool_records",
        "netalytics_agent_spool_records",
        "records waiting at the agent",
        1.0,
    ),
    (
        "spool_lost_records",
        "netalytics_agent_lost_records_total",
        "records that exceeded the agent's spool",
        1.0,
    ),
    (
        "spool_lost_tuples",
        "netalytics_agent_lost_tuples_total",
        "tuples in these",
        1.0,
    ),
    (
        "monitors",
        "netalytics_agent_monitors",
        "monitors running on the agent",
        1.0,
    ),
    (
        "cpu_ns",
        "netalytics_agent_cpu_time_seconds_total",
        "CPU time of the agent without its monitors",
        1e-9,
    ),
    (
        "memory_bytes",
        "netalytics_agent_memory_usage_bytes",
        "memory in use by the agent without its monitors",
        1.0,
    ),
];

fn of_agents(page: &mut MetricsPage, agents: &[AgentHealth]) {
    let connected = agents.iter().filter(|agent| agent.connected).count();
    for (state, count) in [("connected", connected), ("gone", agents.len() - connected)] {
        page.gauge(
            "netalytics_agents",
            "known agents",
            &[("state", state)],
            count as f64,
        );
    }
    for agent in agents.iter().take(AGENTS_MAX) {
        let labels = [("agent", agent.name.as_str())];
        let is_there = f64::from(u8::from(agent.connected));
        page.gauge(
            "netalytics_agent_connected",
            "1: the agent is connected",
            &labels,
            is_there,
        );
        if let Some(offset) = agent.clock_offset_ns {
            let seconds = offset as f64 / 1e9;
            let help = "the agent's clock minus the server's";
            page.gauge(
                "netalytics_agent_clock_offset_seconds",
                help,
                &labels,
                seconds,
            );
        }
        for (word, name, help, unit) in OF_AGENT {
            let Some(value) = agent.counts.get(word).map(|value| *value as f64 * unit) else {
                continue;
            };
            if name.ends_with("_total") {
                page.counter(name, help, &labels, value)
            } else {
                page.gauge(name, help, &labels, value)
            }
        }
    }
}

fn of_jobs(page: &mut MetricsPage, jobs: &[Job], health: &[JobHealth]) {
    let known: HashMap<JobId, &Job> = jobs.iter().map(|job| (job.id, job)).collect();
    let now = now_ns();
    let by_job: BTreeMap<JobId, &JobHealth> =
        health.iter().map(|health| (health.id, health)).collect();
    for (id, health) in by_job {
        let Some(job) = known.get(&id) else { continue };
        let text = id.to_string();
        let labels = job.series_labels(&text);
        let missing = health.agents_missing as f64;
        page.gauge(
            "netalytics_job_agents_missing",
            "agents missing in the job now",
            &labels,
            missing,
        );
        if let Some(watermark) = health.watermark_ns {
            let lag = now.saturating_sub(watermark) as f64 / 1e9;
            page.gauge(
                "netalytics_job_lag_seconds",
                "delay of the job's results behind the clock",
                &labels,
                lag,
            );
        }
        let open = health.frames_bytes as f64;
        page.gauge(
            "netalytics_job_open_bytes",
            "records of open windows",
            &labels,
            open,
        );
        for (name, help, count) in [
            (
                "netalytics_job_late_tuples_total",
                "tuples that arrived after their windows were closed",
                health.late_tuples,
            ),
            (
                "netalytics_job_lost_records_total",
                "records lost by the job's agents",
                health.lost_records,
            ),
            (
                "netalytics_job_packets_total",
                "packets received by the job's monitors",
                health.packets,
            ),
            (
                "netalytics_job_lost_packets_total",
                "packets lost before the job's monitors",
                health.lost_packets,
            ),
        ] {
            page.counter(name, help, &labels, count as f64);
        }
    }
}
