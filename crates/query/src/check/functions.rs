//! Calls of functions: their arguments, and the types of their results.

use plan::{CaseSensitivity, Expr as Planned, Literal, RegexPattern, TextFunction};
use tuple::{DataType, Unit};

use super::arithmetic::signed;
use super::values::{ConditionChecker, TypedExpr, ValueType};
use crate::ast::{Atom, ExprForm, QueryExpr};
use crate::error::quoted;
use crate::functions::{FUNCTIONS, FunctionDoc, known, unknown};
use crate::{Diagnostic, TextSpan};

/// Default prefix length of `subnet` for IPv6 addresses.
const SUBNET_V6: i64 = 64;

/// TCP flags by name, with their bits in `tcp_flags`.
const TCP_FLAGS: [(&str, i64); 8] = [
    ("FIN", 1),
    ("SYN", 2),
    ("RST", 4),
    ("PSH", 8),
    ("ACK", 16),
    ("URG", 32),
    ("ECE", 64),
    ("CWR", 128),
];

/// The bit of a TCP flag.
pub(super) fn tcp_flag(name: &str) -> Option<i64> {
    TCP_FLAGS
        .iter()
        .find(|(flag, _)| flag.eq_ignore_ascii_case(name))
        .map(|(_, bit)| *bit)
}

impl ConditionChecker<'_, '_> {
    /// `name(args)`.
    pub(super) fn call(
        &mut self,
        expr: &QueryExpr,
        name: &Atom,
        args: &[QueryExpr],
    ) -> Option<TypedExpr> {
        let Some(function) = known(name) else {
            return self.fail(unknown(name));
        };
        let (least, most) = match function.name {
            "lower" | "upper" | "length" => (1, 1),
            "trunc" | "url_query" | "extract" => (2, 2),
            "subnet" => (2, 3),
            "coalesce" => (2, usize::MAX),
            _ => (3, 3),
        };
        if args.len() < least || args.len() > most {
            let error = Diagnostic::new(
                expr.span,
                format!(
                    "`{}` does not accept {} arguments",
                    function.name,
                    args.len()
                ),
            );
            return self.fail(error.expected(quoted(function.usage)));
        }
        match function.name {
            "trunc" => self.trunc(args),
            "subnet" => self.subnet(args),
            "coalesce" => self.coalesce(args),
            "if" => self.choice(args),
            "length" => {
                let text = self.text_of(&args[0], function)?;
                Some(TypedExpr::new(
                    Planned::Length(Box::new(text.expr)),
                    ValueType::WHOLE,
                ))
            }
            _ => self.text_function(function, args),
        }
    }

    fn text_function(&mut self, function: &FunctionDoc, args: &[QueryExpr]) -> Option<TypedExpr> {
        let text = self.text_of(&args[0], function);
        let how = match function.name {
            "lower" => TextFunction::Lower,
            "upper" => TextFunction::Upper,
            "url_query" => TextFunction::UrlQuery(self.literal_text(&args[1], function)?.text),
            "split" => {
                let separator = self.literal_text(&args[1], function)?;
                let place = self.literal_whole(&args[2], function)?;
                if separator.text.is_empty() || place == 0 {
                    let span = if place == 0 {
                        args[2].span
                    } else {
                        args[1].span
                    };
                    let message = if place == 0 {
                        "parts are counted from 1"
                    } else {
                        "nothing separates"
                    };
                    return self
                        .fail(Diagnostic::new(span, message).expected(quoted(function.usage)));
                }
                TextFunction::Split(separator.text, place)
            }
            _ => {
                let pattern = self.literal_text(&args[1], function)?;
                let regex = self.regex(&pattern, CaseSensitivity::Sensitive)?;
                match args.get(2) {
                    Some(with) => {
                        TextFunction::Replace(regex, self.literal_text(with, function)?.text)
                    }
                    None => TextFunction::Extract(regex),
                }
            }
        };
        let text = text?;
        let is_secret = text.is_secret;
        Some(TypedExpr {
            is_secret,
            ..TypedExpr::new(Planned::Text(Box::new(text.expr), how), ValueType::TEXT)
        })
    }

