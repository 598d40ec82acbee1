//! Input of alert rules and actions: one result of a query, in windows, and the end of each window.

use std::collections::BTreeMap;
use std::sync::Arc;

use plan::{Pipeline, Plan};
use serde::{Deserialize, Serialize};
use sinks::distinct_names;
use stream::Engine;
use tuple::Schema;

use crate::job::columns;
use crate::job::engine_config::engine_config;

/// A windowed result of a query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WindowedResult {
    /// Index of the result.
    pub result: usize,
    /// Length of a window.
    pub size_ns: i64,
    /// Distance between the starts of windows.
    pub slide_ns: i64,
    /// Delay between the end of a window and its closing.
    pub lateness_ns: i64,
    /// Names of the group columns.
    pub keys: Vec<String>,
}

impl WindowedResult {
    /// The result that `said` selects by the name of its processor or by index, or the only one; with its columns as
    /// stored. `who`: subject of error messages, as "a rule".
    ///
    /// # Errors
    /// A message for the user.
    pub fn of(
        plan: &Plan,
        said: Option<&str>,
        who: &str,
    ) -> Result<(WindowedResult, Arc<Schema>), String> {
        let pipelines = &plan.dataflow.pipelines;
        let names = distinct_names(pipelines.iter().map(|p| p.name.as_str()));
        let result = match (said, pipelines.len()) {
            (_, 0) => {
                return Err(format!(
                    "{who} needs results, and a query without PROCESS has only tuples"
                ));
            }
            (None, 1) => 0,
            (None, _) => {
                return Err(format!(
                    "the query has several results: name one of {}",
                    names.join(", ")
                ));
            }
            (Some(said), n) => {
                let place = said.parse().ok().filter(|place| *place < n);
                let place = names.iter().position(|name| name == said).or(place);
                place.ok_or_else(|| {
                    format!(
                        "the query has no result {said}; it has {}",
                        names.join(", ")
                    )
                })?
            }
        };
        let pipeline: &Pipeline = &pipelines[result];
        let Some(window) = pipeline.window.filter(|_| pipeline.profile.is_none()) else {
            return Err(format!(
                "{who} needs windows: give the processor one, as in w=10s; a profile has no rows"
            ));
        };
        let schema =
            kept_schema(plan, result).ok_or("the result has columns that cannot be stored")?;
        let mut looked_at = WindowedResult {
            result,
            size_ns: window.size_ns,
            slide_ns: window.slide_ns.min(window.size_ns),
            lateness_ns: window.lateness_ns.max(0),
            keys: pipeline
                .group
                .iter()
                .map(|group| group.name.clone())
                .collect(),
        };
        looked_at.keys.retain(|key| schema.find(key).is_some());
        // Errors name the requested processor.
        let named = Schema {
            name: names[result].clone().into(),
            ..(*schema).clone()
        };
        Ok((looked_at, Arc::new(named)))
    }

    /// End of the last window that is complete at this watermark.
    pub fn last_end(&self, watermark_ns: i64) -> i64 {
        let over = watermark_ns
            .saturating_sub(self.lateness_ns)
            .saturating_sub(self.size_ns);
        over.div_euclid(self.slide_ns)
            .saturating_mul(self.slide_ns)
            .saturating_add(self.size_ns)
    }

    /// Windows completed by the watermark, in order of their ends: those of `rows`, and in between windows without
    /// rows, created by `empty` from their start and end. `seen_ns`: end of the last evaluated window.
    pub fn windows<W>(
        &self,
        rows: BTreeMap<i64, W>,
        seen_ns: Option<i64>,
        watermark_ns: i64,
        empty: impl Fn(i64, i64) -> W,
    ) -> Vec<W> {
        let mut windows: Vec<W> = Vec::new();
        let mut seen = seen_ns;
        let empty = |from: Option<i64>, to: i64| {
            empty(
                from.map_or(to, |from| from + self.slide_ns) - self.size_ns,
                to,
            )
        };
        for (end_ns, window) in rows {
            let before = end_ns - self.slide_ns;
            if seen.is_some_and(|seen| seen < before) {
                windows.push(empty(seen, before));
            }
            seen = seen.max(Some(end_ns));
            windows.push(window);
        }
        // The largest values mean the end of the job.
        let last = (watermark_ns > i64::MIN && watermark_ns < i64::MAX - 1)
            .then(|| self.last_end(watermark_ns));
        if let Some(last) = last.filter(|last| seen.is_none_or(|seen| seen < *last)) {
            windows.push(empty(seen, last));
        }
        windows
    }
}

/// Parses a duration; empty is 0.
///
/// # Errors
/// A message for the user.
pub fn length_ns(text: Option<&str>) -> Result<i64, String> {
    match text {
        None | Some("" | "0") => Ok(0),
        Some(text) => query::duration_ns(text)
            .filter(|ns| *ns >= 0)
            .ok_or_else(|| format!("`{text}` is not a duration, such as 90s, 5m, or 1h")),
    }
}

/// A column by its name, with or without its unit.
pub fn column(schema: &Schema, name: &str) -> Option<tuple::FieldId> {
    schema
        .find(name)
        .or_else(|| schema.find(&format!("{name}_ns")))
}

