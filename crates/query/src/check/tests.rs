//! Queries with their plans, and invalid queries with their errors.

use plan::{AddressMatch, AggregateFunction, CaseSensitivity, Column, Pipeline, TopK, Window};

use super::*;

mod budget;
mod conditions;
mod errors;
mod expr;
mod goal;

use crate::test_schemas::{hosts, schemas};

mod papers;
mod period;
mod processors;
mod random;
mod results;
mod sql;
mod sql_habits;
mod sql_random;

fn checked(text: &str) -> CheckedQuery {
    crate::check(text, &schemas(), &hosts())
        .unwrap_or_else(|e| panic!("{}", crate::render(&e, text)))
}

/// `parser.field` for each column.
fn names(query: &CheckedQuery, columns: &[Column]) -> Vec<String> {
    let name = |c: &Column| {
        format!(
            "{}.{}",
            query.inputs[usize::from(c.input)].schema.name,
            query.field(*c).name
        )
    };
    columns.iter().map(name).collect()
}

fn value_of(query: &CheckedQuery, processor: &Pipeline) -> Vec<String> {
    names(
        query,
        &processor
            .values
            .iter()
            .map(|value| value.column)
            .collect::<Vec<_>>(),
    )
}

fn computed(processor: &Pipeline) -> Vec<AggregateFunction> {
    processor
        .aggregates
        .iter()
        .map(|a| a.aggregate.clone())
        .collect()
}

fn groups_of(query: &CheckedQuery, processor: &Pipeline) -> Vec<String> {
    names(
        query,
        &processor
            .group
            .iter()
            .map(|group| group.column)
            .collect::<Vec<_>>(),
    )
}

/// The condition with names, fully parenthesized.
fn shown(query: &CheckedQuery, condition: &Predicate) -> String {
    let name = |c: &Column| query.field(*c).name.to_string();
    let list = |parts: &[Predicate], word: &str| {
        format!(
            "({})",
            parts
                .iter()
                .map(|p| shown(query, p))
                .collect::<Vec<_>>()
                .join(word)
        )
    };
    match condition {
        Predicate::And(parts) => list(parts, " and "),
        Predicate::Or(parts) => list(parts, " or "),
        Predicate::Not(inner) => format!("not {}", shown(query, inner)),
        Predicate::Compare {
            column,
            op,
            literal,
        } => format!("{} {op:?} {literal:?}", name(column)),
        Predicate::Like {
            column,
            pattern,
            case,
        } => match case {
            CaseSensitivity::Sensitive => format!("{} like {pattern:?}", name(column)),
            CaseSensitivity::Ignored => format!("{} ilike {pattern:?}", name(column)),
        },
        Predicate::Matches { column, regex } => {
            format!(
                "{} ~{} {:?}",
                name(column),
                if regex.case == CaseSensitivity::Ignored {
                    "*"
                } else {
                    ""
                },
                regex.pattern
            )
        }
        Predicate::In { column, literals } => format!("{} in {literals:?}", name(column)),
        Predicate::IsNull(c) => format!("{} is null", name(c)),
    }
}

/// Checks the reported errors: position, message, and label.
fn check_errors(text: &str, expected: &[(&str, &str)]) {
    let errors = match crate::check(text, &schemas(), &hosts()) {
        Ok(query) => panic!("{text}: taken as {query:?}"),
        Err(errors) => errors,
    };
    let rendered = crate::render(&errors, text);
    assert_eq!(errors.len(), expected.len(), "{text}\n{rendered}");
    for (error, (place, says)) in errors.iter().zip(expected) {
        assert_eq!(&text[error.span.range()], *place, "{rendered}");
        let said = format!("{}: {}", error.message, error.label());
        assert!(said.contains(says), "{says}\n{rendered}");
    }
}

#[test]
fn clauses_come_in_any_order_and_case() {
    let a = checked(
        "PARSE http FROM h1 TO h2 WHERE status = 200 LIMIT 1m, 10p SAMPLE 1/4 PROCESS count",
    );
    let b = checked(
        "parse Http\n\tprocess count -- all\nsample 0.25 limit 10P,1M where status==200 to h2 from h1 ;\n",
    );
    assert_eq!(
        CheckedQuery {
            text: String::new(),
            ..a
        },
        CheckedQuery {
            text: String::new(),
            ..b
        }
    );
}

#[test]
fn limits_and_rates() {
    let limit = |text: &str| checked(&format!("PARSE http LIMIT {text}")).limit;
    assert_eq!(
        limit("250ms"),
        QueryLimit {
            packets: None,
            nanos: Some(250_000_000)
        }
    );
    assert_eq!(
        limit("1h, 5000p,"),
        QueryLimit {
            packets: Some(5000),
            nanos: Some(3_600_000_000_000)
        }
    );
    let sample = |text: &str| checked(&format!("PARSE http SAMPLE {text}")).sample;
    assert_eq!(sample("1/1000"), SampleMode::Fraction(0.001));
    assert_eq!(sample("10%"), SampleMode::Fraction(0.1));
    assert_eq!(sample("AUTO"), SampleMode::Auto);
    assert_eq!(sample("1.0"), SampleMode::All);
    assert_eq!(checked("PARSE http").sample, SampleMode::All);
}

fn processor(parse: &str, process: &str) -> (CheckedQuery, Pipeline) {
    let q = checked(&format!("PARSE {parse} PROCESS {process}"));
    let [p] = q.processors.as_slice() else {
        panic!("one processor: {:?}", q.processors)
    };
    let p = p.clone();
    (q, p)
}

#[test]
fn long_queries_take_about_linear_time_and_are_bounded() {
    let words = [
        "not ",
        "(",
        "a=1 and ",
        "a, ",
        "((",
        "'",
        "'' ",
        "-- \n",
        "= ",
        "x ",
        "http_gte, ",
        "- ",
        "top-k ",
        "(x: y=1, ",
        "status, ",
        "status/100 AS a, ",
        "status + ",
        "if(",
        "coalesce(1,",
        "1/",
    ];
    for head in [
        "",
        "PARSE ",
        "PARSE http FROM ",
        "PARSE http WHERE ",
        "PARSE http PROCESS ",
        "PARSE http PROCESS (top-k: group=",
        "PARSE http SELECT ",
        "PARSE http ORDER BY ",
    ] {
        for word in words {
            let text = format!(
                "{head}{}",
                word.repeat((crate::QUERY_BYTES_MAX - head.len()) / word.len())
            );
            let start = std::time::Instant::now();
            if let Err(errors) = crate::check(&text, &schemas(), &hosts()) {
                assert!(errors.len() <= 50 && crate::render(&errors, &text).len() < 100_000);
            }
            assert!(
                start.elapsed().as_secs() < 5,
                "{head}{word}…: {:?}",
                start.elapsed()
            );
        }
    }
    let long = "x".repeat(crate::QUERY_BYTES_MAX + 1);
    assert!(
        crate::check(&long, &schemas(), &hosts()).expect_err("too long")[0]
            .message
            .contains("more than the limit of 65536")
    );
}
