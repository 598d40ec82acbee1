//! Conditions and values as lists of steps in postfix order. Since the message is not nested, its depth is not
//! limited by the message parser but by [`DEPTH_MAX`], which exceeds that of any query.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::column_names::{ColumnNames, ColumnPlaces};
use super::enum_words::EnumWord;
use super::proto;
use super::refusal::UnmetRequirements;
use crate::expr::{
    ArithmeticOperator, CaseSensitivity, ComparisonOperator, Expr, Literal, Predicate,
    RegexPattern, TextFunction,
};

/// Maximum nesting depth. A query has at most 64 levels of parentheses, each of which adds a few levels, and 256
/// operators.
pub const DEPTH_MAX: usize = 768;
/// Maximum regular expressions in a plan; each may take [`RegexPattern::BYTES_MAX`] while it is compiled.
pub const PATTERNS_MAX: usize = 1024;

/// Encodes a condition.
pub fn condition(predicate: &Predicate, names: ColumnNames<'_>) -> proto::ExpressionProto {
    let mut writer = ExpressionWriter {
        names,
        steps: Vec::new(),
    };
    writer.condition(predicate);
    proto::ExpressionProto {
        steps: writer.steps,
    }
}

/// Encodes a value.
pub fn value(expr: &Expr, names: ColumnNames<'_>) -> proto::ExpressionProto {
    let mut writer = ExpressionWriter {
        names,
        steps: Vec::new(),
    };
    writer.value(expr);
    proto::ExpressionProto {
        steps: writer.steps,
    }
}

/// Decodes a condition.
pub fn read_condition(
    sent: &proto::ExpressionProto,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<Predicate> {
    match read(sent, places, lacks)? {
        StackItem::Condition(predicate) => Some(predicate),
        StackItem::Value(_) => lacks.malformed("a value is used as a condition"),
    }
}

/// Decodes a value.
pub fn read_value(
    sent: &proto::ExpressionProto,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<Expr> {
    match read(sent, places, lacks)? {
        StackItem::Value(expr) => Some(expr),
        StackItem::Condition(_) => lacks.malformed("a condition is used as a value"),
    }
}

struct ExpressionWriter<'a> {
    names: ColumnNames<'a>,
    steps: Vec<proto::StepProto>,
}

impl ExpressionWriter<'_> {
    fn step(&mut self, name: &str, operands: usize) -> &mut proto::StepProto {
        let step = proto::StepProto {
            name: name.to_owned(),
            operands: operands as u32,
            ..proto::StepProto::default()
        };
        self.steps.push(step);
        self.steps.last_mut().expect("a step was just added")
    }

    fn condition(&mut self, predicate: &Predicate) {
        let names = self.names;
        match predicate {
            Predicate::And(parts) => self.joined("and", parts),
            Predicate::Or(parts) => self.joined("or", parts),
            Predicate::Not(inner) => {
                self.condition(inner);
                self.step("not", 1);
            }
            Predicate::Compare {
                column,
                op,
                literal: of,
            } => {
                let step = self.step(&format!("is_{}", op.word()), 0);
                step.column = Some(names.sent(*column));
                step.literals = vec![literal(of)];
            }
            Predicate::Like {
                column,
                pattern,
                case,
            } => {
                let step = self.step(cased(*case, "like", "ilike"), 0);
                step.column = Some(names.sent(*column));
                step.texts = vec![pattern.clone()];
            }
            Predicate::Matches { column, regex } => {
                let step = self.step(cased(regex.case, "matches", "imatches"), 0);
                step.column = Some(names.sent(*column));
                step.texts = vec![regex.pattern.clone()];
            }
            Predicate::In { column, literals } => {
                let step = self.step("in", 0);
                step.column = Some(names.sent(*column));
                step.literals = literals.iter().map(literal).collect();
            }
            Predicate::IsNull(column) => self.step("is_null", 0).column = Some(names.sent(*column)),
        }
    }

    fn joined(&mut self, name: &str, parts: &[Predicate]) {
        parts.iter().for_each(|part| self.condition(part));
        self.step(name, parts.len());
    }

    fn value(&mut self, expr: &Expr) {
        match expr {
            Expr::Column(column) => self.step("column", 0).column = Some(self.names.sent(*column)),
            Expr::Literal(of) => self.step("literal", 0).literals = vec![literal(of)],
            Expr::Null => _ = self.step("null", 0),
            Expr::Arithmetic(a, op, b) => self.pair(op.word(), a, b),
            Expr::Compare(a, op, b) => self.pair(op.word(), a, b),
            Expr::Test(condition) => {
                self.condition(condition);
                self.step("test", 1);
            }
            Expr::If(condition, a, b) => {
                self.condition(condition);
                self.value(a);
                self.value(b);
                self.step("if", 3);
            }
            Expr::Coalesce(list) => {
                list.iter().for_each(|value| self.value(value));
                self.step("coalesce", list.len());
            }
            Expr::Trunc(of, step) => self.of(of, "trunc").numbers = vec![*step],
            Expr::Subnet(of, v4, v6) => {
                self.of(of, "subnet").numbers = vec![i64::from(*v4), i64::from(*v6)];
            }
            Expr::Text(of, function) => self.text(of, function),
            Expr::Length(of) => _ = self.of(of, "length"),
        }
    }

    fn text(&mut self, of: &Expr, function: &TextFunction) {
        match function {
            TextFunction::Lower => _ = self.of(of, "lower"),
            TextFunction::Upper => _ = self.of(of, "upper"),
            TextFunction::UrlQuery(name) => self.of(of, "url_query").texts = vec![name.clone()],
            TextFunction::Split(by, place) => {
                let step = self.of(of, "split");
                step.texts = vec![by.clone()];
                step.numbers = vec![*place];
            }
            TextFunction::Extract(regex) => {
                self.of(of, cased(regex.case, "extract", "iextract")).texts =
                    vec![regex.pattern.clone()];
            }
            TextFunction::Replace(regex, with) => {
                self.of(of, cased(regex.case, "replace", "ireplace")).texts =
                    vec![regex.pattern.clone(), with.clone()];
            }
        }
    }

    fn of(&mut self, of: &Expr, name: &str) -> &mut proto::StepProto {
        self.value(of);
        self.step(name, 1)
    }

    fn pair(&mut self, name: &str, a: &Expr, b: &Expr) {
        self.value(a);
        self.value(b);
        self.step(name, 2);
    }
}

