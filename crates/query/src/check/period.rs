//! SINCE, UNTIL, and BASELINE: their times and combinations.

use crate::ast::{self, Atom};
use crate::error::quoted;
use crate::literal::{self, LiteralError};
use crate::period::{BaselinePeriod, PeriodMoment, TimePeriod};
use crate::{Diagnostic, iso_time};

/// Expected syntax of SINCE and UNTIL.
pub(crate) const MOMENT: &str = "a duration before the end, such as 2h, or a time such as '2026-11-22T10:00' or '2026-11-22 10:00+02:00'";

/// The query's period, and the baseline period.
pub(super) fn periods(
    ast: &ast::ParsedQuery,
    errors: &mut Vec<Diagnostic>,
) -> (TimePeriod, Option<BaselinePeriod>) {
    let own = period(ast.since.as_ref(), ast.until.as_ref(), errors);
    let baseline = ast
        .baseline
        .as_ref()
        .and_then(|baseline| check_baseline(ast, baseline, errors));
    (own, baseline)
}

fn period(since: Option<&Atom>, until: Option<&Atom>, errors: &mut Vec<Diagnostic>) -> TimePeriod {
    let period = TimePeriod {
        since: since.and_then(|atom| moment(atom, errors)),
        until: until.and_then(|atom| moment(atom, errors)),
    };
    let is_empty = match (period.since, period.until) {
        (Some(PeriodMoment::At(since)), Some(PeriodMoment::At(until))) => since >= until,
        (Some(PeriodMoment::BeforeEnd(since)), Some(PeriodMoment::BeforeEnd(until))) => {
            since <= until
        }
        _ => false,
    };
    if let (true, Some(until)) = (is_empty, until) {
        errors.push(Diagnostic::new(
            until.span,
            "UNTIL is not after SINCE: the period is empty",
        ));
    }
    period
}

fn moment(atom: &Atom, errors: &mut Vec<Diagnostic>) -> Option<PeriodMoment> {
    let text = atom.text.trim();
    let without = text
        .len()
        .checked_sub("ago".len())
        .and_then(|at| text.split_at_checked(at));
    let ago = without
        .filter(|(_, word)| word.eq_ignore_ascii_case("ago"))
        .map(|(length, _)| length.trim_end());
    match (
        literal::duration_ns(ago.unwrap_or(text)),
        iso_time::epoch_ns(text),
    ) {
        (Ok(ns @ 1..), _) => Some(PeriodMoment::BeforeEnd(ns)),
        (_, Some(ns)) => Some(PeriodMoment::At(ns)),
        (bad, None) => {
            let error = Diagnostic::new(atom.span, format!("{} is not a time", quoted(&atom.text)))
                .expected(MOMENT);
            let hint = || format!("write {text}h or {text}m");
            errors.push(error.maybe_hint((bad == Err(LiteralError::NoUnit)).then(hint)));
            None
        }
    }
}

fn check_baseline(
    ast: &ast::ParsedQuery,
    baseline: &ast::BaselineClause,
    errors: &mut Vec<Diagnostic>,
) -> Option<BaselinePeriod> {
    let mut complain = |message: &str, hint: &str| {
        errors.push(Diagnostic::new(baseline.span, message).hint(hint));
    };
    if ast.processors.is_empty() {
        complain(
            "BASELINE compares results of PROCESS, which is missing",
            "add PROCESS, as in PROCESS (diff-group)",
        );
    }
    if ast.since.is_none() {
        complain(
            "BASELINE compares a period",
            "add SINCE, as in SINCE 1h BASELINE 1d",
        );
    }
    let Some(earlier) = &baseline.earlier else {
        let period = period(baseline.since.as_ref(), baseline.until.as_ref(), errors);
        return period.since.map(|_| BaselinePeriod::Period(period));
    };
    match literal::duration_ns(earlier.text.trim()) {
        Ok(ns @ 1..) => Some(BaselinePeriod::Earlier(ns)),
        _ => {
            let error = Diagnostic::new(
                earlier.span,
                format!("{} is not a duration", quoted(&earlier.text)),
            );
            errors.push(error.expected("an offset such as 1h or 1d, or SINCE and a time"));
            None
        }
    }
}
