//! Reasons why a query has no rows: contradictory parsers or conditions before the run, and the actual traffic after
//! it. Reports only certain facts.

use parsers::registry::{self, ParserInput};
use plan::{ComparisonOperator, Literal, Plan, Predicate};

use runner::{FedInput, RunSummary};

/// Maximum protocols named in a reason.
const NAMES_MAX: usize = 6;

/// Contradictions in the plan.
pub fn never(plan: &Plan) -> Vec<String> {
    let names: Vec<&str> = plan
        .monitor
        .parsers
        .iter()
        .map(|parser| parser.schema.name.as_ref())
        .collect();
    let mut reasons = Vec::new();
    for (i, one) in names.iter().enumerate() {
        for other in &names[i + 1..] {
            if let (Some(a), Some(b)) = (protocol_of(one), protocol_of(other))
                && a != b
            {
                reasons.push(format!(
                    "{one} and {other} never join: several parsers are joined by flow, and a flow has one \
                     protocol"
                ));
            }
        }
    }
    let filters = plan
        .dataflow
        .inputs
        .iter()
        .filter_map(|input| input.filter.as_ref());
    let conditions: Vec<&Predicate> = filters
        .chain(&plan.dataflow.filter)
        .flat_map(parts)
        .collect();
    let contradicted = conditions.iter().enumerate().find_map(|(i, one)| {
        let other = conditions[i + 1..]
            .iter()
            .find(|other| contradict(one, other))?;
        Some(field_of(plan, one).or_else(|| field_of(plan, other)))
    });
    if let Some(field) = contradicted {
        let what = field.map_or("its conditions contradict each other".into(), |field| {
            format!("its conditions on {field} contradict each other")
        });
        reasons.push(format!("WHERE is never true: {what}"));
    }
    reasons
}

/// Protocol of a parser's flows.
fn protocol_of(parser: &str) -> Option<&'static str> {
    match registry::find(parser)?.reads {
        ParserInput::Messages(protocol, _) => Some(protocol.name),
        _ => None,
    }
}

/// Conditions of a conjunction.
fn parts(predicate: &Predicate) -> Vec<&Predicate> {
    match predicate {
        Predicate::And(parts) => parts.iter().flat_map(self::parts).collect(),
        other => vec![other],
    }
}

fn field_of(plan: &Plan, condition: &Predicate) -> Option<String> {
    let Predicate::Compare { column, .. } = condition else {
        return None;
    };
    let input = plan.dataflow.inputs.get(usize::from(column.input))?;
    Some(input.schema.field(column.field).name.to_string())
}

/// Whether no value of a column satisfies both comparisons. Only certain cases: numbers, and equality of texts.
fn contradict(one: &Predicate, other: &Predicate) -> bool {
    let (
        Predicate::Compare {
            column,
            op,
            literal,
        },
        Predicate::Compare {
            column: c,
            op: o,
            literal: l,
        },
    ) = (one, other)
    else {
        return false;
    };
    if column != c {
        return false;
    }
    match (literal, l) {
        (Literal::Text(a), Literal::Text(b)) => {
            *op == ComparisonOperator::Eq && *o == ComparisonOperator::Eq && a != b
        }
        _ => match (number(literal), number(l)) {
            (Some(a), Some(b)) => excludes((*op, a), (*o, b)) || excludes((*o, b), (*op, a)),
            _ => false,
        },
    }
}

fn number(literal: &Literal) -> Option<i128> {
    match literal {
        Literal::U64(n) => Some((*n).into()),
        Literal::I64(n) => Some((*n).into()),
        _ => None,
    }
}

/// Whether no integer satisfies both.
fn excludes((op, a): (ComparisonOperator, i128), (other, b): (ComparisonOperator, i128)) -> bool {
    match (op, other) {
        (ComparisonOperator::Eq, ComparisonOperator::Eq) => a != b,
        (ComparisonOperator::Eq, ComparisonOperator::Ne) => a == b,
        (ComparisonOperator::Eq, ComparisonOperator::Lt) => a >= b,
        (ComparisonOperator::Eq, ComparisonOperator::Le) => a > b,
        (ComparisonOperator::Eq, ComparisonOperator::Gt) => a <= b,
        (ComparisonOperator::Eq, ComparisonOperator::Ge) => a < b,
        (ComparisonOperator::Gt, ComparisonOperator::Lt) => a + 1 >= b,
        (ComparisonOperator::Gt, ComparisonOperator::Le)
        | (ComparisonOperator::Ge, ComparisonOperator::Lt) => a >= b,
        (ComparisonOperator::Ge, ComparisonOperator::Le) => a > b,
        _ => false,
    }
}

