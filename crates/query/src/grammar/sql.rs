//! The SQL spelling: a statement that begins with SELECT, translated to the clauses of a query that begins with PARSE.
//! Positions remain those of the statement.
//!
//! ```text
//! statement = SELECT [DISTINCT] items FROM tables [WHERE condition]…
//!             [GROUP BY expr {, expr}] [HAVING condition] [ORDER BY keys] [LIMIT limits]
//!             [WINDOW duration [SLIDE duration] [LATENESS duration]] [SINCE time] [UNTIL time] [BASELINE earlier]
//!             [SAMPLE rate [ERROR error]] [TAPS which] [BUDGET bounds] [;]
//! items     = item {, item}      item = * | expr [[AS] name] | aggregate [[AS] name]
//! limits    = any of n, n ROWS, 90s, and 5000p, with commas between
//! ```

use plan::{ArithmeticOperator, SortDirection};

use super::QueryReader;
use super::expr::ExprContext;
use crate::aggregates;
use crate::ast::{Atom, ExprForm, NamedExpr, ParsedQuery, ProcessorArg, ProcessorClause};
use crate::ast::{QueryExpr, SelectItem};
use crate::blocks::ProcessorBlock;
use crate::error::quoted;
use crate::lexer::WordShape;
use crate::{Diagnostic, TextSpan, functions, literal};

/// Columns of windows, which are always output.
const WINDOW_COLUMNS: [&str; 2] = ["window_start", "window_end"];

/// The clauses of a statement that have no equal among those of a query.
#[derive(Debug, Default)]
pub(super) struct SqlClauses {
    /// GROUP BY.
    pub(super) group: Vec<QueryExpr>,
    /// HAVING.
    pub(super) having: Option<QueryExpr>,
    /// WINDOW, SLIDE, and LATENESS as arguments.
    window: Vec<ProcessorArg>,
    /// Names of tables, with their parsers.
    pub(super) tables: Vec<(String, String)>,
    /// SELECT DISTINCT.
    pub(super) is_distinct: bool,
}

