//! BUDGET: maximum resources of a query in a network.

use plan::NetworkBudget;

use crate::ast;
use crate::error::quoted;
use crate::{Diagnostic, literal};

const CPU: &str = "a share of a host's cores above 0 and up to 100%, such as 5%";
const BANDWIDTH: &str = "a rate above 0, such as 100Mbps";
/// Units of rates, in Mb/s.
const UNITS: [(&str, f64); 4] = [("kbps", 1e-3), ("Mbps", 1.0), ("Gbps", 1e3), ("bps", 1e-6)];

/// The limits of a query; unlimited without BUDGET.
pub(super) fn budget(
    clause: Option<&ast::BudgetClause>,
    errors: &mut Vec<Diagnostic>,
) -> NetworkBudget {
    let mut budget = NetworkBudget::default();
    for bound in clause.iter().flat_map(|clause| &clause.bounds) {
        let name = bound.name.text.to_ascii_lowercase();
        let text = bound.value.text.as_str();
        let (place, value, wanted) = match name.as_str() {
            "cpu" => (&mut budget.cpu, share(text), CPU),
            "bandwidth" => (&mut budget.bandwidth_mbps, mbps(text), BANDWIDTH),
            _ => {
                let what = format!("{} cannot be limited", quoted(&bound.name.text));
                errors.push(Diagnostic::new(bound.name.span, what).expected("cpu or bandwidth"));
                continue;
            }
        };
        match value {
            None => {
                let what = format!("{} is not a limit for {name}", quoted(text));
                errors.push(Diagnostic::new(bound.value.span, what).expected(wanted));
            }
            Some(_) if place.is_some() => {
                errors.push(Diagnostic::new(
                    bound.name.span,
                    format!("{name} is limited twice"),
                ));
            }
            some => *place = some,
        }
    }
    budget
}

/// The error for BUDGET outside of a network.
pub(crate) fn unheeded(clause: &ast::BudgetClause) -> Diagnostic {
    let what = "BUDGET limits the load on a network, but this query has no network";
    Diagnostic::new(clause.span, what)
        .hint("add --network FILE, or SAMPLE auto with a budget for cpu only, or remove BUDGET")
}

fn share(text: &str) -> Option<f64> {
    literal::real(text)
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0)
}

fn mbps(text: &str) -> Option<f64> {
    let with = |(unit, factor): &(&str, f64)| {
        let at = text
            .len()
            .checked_sub(unit.len())
            .filter(|at| text.is_char_boundary(*at))?;
        let (number, rest) = text.split_at(at);
        rest.eq_ignore_ascii_case(unit).then_some((number, *factor))
    };
    let (number, factor) = UNITS.iter().find_map(with)?;
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number * factor)
}
