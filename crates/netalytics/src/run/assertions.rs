//! Evaluates assertions on rows, and lists the rows that violate them.

use std::sync::Arc;

use plan::{ComputedField, Predicate};
use query::{Assertion, AssertionScope, Diagnostic, TextSpan};
use serde_json::{Map, Value, json};
use sinks::cells::{CellValues, ColumnCells, ip};
use stream::ops::conditions::truths;
use tuple::{Batch, FieldId, Schema, TupleWriter};

/// Maximum violating rows shown per assertion.
const SHOWN_MAX: usize = 10;

/// An assertion: text and parsed form.
pub struct ParsedAssertion {
    /// The text.
    pub text: String,
    /// Parsed form.
    pub assertion: Assertion,
}

/// Rows of a result.
pub struct ResultRows<'a> {
    /// Schema of the rows.
    pub schema: &'a Arc<Schema>,
    /// Number of leading columns that identify a row: window and groups.
    pub keys: usize,
    /// The rows.
    pub batches: &'a [Batch],
}

/// Result of an assertion.
pub struct AssertionOutcome {
    /// Text of the assertion.
    pub text: String,
    /// Number of rows to which the assertion applies.
    pub rows: u64,
    /// `None`: the assertion holds.
    pub failure: Option<AssertionFailure>,
}

/// Reason why an assertion fails.
pub struct AssertionFailure {
    /// Message.
    pub sentence: String,
    /// Position of the condition in the text.
    pub place: TextSpan,
    /// The first violating rows.
    pub violations: Vec<Violation>,
}

/// A row that violates an assertion.
pub struct Violation {
    /// For people: key columns and values.
    pub text: String,
    /// For programs: key columns.
    pub row: Map<String, Value>,
    /// For programs: values.
    pub values: Map<String, Value>,
}

impl ParsedAssertion {
    /// Evaluates the assertion on the rows. With `allow_empty` it holds if it applies to no rows.
    pub fn judge(&self, answer: &ResultRows<'_>, allow_empty: bool) -> AssertionOutcome {
        let number: u64 = answer.batches.iter().map(|batch| batch.rows() as u64).sum();
        let (outcome_rows, failure) = match self.assertion.of {
            AssertionScope::Number => {
                let schema = query::rows_schema();
                let mut writer = TupleWriter::new(schema.clone(), &[FieldId(0)]);
                writer.u64(FieldId(0), number);
                writer.end_row();
                let batches = [writer.finish()];
                let rows = ResultRows {
                    schema: &schema,
                    keys: 0,
                    batches: &batches,
                };
                (number, self.failure_of_all(&rows, false).1)
            }
            AssertionScope::All => self.failure_of_all(answer, allow_empty),
            AssertionScope::Any => self.failure_of_any(answer, allow_empty),
        };
        AssertionOutcome {
            text: self.text.clone(),
            rows: outcome_rows,
            failure,
        }
    }

    fn failure_of_all(
        &self,
        answer: &ResultRows<'_>,
        allow_empty: bool,
    ) -> (u64, Option<AssertionFailure>) {
        let mut about = 0;
        let mut violated = 0;
        let mut failure: Option<AssertionFailure> = None;
        for batch in answer.batches {
            let truths = self.truths(answer.schema, batch);
            for row in (0..batch.rows()).filter(|row| truths.among[*row]) {
                about += 1;
                let Some(at) = truths.conditions.iter().position(|truth| !truth[row]) else {
                    continue;
                };
                violated += 1;
                let (condition, place) = &self.assertion.conditions[at];
                let failure = failure.get_or_insert_with(|| self.failure(*place));
                if failure.violations.len() < SHOWN_MAX {
                    failure
                        .violations
                        .push(self.violation(answer, batch, row, condition));
                }
            }
        }
        if let Some(failure) = &mut failure {
            let rows = if about == 1 { "row" } else { "rows" };
            failure.sentence = match self.assertion.of {
                AssertionScope::Number => "false".to_owned(),
                _ => format!("false for {violated} of {about} {rows}"),
            };
        }
        let failure =
            failure.or_else(|| (about == 0 && !allow_empty).then(|| self.nothing(answer)));
        (about, failure)
    }

    fn failure_of_any(
        &self,
        answer: &ResultRows<'_>,
        allow_empty: bool,
    ) -> (u64, Option<AssertionFailure>) {
        let mut about = 0;
        for batch in answer.batches {
            let truths = self.truths(answer.schema, batch);
            for row in (0..batch.rows()).filter(|row| truths.among[*row]) {
                about += 1;
                if truths.conditions.iter().all(|truth| truth[row]) {
                    return (about, None);
                }
            }
        }
        if about == 0 {
            return (0, (!allow_empty).then(|| self.nothing(answer)));
        }
        let mut failure = self.failure(TextSpan::new(0, self.text.len()));
        failure.sentence = format!("false for all {about} rows");
        (about, Some(failure))
    }

    fn failure(&self, place: TextSpan) -> AssertionFailure {
        AssertionFailure {
            sentence: String::new(),
            place,
            violations: Vec::new(),
        }
    }

    fn nothing(&self, answer: &ResultRows<'_>) -> AssertionFailure {
        let is_empty = answer.batches.iter().all(|batch| batch.rows() == 0);
        let sentence = if is_empty {
            "no rows"
        } else {
            "no row matches WHERE"
        };
        AssertionFailure {
            sentence: sentence.into(),
            ..self.failure(TextSpan::new(0, self.text.len()))
        }
    }

