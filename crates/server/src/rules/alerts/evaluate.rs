//! Converts rows to windows for the state machine: the groups, and whether each meets the condition.

use std::collections::BTreeMap;
use std::sync::Arc;

use plan::Predicate;
use query::Assertion;
use serde_json::{Map, Value};
use sinks::cells::ColumnCells;
use tuple::{Batch, FieldId, Schema};

use super::machine::{AlertDetails, AlertWindow};
use super::rule::AlertRule;
use crate::job::columns;
use crate::rules::windowed_result::column;

/// Condition of a rule, compiled for one schema.
pub struct RuleEvaluator {
    schema: Arc<Schema>,
    assertion: Assertion,
}

impl RuleEvaluator {
    /// Compiles the condition for a schema.
    ///
    /// # Errors
    /// The reason, such as columns that another version of the program has renamed.
    pub fn new(rule: &AlertRule, schema: &Arc<Schema>) -> Result<RuleEvaluator, String> {
        let text = &rule.asked.when;
        let assertion =
            query::check_condition(text, schema).map_err(|errors| query::render(&errors, text))?;
        Ok(RuleEvaluator {
            schema: schema.clone(),
            assertion,
        })
    }

    /// Whether it was compiled for this schema.
    pub fn is_for(&self, schema: &Arc<Schema>) -> bool {
        Arc::ptr_eq(&self.schema, schema)
    }

    /// Adds rows to their windows.
    pub fn judge(
        &self,
        rule: &AlertRule,
        batch: &Batch,
        missing: &[String],
        windows: &mut BTreeMap<i64, AlertWindow>,
    ) {
        let bounds = self
            .schema
            .find("window_start")
            .zip(self.schema.find("window_end"));
        let Some((start, end)) = bounds else { return };
        let starts = batch.i64(start);
        let ends = batch.i64(end);
        let holds = self.holds(batch);
        let keys: Vec<FieldId> = rule
            .looked_at
            .keys
            .iter()
            .filter_map(|key| self.schema.find(key))
            .collect();
        for (row, holds) in holds.into_iter().enumerate() {
            let start_ns = starts.value(row);
            let end_ns = ends.value(row);
            let window = windows.entry(end_ns).or_insert_with(|| AlertWindow {
                start_ns,
                end_ns,
                missing: Vec::new(),
                groups: BTreeMap::new(),
            });
            let news = missing
                .iter()
                .filter(|agent| !window.missing.contains(agent))
                .cloned();
            let news: Vec<String> = news.collect();
            window.missing.extend(news);
            let cells = columns::row(batch, row);
            let key: Vec<&Value> = keys
                .iter()
                .filter_map(|id| cells.get(usize::from(id.0)))
                .collect();
            let group = window
                .groups
                .entry(serde_json::to_string(&key).unwrap_or_default())
                .or_default();
            if holds {
                *group = Some(self.reading(rule, batch, row, cells, &keys));
            }
        }
    }

    fn holds(&self, batch: &Batch) -> Vec<bool> {
        let Assertion {
            conditions,
            among,
            computed,
            ..
        } = &self.assertion;
        let all: Vec<&Predicate> = conditions
            .iter()
            .map(|(condition, _)| condition)
            .chain(among)
            .collect();
        let truths = stream::ops::conditions::truths(&all, computed, &self.schema, batch);
        (0..batch.rows())
            .map(|row| truths.iter().all(|truth| truth[row]))
            .collect()
    }

    fn reading(
        &self,
        rule: &AlertRule,
        batch: &Batch,
        row: usize,
        cells: Vec<Value>,
        keys: &[FieldId],
    ) -> AlertDetails {
        let is_value = |(id, _): &(FieldId, Value)| {
            !keys.contains(id)
                && !["window_start", "window_end"].contains(&self.schema.field(*id).name.as_ref())
        };
        let values = self
            .schema
            .ids()
            .zip(cells)
            .filter(is_value)
            .filter(|(_, cell)| !cell.is_null());
        let values: Map<String, Value> = values
            .map(|(id, cell)| (self.schema.field(id).name.to_string(), cell))
            .collect();
        let filled = |text: &String| {
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some((before, (name, after))) = rest
                .split_once('{')
                .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
            {
                out.push_str(before);
                out.push_str(
                    &column(&self.schema, name)
                        .map(|id| shown(batch, id, row))
                        .unwrap_or_default(),
                );
                rest = after;
            }
            out + rest
        };
        let annotations = rule
            .asked
            .annotations
            .iter()
            .map(|(name, text)| (name.clone(), filled(text)));
        AlertDetails {
            values,
            annotations: annotations.collect(),
        }
    }
}

/// Formats a value for people.
fn shown(batch: &Batch, id: FieldId, row: usize) -> String {
    let cells = ColumnCells::of(batch, id).filter(|cells| !cells.is_null(row));
    cells.map_or_else(String::new, |cells| cells.shown(row))
}