impl QueryReader<'_> {
    /// Parses a clause that differs from that of a query; false for others.
    pub(super) fn sql_clause(&mut self, clause: &str, query: &mut ParsedQuery) -> bool {
        if self.sql.is_none() {
            return false;
        }
        match clause {
            "FROM" => self.tables(query),
            "GROUP" => {
                let group = self.group_by();
                self.sql
                    .iter_mut()
                    .for_each(|sql| sql.group = group.clone());
            }
            "HAVING" => {
                let having = self.having();
                self.sql
                    .iter_mut()
                    .for_each(|sql| sql.having = having.clone());
            }
            "WINDOW" => {
                let window = self.window_clause();
                self.sql
                    .iter_mut()
                    .for_each(|sql| sql.window = window.clone());
            }
            _ => return false,
        }
        true
    }

    fn group_by(&mut self) -> Vec<QueryExpr> {
        if self.eat_word("by").is_none() {
            self.unexpected("`BY`");
        }
        let mut group = Vec::new();
        loop {
            match self.expr(ExprContext::Columns) {
                Some(mut expr) => {
                    self.name_in_quotes(&mut expr);
                    group.push(expr);
                }
                None => self.skip_to(&[',', ';']),
            }
            if self.eat(',').is_none() || self.at_end_of_list() {
                return group;
            }
        }
    }

    /// `10s [SLIDE 5s] [LATENESS 1s]`, as the arguments of a processor.
    fn window_clause(&mut self) -> Vec<ProcessorArg> {
        let mut args = Vec::new();
        let mut name = ("w", TextSpan::new(self.at - "WINDOW".len(), self.at));
        loop {
            match self.atom(WordShape::Value) {
                Some(value) => args.push(argument(name.0, name.1, vec![value], Vec::new())),
                None => {
                    self.unexpected("a duration such as 10s");
                    return args;
                }
            }
            let next = ["slide", "lateness"]
                .into_iter()
                .find_map(|word| Some((word, self.eat_word(word)?)));
            match next {
                Some(next) => name = next,
                None => return args,
            }
        }
    }

    /// Translates the clauses of a statement after its end.
    pub(super) fn translate(&mut self, query: &mut ParsedQuery) {
        let Some(mut sql) = self.sql.take() else {
            return;
        };
        if query.parsers.is_empty() && self.errors.is_empty() {
            let end = TextSpan::new(self.at, self.at);
            let error = Diagnostic::new(end, "the statement has no FROM");
            self.report(error.hint("name a parser, as in FROM http"));
        }
        self.resolve_tables(&mut sql, query);
        self.endpoints(query);
        self.only_tuples_in_where(query);
        let (rows, limits) = std::mem::take(&mut query.limits)
            .into_iter()
            .partition(|limit| literal::whole(&limit.text).is_ok());
        query.limits = limits;
        query.rows.extend::<Vec<Atom>>(rows);
        if let Some(second) = query.rows.get(1) {
            let error = Diagnostic::new(second.span, "a statement has one limit of rows");
            self.report(error.hint("rows cannot be skipped: LIMIT 20 returns the first 20"));
            query.rows.truncate(1);
        }
        query.aliases = columns(&query.select)
            .filter(|named| named.name.is_some())
            .cloned()
            .collect();
        for item in &mut query.select {
            if let SelectItem::Column(named) = item {
                self.keep_name(named);
            }
        }
        let is_aggregate = |item: &SelectItem| match item {
            SelectItem::All(_) => false,
            SelectItem::Column(named) => aggregates::calls(&named.expr).next().is_some(),
        };
        let aggregates = query.select.iter().any(is_aggregate);
        if sql.is_distinct && sql.group.is_empty() && !aggregates {
            sql.group = columns(&query.select)
                .map(|named| named.expr.clone())
                .collect();
        }
        let computes = !sql.group.is_empty()
            || sql.having.is_some()
            || aggregates
            || sql.is_distinct
            || !sql.window.is_empty();
        if computes {
            return self.processor_of(sql, query);
        }
        let items = query.select.clone();
        for (key, _) in &mut query.order {
            *key = by_place(key.clone(), &items);
            let named = columns(&items).find(|named| is_named(named, key));
            key.clone_from(named.map_or(&key.clone(), |named| &named.expr));
        }
        if matches!(query.select.as_slice(), [SelectItem::All(_)]) {
            query.select.clear();
        }
    }

    /// Names a column as it is written if it is lowered from other syntax, so that both spellings name it alike.
    fn keep_name(&self, named: &mut NamedExpr) {
        let expr = &named.expr;
        let is_plain = matches!(expr.form, ExprForm::Atom(_))
            || (aggregates::is_call(expr) && !is_named_as_written(expr, self.text));
        if named.name.is_none() && !is_plain && !expr.is_written(self.text) {
            let words: Vec<&str> = self.text[expr.span.range()].split_whitespace().collect();
            named.name = Some(Atom {
                quoted: true,
                ..atom_at(&words.join(" "), expr.span)
            });
        }
    }

    /// Reports aggregates in WHERE.
    fn only_tuples_in_where(&mut self, query: &mut ParsedQuery) {
        for filter in std::mem::take(&mut query.filters) {
            let Some(call) = aggregates::calls(&filter).next() else {
                query.filters.push(filter);
                continue;
            };
            let error = Diagnostic::new(call.span, "WHERE selects tuples, before aggregates");
            let condition = &self.text[filter.span.range()];
            self.report(error.hint(format!("write HAVING {condition}")));
        }
    }

    /// The processor of a statement with aggregates.
    fn processor_of(&mut self, sql: SqlClauses, query: &mut ParsedQuery) {
        let items = std::mem::take(&mut query.select);
        let order = std::mem::take(&mut query.order);
        let first = items.first().map_or(TextSpan::new(0, 6), SelectItem::span);
        let mut clause = ProcessorClause {
            rows_max: query.rows.pop(),
            ..ProcessorClause::default()
        };
        if let Some(report) = whole_report(&items) {
            clause.name = atom_at(report.name(), first);
            clause.args = sql.window;
            clause.having = sql.having;
            clause.order_by = order;
            query.processors.push(clause);
            return;
        }
        let errors_before = self.errors.len();
        let group = self.groups(&sql.group, &items);
        let mut columns: Vec<NamedExpr> = Vec::new();
        let mut ranks = None;
        for item in &items {
            match item {
                SelectItem::All(span) => {
                    let error = Diagnostic::new(*span, "`*` cannot be combined with aggregates");
                    self.report(error.hint("name the columns of GROUP BY, or write count(*)"));
                }
                SelectItem::Column(named) if aggregates::is_rank(&named.expr) => {
                    ranks = Some(named.expr.span);
                }
                SelectItem::Column(named) if aggregates::is_call(&named.expr) => {
                    columns.push(named.clone());
                }
                SelectItem::Column(named) => self.ungrouped(named, &group, &sql),
            }
        }
        let keys: Vec<_> = order
            .into_iter()
            .map(|(key, direction)| (by_place(key, &items), direction))
            .collect();
        let selected = sql.having.iter().chain(keys.iter().map(|(key, _)| key));
        for call in selected.flat_map(aggregates::calls) {
            if !columns.iter().any(|column| column.expr.means(call)) && !aggregates::is_rank(call) {
                columns.push(NamedExpr {
                    expr: call.clone(),
                    name: None,
                });
            }
        }
        if columns.is_empty() {
            columns.push(NamedExpr {
                expr: QueryExpr {
                    form: ExprForm::Call(atom_at(ProcessorBlock::Count.name(), first), Vec::new()),
                    span: first,
                },
                name: None,
            });
        }
        let mut name = String::new();
        if !group.is_empty() {
            name += "group-";
            let group = self.columns_argument("group", first, group);
            clause.args.push(group);
        }
        name += ProcessorBlock::Aggregate.name();
        let columns = self.columns_argument("columns", first, columns);
        clause.args.push(columns);
        clause.args.extend(sql.window);
        // Without columns that have errors, further messages would be consequences.
        let is_whole = self.errors.len() == errors_before;
        clause.having = sql.having.filter(|_| is_whole);
        match ranks {
            Some(span) => {
                name += "-top-k";
                self.ranking(span, keys, &mut clause);
            }
            None if is_whole => clause.order_by = keys,
            None => {}
        }
        clause.name = atom_at(&name, first);
        query.processors.push(clause);
    }

    /// Translates `rank()` with ORDER BY and LIMIT to `top-k`.
    fn ranking(
        &mut self,
        rank: TextSpan,
        keys: Vec<(QueryExpr, SortDirection)>,
        clause: &mut ProcessorClause,
    ) {
        let k = clause.rows_max.take();
        let (Some(k), [(by, SortDirection::Descending)]) = (k, keys.as_slice()) else {
            let error = Diagnostic::new(rank, "rank() needs one descending key and a limit");
            self.report(error.hint("write ORDER BY count(*) DESC LIMIT 10"));
            return;
        };
        let by = NamedExpr {
            expr: by.clone(),
            name: None,
        };
        let by = self.columns_argument("by", rank, vec![by]);
        clause.args.push(by);
        clause.args.push(argument("k", rank, vec![k], Vec::new()));
    }

    /// The columns of GROUP BY: positions and names of SELECT stand for its expressions.
    fn groups(&mut self, group: &[QueryExpr], items: &[SelectItem]) -> Vec<NamedExpr> {
        let mut groups = Vec::new();
        for expr in group {
            let expr = &by_place(expr.clone(), items);
            if let Some(call) = aggregates::calls(expr).next() {
                let error = Diagnostic::new(call.span, "GROUP BY cannot contain aggregates");
                self.report(error);
                continue;
            }
            let item = items.iter().find_map(|item| match item {
                SelectItem::Column(named) if named.expr.means(expr) || is_named(named, expr) => {
                    Some(named.clone())
                }
                _ => None,
            });
            groups.push(item.unwrap_or_else(|| NamedExpr {
                expr: expr.clone(),
                name: None,
            }));
        }
        groups
    }

    /// Reports a column of SELECT that is neither a group nor an aggregate.
    fn ungrouped(&mut self, named: &NamedExpr, group: &[NamedExpr], sql: &SqlClauses) {
        let expr = &named.expr;
        let text = quoted(&self.text[expr.span.range()]);
        let of_window = matches!(&expr.form, ExprForm::Atom(atom)
            if WINDOW_COLUMNS.iter().any(|name| name.eq_ignore_ascii_case(&atom.text)));
        if group.iter().any(|group| group.expr.means(expr)) || (of_window && !sql.window.is_empty())
        {
            return;
        }
        let error = if aggregates::calls(expr).next().is_some() {
            Diagnostic::new(expr.span, format!("{text} computes with aggregates"))
                .hint(self.instead_of(expr))
        } else if let Some(function) = unknown_function(expr) {
            functions::unknown(function)
        } else {
            let message = format!("{text} is neither in GROUP BY nor an aggregate");
            let column = &self.text[expr.span.range()];
            let columns: Vec<&str> = sql
                .group
                .iter()
                .map(|by| &self.text[by.span.range()])
                .chain([column])
                .collect();
            let group = columns.join(", ");
            Diagnostic::new(expr.span, message).hint(format!("write GROUP BY {group}"))
        };
        self.report(error);
    }

    /// The equivalent of a computation with aggregates, or its aggregates.
    fn instead_of(&self, expr: &QueryExpr) -> String {
        if let Some(call) = self.single_aggregate(expr) {
            return format!("write {call}");
        }
        let mut calls: Vec<TextSpan> = aggregates::calls(expr).map(|call| call.span).collect();
        calls.sort_unstable();
        let mut texts: Vec<&str> = calls.iter().map(|span| &self.text[span.range()]).collect();
        texts.dedup();
        format!(
            "write {}; HAVING and ORDER BY compute with aggregates",
            texts.join(", ")
        )
    }

    /// The aggregate that computes `sum(x) / count(*)`, or the share of a filtered count.
    fn single_aggregate(&self, expr: &QueryExpr) -> Option<String> {
        let mut factors = Vec::new();
        let mut divisors = Vec::new();
        quotient(expr, &mut factors, &mut divisors);
        let ([part], [all]) = (factors.as_slice(), divisors.as_slice()) else {
            return None;
        };
        let (ExprForm::Call(name, of), ExprForm::Call(count, none)) = (&part.form, &all.form)
        else {
            return None;
        };
        if !none.is_empty() || !count.text.eq_ignore_ascii_case("count") {
            return None;
        }
        let text = |expr: &QueryExpr| &self.text[expr.span.range()];
        let [of] = of.as_slice() else { return None };
        let choice = match &of.form {
            ExprForm::Call(name, args) if name.text.eq_ignore_ascii_case("if") => args.as_slice(),
            _ => &[],
        };
        match (name.text.to_ascii_lowercase().as_str(), choice) {
            ("sum" | "count", [condition, then, _]) if is_number(then, "1") => {
                Some(format!("ratio({}), from 0 to 1", text(condition)))
            }
            ("sum", []) => Some(format!("avg({})", text(of))),
            _ => None,
        }
    }

    fn columns_argument(
        &self,
        name: &str,
        span: TextSpan,
        columns: Vec<NamedExpr>,
    ) -> ProcessorArg {
        argument(name, span, self.texts_of(&columns), columns)
    }
}

