//! Orders for agents. Each job hashes redacted texts with its own key, which is generated here and is part of the
//! order; the store keeps it, and no API shows it. Jobs of one owner that differ in nothing else have the same key, so
//! that a monitor can serve all of them.

use std::collections::BTreeMap;

use bytes::Bytes;
use control::{ControlledJob, JobLimit, TapAssignment};
use plan::Plan;
use plan::message::{CaptureSpec, JobOrder, OrderInput, RedactionKey};
use tuple::AgentOrigin;

use super::job_codec;
use crate::gateway::fleet::FleetOrder;
use crate::gateway::network::AgentShare;
use crate::job::JobSource;

/// Monitors end by themselves at their time limit; those that do not are stopped after this time.
const GRACE_NS: i64 = 2_000_000_000;

/// Encoder of a job's orders.
pub struct OrderBuilder<'a> {
    order: &'a FleetOrder,
    topics: &'a [String],
    now_ns: i64,
    key: Option<RedactionKey>,
}

impl<'a> OrderBuilder<'a> {
    /// `topics`: topics to which agents publish their results; empty: they send them to the server. `now_ns`: start of
    /// a time limit, on all agents.
    pub fn new(order: &'a FleetOrder, topics: &'a [String], now_ns: i64) -> OrderBuilder<'a> {
        let key = order.spec.is_redacted().then(key);
        OrderBuilder {
            order,
            topics,
            now_ns,
            key,
        }
    }

    /// Uses the key of a running job with the same owner, agents, and order. `plan`: the agents' part.
    pub fn keyed_as<'j>(
        mut self,
        mut jobs: impl Iterator<Item = &'j ControlledJob>,
        plan: &Plan,
    ) -> Self {
        let is_like = |job: &ControlledJob| {
            job.state.is_active()
                && job.request.owner == self.order.owner
                && job.request.on == self.order.spec.on
        };
        let own = self.order(plan.clone(), &self.order.spec.capture.interfaces);
        let key = |job: &ControlledJob| {
            let told = JobOrder::decode(&job.request.body, &parsers::registry::schema).ok()?;
            let mut own = JobOrder {
                job: told.job,
                redaction: told.redaction,
                ..own.clone()
            };
            // Also if the same query is spelled in another way.
            own.plan.query.clone_from(&told.plan.query);
            told.redaction.filter(|_| own == told)
        };
        if self.key.is_some()
            && let Some(known) = jobs.find_map(|job| is_like(job).then(|| key(job))?)
        {
            self.key = Some(known);
        }
        self
    }

    /// The encoded order, which only the monitor decodes. `plan`: the agents' part.
    fn of_all(&self, plan: &Plan) -> Bytes {
        self.body(plan.clone(), &self.order.spec.capture.interfaces)
    }

    /// The encoded order of one agent's part.
    fn of(&self, part: &AgentShare, plan: &Plan) -> Bytes {
        let mut plan = plan.clone();
        plan.monitor.clients = part.clients.clone();
        plan.monitor.servers = part.servers.clone();
        self.body(plan, &part.interfaces)
    }

    /// The job as [`control`] assigns it. `agents`: the agents' part of the plan. `parts`: those of a job in a network.
    pub fn control_spec(&self, agents: &Plan, parts: Option<&[AgentShare]>) -> control::JobSpec {
        let FleetOrder { spec, .. } = self.order;
        let limit = &agents.monitor.limit;
        let end = |nanos| self.now_ns.saturating_add(nanos).saturating_add(GRACE_NS);
        let share = |part: &AgentShare| (part.agent.clone(), self.of(part, agents));
        control::JobSpec {
            key: String::new(),
            owner: self.order.owner.clone(),
            name: String::new(),
            labels: BTreeMap::new(),
            kind: job_codec::kind(spec.kind),
            on: spec.on.clone(),
            capability: (spec.capture.source == JobSource::Exports)
                .then(|| JobSource::Exports.word().to_owned()),
            limit: JobLimit {
                packets: limit.packets,
                ends_at_ns: limit.nanos.map(end),
            },
            cost: planner::cost(agents),
            // In a network, the parts determine which tap reports a flow. Each agent has exporters of its own.
            taps: if parts.is_some() || spec.capture.source == JobSource::Exports {
                TapAssignment::All
            } else {
                job_codec::taps(self.order.plan.monitor.taps)
            },
            interfaces: spec.capture.interfaces.clone(),
            body: if parts.is_some() {
                Bytes::new()
            } else {
                self.of_all(agents)
            },
            parts: parts.into_iter().flatten().map(share).collect(),
        }
    }

    fn body(&self, plan: Plan, interfaces: &[String]) -> Bytes {
        self.order(plan, interfaces).encode().into()
    }

    fn order(&self, mut plan: Plan, interfaces: &[String]) -> JobOrder {
        let OrderBuilder {
            order,
            topics,
            now_ns,
            key,
        } = self;
        if let Some(nanos) = plan.monitor.limit.nanos {
            let span = &mut plan.monitor.span;
            span.start_ns = span.start_ns.or(Some(*now_ns));
            span.end_ns = span.end_ns.or(Some(now_ns.saturating_add(nanos)));
        }
        JobOrder {
            job: order.id.0,
            // Set by the agent at each start.
            generation: 0,
            attempt: 0,
            plan,
            redaction: *key,
            // Resolved by the agent, within the interfaces allowed by its owner.
            capture: CaptureSpec {
                input: match order.spec.capture.source {
                    JobSource::Interfaces => OrderInput::Interfaces,
                    JobSource::Exports => OrderInput::Exports,
                },
                interfaces: interfaces.to_vec(),
                filter: order.spec.capture.filter.clone(),
            },
            // The agent applies its own limits.
            packets_max: None,
            memory_max: 0,
            cpu_millis: 0,
            workers: 0,
            // Tap tables change and are sent separately.
            taps: plan::TapTable::default(),
            // Set by the agent: its name and labels.
            origin: AgentOrigin::default(),
            topics: topics.to_vec(),
        }
    }
}

