//! Resolves a query: parsers, fields, hosts, literals, processors, and defaults. Checking continues after an error,
//! and consequential errors are not reported.

mod address;
mod arithmetic;
pub(crate) mod assertion;
pub(crate) mod budget;
mod called_aggregates;
mod computed_fields;
mod condition;
mod expr;
mod functions;
pub(crate) mod goal;
mod members;
mod names;
pub(crate) mod period;
pub(crate) mod processor;
mod rows;
mod selection;
mod service_map;
mod values;
mod workload;

use std::sync::Arc;

use plan::{Predicate, QueryLimit, RateGoal, SampleMode, TapSelection};
use tuple::Schema;

use crate::ast::{self, Atom};
use crate::checked_query::{CheckedQuery, QueryInput};
use crate::error::quoted;
use crate::literal::{self, LiteralError};
use crate::nearest::{did_you_mean, one_of};
use crate::{Diagnostic, HostResolver, unsupported_protocols};
use computed_fields::ComputedFields;
use names::NameScope;
use values::ConditionChecker;

/// Maximum parsers of a query.
const PARSERS_MAX: usize = 16;

/// Checks a query; parts with errors are omitted and the errors recorded.
pub(crate) fn check(
    text: &str,
    ast: &ast::ParsedQuery,
    schemas: &[Arc<Schema>],
    hosts: &dyn HostResolver,
    errors: &mut Vec<Diagnostic>,
) -> Option<CheckedQuery> {
    let parse_is_whole = errors.is_empty();
    let parsers = parsers(&ast.parsers, schemas, errors);
    let parsers = members::with_those_named(text, parsers);
    let complete = parsers.len() == ast.parsers.len() && (parse_is_whole || !parsers.is_empty());
    let computing = ComputedFields::new();
    let scope = NameScope::new(&parsers, schemas, complete, text, hosts, &computing)
        .with_aliases(&ast.aliases);
    let from = address::list(&ast.from, hosts, errors);
    let to = address::list(&ast.to, hosts, errors);
    let filter = filter(&ast.filters, &scope, errors);
    let (period, baseline) = period::periods(ast, errors);
    let limit = limit(&ast.limits, errors);
    let sample = sample(ast.sample.as_ref(), errors);
    let goal = RateGoal {
        error: goal::error(ast.error.as_ref(), errors),
        cpu: None,
    };
    let taps = taps(ast.taps.as_ref(), errors);
    let budget = budget::budget(ast.budget.as_ref(), errors);
    let processors = processor::list(&ast.processors, &scope, filter.as_ref(), errors);
    let wholes = processor::only_wholes(&processors, &scope);
    let rows = rows::rows(ast, &scope, errors);
    let inputs = parsers
        .into_iter()
        .zip(wholes)
        .map(|(schema, filter)| QueryInput { schema, filter })
        .collect();
    let processors: Vec<_> = processors.into_iter().map(|p| p.processor).collect();
    if processors.len() == ast.processors.len() {
        goal::check_error(ast.error.as_ref(), sample, &processors, errors);
    }
    let computed = computing.list();
    let query = CheckedQuery {
        text: text.to_owned(),
        inputs,
        from,
        to,
        filter,
        period,
        baseline,
        limit,
        sample,
        goal,
        taps,
        budget,
        processors,
        computed,
        rows,
    };
    (!query.inputs.is_empty()).then_some(query)
}

fn parsers(
    names: &[Atom],
    schemas: &[Arc<Schema>],
    errors: &mut Vec<Diagnostic>,
) -> Vec<Arc<Schema>> {
    let mut parsers: Vec<Arc<Schema>> = Vec::new();
    for (i, name) in names.iter().enumerate() {
        match schemas
            .iter()
            .find(|s| s.name.eq_ignore_ascii_case(&name.text))
        {
            None => errors.push(unknown_parser(name, schemas)),
            Some(known) if parsers.iter().any(|p| p.name == known.name) => {
                errors.push(Diagnostic::new(
                    name.span,
                    format!("parser {} is named twice", quoted(&name.text)),
                ));
            }
            Some(_) if i >= PARSERS_MAX => {
                errors.push(Diagnostic::new(
                    name.span,
                    format!("more than {PARSERS_MAX} parsers in one query"),
                ));
                return parsers;
            }
            Some(known) => parsers.push(known.clone()),
        }
    }
    parsers
}

