//! The SQL spelling: a statement that begins with SELECT, translated to the clauses of a query that begins with PARSE.
//! Positions remain those of the statement.
//!
//! ```text
//! statement = SELECT items FROM parser {, parser | JOIN parser [USING (id)]} [WHERE condition]…
//!             [GROUP BY expr {, expr}] [HAVING condition] [ORDER BY keys] [LIMIT limits]
//!             [WINDOW duration [SLIDE duration] [LATENESS duration]] [SINCE time] [UNTIL time] [BASELINE earlier]
//!             [SAMPLE rate [ERROR error]] [TAPS which] [BUDGET bounds] [;]
//! items     = item {, item}      item = * | expr [AS name] | aggregate [AS name]
//! limits    = any of n, n ROWS, 90s, and 5000p, with commas between
//! ```

use plan::{ComparisonOperator, SortDirection};

use super::QueryReader;
use super::expr::ExprContext;
use crate::aggregates;
use crate::ast::{Atom, ExprForm, NamedExpr, ParsedQuery, ProcessorArg, ProcessorClause};
use crate::ast::{QueryExpr, SelectItem};
use crate::blocks::ProcessorBlock;
use crate::error::quoted;
use crate::lexer::WordShape;
use crate::{Diagnostic, TextSpan, literal};

/// Columns of windows, which are always output.
const WINDOW_COLUMNS: [&str; 2] = ["window_start", "window_end"];

/// The clauses of a statement that have no equal among those of a query.
#[derive(Debug, Default)]
pub(super) struct SqlClauses {
    /// GROUP BY.
    group: Vec<QueryExpr>,
    /// HAVING.
    having: Option<QueryExpr>,
    /// WINDOW, SLIDE, and LATENESS as arguments.
    window: Vec<ProcessorArg>,
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

    /// `parser {, parser | JOIN parser [USING (id)]}`.
    fn tables(&mut self, query: &mut ParsedQuery) {
        query
            .parsers
            .extend(self.list(WordShape::Name, "a parser's name"));
        loop {
            let at = self.at;
            let _ = self.eat_word("inner").or_else(|| self.eat_word("natural"));
            if self.eat_word("join").is_none() {
                self.at = at;
                return;
            }
            match self.atom(WordShape::Name) {
                Some(parser) => query.parsers.push(parser),
                None => self.unexpected("a parser's name"),
            }
            if self.eat_word("using").is_some() {
                self.list(WordShape::Name, "`id`");
            } else if let Some(on) = self.eat_word("on") {
                let message = "parsers are joined by `id`, the flow";
                self.report(Diagnostic::new(on, message).hint("write USING (id), or omit ON"));
                self.expr(ExprContext::Condition);
            }
        }
    }

    fn group_by(&mut self) -> Vec<QueryExpr> {
        if self.eat_word("by").is_none() {
            self.unexpected("`BY`");
        }
        let mut group = Vec::new();
        loop {
            match self.expr(ExprContext::Columns) {
                Some(expr) => group.push(expr),
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
        let Some(sql) = self.sql.take() else { return };
        if query.parsers.is_empty() && self.errors.is_empty() {
            let end = TextSpan::new(self.at, self.at);
            let error = Diagnostic::new(end, "the statement has no FROM");
            self.report(error.hint("name a parser, as in FROM http"));
        }
        endpoints(query);
        let (rows, limits) = std::mem::take(&mut query.limits)
            .into_iter()
            .partition(|limit| literal::whole(&limit.text).is_ok());
        query.limits = limits;
        query.rows.extend::<Vec<Atom>>(rows);
        let is_aggregate = |item: &SelectItem| match item {
            SelectItem::All(_) => false,
            SelectItem::Column(named) => aggregates::calls(&named.expr).next().is_some(),
        };
        let computes = !sql.group.is_empty()
            || sql.having.is_some()
            || query.select.iter().any(is_aggregate)
            || !sql.window.is_empty();
        if computes {
            self.processor_of(sql, query);
        } else if matches!(query.select.as_slice(), [SelectItem::All(_)]) {
            query.select.clear();
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
        if columns.is_empty() && self.errors.len() == errors_before {
            let error = Diagnostic::new(first, "the groups have no aggregate");
            self.report(error.hint("add one, such as count(*)"));
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
        clause.having = sql.having;
        match ranks {
            Some(span) => {
                name += "-top-k";
                self.ranking(span, keys, &mut clause);
            }
            None => clause.order_by = keys,
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
                .hint("select the aggregates; HAVING and ORDER BY accept such expressions")
        } else {
            Diagnostic::new(
                expr.span,
                format!("{text} is neither in GROUP BY nor an aggregate"),
            )
            .hint("add it to GROUP BY")
        };
        self.report(error);
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

/// Moves conditions on `client` and `server` to FROM and TO.
fn endpoints(query: &mut ParsedQuery) {
    let mut filters = Vec::new();
    for filter in std::mem::take(&mut query.filters) {
        let parts = match filter.form {
            ExprForm::And(parts) => parts,
            form => vec![QueryExpr { form, ..filter }],
        };
        for part in parts {
            match endpoint(&part) {
                Some((Endpoint::Client, addresses)) => query.from.extend(addresses),
                Some((Endpoint::Server, addresses)) => query.to.extend(addresses),
                None => filters.push(part),
            }
        }
    }
    query.filters = filters;
}

enum Endpoint {
    Client,
    Server,
}

/// The addresses of `client = a`, `server in (a, b)`.
fn endpoint(condition: &QueryExpr) -> Option<(Endpoint, Vec<Atom>)> {
    let (side, addresses) = match &condition.form {
        ExprForm::Compare(side, ComparisonOperator::Eq, address) => match &address.form {
            ExprForm::Atom(address) => (side, vec![address.clone()]),
            _ => return None,
        },
        ExprForm::In(side, addresses) => (side, addresses.clone()),
        _ => return None,
    };
    let ExprForm::Atom(side) = &side.form else {
        return None;
    };
    let addresses = addresses
        .into_iter()
        .map(|address| Atom {
            quoted: false,
            ..address
        })
        .collect();
    match side.text.to_ascii_lowercase().as_str() {
        "client" => Some((Endpoint::Client, addresses)),
        "server" => Some((Endpoint::Server, addresses)),
        _ => None,
    }
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