    fn trunc(&mut self, args: &[QueryExpr]) -> Option<TypedExpr> {
        let of = self.value(&args[0]);
        let step = self.value(&args[1]);
        let of = of?;
        let step = step?;
        let (Some(x), Some(y)) = (of.of, step.of) else {
            return Some(of);
        };
        let fits = match x.unit {
            Unit::EpochNanoseconds | Unit::Nanoseconds => y.unit == Unit::Nanoseconds,
            Unit::Bytes => matches!(y.unit, Unit::Bytes | Unit::None),
            _ => x.is_plain_number() && y.unit == Unit::None,
        };
        if !x.is_whole() || !y.is_whole() || !fits {
            let message = format!(
                "`trunc` cannot round {} to multiples of {}",
                x.words(),
                y.words()
            );
            let error = Diagnostic::new(args[0].span.to(args[1].span), message);
            return self.fail(
                error.expected("a time and a duration, or two values of one type: `trunc(ts, 1m)`"),
            );
        }
        let Planned::Literal(Literal::I64(step @ 1..)) = step.expr else {
            let error = Diagnostic::new(
                args[1].span,
                format!("{} is not a step", quoted(&self.text(&args[1]))),
            );
            return self.fail(error.expected("a constant above 0, such as 1m"));
        };
        Some(TypedExpr {
            expr: Planned::Trunc(Box::new(of.expr), step),
            of: Some(signed(x)),
            ..of
        })
    }

    fn subnet(&mut self, args: &[QueryExpr]) -> Option<TypedExpr> {
        let function = &FUNCTIONS[1];
        let of = self.value(&args[0])?;
        if let Some(what) = of.of.filter(|of| of.data_type != DataType::Ip) {
            let message = format!(
                "`subnet` needs an address; {} is {}",
                quoted(&self.text(&args[0])),
                what.words()
            );
            return self.fail(Diagnostic::new(args[0].span, message));
        }
        let mut bits = [0, SUBNET_V6];
        for (place, (arg, max)) in args[1..].iter().zip([32, 128]).enumerate() {
            let given = self.literal_whole(arg, function)?;
            if !(0..=max).contains(&given) {
                let error = Diagnostic::new(arg.span, format!("{given} is not a number of bits"));
                return self.fail(error.expected(format!("0 to {max}")));
            }
            bits[place] = given;
        }
        Some(TypedExpr::new(
            Planned::Subnet(Box::new(of.expr), bits[0] as u8, bits[1] as u8),
            ValueType::TEXT,
        ))
    }

    fn coalesce(&mut self, args: &[QueryExpr]) -> Option<TypedExpr> {
        let values: Vec<Option<TypedExpr>> = args.iter().map(|arg| self.value(arg)).collect();
        let values: Vec<TypedExpr> = values.into_iter().collect::<Option<_>>()?;
        let mut all = TypedExpr::new(Planned::Null, ValueType::WHOLE);
        all.of = None;
        for (value, arg) in values.iter().zip(args) {
            all.of = self.common(args[0].span.to(arg.span), &all, value)?;
            all.unit_written |= value.unit_written;
            all.is_secret |= value.is_secret;
        }
        all.of = all.of.map(signed);
        Some(TypedExpr {
            expr: Planned::Coalesce(values.into_iter().map(|v| v.expr).collect()),
            ..all
        })
    }

    fn choice(&mut self, args: &[QueryExpr]) -> Option<TypedExpr> {
        let condition = self.check(&args[0]);
        let a = self.value(&args[1]);
        let b = self.value(&args[2]);
        let condition = condition?;
        let a = a?;
        let b = b?;
        let of = self
            .common(args[1].span.to(args[2].span), &a, &b)?
            .map(signed);
        let unit_written = a.unit_written || b.unit_written;
        let is_secret = a.is_secret || b.is_secret;
        let expr = Planned::If(Box::new(condition), Box::new(a.expr), Box::new(b.expr));
        Some(TypedExpr {
            expr,
            of,
            unit_written,
            is_secret,
        })
    }

