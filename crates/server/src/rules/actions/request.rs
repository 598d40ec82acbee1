//! An action as requested, its validation, and the values fixed when it is accepted.

use std::collections::BTreeSet;

use plan::result::{IntervalMode, first_aggregate, places};
use plan::{Pipeline, Plan, SampleMode, SortDirection};
use serde::{Deserialize, Serialize};
use tuple::{DataType, FieldId};
use utoipa::ToSchema;

use super::machine::ScalingPolicy;
use crate::results::delivery::OUTLETS_MAX;
use crate::rules::windowed_result::{WindowedResult, column, length_ns};

/// Maximum bytes of the name of an action or a server.
const NAME_BYTES_MAX: usize = 200;
/// Maximum servers of an action.
const SERVERS_MAX: usize = 100;

/// An action as requested.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    /// Name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Number or name of a standing job.
    pub job: String,
    /// Result of the job, by the name of its processor or by index; required if there are several.
    #[serde(default)]
    pub result: Option<String>,
    /// Column with the load of a group in a window; default: `count`.
    #[serde(default = "count")]
    pub value: String,
    /// Load per replica above which a replica is added.
    pub upper: f64,
    /// Load per replica below which a replica is removed: at most half of `upper`; default: a quarter of `upper`.
    #[serde(default)]
    pub lower: Option<f64>,
    /// Available servers. A group with n replicas uses the first n.
    pub servers: Vec<String>,
    /// Replicas of a group without load; default: 1.
    #[serde(default)]
    pub min: Option<u32>,
    /// Maximum replicas of a group; default: the number of servers.
    #[serde(default)]
    pub max: Option<u32>,
    /// Maximum replicas added at once; default: 1.
    #[serde(default)]
    pub step: Option<u32>,
    /// Time for which the load must stay above `upper`; default: one window.
    #[serde(default)]
    pub up_for: Option<String>,
    /// Time for which the load must stay below `lower`; default: `backoff`.
    #[serde(default)]
    pub down_for: Option<String>,
    /// Minimum time between a completed decision and the next; default: `10s`.
    #[serde(default)]
    pub backoff: Option<String>,
    /// When replicas are removed: delay between the last of `to` and the others; default: `2s`.
    #[serde(default)]
    pub drain: Option<String>,
    /// Receivers of decisions, by names defined by the operator (`serve --outlet`) or as addresses: notified in this
    /// order when replicas are added and in reverse order when they are removed, each after the previous one has
    /// acknowledged.
    pub to: Vec<String>,
}

fn count() -> String {
    "count".into()
}

/// An accepted action.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ActionSpec {
    /// The request.
    pub asked: ActionRequest,
    /// The result it evaluates.
    #[serde(flatten)]
    pub looked_at: WindowedResult,
    /// A window with this many rows may lack groups.
    pub full_at: Option<usize>,
    /// Whether rows are ranked by load, so that the groups missing from a full window have no more load than any of its
    /// rows.
    pub is_ranked: bool,
}

fn is_word(text: &str, others: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.chars().all(is_part)
}

impl ActionRequest {
    /// Validates everything that does not depend on the query.
    ///
    /// # Errors
    /// A message for the user.
    pub fn check(&self) -> Result<(), String> {
        if !is_word(&self.name, "-_.") {
            return Err("the name of an action consists of letters, digits, -, _, and .".into());
        }
        let lower = self.lower();
        if !(self.upper.is_finite() && self.upper > 0.0) {
            return Err(format!("upper must be above 0, not {}", self.upper));
        }
        if !(lower > 0.0 && lower <= self.upper / 2.0) {
            return Err(format!(
                "lower must be above 0 and at most half of upper, so that an added replica is not removed again: {lower} of {}",
                self.upper
            ));
        }
        if let Some(server) = self
            .servers
            .iter()
            .find(|server| !is_word(server, "-_.:[]/"))
        {
            return Err(format!(
                "{server:?} is not a server name, which consists of letters, digits, and -_.:[]/"
            ));
        }
        let servers: BTreeSet<&String> = self.servers.iter().collect();
        if servers.len() != self.servers.len() || !(1..=SERVERS_MAX).contains(&servers.len()) {
            return Err(format!(
                "an action has 1 to {SERVERS_MAX} servers, each once"
            ));
        }
        let (min, max) = self.bounds();
        if min == 0 || min > max || max as usize > self.servers.len() {
            return Err(format!(
                "min and max must be from 1 to the number of servers, and min at most max: {min} to {max}, with servers: {}",
                self.servers.len()
            ));
        }
        if self.step == Some(0) {
            return Err("step is 1 or more".into());
        }
        if !(1..=OUTLETS_MAX).contains(&self.to.len()) {
            return Err(format!("an action needs 1 to {OUTLETS_MAX} outlets (to)"));
        }
        self.times().map(drop)
    }