/// Whether no tuple has reached the result; without groups there is a row nevertheless.
pub fn is_nothing(plan: &Plan, summary: &RunSummary) -> bool {
    // The number of tuples in cells is unknown.
    if summary.published().is_some() {
        return summary.rows == 0;
    }
    // Monitors have already filtered the tuples.
    if matches!(summary.fed, Some(FedInput::Monitored(_))) {
        return summary.rows == 0;
    }
    let c = &summary.stream;
    let left = match plan.dataflow.inputs.len() {
        0 | 1 => c.tuples_in.saturating_sub(c.tuples_filtered),
        _ => c.tuples_joined,
    };
    summary.rows == 0 || left == 0
}

/// Reasons for an empty result, after a run over packets or a recording.
pub fn nothing(plan: &Plan, summary: &RunSummary) -> Vec<String> {
    let a = &summary.accounting;
    let stream = &summary.stream;
    if let Some(fed) = &summary.fed {
        return match (fed, fed.tuples()) {
            (FedInput::Recording(replayed), 0) if replayed.rows_skipped > 0 => {
                vec![format!(
                    "no match among {} recorded tuples",
                    replayed.rows_skipped
                )]
            }
            (FedInput::Recording(_), 0) => vec!["the recording has no tuples".into()],
            (FedInput::Published(published), 0) if published.records == 0 => {
                vec!["nothing was published in this period".into()]
            }
            (FedInput::Monitored(monitored), 0) if monitored.packets == 0 => {
                vec!["no packet reached a monitor".into()]
            }
            (FedInput::Monitored(_), 0) => vec!["the monitors' packets yielded no tuples".into()],
            (FedInput::Published(_), 0) => {
                vec!["the publishers sent no tuples in this period".into()]
            }
            _ => after_tuples(plan, summary),
        };
    }
    if a.received == 0 {
        return vec![match summary.source.filtered {
            0 => "no packets were read".into(),
            n => format!("the capture filter excluded all {n} packets"),
        }];
    }
    if a.undecodable_total() == a.received {
        return vec![format!(
            "none of {} could be decoded",
            some(a.received, "packet")
        )];
    }
    if a.parsed == 0 && a.filtered_total() > 0 {
        let mut reasons = vec![format!(
            "FROM and TO match none of {}",
            some(a.received, "packet")
        )];
        if a.filtered.direction > 0 {
            reasons.push(format!(
                "{} of flows in the opposite direction: FROM is the client, which connects; TO is the server",
                some(a.filtered.direction, "packet")
            ));
        }
        return reasons;
    }
    if a.tuples > 0 && stream.tuples_in > 0 {
        return after_tuples(plan, summary);
    }
    without_tuples(plan, summary)
}

/// Whether there were tuples of one parser, and WHERE matched none of them.
pub fn is_filtered(plan: &Plan, summary: &RunSummary) -> bool {
    let c = &summary.stream;
    c.tuples_filtered >= c.tuples_in.max(1) && plan.dataflow.inputs.len() == 1
}

/// Reasons after a run with tuples.
fn after_tuples(plan: &Plan, summary: &RunSummary) -> Vec<String> {
    let c = &summary.stream;
    let tuples = some(c.tuples_in, "tuple");
    if is_filtered(plan, summary) {
        return vec![format!("WHERE matches none of {tuples}")];
    }
    if plan.dataflow.inputs.len() > 1 && c.tuples_joined == 0 {
        let names: Vec<&str> = plan
            .dataflow
            .inputs
            .iter()
            .map(|input| input.schema.name.as_ref())
            .collect();
        let left = if c.tuples_filtered > 0 {
            format!(", {} excluded by conditions", c.tuples_filtered)
        } else {
            String::new()
        };
        return vec![format!(
            "no flow has tuples of {} at once: {tuples} of one or the other{left}",
            names.join(" and ")
        )];
    }
    if c.tuples_null_value > 0 {
        return vec![format!(
            "{} with null for the requested value",
            some(c.tuples_null_value, "tuple")
        )];
    }
    if c.tuples_late > 0 {
        return vec![format!(
            "{} arrived too late for their windows",
            some(c.tuples_late, "tuple")
        )];
    }
    vec![format!("{tuples}, none of them in the result")]
}