/// A result's columns as stored.
fn kept_schema(plan: &Plan, result: usize) -> Option<Arc<Schema>> {
    let engine = Engine::new(&plan.dataflow, engine_config(plan, 1 << 20));
    let schema = engine.result_schema(result);
    let ids: Vec<_> = schema.ids().collect();
    columns::schema("result", &columns::heads(schema, &ids))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &str, said: Option<&str>) -> Result<WindowedResult, String> {
        let checked = query::check(query, &parsers::registry::schemas(), &()).expect("a query");
        WindowedResult::of(&planner::lower(&checked), said, "a rule").map(|(result, _)| result)
    }

    const TWO: &str = "PARSE http PROCESS (group-count: group=path, w=10s), (rate: w=1s)";

    #[test]
    fn a_result_is_named_or_numbered() {
        assert_eq!(of(TWO, Some("rate")).map(|of| of.result), Ok(1));
        assert_eq!(
            of(TWO, Some("0")).map(|of| (of.result, of.keys)),
            Ok((0, vec!["path".to_owned()]))
        );
        let names = "group-count, rate";
        for unknown in ["2", "-1", "Rate"] {
            let error = format!("the query has no result {unknown}; it has {names}");
            assert_eq!(of(TWO, Some(unknown)).err(), Some(error));
        }
        assert_eq!(
            of(TWO, None).err(),
            Some(format!(
                "the query has several results: name one of {names}"
            ))
        );
    }

    #[test]
    fn a_result_has_windows() {
        let tuples = of("PARSE http", None).expect_err("tuples");
        assert_eq!(
            tuples,
            "a rule needs results, and a query without PROCESS has only tuples"
        );
        let whole = of("PARSE http PROCESS (rate)", None).expect_err("no windows");
        assert!(whole.starts_with("a rule needs windows"), "{whole}");
    }

    /// Windows of ten seconds every five, closed a second late; in seconds.
    const SLIDING: WindowedResult = WindowedResult {
        result: 0,
        size_ns: 10,
        slide_ns: 5,
        lateness_ns: 1,
        keys: Vec::new(),
    };

    #[test]
    fn the_last_window_ended_before_the_watermark_and_its_lateness() {
        for (watermark, end) in [
            (11, 10),
            (15, 10),
            (16, 15),
            (20, 15),
            (21, 20),
            (0, -5),
            (-5, -10),
        ] {
            assert_eq!(SLIDING.last_end(watermark), end, "{watermark}");
        }
        assert!(SLIDING.last_end(i64::MIN) <= i64::MIN + 10, "no overflow");
    }

    /// Windows as text: those with rows by their end, and those without by start and end.
    fn windows(rows: &[i64], seen: Option<i64>, watermark: i64) -> Vec<String> {
        let rows = rows
            .iter()
            .map(|end| (*end, format!("rows {end}")))
            .collect();
        SLIDING.windows(rows, seen, watermark, |start, end| {
            format!("empty {start} to {end}")
        })
    }

    #[test]
    fn windows_without_rows_are_between_those_with_rows() {
        assert_eq!(
            windows(&[10, 15, 20], None, 21),
            ["rows 10", "rows 15", "rows 20"]
        );
        assert_eq!(
            windows(&[10, 25], None, 26),
            ["rows 10", "empty 5 to 20", "rows 25"]
        );
        assert_eq!(windows(&[25], Some(10), 26), ["empty 5 to 20", "rows 25"]);
        assert_eq!(windows(&[15], Some(10), 16), ["rows 15"], "none is missing");
    }

    #[test]
    fn a_watermark_without_rows_completes_empty_windows() {
        assert_eq!(windows(&[], Some(10), 21), ["empty 5 to 20"]);
        assert_eq!(windows(&[], Some(20), 21), Vec::<String>::new());
        assert_eq!(windows(&[10], None, 21), ["rows 10", "empty 5 to 20"]);
        assert_eq!(
            windows(&[], None, 21),
            ["empty 10 to 20"],
            "the first one evaluated"
        );
    }

    /// The end of a job completes only windows with rows.
    #[test]
    fn the_end_of_a_job_is_no_event_time() {
        for watermark in [i64::MIN, i64::MAX - 1, i64::MAX] {
            assert_eq!(
                windows(&[10], Some(5), watermark),
                ["rows 10"],
                "{watermark}"
            );
        }
    }

    #[test]
    fn lengths_are_durations_and_columns_have_units() {
        assert_eq!(
            (length_ns(None), length_ns(Some("")), length_ns(Some("0"))),
            (Ok(0), Ok(0), Ok(0))
        );
        assert_eq!(length_ns(Some("90s")), Ok(90_000_000_000));
        assert!(length_ns(Some("-1s")).is_err() && length_ns(Some("5")).is_err());
        let field = |name| tuple::Field::new(name, tuple::DataType::F64, tuple::Unit::None, "");
        let own = [field("p99_ns"), field("count")];
        let schema = Schema::of_parser("t", 1, "", &own, None, None);
        assert_eq!(column(&schema, "p99"), schema.find("p99_ns"));
        assert_eq!(column(&schema, "count"), schema.find("count"));
        assert_eq!(column(&schema, "p95"), None);
    }
}