/// The factors and divisors of an expression without those that are numbers; `round(x, 2)` is x, `nullif(x, 0)` too.
fn quotient<'e>(
    expr: &'e QueryExpr,
    factors: &mut Vec<&'e QueryExpr>,
    divisors: &mut Vec<&'e QueryExpr>,
) {
    match &expr.form {
        ExprForm::Arithmetic(left, ArithmeticOperator::Multiply, right) => {
            quotient(left, factors, divisors);
            quotient(right, factors, divisors);
        }
        ExprForm::Arithmetic(left, ArithmeticOperator::Divide, right) => {
            quotient(left, factors, divisors);
            quotient(right, divisors, factors);
        }
        ExprForm::Call(name, args)
            if ["round", "nullif"].contains(&name.text.to_ascii_lowercase().as_str())
                && !args.is_empty() =>
        {
            quotient(&args[0], factors, divisors);
        }
        ExprForm::Atom(atom) if literal::real(&atom.text).is_ok() => {}
        _ => factors.push(expr),
    }
}

fn is_number(expr: &QueryExpr, number: &str) -> bool {
    matches!(&expr.form, ExprForm::Atom(atom) if atom.text == number)
}

/// The first call of an unknown function.
fn unknown_function(expr: &QueryExpr) -> Option<&Atom> {
    match &expr.form {
        ExprForm::Call(name, _) if functions::known(name).is_none() => Some(name),
        _ => expr.parts().into_iter().find_map(unknown_function),
    }
}

