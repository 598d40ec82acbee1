//! Partitions that a publisher's run can continue: those whose last promise is not later than the start of the run. So
//! promises never decrease in a partition, whatever the periods and order of its runs.

use std::collections::BTreeSet;

use ::bus::{BusError, Kafka, TopicAdmin, lane_promises, tuples};
use arrow_schema::SchemaRef;
use plan::{Dataflow, Plan};
use stream::cells::CellOrigin;
use stream::{Engine, EngineConfig};

use super::topics::configured;

/// Finds partitions that a publisher's run can continue.
pub struct RunContinuation {
    kafka: Kafka,
    topics: Vec<ContinuedTopic>,
}

struct ContinuedTopic {
    name: String,
    schema: SchemaRef,
    /// The run's first promise, in the unit of the topic's records; `None`: unknown.
    begins: Option<i64>,
}

impl RunContinuation {
    /// A run of a plan that publishes to `topics`: the cells of each pipeline, or the tuples of each of the
    /// `dataflows`. `begins_ns`: lower bound of its event time; if unknown, only partitions without records are
    /// suitable.
    #[must_use]
    pub fn new(
        kafka: &Kafka,
        (plan, dataflows): (&Plan, &[Dataflow]),
        topics: &[String],
        begins_ns: Option<i64>,
    ) -> RunContinuation {
        let config = configured(&EngineConfig::default(), &plan.monitor);
        let cells = Engine::worker(&plan.dataflow, config.clone());
        let topic = |(place, name): (usize, &String)| {
            if plan.dataflow.pipelines.is_empty() {
                let engine = Engine::worker(&dataflows[place], config.clone());
                let schema = tuples::record_schema(engine.tuples().0);
                ContinuedTopic {
                    name: name.clone(),
                    schema,
                    begins: begins_ns,
                }
            } else {
                let schema = cells.cell_table(place).arrow(CellOrigin::Sent);
                let begins = begins_ns.map(|ns| cells.promise_ms(place, ns));
                ContinuedTopic {
                    name: name.clone(),
                    schema,
                    begins,
                }
            }
        };
        RunContinuation {
            kafka: kafka.clone(),
            topics: topics.iter().enumerate().map(topic).collect(),
        }
    }

    /// Unsuitable partitions, among all or only the given one.
    ///
    /// # Errors
    /// `BusError::Unreachable` if the brokers do not answer in time.
    pub fn unfit(&self, there: &TopicAdmin, only: Option<i32>) -> Result<BTreeSet<i32>, BusError> {
        let mut unfit = BTreeSet::new();
        for ContinuedTopic {
            name,
            schema,
            begins,
        } in &self.topics
        {
            let last = lane_promises::last(&self.kafka, there, (name, schema), only)?;
            let is_fit = |promise: Option<i64>| matches!((promise, begins), (Some(last), Some(begins)) if last <= *begins);
            unfit.extend(
                last.into_iter()
                    .filter(|(_, last)| !is_fit(*last))
                    .map(|(partition, _)| partition),
            );
        }
        Ok(unfit)
    }
}
