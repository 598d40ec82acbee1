//! The grammar of expressions: values, and conditions, which are boolean values.
//!
//! ```text
//! expr    = all {or all}        all = negation {and negation}       negation = {not} test
//! test    = bits [ sign bits | [not] like 'pattern' | [not] ilike 'pattern' | ~ 'regex' | [not] in (literals)
//!                | [not] between bits and bits | is [not] null ]
//! bits    = both {"|" both}     both = sum {"&" sum}                sum = product {+|- product}
//! product = unary {*|/|% unary} unary = {-} primary                 primary = literal | field | name(expr, …) | (expr)
//! ```
//!
//! CASE and FILTER: see `conditional`.

use plan::{ArithmeticOperator, CaseSensitivity};

use super::{ERROR, QueryReader};
use crate::ast::{Atom, ExprForm, NamedExpr, QueryExpr};
use crate::lexer::{self, QueryToken, TokenKind, WordShape};
use crate::{Diagnostic, TextSpan, literal};

/// Maximum nesting of parentheses.
const NESTING_MAX: u32 = 64;
/// Maximum operators and functions in an expression, without `and` and `or`.
const OPERATORS_MAX: usize = 256;
/// Words that are not operands.
pub(super) const WORDS: [&str; 12] = [
    "and", "or", "not", "like", "ilike", "in", "between", "is", "as", "asc", "desc", "matches",
];
/// Functions that convert a value to a type.
const CONVERSIONS: [&str; 2] = ["cast", "try_cast"];
/// Words that end an expression within CASE.
pub(super) const CASE_WORDS: [&str; 4] = ["when", "then", "else", "end"];
/// Equivalents of syntax from other languages.
const SAID_OTHERWISE: &[(&str, &str)] = &[
    ("contains", "write `like '%text%'`"),
    ("matches", "write `~ 'pattern'`"),
    ("regexp", "write `~ 'pattern'`"),
    ("rlike", "write `~ 'pattern'`"),
    ("similar", "write `~ 'pattern'`"),
    ("&&", "write `and`"),
    ("&", "write `and`"),
    ("||", "write `or`; texts cannot be joined"),
    ("|", "write `or`"),
    ("!", "write `not`"),
];
/// By precedence, lowest first.
const OPERATORS: [&[(char, ArithmeticOperator)]; 4] = [
    &[('|', ArithmeticOperator::BitOr)],
    &[('&', ArithmeticOperator::BitAnd)],
    &[
        ('+', ArithmeticOperator::Add),
        ('-', ArithmeticOperator::Subtract),
    ],
    &[
        ('*', ArithmeticOperator::Multiply),
        ('/', ArithmeticOperator::Divide),
        ('%', ArithmeticOperator::Remainder),
    ],
];

/// Context of an expression: what may follow it, and the wording of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExprContext {
    /// WHERE.
    Condition,
    /// A list of columns.
    Columns,
    /// An argument of a processor; another may follow.
    Argument,
}

impl ExprContext {
    fn wanted(self) -> &'static str {
        match self {
            ExprContext::Condition => "a condition such as `status >= 500`",
            ExprContext::Columns | ExprContext::Argument => {
                "a field, or an expression such as `status / 100`"
            }
        }
    }
}