    /// Load per replica below which a replica is removed.
    pub fn lower(&self) -> f64 {
        self.lower.unwrap_or(self.upper / 4.0)
    }

    fn bounds(&self) -> (u32, u32) {
        let all = u32::try_from(self.servers.len()).unwrap_or(u32::MAX);
        (self.min.unwrap_or(1), self.max.unwrap_or(all))
    }

    /// `up_for`, `down_for`, `backoff` and `drain`, in nanoseconds.
    fn times(&self) -> Result<[i64; 4], String> {
        let backoff_ns = length_ns(Some(self.backoff.as_deref().unwrap_or("10s")))?;
        let down_for_ns = self
            .down_for
            .as_deref()
            .map_or(Ok(backoff_ns), |text| length_ns(Some(text)))?;
        let drain_ns = length_ns(Some(self.drain.as_deref().unwrap_or("2s")))?;
        if drain_ns > 3_600_000_000_000 {
            return Err("drain is at most 1h".into());
        }
        Ok([
            length_ns(self.up_for.as_deref())?,
            down_for_ns,
            backoff_ns,
            drain_ns,
        ])
    }

    /// Delay between the first receiver that removes replicas and the next.
    pub fn drain(&self) -> std::time::Duration {
        let [.., drain_ns] = self.times().unwrap_or_default();
        std::time::Duration::from_nanos(drain_ns.unsigned_abs())
    }

    /// Policy of the state machine.
    pub fn policy(&self, groups_max: usize) -> ScalingPolicy {
        let [up_for_ns, down_for_ns, backoff_ns, _] = self.times().unwrap_or_default();
        let (min, max) = self.bounds();
        let upper = self.upper;
        let lower = self.lower();
        let step = self.step.unwrap_or(1);
        ScalingPolicy {
            upper,
            lower,
            min,
            max,
            step,
            up_for_ns,
            down_for_ns,
            backoff_ns,
            groups_max,
        }
    }
}

impl ActionSpec {
    /// The action on the results of its job.
    ///
    /// # Errors
    /// A message for the user.
    pub fn of(asked: ActionRequest, plan: &Plan) -> Result<ActionSpec, String> {
        asked.check()?;
        let (looked_at, schema) = WindowedResult::of(plan, asked.result.as_deref(), "an action")?;
        let is_number = |id: &FieldId| {
            let data_type = schema.field(*id).data_type;
            matches!(data_type, DataType::U64 | DataType::I64 | DataType::F64)
        };
        let own = ["window_start", "window_end", "rank"];
        let found = column(&schema, &asked.value)
            .filter(|id| is_number(id) && !own.contains(&&*schema.field(*id).name));
        let Some(value) = found else {
            let known: Vec<&str> = schema
                .ids()
                .filter(is_number)
                .map(|id| &*schema.field(id).name)
                .collect();
            let known: Vec<&str> = known
                .into_iter()
                .filter(|name| !own.contains(name))
                .collect();
            return Err(format!(
                "the result has no numeric column {}; it has {}",
                asked.value,
                known.join(", ")
            ));
        };
        let pipeline = &plan.dataflow.pipelines[looked_at.result];
        let k = pipeline.top_k.map(|top_k| top_k.k);
        let full_at = k.into_iter().chain(pipeline.selection.rows_max).min();
        let intervals = if plan.monitor.sample == SampleMode::All {
            IntervalMode::None
        } else {
            IntervalMode::Shown
        };
        let is_ranked = is_ranked_by(value, pipeline, &places(pipeline, intervals));
        Ok(ActionSpec {
            asked,
            looked_at,
            full_at,
            is_ranked,
        })
    }
}

