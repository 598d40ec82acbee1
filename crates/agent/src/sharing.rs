//! Jobs that one monitor can serve: their orders differ in the job only. A job that ends before the others leaves the
//! monitor, which continues. So orders with a LIMIT, whose packets are counted for each job, are excluded, and those
//! whose results include every flow that is open at the end of the capture.

use parsers::registry::ParserInput;
use plan::message::JobOrder;
use plan::{QueryLimit, TapTable};

/// The order and the arguments of a monitor without the job that it is for. Tap tables are excluded, because they change.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitorIdentity {
    order: JobOrder,
    arguments: Vec<String>,
}

impl MonitorIdentity {
    /// The identity of an order, or `None` if its monitor serves this job only.
    #[must_use]
    pub fn of(order: &JobOrder, arguments: &[String]) -> Option<MonitorIdentity> {
        let is_limited =
            order.packets_max.is_some() || order.plan.monitor.limit != QueryLimit::default();
        let ends_flows = inputs(order).any(|input| {
            matches!(
                input,
                None | Some(ParserInput::Connections | ParserInput::Flows)
            )
        });
        // Topics are those of a job.
        (!is_limited && !ends_flows && order.topics.is_empty()).then(|| {
            let taps = TapTable::default();
            let mut order = JobOrder {
                job: 0,
                generation: 0,
                attempt: 0,
                taps,
                ..order.clone()
            };
            order.plan.query.clear();
            MonitorIdentity {
                order,
                arguments: arguments.to_vec(),
            }
        })
    }

    /// Whether a monitor reports requests without a response at its end.
    #[must_use]
    pub fn reports_unanswered(&self) -> bool {
        inputs(&self.order).any(|input| matches!(input, Some(ParserInput::Messages(..))))
    }
}

fn inputs(order: &JobOrder) -> impl Iterator<Item = Option<ParserInput>> {
    let parsers = order.plan.monitor.parsers.iter();
    parsers.map(|parser| parsers::registry::find(&parser.schema.name).map(|found| found.reads))
}

#[cfg(test)]
pub mod tests {
    use plan::message::{CaptureSpec, RedactionKey};
    use plan::{Dataflow, MonitorSpec, ParserUse, Plan};
    use tuple::AgentOrigin;

    use super::*;

    /// An order for these parsers.
    pub fn order(parsers: &[&str]) -> JobOrder {
        let schema = |name: &&str| {
            ParserUse::all_columns(parsers::registry::schema(name).expect("a parser"))
        };
        let monitor = MonitorSpec {
            parsers: parsers.iter().map(schema).collect(),
            ..MonitorSpec::default()
        };
        JobOrder {
            job: 1,
            generation: 0,
            attempt: 1,
            plan: Plan {
                query: parsers.join(", "),
                monitor,
                dataflow: Dataflow::default(),
            },
            redaction: Some(RedactionKey([1; 16])),
            capture: CaptureSpec::default(),
            packets_max: None,
            memory_max: 1 << 30,
            cpu_millis: 0,
            workers: 0,
            taps: TapTable::default(),
            origin: AgentOrigin::default(),
            topics: Vec::new(),
        }
    }

    #[test]
    fn only_orders_that_differ_in_the_job_share_a_monitor() {
        let one = order(&["http"]);
        let of = |order: &JobOrder| MonitorIdentity::of(order, &["-i".into(), "lo".into()]);
        let taps = TapTable {
            own: Vec::new(),
            others: vec!["10.0.0.1".parse().expect("an address")],
        };
        let mut spelled = one.clone();
        spelled.plan.query = "parse  http".into();
        for (other, is_shared) in [
            (
                JobOrder {
                    job: 2,
                    attempt: 3,
                    ..one.clone()
                },
                true,
            ),
            (
                JobOrder {
                    taps,
                    ..one.clone()
                },
                true,
            ),
            (spelled, true),
            (
                JobOrder {
                    redaction: Some(RedactionKey([2; 16])),
                    ..one.clone()
                },
                false,
            ),
            (
                JobOrder {
                    redaction: None,
                    ..one.clone()
                },
                false,
            ),
            (
                JobOrder {
                    memory_max: 1 << 29,
                    ..one.clone()
                },
                false,
            ),
            (
                JobOrder {
                    topics: vec!["t".into()],
                    ..one.clone()
                },
                false,
            ),
            (
                JobOrder {
                    packets_max: Some(5),
                    ..one.clone()
                },
                false,
            ),
            (order(&["dns"]), false),
        ] {
            assert_eq!(of(&one) == of(&other), is_shared, "{other:?}");
        }
        assert_ne!(
            of(&one),
            MonitorIdentity::of(&one, &["-i".into(), "eth0".into()])
        );
    }

    #[test]
    fn results_of_flows_open_at_the_end_and_limits_are_not_shared() {
        let limited = |limit| {
            let mut order = order(&["packet"]);
            order.plan.monitor.limit = limit;
            order
        };
        for (order, is_shared, has_unanswered) in [
            (order(&["http"]), true, true),
            (order(&["packet", "dns"]), true, true),
            (order(&["packet"]), true, false),
            (order(&["flow"]), false, false),
            (order(&["tcp_conn_time"]), false, false),
            (order(&["http", "flow"]), false, false),
            (
                limited(QueryLimit {
                    packets: Some(5),
                    ..QueryLimit::default()
                }),
                false,
                false,
            ),
            (
                limited(QueryLimit {
                    nanos: Some(5),
                    ..QueryLimit::default()
                }),
                false,
                false,
            ),
        ] {
            let identity = MonitorIdentity::of(&order, &[]);
            assert_eq!(identity.is_some(), is_shared, "{order:?}");
            assert_eq!(
                identity.is_some_and(|of| of.reports_unanswered()),
                has_unanswered,
                "{order:?}"
            );
        }
    }
}
