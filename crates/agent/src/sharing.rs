//! Jobs that one monitor can serve: their orders differ in the job only. A job that starts later joins the monitor, and one
//! that ends before the others leaves it; the monitor continues. So orders with a LIMIT, whose packets are counted for each job, are excluded, and those
//! whose results include every flow that is open at the end of the capture.

use parsers::registry::ParserInput;
use plan::message::{JobOrder, OrderInput};
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
        // Records of exporters are not open flows.
        let is_captured = order.capture.input == OrderInput::Interfaces;
        let ends_flows = inputs(order).any(|input| match input {
            None => true,
            Some(input) => {
                is_captured && matches!(input, ParserInput::Connections | ParserInput::Flows)
            }
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

    /// Time after the end of a window during which it accepts tuples, at most; `None` if a result has no windows.
    #[must_use]
    pub fn lateness_ns(&self) -> Option<i64> {
        let pipelines = self.order.plan.dataflow.pipelines.iter();
        let all: Option<Vec<i64>> = pipelines
            .map(|pipeline| pipeline.window.map(|window| window.lateness_ns))
            .collect();
        all?.into_iter().max()
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
    use plan::{Dataflow, MonitorSpec, ParserUse, Pipeline, Plan, ResultSelection, Window};
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

    /// An order with windows of this lateness.
    pub fn windowed(parsers: &[&str], lateness_ns: i64) -> JobOrder {
        let mut order = order(parsers);
        order.plan.dataflow.pipelines.push(Pipeline {
            name: "count".into(),
            values: Vec::new(),
            value_required: false,
            group: Vec::new(),
            aggregates: Vec::new(),
            top_k: None,
            window: Some(Window {
                size_ns: 1_000,
                slide_ns: 1_000,
                lateness_ns,
            }),
            groups_max: 10,
            selection: ResultSelection::default(),
            profile: None,
        });
        order
    }

    #[test]
    fn a_late_job_has_open_windows_only_if_all_results_have_windows() {
        let lateness = |order: &JobOrder| MonitorIdentity::of(order, &[])?.lateness_ns();
        let mut order = windowed(&["http"], 7);
        assert_eq!(lateness(&order), Some(7));
        let mut second = windowed(&["http"], 9).plan.dataflow.pipelines;
        order.plan.dataflow.pipelines.append(&mut second);
        assert_eq!(lateness(&order), Some(9));
        order.plan.dataflow.pipelines[0].window = None;
        assert_eq!(lateness(&order), None);
        order.plan.dataflow.pipelines.clear();
        assert_eq!(lateness(&order), None);
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
