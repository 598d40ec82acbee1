//! Conditions of a statement in SQL on `client` and `server`, which are FROM and TO of a query.

use plan::ComparisonOperator;

use super::QueryReader;
use crate::Diagnostic;
use crate::ast::{Atom, ExprForm, ParsedQuery, QueryExpr};
use crate::error::quoted;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Client,
    Server,
}

impl QueryReader<'_> {
    /// Moves conditions on `client` and `server` to FROM and TO.
    pub(super) fn endpoints(&mut self, query: &mut ParsedQuery) {
        for filter in std::mem::take(&mut query.filters) {
            let parts = match filter.form {
                ExprForm::And(parts) => parts,
                form => vec![QueryExpr { form, ..filter }],
            };
            for part in parts {
                self.condition(part, query);
            }
        }
    }

    fn condition(&mut self, condition: QueryExpr, query: &mut ParsedQuery) {
        let Some(name) = name_of_endpoint(&condition) else {
            return query.filters.push(condition);
        };
        let text = quoted(&name.text);
        let error = match addresses_of(&condition) {
            Some((endpoint, addresses)) => {
                let list = match endpoint {
                    Endpoint::Client => &mut query.from,
                    Endpoint::Server => &mut query.to,
                };
                if list.is_empty() {
                    return *list = addresses;
                }
                Diagnostic::new(name.span, format!("{text} has a second condition"))
                    .hint("write one, as in server = 10.0.0.2:80 or server in (10.0.0.1, 10.0.0.2)")
            }
            None => {
                let message =
                    format!("{text} is compared with addresses by = or in, joined by and");
                let hint =
                    "in other conditions, write client_ip, client_port, server_ip, or server_port";
                Diagnostic::new(name.span, message).hint(hint)
            }
        };
        self.report(error);
    }
}

/// The first `client` or `server` in a condition.
fn name_of_endpoint(condition: &QueryExpr) -> Option<&Atom> {
    match &condition.form {
        ExprForm::Atom(atom) => endpoint(atom).map(|_| atom),
        _ => condition.parts().into_iter().find_map(name_of_endpoint),
    }
}

fn endpoint(name: &Atom) -> Option<Endpoint> {
    match name.text.to_ascii_lowercase().as_str() {
        "client" if !name.quoted => Some(Endpoint::Client),
        "server" if !name.quoted => Some(Endpoint::Server),
        _ => None,
    }
}

/// The addresses of `client = a`, `server in (a, b)`, and of `client = a or client = b`.
fn addresses_of(condition: &QueryExpr) -> Option<(Endpoint, Vec<Atom>)> {
    let (side, addresses) = match &condition.form {
        ExprForm::Compare(side, ComparisonOperator::Eq, address) => match &address.form {
            ExprForm::Atom(address) => (side, vec![address.clone()]),
            _ => return None,
        },
        ExprForm::In(side, addresses) => (side, addresses.clone()),
        ExprForm::Or(parts) => {
            let parts: Vec<_> = parts.iter().map(addresses_of).collect::<Option<_>>()?;
            let (first, _) = *parts.first()?;
            let is_one = parts.iter().all(|(endpoint, _)| *endpoint == first);
            let addresses = parts.into_iter().flat_map(|(_, addresses)| addresses);
            return is_one.then(|| (first, addresses.collect()));
        }
        _ => return None,
    };
    let ExprForm::Atom(side) = &side.form else {
        return None;
    };
    let addresses = addresses.into_iter().map(|address| Atom {
        quoted: false,
        ..address
    });
    Some((endpoint(side)?, addresses.collect()))
}