    fn truths(&self, schema: &Schema, batch: &Batch) -> ConditionMasks {
        let conditions = self
            .assertion
            .conditions
            .iter()
            .map(|(condition, _)| condition);
        let all: Vec<&Predicate> = conditions.chain(&self.assertion.among).collect();
        let mut conditions = truths(&all, &self.assertion.computed, schema, batch);
        let among = self.assertion.among.as_ref().and_then(|_| conditions.pop());
        ConditionMasks {
            among: among.unwrap_or_else(|| vec![true; batch.rows()]),
            conditions,
        }
    }

    /// Description of a row that violates the condition: its keys, and the columns that the condition reads.
    fn violation(
        &self,
        answer: &ResultRows<'_>,
        batch: &Batch,
        row: usize,
        condition: &Predicate,
    ) -> Violation {
        let keys: Vec<FieldId> = answer.schema.ids().take(answer.keys).collect();
        let mut read: Vec<FieldId> = Vec::new();
        condition.columns(&mut |column| {
            ComputedField::sources(&self.assertion.computed, column, &mut |source| {
                read.push(source.field)
            });
        });
        read.retain(|id| !keys.contains(id));
        read.sort_unstable();
        read.dedup();
        let exact = |ids: &[FieldId]| -> Map<String, Value> {
            let pair = |id: &FieldId| {
                (
                    answer.schema.field(*id).name.to_string(),
                    exact(batch, *id, row),
                )
            };
            ids.iter().map(pair).collect()
        };
        let named = |id: &FieldId| {
            format!(
                "{} {}",
                answer.schema.field(*id).name,
                shown(batch, *id, row)
            )
        };
        let list = |ids: &[FieldId]| ids.iter().map(named).collect::<Vec<_>>().join(", ");
        let text = if keys.is_empty() {
            list(&read)
        } else {
            format!("{}: {}", list(&keys), list(&read))
        };
        Violation {
            text,
            row: exact(&keys),
            values: exact(&read),
        }
    }
}

/// Results of conditions by row.
struct ConditionMasks {
    among: Vec<bool>,
    conditions: Vec<Vec<bool>>,
}

/// Formats a value for people.
fn shown(batch: &Batch, id: FieldId, row: usize) -> String {
    let cells = ColumnCells::of(batch, id).filter(|cells| !cells.is_null(row));
    cells.map_or_else(|| "null".into(), |cells| cells.shown(row))
}

/// Formats a value for programs.
fn exact(batch: &Batch, id: FieldId, row: usize) -> Value {
    let Some(cells) = ColumnCells::of(batch, id).filter(|cells| !cells.is_null(row)) else {
        return Value::Null;
    };
    match cells.values {
        CellValues::Bool(values) => json!(values.value(row)),
        CellValues::U64(values) => json!(values.value(row)),
        CellValues::I64(values) => json!(values.value(row)),
        CellValues::F64(values) => json!(values.value(row)),
        CellValues::Text(values) | CellValues::Json(values) => json!(values.value(row)),
        CellValues::Ip(values) => json!(ip(values.value(row)).to_string()),
        CellValues::Hashes(_) => Value::Null,
    }
}

impl AssertionOutcome {
    /// Outcome for incomplete input: assertions cannot be evaluated without the rest.
    pub fn unread() -> AssertionOutcome {
        let text = "complete input".to_owned();
        let place = TextSpan::new(0, text.len());
        let sentence = "no: the result is incomplete".to_owned();
        AssertionOutcome {
            text,
            rows: 0,
            failure: Some(AssertionFailure {
                sentence,
                place,
                violations: Vec::new(),
            }),
        }
    }

    /// For people: a line, and for a failure the position and the rows.
    pub fn lines(&self) -> String {
        let Some(failure) = &self.failure else {
            return format!("ok      {}\n", self.text);
        };
        let error = Diagnostic::new(failure.place, failure.sentence.clone());
        let rendered = query::render(&[error], &self.text);
        let (sentence, place) = rendered.split_once('\n').unwrap_or((&rendered, ""));
        let mut lines = format!("failed  {}\n", sentence.trim_start_matches("error: "));
        place.lines().for_each(|line| {
            lines.push_str(&format!(
                "        {}\n",
                line.trim_end().get(2..).unwrap_or("")
            ))
        });
        failure
            .violations
            .iter()
            .for_each(|violation| lines.push_str(&format!("          {}\n", violation.text)));
        lines
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let failure = self.failure.as_ref();
        let violations = failure.map_or(&[][..], |failure| &failure.violations);
        json!({
            "assert": self.text,
            "passed": failure.is_none(),
            "rows": self.rows,
            "message": failure.map(|failure| &failure.sentence),
            "violations": violations.iter().map(|v| json!({ "row": v.row, "values": v.values })).collect::<Vec<_>>(),
        })
    }
}

/// Outcomes as JUnit XML, for continuous integration.
pub fn junit(query: &str, outcomes: &[AssertionOutcome]) -> String {
    let failures = outcomes
        .iter()
        .filter(|outcome| outcome.failure.is_some())
        .count();
    let counts = format!("tests=\"{}\" failures=\"{failures}\"", outcomes.len());
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    xml.push_str(&format!(
        "<testsuites {counts}>\n  <testsuite name=\"{}\" {counts}>\n",
        escaped(query)
    ));
    for outcome in outcomes {
        xml.push_str(&format!(
            "    <testcase classname=\"netalytics\" name=\"{}\"",
            escaped(&outcome.text)
        ));
        match &outcome.failure {
            None => xml.push_str("/>\n"),
            Some(failure) => {
                let lines: Vec<&str> = failure.violations.iter().map(|v| v.text.as_str()).collect();
                xml.push_str(&format!(
                    ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
                    escaped(&failure.sentence),
                    escaped(&lines.join("\n"))
                ));
            }
        }
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// Escapes text for XML; removes characters that XML 1.0 does not allow.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                out.push(char::REPLACEMENT_CHARACTER)
            }
            c => out.push(c),
        }
    }
    out
}