fn unknown_parser(name: &Atom, schemas: &[Arc<Schema>]) -> Diagnostic {
    let error = Diagnostic::new(name.span, format!("unknown parser {}", quoted(&name.text)));
    let names = schemas.iter().map(|s| s.name.as_ref());
    match unsupported_protocols::hint(&name.text, schemas)
        .or_else(|| did_you_mean(&name.text, names.clone()))
    {
        Some(hint) => error.hint(hint),
        None => error.expected(one_of(names)),
    }
}

/// The conjunction of all WHERE clauses.
fn filter(
    filters: &[ast::QueryExpr],
    scope: &NameScope<'_>,
    errors: &mut Vec<Diagnostic>,
) -> Option<Predicate> {
    let mut conditions = ConditionChecker::new(scope, errors);
    let mut all = Vec::new();
    for condition in filters.iter().filter_map(|expr| conditions.check(expr)) {
        match condition {
            Predicate::And(parts) => all.extend(parts),
            other => all.push(other),
        }
    }
    if all.len() > 1 {
        Some(Predicate::And(all))
    } else {
        all.pop()
    }
}

fn limit(atoms: &[Atom], errors: &mut Vec<Diagnostic>) -> QueryLimit {
    const WANTED: &str =
        "a duration such as 90s, or packets such as 5000p, or rows such as 20 rows";
    let mut limit = QueryLimit::default();
    for atom in atoms {
        let found = quoted(&atom.text);
        let packets = atom.text.strip_suffix(['p', 'P']).map(literal::whole);
        let twice = match packets {
            Some(Ok(n @ 1..)) if u64::try_from(n).is_ok() => {
                limit.packets.replace(n as u64).is_some()
            }
            Some(_) => {
                errors.push(
                    Diagnostic::new(atom.span, format!("{found} is not a number of packets"))
                        .expected(WANTED),
                );
                false
            }
            None => match literal::duration_ns(&atom.text) {
                Ok(nanos @ 1..) => limit.nanos.replace(nanos).is_some(),
                bad => {
                    let error = Diagnostic::new(atom.span, format!("{found} is not a limit"))
                        .expected(WANTED);
                    let hint = || format!("write {0}s, {0}p or {0} rows", atom.text);
                    errors.push(error.maybe_hint((bad == Err(LiteralError::NoUnit)).then(hint)));
                    false
                }
            },
        };
        if twice {
            let kind = if packets.is_some() {
                "packets"
            } else {
                "duration"
            };
            errors.push(Diagnostic::new(
                atom.span,
                format!("a second limit of {kind}"),
            ));
        }
    }
    limit
}

fn sample(atom: Option<&Atom>, errors: &mut Vec<Diagnostic>) -> SampleMode {
    let Some(atom) = atom else {
        return SampleMode::All;
    };
    let share = match atom.text.split_once('/') {
        Some((part, whole)) => literal::real(part).and_then(|p| Ok(p / literal::real(whole)?)),
        None => literal::real(&atom.text),
    };
    match (atom.text.as_str(), share) {
        ("*", _) => SampleMode::All,
        (word, _) if word.eq_ignore_ascii_case("auto") => SampleMode::Auto,
        (_, Ok(1.0)) => SampleMode::All,
        (_, Ok(p)) if p > 0.0 && p < 1.0 => SampleMode::Fraction(p),
        (word, share) => {
            let found = Diagnostic::new(
                atom.span,
                format!("{} is not a sampling rate", quoted(word)),
            );
            let error =
                found.expected("a share above 0 and up to 1, such as 0.1 or 1/1000, or auto, or *");
            let one_in = share.is_ok_and(|p| p > 1.0) && word.bytes().all(|b| b.is_ascii_digit());
            let hint = one_in.then(|| format!("write 1/{word} for one flow in {word}"));
            errors.push(error.maybe_hint(hint));
            SampleMode::All
        }
    }
}

fn taps(atom: Option<&Atom>, errors: &mut Vec<Diagnostic>) -> TapSelection {
    const WORDS: [(&str, TapSelection); 3] = [
        ("server", TapSelection::Server),
        ("client", TapSelection::Client),
        ("all", TapSelection::All),
    ];
    let Some(atom) = atom else {
        return TapSelection::default();
    };
    let known = WORDS
        .iter()
        .find(|(word, _)| atom.text.eq_ignore_ascii_case(word));
    known.map_or_else(
        || {
            let error = Diagnostic::new(
                atom.span,
                format!("{} is not a set of taps", quoted(&atom.text)),
            );
            errors.push(error.expected("server, client or all"));
            TapSelection::default()
        },
        |(_, taps)| *taps,
    )
}

#[cfg(test)]
mod tests;