    /// The common type of two values; null has any type.
    fn common(
        &mut self,
        place: TextSpan,
        a: &TypedExpr,
        b: &TypedExpr,
    ) -> Option<Option<ValueType>> {
        let (Some(x), Some(y)) = (a.of, b.of) else {
            return Some(a.of.or(b.of));
        };
        match x.with(y) {
            Some(both) => Some(Some(both)),
            None => {
                let message = format!("one column cannot hold {} and {}", x.words(), y.words());
                self.fail(Diagnostic::new(place, message).expected("values of one type"))
            }
        }
    }

    fn text_of(&mut self, arg: &QueryExpr, function: &FunctionDoc) -> Option<TypedExpr> {
        let value = self.value(arg)?;
        match value.of.filter(|of| of.data_type != DataType::Text) {
            None => Some(value),
            Some(what) => {
                let text = self.text(arg);
                let message = format!(
                    "`{}` needs text; {} is {}",
                    function.name,
                    quoted(&text),
                    what.words()
                );
                self.fail(Diagnostic::new(arg.span, message))
            }
        }
    }

    fn literal_text(&mut self, arg: &QueryExpr, function: &FunctionDoc) -> Option<Atom> {
        match &arg.form {
            ExprForm::Atom(atom) if atom.quoted => Some(atom.clone()),
            _ => {
                let error = Diagnostic::new(
                    arg.span,
                    format!("{} is not a text in quotes", quoted(&self.text(arg))),
                );
                self.fail(error.expected(quoted(function.usage)))
            }
        }
    }

    fn literal_whole(&mut self, arg: &QueryExpr, function: &FunctionDoc) -> Option<i64> {
        match self.value(arg)?.expr {
            Planned::Literal(Literal::I64(number)) => Some(number),
            _ => {
                let error = Diagnostic::new(
                    arg.span,
                    format!("{} is not a whole number", quoted(&self.text(arg))),
                );
                self.fail(error.expected(quoted(function.usage)))
            }
        }
    }

    /// A valid regular expression within the size limit.
    pub(super) fn regex(&mut self, pattern: &Atom, case: CaseSensitivity) -> Option<RegexPattern> {
        let regex = RegexPattern {
            pattern: pattern.text.clone(),
            case,
        };
        let error = match regex.compile() {
            Ok(_) => return Some(regex),
            Err(regex::Error::CompiledTooBig(_)) => {
                Diagnostic::new(pattern.span, "the compiled pattern is too large")
                    .hint("reduce repetitions such as \\w{1,1000}")
            }
            Err(_) => self.place_in_pattern(pattern),
        };
        self.fail(error)
    }

    /// The error of a pattern, with its position.
    fn place_in_pattern(&self, pattern: &Atom) -> Diagnostic {
        let (place, what) = match regex_syntax::Parser::new().parse(&pattern.text) {
            Err(regex_syntax::Error::Parse(e)) => (
                e.span().start.offset..e.span().end.offset,
                e.kind().to_string(),
            ),
            Err(regex_syntax::Error::Translate(e)) => (
                e.span().start.offset..e.span().end.offset,
                e.kind().to_string(),
            ),
            _ => (0..pattern.text.len(), "the pattern is invalid".to_owned()),
        };
        let start = pattern.span.start + 1 + self.written(pattern, place.start);
        let end = pattern.span.start + 1 + self.written(pattern, place.end.max(place.start));
        let hint = if pattern.text[place.start..].starts_with("(?") {
            Some("look-around and back-references are not supported".to_owned())
        } else {
            None
        };
        Diagnostic::new(TextSpan::new(start, end), format!("in the pattern: {what}"))
            .maybe_hint(hint)
    }

    /// Position in the source of a byte of quoted text: quotes are doubled in the source.
    fn written(&self, quoted: &Atom, at: usize) -> usize {
        let source = &self.scope.text[quoted.span.range()];
        let Some(quote) = source.chars().next() else {
            return at;
        };
        at + quoted.text[..at.min(quoted.text.len())]
            .matches(quote)
            .count()
    }
}