impl QueryReader<'_> {
    /// Parses the condition of WHERE; `None` on a syntax error.
    pub(super) fn condition_clause(&mut self) -> Option<QueryExpr> {
        let condition = self.expr(ExprContext::Condition);
        let next = self.peek(WordShape::Value);
        let ended =
            self.begins_clause(&next) || matches!(next.kind, TokenKind::End | TokenKind::Mark(';'));
        if condition.is_some() && !ended {
            self.no_test(&next, "`and`, `or` or a clause");
        }
        if condition.is_none() || !ended {
            self.skip_to(&[';']);
        }
        condition
    }

    /// Parses an expression; `None` on a syntax error, which is recorded.
    pub(super) fn expr(&mut self, within: ExprContext) -> Option<QueryExpr> {
        let mut reading = ExprProgress {
            within,
            wanted: within.wanted(),
            cases: 0,
            depth: 0,
            operators: 0,
        };
        self.any(&mut reading)
    }

    /// `expr [AS name]`; SQL also has `expr name`.
    pub(super) fn named_expr(&mut self, within: ExprContext) -> Option<NamedExpr> {
        let mut expr = self.expr(within)?;
        self.name_in_quotes(&mut expr);
        let alias = self.alias_at(&self.peek(WordShape::Name));
        let name = match (self.eat_word("as"), alias) {
            (Some(_), _) => {
                let name = self.atom(WordShape::Name);
                Some(self.or_expect(name, "a column's name")?)
            }
            (None, Some(alias)) if within == ExprContext::Columns => {
                self.at = alias.span.end;
                Some(alias)
            }
            (None, _) => None,
        };
        Some(NamedExpr { expr, name })
    }

    pub(super) fn any(&mut self, reading: &mut ExprProgress) -> Option<QueryExpr> {
        let mut any = vec![self.all(reading)?];
        while self.eat_word("or").is_some() {
            any.push(self.all(reading)?);
        }
        Some(joined(any, ExprForm::Or))
    }

    fn all(&mut self, reading: &mut ExprProgress) -> Option<QueryExpr> {
        let mut all = vec![self.negation(reading)?];
        while self.eat_word("and").is_some() {
            all.push(self.negation(reading)?);
        }
        Some(joined(all, ExprForm::And))
    }

    fn negation(&mut self, reading: &mut ExprProgress) -> Option<QueryExpr> {
        let mut first = None;
        let mut negated = false;
        while let Some(word) = self.eat_word("not") {
            first = first.or(Some(word));
            negated = !negated;
        }
        let inner = self.test(reading)?;
        let span = first.map_or(inner.span, |first| first.to(inner.span));
        Some(if negated { not(inner, span) } else { inner })
    }

    fn test(&mut self, reading: &mut ExprProgress) -> Option<QueryExpr> {
        let mut left = self.operators(0, reading)?;
        if !self.ends_test(reading) {
            self.name_in_quotes(&mut left);
        }
        let start = left.span;
        let next = self.peek(WordShape::Value);
        if let TokenKind::Compare(op) = next.kind {
            self.at = next.span.end;
            let right = self.value(0, reading)?;
            let span = start.to(right.span);
            let form = if self.is_since_now(op, &right, span) {
                ExprForm::IsNull(Box::new(left))
            } else {
                ExprForm::Compare(Box::new(left), op, Box::new(right))
            };
            return Some(QueryExpr { form, span });
        }
        if let Some((case, negated, span)) = self.eat_match() {
            let pattern = self.quoted_atom("a pattern in quotes")?;
            let span = start.to(span).to(pattern.span);
            let test = QueryExpr {
                form: ExprForm::Matches(Box::new(left), pattern, case),
                span,
            };
            return Some(if negated { not(test, span) } else { test });
        }
        if self.eat_word("is").is_some() {
            return self.is_null(left, reading);
        }
        let negated = self.eat_word("not").is_some();
        let like = [
            ("like", CaseSensitivity::Sensitive),
            ("ilike", CaseSensitivity::Ignored),
        ];
        let case = like
            .into_iter()
            .find(|(word, _)| self.eat_word(word).is_some());
        let form = if let Some((_, case)) = case {
            let pattern = self.quoted_atom("a pattern in quotes")?;
            self.skip_escape(&pattern);
            ExprForm::Like(Box::new(left), pattern, case)
        } else if self.eat_word("in").is_some() {
            ExprForm::In(Box::new(left), self.values()?)
        } else if self.eat_word("between").is_some() {
            let low = Box::new(self.value(0, reading)?);
            if self.eat_word("and").is_none() {
                self.unexpected("`and` and the upper end");
                return None;
            }
            ExprForm::Between(Box::new(left), low, Box::new(self.value(0, reading)?))
        } else if negated || !self.ends_test(reading) {
            let next = self.peek(WordShape::Value);
            let expected = match (negated, reading.within) {
                (true, _) => "`like`, `ilike`, `in` or `between`",
                (false, ExprContext::Condition) => "=, !=, <, <=, >, >=, like, in, between or is",
                (false, _) => "an operator, `AS name` or `,`",
            };
            self.no_test(&next, expected);
            return None;
        } else {
            return Some(left);
        };
        let test = QueryExpr {
            form,
            span: start.to(TextSpan::new(self.at, self.at)),
        };
        Some(if negated {
            not(test, start.to(TextSpan::new(self.at, self.at)))
        } else {
            test
        })
    }

    fn is_null(&mut self, value: QueryExpr, reading: &mut ExprProgress) -> Option<QueryExpr> {
        let negated = self.eat_word("not").is_some();
        if let Some(test) = self.distinct_from(&value, negated, reading) {
            return Some(test);
        }
        let Some(null) = self.eat_word("null") else {
            self.unexpected(if negated {
                "`null`"
            } else {
                "`null` or `not null`"
            });
            return None;
        };
        let span = value.span.to(null);
        let test = QueryExpr {
            form: ExprForm::IsNull(Box::new(value)),
            span,
        };
        Some(if negated { not(test, span) } else { test })
    }

    /// `(a, b)`.
    fn values(&mut self) -> Option<Vec<Atom>> {
        if self.peek(WordShape::Value).kind != TokenKind::Mark('(') {
            self.unexpected("a list in parentheses, as in `in (200, 204)`");
            return None;
        }
        if self.skips_subquery() {
            return None;
        }
        let errors_before = self.errors.len();
        let values = self.list(WordShape::Value, "a value");
        (self.errors.len() == errors_before).then_some(values)
    }

    /// Parses operands joined by operators of `level` or higher precedence.
    fn operators(&mut self, level: usize, reading: &mut ExprProgress) -> Option<QueryExpr> {
        let Some(own) = OPERATORS.get(level) else {
            return self.unary(reading);
        };
        let mut left = self.operators(level + 1, reading)?;
        while let Some(op) = self.eat_operator(own) {
            self.count(left.span, reading)?;
            let right = self.value(level + 1, reading)?;
            let span = left.span.to(right.span);
            left = QueryExpr {
                form: ExprForm::Arithmetic(Box::new(left), op, Box::new(right)),
                span,
            };
        }
        Some(left)
    }

    /// Parses the operand after an operator, which is required.
    pub(super) fn value(&mut self, level: usize, reading: &mut ExprProgress) -> Option<QueryExpr> {
        let before = std::mem::replace(&mut reading.wanted, "a value");
        let value = self.operators(level, reading);
        reading.wanted = before;
        value
    }

    fn unary(&mut self, reading: &mut ExprProgress) -> Option<QueryExpr> {
        let mut first = None;
        let mut negative = false;
        while let Some(sign) = self.eat_sign() {
            negative ^= sign == '-';
            first = first.or(Some(TextSpan::new(self.at - 1, self.at)));
        }
        let inner = self.primary(reading)?;
        let inner = self.without_conversion(inner);
        let span = first.map_or(inner.span, |first| first.to(inner.span));
        Some(if negative {
            QueryExpr {
                form: ExprForm::Negative(Box::new(inner)),
                span,
            }
        } else {
            QueryExpr { span, ..inner }
        })
    }

    fn primary(&mut self, reading: &mut ExprProgress) -> Option<QueryExpr> {
        if self.skips_subquery() {
            return None;
        }
        if let Some(open) = self.eat('(') {
            self.enter(open, reading)?;
            let inner = self.any(reading)?;
            self.close(Some(open), "`and`, `or` or `)`");
            reading.depth -= 1;
            return Some(QueryExpr {
                span: open.to(TextSpan::new(self.at, self.at)),
                ..inner
            });
        }
        if let Some(case) = self.eat_word("case") {
            return self.case(case, reading);
        }
        let Some(atom) = self.operand() else {
            let next = self.peek(WordShape::Value);
            self.no_test(&next, reading.wanted);
            return None;
        };
        if !atom.quoted
            && self.text[self.at..].starts_with(|c: char| c == '(' || c.is_whitespace())
            && self.peek(WordShape::Name).kind == TokenKind::Mark('(')
        {
            if self.skips_subquery() {
                return None;
            }
            if CONVERSIONS
                .iter()
                .any(|known| known.eq_ignore_ascii_case(&atom.text))
            {
                return self.cast(&atom, reading);
            }
            let open = self.eat('(')?;
            let call = self.call(atom, open, reading)?;
            return self.filtered(call, reading);
        }
        let atom = self.interval(&atom).unwrap_or(atom);
        let span = atom.span;
        Some(QueryExpr {
            form: ExprForm::Atom(atom),
            span,
        })
    }

    /// Parses the arguments after `name(`.
    fn call(
        &mut self,
        mut name: Atom,
        open: TextSpan,
        reading: &mut ExprProgress,
    ) -> Option<QueryExpr> {
        self.enter(open, reading)?;
        self.count(name.span, reading)?;
        let outside = (reading.within, reading.wanted);
        reading.within = ExprContext::Columns;
        reading.wanted = ExprContext::Columns.wanted();
        let mut args = Vec::new();
        let mut value = None;
        if name.text.eq_ignore_ascii_case("count") {
            // `count(*)` counts tuples, as does `count()`.
            let _ = self.eat_word("*");
            if self.eat_word("distinct").is_some() {
                name.text = "distinct".to_owned();
            }
        }
        while self.peek(WordShape::Name).kind != TokenKind::Mark(')') {
            let mut arg = self.any(reading)?;
            value = self.value_behind_from(&name, &arg);
            if args.is_empty() {
                self.name_in_quotes(&mut arg);
            }
            args.push(arg);
            if self.eat(',').is_none() {
                break;
            }
        }
        (reading.within, reading.wanted) = outside;
        self.close(Some(open), "`,` or `)`");
        reading.depth -= 1;
        let span = name.span.to(TextSpan::new(self.at, self.at));
        Some(value.unwrap_or(QueryExpr {
            form: ExprForm::Call(name, args),
            span,
        }))
    }

    pub(super) fn enter(&mut self, open: TextSpan, reading: &mut ExprProgress) -> Option<()> {
        if reading.depth >= NESTING_MAX {
            let message = format!("parentheses are nested more than {NESTING_MAX} deep");
            self.report(Diagnostic::new(open, message));
            return None;
        }
        reading.depth += 1;
        Some(())
    }

    pub(super) fn count(&mut self, place: TextSpan, reading: &mut ExprProgress) -> Option<()> {
        reading.operators += 1;
        if reading.operators > OPERATORS_MAX {
            self.report(Diagnostic::new(
                place,
                format!("more than {OPERATORS_MAX} operators in one expression"),
            ));
            return None;
        }
        Some(())
    }

    /// A field or a value, but not a keyword.
    fn operand(&mut self) -> Option<Atom> {
        let token = self.peek(WordShape::Value);
        if token.kind != TokenKind::Word {
            return self.atom(WordShape::Value);
        }
        if self.clause_of(&token).is_some() {
            return None;
        }
        let word = &self.text[token.span.range()];
        let word = &word[..lexer::length_before_conversion(word).unwrap_or(word.len())];
        let len = lexer::operand_len(word);
        let span = TextSpan::new(token.span.start, token.span.start + len);
        let text = &self.text[span.range()];
        if len == 0 || WORDS.iter().any(|w| w.eq_ignore_ascii_case(text)) {
            return None;
        }
        self.at = span.end;
        Some(Atom {
            text: text.to_owned(),
            span,
            quoted: false,
        })
    }

    fn quoted_atom(&mut self, expected: &str) -> Option<Atom> {
        let atom = self.atom(WordShape::Value);
        self.or_expect(atom, expected)
    }

    fn or_expect(&mut self, atom: Option<Atom>, expected: &str) -> Option<Atom> {
        if atom.is_none() {
            self.unexpected(expected);
        }
        atom
    }

    /// The first character of an operator. `--` is an operator only directly after an operand, otherwise a comment.
    fn operator_char(&self) -> Option<(char, usize)> {
        let start = if self.text[self.at..].starts_with("--") && self.at > 0 {
            self.at
        } else {
            lexer::token(self.text, self.at, WordShape::Value)
                .span
                .start
        };
        Some((self.text[start..].chars().next()?, start))
    }

    fn eat_operator(&mut self, own: &[(char, ArithmeticOperator)]) -> Option<ArithmeticOperator> {
        let (c, start) = self.operator_char()?;
        let (_, op) = own.iter().find(|(sign, _)| *sign == c)?;
        // `&&` and `||` are operators of other languages.
        if matches!(c, '&' | '|') && self.text[start + 1..].starts_with(c) {
            return None;
        }
        self.at = start + 1;
        Some(*op)
    }

    fn eat_sign(&mut self) -> Option<char> {
        let token = self.peek(WordShape::Value);
        let sign = self.text[token.span.start..]
            .chars()
            .next()
            .filter(|c| matches!(c, '-' | '+'))?;
        self.at = token.span.start + 1;
        Some(sign)
    }

    /// `~`, `!~`, `~*`, or `!~*`: case sensitivity, and negation.
    fn eat_match(&mut self) -> Option<(CaseSensitivity, bool, TextSpan)> {
        let start = self.peek(WordShape::Value).span.start;
        let rest = &self.text[start..];
        let signs = [
            ("!~*", CaseSensitivity::Ignored),
            ("!~", CaseSensitivity::Sensitive),
            ("~*", CaseSensitivity::Ignored),
            ("~", CaseSensitivity::Sensitive),
        ];
        let (sign, case) = signs.into_iter().find(|(sign, _)| rest.starts_with(sign))?;
        self.at = start + sign.len();
        Some((case, sign.starts_with('!'), TextSpan::new(start, self.at)))
    }

    /// Whether the next token may follow a complete test.
    fn ends_test(&self, reading: &ExprProgress) -> bool {
        let within = reading.within;
        let next = self.peek(WordShape::Value);
        let word = &self.text[next.span.range()];
        let is = |w: &str| word.eq_ignore_ascii_case(w);
        let of_columns =
            within != ExprContext::Condition && ["as", "asc", "desc"].into_iter().any(is);
        let mark = matches!(next.kind, TokenKind::End | TokenKind::Mark(')' | ';' | ','));
        let of_case = reading.cases > 0 && CASE_WORDS.into_iter().any(is);
        let alias = within == ExprContext::Columns && self.alias_at(&next).is_some();
        let argument = within == ExprContext::Argument && self.at_arg();
        let joins = is("and") || is("or") || of_case || self.begins_other_clause(&next);
        joins || of_columns || mark || argument || alias || self.begins_clause(&next)
    }

    /// Whether the token begins a clause or ERROR.
    pub(super) fn begins_clause(&self, token: &QueryToken) -> bool {
        let word = &self.text[token.span.range()];
        let is_error = token.kind == TokenKind::Word && ERROR.eq_ignore_ascii_case(word);
        is_error || self.clause_of(token).is_some()
    }

    /// Reports that `next` does not continue a condition, with a hint for syntax of other languages.
    fn no_test(&mut self, next: &QueryToken, expected: &str) {
        let word = &self.text[next.span.range()];
        let rest = &self.text[next.span.start..];
        self.unexpected(expected);
        let twice = ["&&", "||"].into_iter().find(|sign| rest.starts_with(sign));
        let word = twice.unwrap_or(word);
        let is_unit = literal::duration_ns(&format!("1{word}")).is_ok()
            || literal::size_bytes(&format!("1{word}")).is_ok();
        let before = self.text[..next.span.start].trim_end();
        let number = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        if let (true, 1.., Some(error)) = (is_unit, number, self.errors.last_mut()) {
            let number = &before[before.len() - number..];
            error.hint = Some(format!("write `{number}{word}`, without a space"));
            return;
        }
        let said = SAID_OTHERWISE
            .iter()
            .find(|(said, _)| said.eq_ignore_ascii_case(word));
        if let (Some((_, hint)), Some(error)) = (said, self.errors.last_mut()) {
            error.hint = Some((*hint).to_owned());
        }
    }
}

/// State of parsing an expression.
pub(super) struct ExprProgress {
    pub(super) within: ExprContext,
    /// Name of the missing operand in errors.
    pub(super) wanted: &'static str,
    /// Number of CASE without their END.
    pub(super) cases: u32,
    pub(super) depth: u32,
    operators: usize,
}

fn joined(mut list: Vec<QueryExpr>, form: fn(Vec<QueryExpr>) -> ExprForm) -> QueryExpr {
    match list.as_slice() {
        [first, .., last] => QueryExpr {
            span: first.span.to(last.span),
            form: form(list),
        },
        _ => list.remove(0),
    }
}

/// Negates an expression. Double negation is removed, which is also valid for null.
fn not(expr: QueryExpr, span: TextSpan) -> QueryExpr {
    match expr.form {
        ExprForm::Not(inner) => QueryExpr { span, ..*inner },
        _ => QueryExpr {
            form: ExprForm::Not(Box::new(expr)),
            span,
        },
    }
}
