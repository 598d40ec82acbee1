//! The two spellings of a query: clauses that begin with PARSE, and statements in SQL. Each is printed from the other,
//! and both have the same plan.

use plan::{AggregateFunction, Column, Pipeline, ShareTotal, SortDirection};

use crate::ast::{Atom, ExprForm, NamedExpr, ParsedQuery, ProcessorArg, ProcessorClause};
use crate::ast::{QueryExpr, SelectItem};
use crate::blocks::ARGS;
use crate::check::processor::GROUPS;
use crate::{CheckedQuery, ParsedText, aggregates, literal};

/// Arguments of a processor that WINDOW has, with its words.
const WINDOW_ARGS: [(&str, &str); 3] = [
    ("w", "WINDOW"),
    ("slide", "SLIDE"),
    ("lateness", "LATENESS"),
];

/// A valid query in the spelling that begins with PARSE.
#[must_use]
pub fn parse_spelling(parsed: &ParsedText) -> String {
    if !parsed.is_sql() {
        return parsed.text().to_owned();
    }
    let source = Source(parsed.text());
    let query = parsed.ast();
    let mut clauses = vec![format!("PARSE {}", atoms(&query.parsers))];
    let mut clause = |word: &str, text: String| clauses.push(format!("{word} {text}"));
    if !query.select.is_empty() {
        clause("SELECT", source.items(&query.select));
    }
    if !query.from.is_empty() {
        clause("FROM", atoms(&query.from));
    }
    if !query.to.is_empty() {
        clause("TO", atoms(&query.to));
    }
    for filter in &query.filters {
        clause("WHERE", source.expr(filter));
    }
    if !query.order.is_empty() {
        clause("ORDER BY", source.keys(&query.order));
    }
    let rows = query.rows.iter().map(|rows| format!("{} ROWS", rows.text));
    let limits: Vec<String> = query.limits.iter().map(atom).chain(rows).collect();
    if !limits.is_empty() {
        clause("LIMIT", limits.join(", "));
    }
    source.common(query, &mut clause);
    for processor in &query.processors {
        clause("PROCESS", source.processor(processor));
    }
    clauses.join(" ")
}

/// A valid query as statements in SQL, one for each of its processors, or one for its tuples. `None`
/// stands for a processor that SQL cannot express: several limits of rows, `top-k` with a further selection, arguments
/// without a clause.
#[must_use]
pub fn sql_spelling(parsed: &ParsedText, checked: &CheckedQuery) -> Vec<Option<String>> {
    if parsed.is_sql() {
        return vec![Some(parsed.text().to_owned())];
    }
    let source = Source(parsed.text());
    let query = parsed.ast();
    if query.processors.is_empty() {
        let items = if query.select.is_empty() {
            "*".to_owned()
        } else {
            source.items(&query.select)
        };
        let rows = query.rows.first().map(|rows| rows.text.clone());
        let order = source.keys(&query.order);
        return vec![Some(source.statement(
            query,
            &items,
            &[],
            &[],
            None,
            &order,
            rows,
        ))];
    }
    query
        .processors
        .iter()
        .zip(&checked.processors)
        .map(|(clause, pipeline)| source.aggregate_statement(query, checked, clause, pipeline))
        .collect()
}

/// The text that positions refer to.
struct Source<'a>(&'a str);

impl<'a> Source<'a> {
    /// The expression as in the source, or, if it is lowered from other syntax, as understood.
    fn expr(&self, expr: &QueryExpr) -> String {
        if expr.is_written(self.0) {
            return self.0[expr.span.range()].to_owned();
        }
        match &expr.form {
            ExprForm::Atom(of) => atom(of),
            ExprForm::Call(name, args) => {
                let args: Vec<String> = args.iter().map(|arg| self.expr(arg)).collect();
                let all = if args.is_empty() && name.text == "count" {
                    "*".to_owned()
                } else {
                    args.join(", ")
                };
                format!("{}({all})", name.text)
            }
            ExprForm::Compare(left, _, right) if expr.is_test_of_case(self.0) => {
                format!("{} = {}", self.expr(left), self.expr(right))
            }
            _ => {
                let mut text = String::new();
                let mut at = expr.span.start;
                for part in expr.parts() {
                    text += &self.0[at..part.span.start];
                    text += &self.expr(part);
                    at = part.span.end;
                }
                text + &self.0[at..expr.span.end]
            }
        }
    }

