//! Orders for agents. Each job hashes redacted texts with its own key, which is generated here and is part of the
//! order; the store keeps it, and no API shows it.

use std::collections::BTreeMap;

use bytes::Bytes;
use control::{JobLimit, TapAssignment};
use plan::Plan;
use plan::message::{CaptureSpec, JobOrder, RedactionKey};
use tuple::AgentOrigin;

use super::job_codec;
use crate::gateway::fleet::FleetOrder;
use crate::gateway::network::AgentShare;

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
        OrderBuilder { order, topics, now_ns, key }
    }

    /// The encoded order, which only the monitor decodes. `plan`: the agents' part.
    fn of_all(&self, plan: &Plan) -> Bytes {
        self.body(plan.clone(), &self.order.spec.capture.interfaces)
    }

    /// The encoded order of one agent's part.
    fn of(&self, part: &AgentShare, plan: &Plan) -> Bytes {
        let mut plan = plan.clone();
        (plan.monitor.clients, plan.monitor.servers) = (part.clients.clone(), part.servers.clone());
        self.body(plan, &part.interfaces)
    }

    /// The job as [`control`] assigns it. `agents`: the agents' part of the plan. `parts`: those of a job in a network.
    pub fn control_spec(&self, agents: &Plan, parts: Option<&[AgentShare]>) -> control::JobSpec {
        let FleetOrder { spec, plan, .. } = self.order;
        let limit = &plan.monitor.limit;
        let end = |nanos| self.now_ns.saturating_add(nanos).saturating_add(GRACE_NS);
        let share = |part: &AgentShare| (part.agent.clone(), self.of(part, agents));
        control::JobSpec {
            key: String::new(),
            owner: String::new(),
            name: String::new(),
            labels: BTreeMap::new(),
            kind: job_codec::kind(spec.kind),
            on: spec.on.clone(),
            limit: JobLimit { packets: limit.packets, ends_at_ns: limit.nanos.map(end) },
            cost: planner::cost(agents),
            // In a network, the parts determine which tap reports a flow.
            taps: if parts.is_some() { TapAssignment::All } else { job_codec::taps(plan.monitor.taps) },
            interfaces: spec.capture.interfaces.clone(),
            body: if parts.is_some() { Bytes::new() } else { self.of_all(agents) },
            parts: parts.into_iter().flatten().map(share).collect(),
        }
    }

    fn body(&self, mut plan: Plan, interfaces: &[String]) -> Bytes {
        let OrderBuilder { order, topics, now_ns, key } = self;
        if let Some(nanos) = plan.monitor.limit.nanos {
            let span = &mut plan.monitor.span;
            span.start_ns = span.start_ns.or(Some(*now_ns));
            span.end_ns = span.end_ns.or(Some(now_ns.saturating_add(nanos)));
        }
        let order = JobOrder {
            job: order.id.0,
            // Set by the agent at each start.
            generation: 0,
            attempt: 0,
            plan,
            redaction: *key,
            // Resolved by the agent, within the interfaces allowed by its owner.
            capture: CaptureSpec {
                interfaces: interfaces.to_vec(),
                filter: order.spec.capture.filter.clone(),
            },
            // Set by the agent's own limits.
            packets_max: None,
            memory_max: 0,
            cpu_millis: 0,
            workers: 0,
            // Tap tables change and are sent separately.
            taps: plan::TapTable::default(),
            // Set by the agent: its name and labels.
            origin: AgentOrigin::default(),
            topics: topics.to_vec(),
        };
        order.encode().into()
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
    getrandom::fill(&mut key).expect("the system has random numbers");
    RedactionKey(key)
}