/// Whether an agent's order contains this part.
pub fn is_of(part: &AgentShare, body: &[u8]) -> bool {
    JobOrder::decode(body, &parsers::registry::schema).is_ok_and(|told| {
        let spec = &told.plan.monitor;
        spec.clients == part.clients
            && spec.servers == part.servers
            && told.capture.interfaces == part.interfaces
    })
}

fn key() -> RedactionKey {
    let mut key = [0; 16];
    getrandom::fill(&mut key).expect("the system provides random numbers");
    RedactionKey(key)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use control::{EndReason, JobLifetime, JobLimit, JobSpec, JobState, TapAssignment};

    use super::*;
    use crate::job::{JobId, RedactionMode};

    fn order(id: u64, owner: &str, query: &str) -> FleetOrder {
        let query = query::check(query, &parsers::registry::schemas(), &()).expect("a query");
        FleetOrder {
            id: JobId(id),
            owner: owner.into(),
            spec: crate::job::JobSpec::standing("", ""),
            plan: Arc::new(planner::lower(&query)),
            network: None,
        }
    }

    fn job(order: &FleetOrder, state: JobState) -> ControlledJob {
        ControlledJob {
            id: order.id.0,
            request: JobSpec {
                key: String::new(),
                owner: order.owner.clone(),
                name: String::new(),
                labels: BTreeMap::new(),
                kind: JobLifetime::Standing,
                on: order.spec.on.clone(),
                capability: None,
                limit: JobLimit {
                    packets: None,
                    ends_at_ns: None,
                },
                cost: planner::cost(&order.plan),
                taps: TapAssignment::One,
                interfaces: Vec::new(),
                body: OrderBuilder::new(order, &[], 0).of_all(&order.plan),
                parts: BTreeMap::new(),
            },
            state,
            agents: BTreeMap::new(),
            granted: 0,
            shares: BTreeMap::new(),
            degraded: BTreeSet::new(),
        }
    }

    fn key_of(body: &[u8]) -> Option<RedactionKey> {
        JobOrder::decode(body, &parsers::registry::schema)
            .expect("an order")
            .redaction
    }

    #[test]
    fn running_jobs_of_one_owner_with_the_same_query_have_the_same_key() {
        const QUERY: &str = "PARSE http PROCESS (count: w=1s)";
        let running = job(&order(1, "ann", QUERY), JobState::Running);
        let ended = ControlledJob {
            state: JobState::Ended(EndReason::Finished),
            ..running.clone()
        };
        let mut narrow = order(2, "ann", QUERY);
        narrow.spec.on = [("role".to_owned(), "web".to_owned())].into();
        let mut raw = order(2, "ann", QUERY);
        raw.spec.redaction = RedactionMode::Raw;
        for (known, new, is_same) in [
            (&running, order(2, "ann", QUERY), true),
            (
                &running,
                order(2, "ann", "PARSE http  PROCESS (count: w=1000ms)"),
                true,
            ),
            (
                &running,
                order(2, "ann", "PARSE http PROCESS (count: w=2s)"),
                false,
            ),
            (&running, order(2, "bob", QUERY), false),
            (&running, narrow, false),
            (&running, raw, false),
            (&ended, order(2, "ann", QUERY), false),
        ] {
            let body = OrderBuilder::new(&new, &[], 0)
                .keyed_as([known].into_iter(), &new.plan)
                .of_all(&new.plan);
            assert_eq!(
                key_of(&body) == key_of(&known.request.body),
                is_same,
                "{new:?}"
            );
        }
    }
}