    fn named(&self, named: &NamedExpr) -> String {
        let expr = self.expr(&named.expr);
        match &named.name {
            Some(name) => format!("{expr} AS {}", atom(name)),
            None => expr,
        }
    }

    fn items(&self, items: &[SelectItem]) -> String {
        let item = |item: &SelectItem| match item {
            SelectItem::All(_) => "*".to_owned(),
            SelectItem::Column(named) => self.named(named),
        };
        items.iter().map(item).collect::<Vec<_>>().join(", ")
    }

    fn keys(&self, keys: &[(QueryExpr, SortDirection)]) -> String {
        let key = |(key, direction): &(QueryExpr, SortDirection)| match direction {
            SortDirection::Ascending => self.expr(key),
            SortDirection::Descending => format!("{} DESC", self.expr(key)),
        };
        keys.iter().map(key).collect::<Vec<_>>().join(", ")
    }

    fn processor(&self, processor: &ProcessorClause) -> String {
        let argument = |arg: &ProcessorArg| {
            let values: Vec<String> = if arg.columns.is_empty() {
                arg.values.iter().map(atom).collect()
            } else {
                arg.columns
                    .iter()
                    .map(|column| self.named(column))
                    .collect()
            };
            format!("{}={}", arg.name.text, values.join(", "))
        };
        let args: Vec<String> = processor.args.iter().map(argument).collect();
        let mut text = if args.is_empty() {
            format!("({})", processor.name.text)
        } else {
            format!("({}: {})", processor.name.text, args.join(", "))
        };
        if let Some(having) = &processor.having {
            text += &format!(" HAVING {}", self.expr(having));
        }
        if !processor.order_by.is_empty() {
            text += &format!(" ORDER BY {}", self.keys(&processor.order_by));
        }
        if let Some(rows) = &processor.rows_max {
            text += &format!(" LIMIT {} ROWS", rows.text);
        }
        text
    }