fn cased(case: CaseSensitivity, sensitive: &'static str, ignored: &'static str) -> &'static str {
    if case == CaseSensitivity::Sensitive {
        sensitive
    } else {
        ignored
    }
}

enum StackItem {
    Condition(Predicate),
    Value(Expr),
}

/// The operands of a step, taken from the stack.
struct StackOperands(std::vec::IntoIter<(StackItem, usize)>);

impl StackOperands {
    fn condition(&mut self) -> Option<Predicate> {
        match self.0.next()?.0 {
            StackItem::Condition(predicate) => Some(predicate),
            StackItem::Value(_) => None,
        }
    }

    fn value(&mut self) -> Option<Box<Expr>> {
        match self.0.next()?.0 {
            StackItem::Value(expr) => Some(Box::new(expr)),
            StackItem::Condition(_) => None,
        }
    }

    fn conditions(&mut self) -> Option<Vec<Predicate>> {
        (0..self.0.len()).map(|_| self.condition()).collect()
    }

    fn values(&mut self) -> Option<Vec<Expr>> {
        (0..self.0.len())
            .map(|_| self.value().map(|value| *value))
            .collect()
    }
}

fn read(
    sent: &proto::ExpressionProto,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<StackItem> {
    let mut stack: Vec<(StackItem, usize)> = Vec::new();
    for step in &sent.steps {
        let operands = usize::try_from(step.operands).ok();
        let Some(rest) = operands.and_then(|operands| stack.len().checked_sub(operands)) else {
            return lacks.malformed("an operator lacks operands");
        };
        let taken = stack.split_off(rest);
        let depth = 1 + taken.iter().map(|(_, depth)| *depth).max().unwrap_or(0);
        lacks.at_most("expressions within expressions", depth, DEPTH_MAX)?;
        stack.push((
            read_step(step, StackOperands(taken.into_iter()), places, lacks)?,
            depth,
        ));
    }
    match (stack.pop(), stack.is_empty()) {
        (Some((item, _)), true) => Some(item),
        _ => lacks.malformed("an expression has no end"),
    }
}

/// Evaluates a step; `None` if it is recorded in `lacks`.
fn read_step(
    step: &proto::StepProto,
    mut operands: StackOperands,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<StackItem> {
    let proto::StepProto {
        name,
        column,
        literals,
        numbers,
        texts,
        ..
    } = step;
    let taken = operands.0.len();
    let column_read = match column {
        Some(column) => Some(places.read(Some(column), lacks)?),
        None => None,
    };
    let literals: Vec<Literal> = literals
        .iter()
        .map(|of| read_literal(of, lacks))
        .collect::<Option<_>>()?;
    let item = match column_read {
        Some(column) if taken == 0 && numbers.is_empty() => {
            of_column(name, column, literals, texts, lacks)
        }
        Some(_) => None,
        None => match (&literals[..], &numbers[..], &texts[..]) {
            ([literal], [], []) if name == "literal" && taken == 0 => {
                Some(StackItem::Value(Expr::Literal(literal.clone())))
            }
            ([], numbers, texts) => of_operands(name, &mut operands, numbers, texts, lacks),
            _ => None,
        },
    };
    match item {
        // An operand of the wrong kind is missing here, or is left over.
        Some(item) if operands.0.len() == 0 => Some(item),
        _ => lacks.word("operation", name),
    }
}

fn of_column(
    name: &str,
    column: crate::expr::Column,
    mut literals: Vec<Literal>,
    texts: &[String],
    lacks: &mut UnmetRequirements,
) -> Option<StackItem> {
    let condition = match (name, literals.len(), texts) {
        ("column", 0, []) => return Some(StackItem::Value(Expr::Column(column))),
        ("is_null", 0, []) => Predicate::IsNull(column),
        ("in", _, []) => Predicate::In { column, literals },
        ("like", 0, [pattern]) => Predicate::Like {
            column,
            pattern: pattern.clone(),
            case: CaseSensitivity::Sensitive,
        },
        ("ilike", 0, [pattern]) => Predicate::Like {
            column,
            pattern: pattern.clone(),
            case: CaseSensitivity::Ignored,
        },
        ("matches", 0, [pattern]) => Predicate::Matches {
            column,
            regex: regex(pattern, CaseSensitivity::Sensitive, lacks),
        },
        ("imatches", 0, [pattern]) => Predicate::Matches {
            column,
            regex: regex(pattern, CaseSensitivity::Ignored, lacks),
        },
        (_, 1, []) => {
            let op = ComparisonOperator::of_word(name.strip_prefix("is_")?)?;
            Predicate::Compare {
                column,
                op,
                literal: literals.pop()?,
            }
        }
        _ => return None,
    };
    Some(StackItem::Condition(condition))
}

fn of_operands(
    name: &str,
    operands: &mut StackOperands,
    numbers: &[i64],
    texts: &[String],
    lacks: &mut UnmetRequirements,
) -> Option<StackItem> {
    use TextFunction::{Extract, Lower, Replace, Split, Upper, UrlQuery};
    let value = match (name, numbers, texts) {
        ("and", [], []) => {
            return operands
                .conditions()
                .map(|parts| StackItem::Condition(Predicate::And(parts)));
        }
        ("or", [], []) => {
            return operands
                .conditions()
                .map(|parts| StackItem::Condition(Predicate::Or(parts)));
        }
        ("not", [], []) => {
            return operands
                .condition()
                .map(|inner| StackItem::Condition(Predicate::Not(Box::new(inner))));
        }
        ("null", [], []) => Expr::Null,
        ("test", [], []) => Expr::Test(Box::new(operands.condition()?)),
        ("if", [], []) => Expr::If(
            Box::new(operands.condition()?),
            operands.value()?,
            operands.value()?,
        ),
        ("coalesce", [], []) => Expr::Coalesce(operands.values()?),
        ("trunc", [step], []) => Expr::Trunc(operands.value()?, *step),
        ("subnet", [v4, v6], []) => Expr::Subnet(
            operands.value()?,
            u8::try_from(*v4).ok()?,
            u8::try_from(*v6).ok()?,
        ),
        ("length", [], []) => Expr::Length(operands.value()?),
        ("lower", [], []) => Expr::Text(operands.value()?, Lower),
        ("upper", [], []) => Expr::Text(operands.value()?, Upper),
        ("url_query", [], [name]) => Expr::Text(operands.value()?, UrlQuery(name.clone())),
        ("split", [place], [by]) => Expr::Text(operands.value()?, Split(by.clone(), *place)),
        ("extract" | "iextract", [], [pattern]) => {
            let regex = regex(pattern, case_of(name), lacks);
            Expr::Text(operands.value()?, Extract(regex))
        }
        ("replace" | "ireplace", [], [pattern, with]) => {
            let regex = regex(pattern, case_of(name), lacks);
            Expr::Text(operands.value()?, Replace(regex, with.clone()))
        }
        (_, [], []) => match (
            ArithmeticOperator::of_word(name),
            ComparisonOperator::of_word(name),
        ) {
            (Some(op), _) => Expr::Arithmetic(operands.value()?, op, operands.value()?),
            (_, Some(op)) => Expr::Compare(operands.value()?, op, operands.value()?),
            _ => return None,
        },
        _ => return None,
    };
    Some(StackItem::Value(value))
}

fn case_of(name: &str) -> CaseSensitivity {
    if name.starts_with('i') {
        CaseSensitivity::Ignored
    } else {
        CaseSensitivity::Sensitive
    }
}

/// Compilation is postponed until the whole plan is decoded without errors.
fn regex(pattern: &str, case: CaseSensitivity, lacks: &mut UnmetRequirements) -> RegexPattern {
    lacks.patterns += 1;
    let _ = lacks.at_most("regular expressions", lacks.patterns, PATTERNS_MAX);
    RegexPattern {
        pattern: pattern.to_owned(),
        case,
    }
}

fn literal(of: &Literal) -> proto::LiteralProto {
    let of = match of {
        Literal::Bool(v) => proto::LiteralKindProto::Bool(*v),
        Literal::U64(v) => proto::LiteralKindProto::U64(*v),
        Literal::I64(v) => proto::LiteralKindProto::I64(*v),
        Literal::F64(v) => proto::LiteralKindProto::F64(*v),
        Literal::Text(v) => proto::LiteralKindProto::Text(v.clone()),
        Literal::Net(ip, prefix) => proto::LiteralKindProto::Net(net(*ip, *prefix)),
    };
    proto::LiteralProto { of: Some(of) }
}

fn read_literal(sent: &proto::LiteralProto, lacks: &mut UnmetRequirements) -> Option<Literal> {
    Some(match sent.of.as_ref() {
        Some(proto::LiteralKindProto::Bool(v)) => Literal::Bool(*v),
        Some(proto::LiteralKindProto::U64(v)) => Literal::U64(*v),
        Some(proto::LiteralKindProto::I64(v)) => Literal::I64(*v),
        Some(proto::LiteralKindProto::F64(v)) => Literal::F64(*v),
        Some(proto::LiteralKindProto::Text(v)) => Literal::Text(v.clone()),
        Some(proto::LiteralKindProto::Net(v)) => {
            let (ip, prefix) = read_net(v, lacks)?;
            Literal::Net(ip, prefix)
        }
        None => return lacks.malformed("a literal is missing or of an unknown kind"),
    })
}

/// Encodes an address.
pub fn address(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// Decodes an address.
pub fn read_address(bytes: &[u8], lacks: &mut UnmetRequirements) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|octets| IpAddr::V4(Ipv4Addr::from(octets)));
    let ip = v4
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(|octets| IpAddr::V6(Ipv6Addr::from(octets))));
    ip.ok().or_else(|| lacks.malformed("an invalid address"))
}

/// Encodes a network.
pub fn net(ip: IpAddr, prefix: u8) -> proto::NetProto {
    proto::NetProto {
        address: address(ip),
        prefix: prefix.into(),
    }
}

/// Decodes a network.
pub fn read_net(sent: &proto::NetProto, lacks: &mut UnmetRequirements) -> Option<(IpAddr, u8)> {
    let ip = read_address(&sent.address, lacks)?;
    match u8::try_from(sent.prefix) {
        Ok(prefix) if prefix <= if ip.is_ipv4() { 32 } else { 128 } => Some((ip, prefix)),
        _ => lacks.malformed("an invalid network"),
    }
}
