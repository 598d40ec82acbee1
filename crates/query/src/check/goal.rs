//! ERROR and BUDGET of SAMPLE auto: goals of a sampling rate that is chosen while the query runs.

use plan::{NetworkBudget, Pipeline, RateGoal, SampleMode, SampledUnit};

use super::budget;
use crate::ast;
use crate::error::quoted;
use crate::{CheckedQuery, Diagnostic, TextSpan, literal};

/// The bound of ERROR.
pub(super) fn error(bound: Option<&ast::ErrorBound>, errors: &mut Vec<Diagnostic>) -> Option<f64> {
    let bound = bound?;
    let text = bound.value.text.as_str();
    let error = literal::real(text).ok();
    let error = error.filter(|error| *error > 0.0 && *error < 1.0);
    if error.is_none() {
        let what = format!("{} is not a relative error", quoted(text));
        let wanted = "a share above 0 and below 100%, such as 5%";
        errors.push(Diagnostic::new(bound.value.span, what).expected(wanted));
    }
    error
}

/// Checks that the results have an error that a sampling rate can bound.
pub(super) fn check_error(
    bound: Option<&ast::ErrorBound>,
    sample: SampleMode,
    processors: &[Pipeline],
    errors: &mut Vec<Diagnostic>,
) {
    let Some(bound) = bound else { return };
    if sample != SampleMode::Auto {
        let what = "ERROR bounds the error of a rate that is chosen while the query runs";
        errors.push(Diagnostic::new(bound.span, what).hint("write SAMPLE auto ERROR 5%"));
        return;
    }
    errors.extend(unbounded("ERROR", bound.span, processors));
}

/// Makes BUDGET cpu of SAMPLE auto the goal of the rate of a query outside of a network.
pub(crate) fn budget_of_rate(
    clause: &ast::BudgetClause,
    query: Option<&mut CheckedQuery>,
    errors: &mut Vec<Diagnostic>,
) {
    let is_cpu = |bound: &ast::BudgetBound| bound.name.text.eq_ignore_ascii_case("cpu");
    match query {
        Some(query) if query.sample == SampleMode::Auto && clause.bounds.iter().all(is_cpu) => {
            errors.extend(unbounded("BUDGET", clause.span, &query.processors));
            query.goal.cpu = query.budget.cpu;
            query.budget = NetworkBudget::default();
        }
        _ => errors.push(budget::unheeded(clause)),
    }
}

/// The reason that a rate cannot be chosen by the results.
fn unbounded(clause: &str, span: TextSpan, processors: &[Pipeline]) -> Option<Diagnostic> {
    let error = |what: String| Some(Diagnostic::new(span, what));
    let Some(first) = processors.first() else {
        return error(format!(
            "{clause} needs a result with intervals, and tuples have none: add PROCESS"
        ));
    };
    if let Some(other) = processors.iter().find(|other| other.profile.is_some()) {
        return error(format!("{clause}: {} has no intervals", other.name));
    }
    if processors.iter().any(|other| other.window.is_none()) {
        let hint = "add a window to every processor, such as w=10s";
        let what = format!("{clause} chooses the rate from window to window");
        return error(what).map(|error| error.hint(hint));
    }
    if processors.iter().any(|other| other.window != first.window) {
        return error(format!("{clause} needs the same window in every processor"));
    }
    let mut aggregates = processors.iter().flat_map(|of| &of.aggregates);
    if aggregates.all(|column| !column.aggregate.has_error(SampledUnit::Tuples)) {
        return error(format!(
            "{clause} needs a count, sum, rate, throughput, avg, or share: the intervals of other aggregates, such as \
             extreme values, do not have a relative error"
        ));
    }
    None
}

impl CheckedQuery {
    /// Rejects a goal of the sampling rate where the rate is not controlled.
    ///
    /// # Errors
    /// The message, with `place`: the kind of query without control of the rate.
    pub fn without_goal(&self, place: &str) -> Result<(), String> {
        if self.goal == RateGoal::default() {
            return Ok(());
        }
        let clause = if self.goal.error.is_some() {
            "ERROR"
        } else {
            "BUDGET"
        };
        Err(format!(
            "{clause} of SAMPLE auto is not supported {place}: it controls the sampling rate of a query over packets or \
             export messages on this host"
        ))
    }
}