/// Reasons after a run with packets but no tuples: the applications of the flows.
fn without_tuples(plan: &Plan, summary: &RunSummary) -> Vec<String> {
    let a = &summary.accounting;
    let unread = &summary.accounting.unread;
    let wanted: Vec<&str> = plan
        .monitor
        .parsers
        .iter()
        .map(|parser| parser.schema.name.as_ref())
        .collect();
    if !wanted.iter().any(|parser| protocol_of(parser).is_some()) {
        return vec![format!(
            "{}, none with data for {}",
            some(a.received, "packet"),
            wanted.join(" or ")
        )];
    }
    let mut protocols: Vec<&str> = wanted
        .iter()
        .filter_map(|parser| protocol_of(parser))
        .collect();
    protocols.dedup();
    let mut reasons = Vec::new();
    let read = a.flows.opened.saturating_sub(unread.total());
    if unread.total() > 0 {
        let mut named: Vec<(&str, u64)> = unread
            .named
            .iter()
            .map(|(name, flows)| (*name, *flows))
            .collect();
        named.sort_by_key(|(_, flows)| std::cmp::Reverse(*flows));
        let rest: u64 = named.iter().skip(NAMES_MAX).map(|(_, flows)| flows).sum();
        let what = |name: &str| {
            if protocols.contains(&name) {
                " (captured from the middle, or too short)".to_owned()
            } else {
                how_to_read(name)
            }
        };
        let known = named
            .iter()
            .take(NAMES_MAX)
            .map(|(name, flows)| format!("{flows} {name}{}", what(name)));
        let others = [
            (rest, "other protocols"),
            (unread.unknown, "unknown"),
            (unread.silent, "without payload"),
        ];
        let others = others
            .iter()
            .filter(|(flows, _)| *flows > 0)
            .map(|(flows, what)| format!("{flows} {what}"));
        let all: Vec<String> = known.chain(others).collect();
        let flows = some(unread.total(), "flow");
        reasons.push(format!(
            "{flows} not parsed as {}: {}",
            protocols.join(" or "),
            all.join(", ")
        ));
    }
    if a.filtered_total() == 0 && read > 0 {
        reasons.push(format!(
            "{} may use {}, but had no message for {}",
            some(read, "flow"),
            protocols.join(" or "),
            wanted.join(" or ")
        ));
    }
    if reasons.is_empty() {
        reasons.push(format!("{}, but no flow", some(a.received, "packet")));
    }
    reasons
}

/// The parser of a protocol, or the reason why there is none.
fn how_to_read(name: &str) -> String {
    let parser = registry::PARSERS
        .iter()
        .find_map(|registration| match registration.reads {
            ParserInput::Messages(protocol, _) if protocol.name == name => {
                Some((registration.schema)().name)
            }
            _ => None,
        });
    match (parser, name) {
        (Some(parser), "tls") => format!(
            " (encrypted: not readable without keys; PARSE {parser} reads the handshake, PARSE encrypted estimates response times)"
        ),
        (Some(parser), "quic") => {
            format!(" (encrypted: not readable without keys; PARSE {parser} reads the handshake)")
        }
        (None, name) if is_encrypted(name) => " (encrypted: not readable without keys)".into(),
        (Some(parser), _) => format!(" (PARSE {parser})"),
        (None, _) => String::new(),
    }
}

/// Whether a protocol is encrypted.
pub fn is_encrypted(protocol: &str) -> bool {
    ["tls", "quic", "ssh", "wireguard", "dtls"].contains(&protocol)
}

/// A count with its noun.
fn some(n: u64, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictory_queries_are_reported() {
        for (query, expected) in [
            ("PARSE http", &[][..]),
            (
                "PARSE http, mysql_query",
                &["http and mysql_query never join"],
            ),
            ("PARSE http, http_get, tcp_conn_time", &[]),
            (
                "PARSE http WHERE status = 404 and status = 500",
                &["WHERE is never true: its conditions on status contradict each other"],
            ),
            (
                "PARSE http WHERE status > 499 and status < 500",
                &["WHERE is never true"],
            ),
            ("PARSE http WHERE status >= 499 and status < 500", &[]),
            ("PARSE http WHERE status > 500 or status < 500", &[]),
            (
                "PARSE http WHERE method = 'GET' WHERE method = 'POST'",
                &["WHERE is never true"],
            ),
            (
                "PARSE http WHERE method = 'GET' and not (method = 'POST')",
                &[],
            ),
            (
                "PARSE http WHERE status < 500 and response_time < 5ms and status != 404",
                &[],
            ),
        ] {
            let checked = query::check(query, &registry::schemas(), &())
                .unwrap_or_else(|e| panic!("{query}: {e:?}"));
            let reasons = never(&planner::lower(&checked));
            assert_eq!(reasons.len(), expected.len(), "{query}: {reasons:?}");
            assert!(
                reasons
                    .iter()
                    .zip(expected)
                    .all(|(got, want)| got.contains(want)),
                "{query}: {reasons:?}"
            );
        }
    }
}
