//! Columns present only if the query names them: `request_header.x_request_id`, `label.role` ([`tuple::ColumnFamily`]), and
//! `agent`. They are added to the parsers' schemas before names are resolved, and are then ordinary fields.

use std::sync::Arc;

use tuple::{AGENT, ColumnFamily, LABELS, MEMBERS_MAX, Schema, TAPS};

use crate::Diagnostic;
use crate::ast::Atom;
use crate::error::quoted;
use crate::lexer::{self, TokenKind, WordShape};

/// Adds the columns named by a word of the query to the schemas. All parsers of a family get the same columns, since
/// they may be one parser under two names.
pub(super) fn with_those_named(text: &str, mut schemas: Vec<Arc<Schema>>) -> Vec<Arc<Schema>> {
    let mut at = 0;
    loop {
        let token = lexer::token(text, at, WordShape::Name);
        at = token.span.end;
        // Quoted, `agent` is more likely a value.
        let (word, may_be_agent) = match token.kind {
            TokenKind::End => return schemas,
            TokenKind::Word => (&text[token.span.range()], true),
            TokenKind::Quoted(ref word) => (word.as_ref(), false),
            _ => continue,
        };
        // Operators may follow without a space.
        let word = word.split(['+', '%']).next().unwrap_or(word);
        let after_parser = word.split_once('.').map(|(_, rest)| rest);
        for name in [Some(word), after_parser].into_iter().flatten() {
            let is_agent = may_be_agent && name.eq_ignore_ascii_case(AGENT);
            let has_it = |schema: &&mut Arc<Schema>| is_agent || schema.family(name).is_some();
            schemas
                .iter_mut()
                .filter(has_it)
                .for_each(|schema| Arc::make_mut(schema).add_member(name));
        }
    }
}

/// The error for a missing column of a known family; `name` is without the parser.
pub(super) fn missing(at: &Atom, name: &str) -> Diagnostic {
    let (family, key) = name.split_once('.').unwrap_or((name, ""));
    if family.eq_ignore_ascii_case(TAPS.name) {
        let error = Diagnostic::new(at.span, format!("`tap` has no field {}", quoted(name)));
        return error.expected(
            "tap.seen, tap.client_time, tap.server_time, tap.network_time or tap.request",
        );
    }
    if ColumnFamily::key(key).is_some() {
        let message = format!("the query uses more than {MEMBERS_MAX} fields of heads and labels");
        return Diagnostic::new(at.span, message);
    }
    let (what, such_as) = if family.eq_ignore_ascii_case(LABELS.name) {
        ("label", "role")
    } else {
        ("field of a head", "x_request_id")
    };
    let error = Diagnostic::new(
        at.span,
        format!("{} is not a name of a {what}", quoted(name)),
    );
    error.expected(format!(
        "`{family}.` and a name of letters, digits, - and _, such as {family}.{such_as}"
    ))
}

/// A suggestion for an unknown field.
pub(super) fn hint(field: &str, schema: &Schema) -> Option<String> {
    let heads: Vec<&ColumnFamily> = schema
        .facts
        .families
        .iter()
        .filter(|family| **family != TAPS)
        .collect();
    let [first, .., last] = heads.as_slice() else {
        return None;
    };
    let key = ColumnFamily::key(field.split_once('.').map_or(field, |(_, key)| key))?;
    Some(format!(
        "write fields of heads as `{}.{key}` and `{}.{key}`",
        first.name, last.name
    ))
}

#[cfg(test)]
mod tests {
    use crate::test_schemas::schemas;

    /// Checks the columns that a query adds to its parsers, or its error.
    fn check(query: &str, expected: Result<&[&str], &str>) {
        match crate::check(query, &schemas(), &()) {
            Ok(checked) => {
                let of = |schema: &tuple::Schema| {
                    let name = |(id, _, _)| format!("{}.{}", schema.name, schema.field(id).name);
                    schema.members().map(name).collect::<Vec<_>>()
                };
                let names: Vec<String> = checked
                    .inputs
                    .iter()
                    .flat_map(|input| of(&input.schema))
                    .collect();
                assert_eq!(
                    Ok(&names.iter().map(String::as_str).collect::<Vec<_>>()[..]),
                    expected,
                    "{query}"
                );
            }
            Err(errors) => {
                let rendered = crate::render(&errors, query);
                let says = expected.expect_err(&rendered);
                assert!(rendered.contains(says), "{says}\n{rendered}");
            }
        }
    }

    #[test]
    fn names_become_columns() {
        check("PARSE http WHERE status = 500", Ok(&[]));
        check(
            "PARSE mysql_query WHERE query = 'request_header.x'",
            Ok(&[]),
        );
        check(
            "PARSE http WHERE request_header.x_request_id = 'a'",
            Ok(&["http.request_header.x_request_id"]),
        );
        check(
            "PARSE http WHERE Request_Header.X_ID is null or http.request_header.x_id like 'a%' \
             PROCESS (count-top-k: key=response_header.via)",
            Ok(&["http.request_header.x_id", "http.response_header.via"]),
        );
        // Both names refer to one parser, which has the columns of both.
        check(
            "PARSE http, http_get PROCESS (group-count: group=http_get.request_header.a)",
            Ok(&["http.request_header.a", "http_get.request_header.a"]),
        );
        check("PARSE http -- request_header.a\n WHERE status = 1", Ok(&[]));
        check(
            "PARSE http WHERE request_header.X-Request-ID = 'a'",
            Ok(&["http.request_header.x_request_id"]),
        );
        check(
            "PARSE http PROCESS (group-count: group='request_header.a')",
            Ok(&["http.request_header.a"]),
        );
    }

    #[test]
    fn agents_and_their_labels_are_columns_of_all() {
        check("PARSE mysql_query WHERE query = 'agent'", Ok(&[]));
        check(
            "PARSE mysql_query WHERE label.role = 'db' PROCESS (group-count: group=agent, mysql_query.label.Rack-Id)",
            Ok(&[
                "mysql_query.label.role",
                "mysql_query.agent",
                "mysql_query.label.rack_id",
            ]),
        );
        check(
            "PARSE http SELECT Agent, label.rack-id",
            Ok(&["http.agent", "http.label.rack_id"]),
        );
        check(
            "PARSE mysql_query WHERE label.a.b = 'x'",
            Err("is not a name of a label"),
        );
    }

    #[test]
    fn invalid_member_names_are_reported() {
        check(
            "PARSE http WHERE request_header.a.b = 'x'",
            Err("is not a name of a field of a head"),
        );
        check(
            "PARSE http WHERE request_header. = 'x'",
            Err("is not a name of a field of a head"),
        );
        check(
            "PARSE http WHERE http.response_header.ä = 'x'",
            Err("is not a name of a field of a head"),
        );
        check(
            "PARSE mysql_query WHERE request_header.a = 'x'",
            Err("`http` has it"),
        );
        check(
            "PARSE http WHERE x_forwarded_for = '1'",
            Err("`request_header.x_forwarded_for` and `response_header.x_forwarded_for`"),
        );
        let many: Vec<String> = (0..17)
            .map(|i| format!("request_header.x{i} is null"))
            .collect();
        check(
            &format!("PARSE http WHERE {}", many.join(" and ")),
            Err("more than 16 fields of heads"),
        );
    }
}