    /// The clauses that both spellings have.
    fn common(&self, query: &ParsedQuery, clause: &mut dyn FnMut(&str, String)) {
        if let Some(since) = &query.since {
            clause("SINCE", atom(since));
        }
        if let Some(until) = &query.until {
            clause("UNTIL", atom(until));
        }
        if let Some(baseline) = &query.baseline {
            let time = |word: &str, time: &Option<Atom>| match time {
                Some(time) => format!("{word}{}", atom(time)),
                None => String::new(),
            };
            let text = [
                time("", &baseline.earlier),
                time("SINCE ", &baseline.since),
                time(" UNTIL ", &baseline.until),
            ];
            clause("BASELINE", text.concat());
        }
        if let Some(sample) = &query.sample {
            let error = query.error.as_ref();
            let error = error.map(|error| format!(" ERROR {}", error.value.text));
            clause("SAMPLE", atom(sample) + &error.unwrap_or_default());
        }
        if let Some(taps) = &query.taps {
            clause("TAPS", atom(taps));
        }
        if let Some(budget) = &query.budget {
            let bounds = budget.bounds.iter();
            let bounds = bounds.map(|bound| format!("{}={}", bound.name.text, bound.value.text));
            clause("BUDGET", bounds.collect::<Vec<_>>().join(", "));
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the clauses of a statement")]
    fn statement(
        &self,
        query: &ParsedQuery,
        items: &str,
        further_filters: &[String],
        group: &[String],
        clause: Option<&ProcessorClause>,
        order: &str,
        rows: Option<String>,
    ) -> String {
        let mut text = format!("SELECT {items} FROM {}", atoms(&query.parsers));
        let side = |name: &str, addresses: &[Atom]| match addresses {
            [] => None,
            [one] if one.text == "*" => None,
            [one] => Some(format!("{name} = {}", one.text)),
            several => Some(format!("{name} in ({})", atoms(several))),
        };
        let filters = query.filters.iter().map(|filter| match &filter.form {
            ExprForm::Or(_) => format!("({})", self.expr(filter)),
            _ => self.expr(filter),
        });
        let conditions: Vec<String> = side("client", &query.from)
            .into_iter()
            .chain(side("server", &query.to))
            .chain(filters)
            .chain(further_filters.iter().cloned())
            .collect();
        let mut push = |word: &str, body: String| {
            text += &format!(" {word} {body}");
        };
        if !conditions.is_empty() {
            push("WHERE", conditions.join(" and "));
        }
        if !group.is_empty() {
            push("GROUP BY", group.join(", "));
        }
        if let Some(having) = clause.and_then(|clause| clause.having.as_ref()) {
            push("HAVING", self.expr(having));
        }
        if !order.is_empty() {
            push("ORDER BY", order.to_owned());
        }
        let limits: Vec<String> = rows
            .into_iter()
            .chain(query.limits.iter().map(atom))
            .collect();
        if !limits.is_empty() {
            push("LIMIT", limits.join(", "));
        }
        for (name, word) in WINDOW_ARGS {
            if let Some(value) = clause.and_then(|clause| value_of(clause, name)) {
                push(word, atom(value));
            }
        }
        self.common(query, &mut push);
        text
    }

    /// The statement for one processor.
    fn aggregate_statement(
        &self,
        query: &ParsedQuery,
        checked: &CheckedQuery,
        clause: &ProcessorClause,
        pipeline: &Pipeline,
    ) -> Option<String> {
        let report = clause.name.text.replace('-', "_");
        if aggregates::report(&report).is_some() {
            let only_window = clause.args.iter().all(|arg| {
                WINDOW_ARGS
                    .iter()
                    .any(|(name, _)| arg.name.text.eq_ignore_ascii_case(name))
            });
            let order = self.keys(&clause.order_by);
            let rows = clause.rows_max.as_ref().map(|rows| rows.text.clone());
            let items = format!("{}()", report.to_lowercase());
            return only_window
                .then(|| self.statement(query, &items, &[], &[], Some(clause), &order, rows));
        }
        if pipeline.groups_max != GROUPS
            || (pipeline.top_k.is_some() && !pipeline.selection.is_everything())
        {
            return None;
        }
        let column = |column: Column| column_text(checked, column);
        let mut items = Vec::new();
        let mut group = Vec::new();
        for by in &pipeline.group {
            let text = column(by.column);
            let is_renamed = by.column.computed_place().is_some() && by.name != text;
            items.push(if is_renamed {
                format!("{text} AS {}", name_text(&by.name))
            } else {
                text.clone()
            });
            group.push(text);
        }
        if pipeline.top_k.is_some() {
            items.push("rank()".to_owned());
        }
        let mut ratios = clause
            .args
            .iter()
            .filter(|arg| arg.name.text.eq_ignore_ascii_case("of"))
            .flat_map(|arg| &arg.columns);
        let called = clause
            .args
            .iter()
            .find(|arg| arg.name.text.eq_ignore_ascii_case("columns"))
            .map(|arg| arg.columns.as_slice());
        let mut calls = Vec::new();
        for (place, aggregated) in pipeline.aggregates.iter().enumerate() {
            if let Some(named) = called.and_then(|called| called.get(place)) {
                items.push(self.named(named));
                calls.push(self.expr(&named.expr));
                continue;
            }
            let value = || column(pipeline.values[aggregated.value].column);
            let call = match &aggregated.aggregate {
                AggregateFunction::Count => "count(*)".to_owned(),
                AggregateFunction::Sum => format!("sum({})", value()),
                AggregateFunction::Avg => format!("avg({})", value()),
                AggregateFunction::Min => format!("min({})", value()),
                AggregateFunction::Max => format!("max({})", value()),
                AggregateFunction::Stddev => format!("stddev({})", value()),
                AggregateFunction::Rate => "rate()".to_owned(),
                AggregateFunction::Distinct(of) => format!("count(DISTINCT {})", column(*of)),
                AggregateFunction::Quantile(q) => quantile_text(*q, &value()),
                AggregateFunction::Hist => format!("hist({})", value()),
                AggregateFunction::Cdf => format!("cdf({})", value()),
                AggregateFunction::Success(_) => "success()".to_owned(),
                AggregateFunction::Ratio(_) => {
                    format!("ratio({})", self.expr(&ratios.next()?.expr))
                }
                AggregateFunction::Throughput => format!("throughput({})", value()),
                AggregateFunction::Share(ShareTotal::Tuples) => "share()".to_owned(),
                AggregateFunction::Share(ShareTotal::Values) => format!("share({})", value()),
            };
            items.push(match &aggregated.name {
                Some(name) => format!("{call} AS {}", name_text(name)),
                None => call.clone(),
            });
            calls.push(call);
        }
        let (order, rows) = match pipeline.top_k {
            Some(top) => (
                format!("{} DESC", calls.get(top.by)?),
                Some(top.k.to_string()),
            ),
            None => (
                self.keys(&clause.order_by),
                clause.rows_max.as_ref().map(|rows| rows.text.clone()),
            ),
        };
        let required: Vec<String> = pipeline
            .values
            .first()
            .into_iter()
            .filter(|_| pipeline.value_required)
            .map(|value| format!("{} is not null", column(value.column)))
            .collect();
        let items = items.join(", ");
        Some(self.statement(query, &items, &required, &group, Some(clause), &order, rows))
    }
}

fn value_of<'c>(clause: &'c ProcessorClause, name: &str) -> Option<&'c Atom> {
    debug_assert!(ARGS.iter().any(|arg| arg.name == name));
    let arg = clause
        .args
        .iter()
        .find(|arg| arg.name.text.eq_ignore_ascii_case(name))?;
    arg.values.first()
}