/// The columns of SELECT without `*`.
fn columns(items: &[SelectItem]) -> impl Iterator<Item = &NamedExpr> {
    items.iter().filter_map(|item| match item {
        SelectItem::Column(named) => Some(named),
        SelectItem::All(_) => None,
    })
}

/// Whether an aggregate has its text as its name: one with CASE or FILTER, and `count(x)`.
fn is_named_as_written(expr: &QueryExpr, source: &str) -> bool {
    let is_own = |name: &Atom, args: &[QueryExpr]| match name.text.as_str() {
        "if" => !source[name.span.range()].eq_ignore_ascii_case("if"),
        word => word.eq_ignore_ascii_case("count") && !args.is_empty(),
    };
    matches!(&expr.form, ExprForm::Call(name, args) if is_own(name, args))
        || expr
            .parts()
            .into_iter()
            .any(|part| is_named_as_written(part, source))
}

/// The report that a statement consists of, such as `workload_profile()`.
fn whole_report(items: &[SelectItem]) -> Option<ProcessorBlock> {
    let [SelectItem::Column(NamedExpr { expr, name: None })] = items else {
        return None;
    };
    match &expr.form {
        ExprForm::Call(name, args) if args.is_empty() => aggregates::report(&name.text),
        _ => None,
    }
}

/// The expression of SELECT at a position that is written as a number.
fn by_place(expr: QueryExpr, items: &[SelectItem]) -> QueryExpr {
    let ExprForm::Atom(atom) = &expr.form else {
        return expr;
    };
    let place = literal::whole(&atom.text)
        .ok()
        .filter(|_| !atom.quoted)
        .and_then(|place| usize::try_from(place).ok()?.checked_sub(1));
    match place.and_then(|place| items.get(place)) {
        Some(SelectItem::Column(named)) => named.expr.clone(),
        _ => expr,
    }
}

fn is_named(named: &NamedExpr, expr: &QueryExpr) -> bool {
    match (&named.name, &expr.form) {
        (Some(name), ExprForm::Atom(atom)) => name.text.eq_ignore_ascii_case(&atom.text),
        _ => false,
    }
}

fn atom_at(text: &str, span: TextSpan) -> Atom {
    Atom {
        text: text.to_owned(),
        span,
        quoted: false,
    }
}

fn argument(
    name: &str,
    span: TextSpan,
    values: Vec<Atom>,
    columns: Vec<NamedExpr>,
) -> ProcessorArg {
    ProcessorArg {
        name: atom_at(name, span),
        values,
        columns,
    }
}