/// Whether rows are dropped by this column alone, smallest first; `places` maps columns of results.
fn is_ranked_by(value: FieldId, pipeline: &Pipeline, places: &[FieldId]) -> bool {
    let is_value = |place: usize| places.get(place) == Some(&value);
    let ranked = pipeline
        .top_k
        .map(|top_k| is_value(first_aggregate(pipeline) + top_k.by));
    let selection = &pipeline.selection;
    let sorted = selection.order_by.first().map(|key| {
        let is_own = key.column.input == 0 && is_value(usize::from(key.column.field.0));
        is_own && key.direction == SortDirection::Descending
    });
    let limited = selection
        .rows_max
        .map(|_| sorted.or(ranked).unwrap_or(false));
    ranked.unwrap_or(true) && limited.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(change: Value, says: Option<&str>) {
        let mut asked = json!({ "name": "hot", "job": "1", "upper": 100, "servers": ["a", "b"], "to": ["proxy"] });
        let change = change.as_object().cloned().expect("an object");
        asked
            .as_object_mut()
            .into_iter()
            .for_each(|all| all.extend(change.clone()));
        let asked: ActionRequest = serde_json::from_value(asked).expect("it is one");
        match (asked.check(), says) {
            (Ok(()), None) => {}
            (Err(why), Some(part)) => assert!(why.contains(part), "{why}"),
            (found, _) => panic!("{found:?}: {change:?}"),
        }
    }

    #[test]
    fn omission_of_rows_by_load_is_detected() {
        let schemas = parsers::registry::schemas();
        for (process, value, full_at, is_ranked) in [
            ("(top-k: key=url, k=9, w=10s)", "count", Some(9), true),
            (
                "(group-count-sum-top-k: group=url, k=9, by=sum, w=10s)",
                "count",
                Some(9),
                false,
            ),
            (
                "(group-count-sum-top-k: group=url, k=9, by=sum, w=10s)",
                "sum",
                Some(9),
                true,
            ),
            (
                "(group-count: group=url, w=10s) LIMIT 7 ROWS",
                "count",
                Some(7),
                false,
            ),
            (
                "(group-count: group=url, w=10s) ORDER BY count DESC LIMIT 7 ROWS",
                "count",
                Some(7),
                true,
            ),
            (
                "(group-count: group=url, w=10s) ORDER BY count LIMIT 7 ROWS",
                "count",
                Some(7),
                false,
            ),
            (
                "(top-k: key=url, k=9, w=10s) LIMIT 7 ROWS",
                "count",
                Some(7),
                true,
            ),
            (
                "(top-k: key=url, k=9, w=10s) ORDER BY url DESC LIMIT 7 ROWS",
                "count",
                Some(7),
                false,
            ),
        ] {
            for sample in ["", "SAMPLE 0.5 "] {
                let text = format!("PARSE http {sample}PROCESS {process}");
                let query = query::check(&text, &schemas, &());
                let plan =
                    planner::lower(&query.unwrap_or_else(|errors| panic!("{text}: {errors:?}")));
                let asked = json!({ "name": "hot", "job": "1", "value": value, "upper": 100, "servers": ["a"], "to": ["proxy"] });
                let asked = serde_json::from_value(asked).expect("it is one");
                let action =
                    ActionSpec::of(asked, &plan).unwrap_or_else(|why| panic!("{text}: {why}"));
                assert_eq!(
                    (action.full_at, action.is_ranked),
                    (full_at, is_ranked),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn invalid_actions_are_rejected() {
        check(json!({}), None);
        check(
            json!({ "lower": 50, "max": 1, "step": 3, "drain": "0s", "backoff": "1m" }),
            None,
        );
        check(json!({ "lower": 51 }), Some("at most half"));
        check(json!({ "lower": 0 }), Some("above 0"));
        check(json!({ "upper": -1 }), Some("above 0"));
        check(json!({ "name": "a b" }), Some("consists of letters"));
        check(json!({ "servers": [] }), Some("1 to 100 servers"));
        check(json!({ "servers": ["a", "a"] }), Some("each once"));
        check(json!({ "servers": ["a\r\n"] }), Some("not a server name"));
        check(json!({ "max": 3 }), Some("with servers: 2"));
        check(json!({ "min": 0 }), Some("from 1 to the number of servers"));
        check(json!({ "step": 0 }), Some("1 or more"));
        check(json!({ "to": [] }), Some("needs 1 to"));
        check(json!({ "backoff": "soon" }), Some("not a duration"));
    }
}