fn column_text(checked: &CheckedQuery, column: Column) -> String {
    if let Some(place) = column.computed_place() {
        return checked.computed[place].text.clone();
    }
    let name = &checked.field(column).name;
    match checked.inputs.as_slice() {
        [_] => name.to_string(),
        inputs => format!("{}.{name}", inputs[usize::from(column.input)].schema.name),
    }
}

/// `p99(x)` where the name is exact, otherwise `quantile(x, 0.99)`.
fn quantile_text(q: f64, value: &str) -> String {
    let percent = format!("{:.8}", q * 100.0);
    let percent = percent.trim_end_matches('0').trim_end_matches('.');
    let name = format!("p{}", percent.replace('.', "_"));
    match aggregates::named(&name) {
        Some(aggregates::CalledAggregate::Quantile(same)) if same == q => {
            format!("{name}({value})")
        }
        _ => format!("quantile({value}, {q})"),
    }
}

fn atom(atom: &Atom) -> String {
    if atom.quoted {
        quoted(&atom.text)
    } else {
        atom.text.clone()
    }
}

fn atoms(list: &[Atom]) -> String {
    list.iter().map(atom).collect::<Vec<_>>().join(", ")
}

/// A name, in quotes if it is not a word.
fn name_text(name: &str) -> String {
    let is_word = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && literal::real(name).is_err()
        && !name.is_empty();
    if is_word {
        name.to_owned()
    } else {
        quoted(name)
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
