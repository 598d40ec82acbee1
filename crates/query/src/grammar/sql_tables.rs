//! FROM of a statement in SQL: parsers, joins by the flow, and names of tables, which stand for their parsers.
//!
//! ```text
//! tables = table {, table | [INNER] JOIN table [USING (id) | ON a.id = b.id]}      table = parser [[AS] name]
//! ```

use plan::ComparisonOperator;

use super::QueryReader;
use super::expr::ExprContext;
use super::sql::SqlClauses;
use crate::Diagnostic;
use crate::ast::{Atom, ExprForm, ParsedQuery, QueryExpr, SelectItem};
use crate::lexer::WordShape;

/// Joins that keep flows without a tuple of the other parser.
const OTHER_JOINS: [&str; 5] = ["left", "right", "full", "outer", "cross"];

impl QueryReader<'_> {
    /// Parses the tables.
    pub(super) fn tables(&mut self, query: &mut ParsedQuery) {
        if self.skips_subquery() {
            return self.skip_to(&[';']);
        }
        let open = self.eat('(');
        loop {
            self.table(query);
            let goes_on = match self.eat(',') {
                Some(_) => !self.at_end_of_list(),
                None => self.eat_join(),
            };
            if !goes_on {
                break;
            }
        }
        self.close(open, "`,` or `)`");
    }

    fn table(&mut self, query: &mut ParsedQuery) {
        let Some(parser) = self.atom(WordShape::Name) else {
            self.unexpected("a parser's name");
            return self.skip_to(&[',', ')', ';']);
        };
        let written = self.eat_word("as");
        let name = self.alias_at(&self.peek(WordShape::Name));
        if let Some(name) = name {
            self.at = name.span.end;
            let name = (name.text, parser.text.clone());
            self.sql
                .iter_mut()
                .for_each(|sql| sql.tables.push(name.clone()));
        } else if written.is_some() {
            self.unexpected("a table's name");
        }
        query.parsers.push(parser);
        if self.eat_word("using").is_some() {
            self.list(WordShape::Name, "`id`");
        } else if self.eat_word("on").is_some()
            && let Some(condition) = self.expr(ExprContext::Condition)
            && !joins_flows(&condition)
        {
            let message = "parsers are joined by `id`, the flow";
            let error = Diagnostic::new(condition.span, message);
            self.report(error.hint("write USING (id); other conditions belong in WHERE"));
        }
    }

    /// Consumes `[INNER] JOIN`, or another kind of join, which is reported.
    fn eat_join(&mut self) -> bool {
        let at = self.at;
        let other = OTHER_JOINS
            .into_iter()
            .find_map(|word| Some((word, self.eat_word(word)?)));
        let _ = ["inner", "natural", "outer"]
            .into_iter()
            .find(|word| self.eat_word(word).is_some());
        if self.eat_word("join").is_none() {
            self.at = at;
            return false;
        }
        if let Some((word, span)) = other {
            let message = format!("{} JOIN is not supported", word.to_uppercase());
            let hint = "write JOIN, which returns flows with tuples of both parsers";
            self.report(Diagnostic::new(span, message).hint(hint));
        }
        true
    }

    /// Replaces the names of tables by their parsers.
    pub(super) fn resolve_tables(&self, sql: &mut SqlClauses, query: &mut ParsedQuery) {
        if sql.tables.is_empty() {
            return;
        }
        let tables = std::mem::take(&mut sql.tables);
        let resolved = |expr: &mut QueryExpr| {
            *expr = expr.replaced(&|part| resolved(part, &tables));
        };
        for item in &mut query.select {
            if let SelectItem::Column(named) = item {
                resolved(&mut named.expr);
            }
        }
        let keys = query.order.iter_mut().map(|(key, _)| key);
        query
            .filters
            .iter_mut()
            .chain(keys)
            .chain(&mut sql.group)
            .chain(&mut sql.having)
            .for_each(resolved);
    }
}

/// `table.field` with the parser of the table.
fn resolved(expr: &QueryExpr, tables: &[(String, String)]) -> Option<QueryExpr> {
    let ExprForm::Atom(atom) = &expr.form else {
        return None;
    };
    let (table, field) = atom.text.split_once('.').filter(|_| !atom.quoted)?;
    let (_, parser) = tables
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(table))?;
    Some(QueryExpr {
        form: ExprForm::Atom(Atom {
            text: format!("{parser}.{field}"),
            ..atom.clone()
        }),
        span: expr.span,
    })
}

/// Whether the condition is `a.id = b.id`.
fn joins_flows(condition: &QueryExpr) -> bool {
    let is_flow = |side: &QueryExpr| {
        matches!(&side.form, ExprForm::Atom(atom)
            if atom.text.rsplit('.').next().is_some_and(|field| field.eq_ignore_ascii_case("id")))
    };
    matches!(&condition.form, ExprForm::Compare(a, ComparisonOperator::Eq, b)
        if is_flow(a) && is_flow(b))
}

/// Whether a word continues FROM.
pub(super) fn continues_from(word: &str) -> bool {
    ["join", "inner", "natural", "using", "on"]
        .iter()
        .chain(&OTHER_JOINS)
        .any(|known| known.eq_ignore_ascii_case(word))
}
