//! State of checking conditions and values: the scope, recorded errors, and the types of values.

use plan::Expr as Planned;
use tuple::{DataType, Field, Unit};

use super::names::NameScope;
use crate::Diagnostic;

/// Checks conditions and their values in a scope.
pub(super) struct ConditionChecker<'a, 's> {
    pub(super) scope: &'a NameScope<'s>,
    pub(super) errors: &'a mut Vec<Diagnostic>,
}

impl<'a, 's> ConditionChecker<'a, 's> {
    pub(super) fn new(scope: &'a NameScope<'s>, errors: &'a mut Vec<Diagnostic>) -> Self {
        ConditionChecker { scope, errors }
    }

    pub(super) fn fail<T>(&mut self, error: Diagnostic) -> Option<T> {
        self.errors.push(error);
        None
    }
}

/// The type of a value. Unsigned columns are `U64`; values computed from them are `I64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueType {
    pub data_type: DataType,
    pub unit: Unit,
}

/// An expression with its type.
#[derive(Clone, Debug)]
pub(super) struct TypedExpr {
    pub expr: Planned,
    /// `None` for null, which has every type.
    pub of: Option<ValueType>,
    /// Whether a number without unit next to it means nanoseconds.
    pub unit_written: bool,
    /// Whether it contains redacted data.
    pub is_secret: bool,
}

impl ValueType {
    pub(super) const WHOLE: ValueType = ValueType {
        data_type: DataType::I64,
        unit: Unit::None,
    };
    pub(super) const REAL: ValueType = ValueType {
        data_type: DataType::F64,
        unit: Unit::None,
    };
    pub(super) const TEXT: ValueType = ValueType {
        data_type: DataType::Text,
        unit: Unit::None,
    };

    pub(super) fn is_whole(self) -> bool {
        matches!(self.data_type, DataType::U64 | DataType::I64)
    }

    /// Whether it is a dimensionless number, including shares and rates, but not IDs and times.
    pub(super) fn is_plain_number(self) -> bool {
        let is_number = self.is_whole() || self.data_type == DataType::F64;
        is_number && matches!(self.unit, Unit::None | Unit::Fraction | Unit::PerSecond)
    }

    /// Whether arithmetic is defined for it.
    pub(super) fn is_number(self) -> bool {
        self.is_plain_number()
            || matches!(
                self.unit,
                Unit::Nanoseconds | Unit::Bytes | Unit::BytesPerSecond
            )
    }

    /// The common type, if there is one.
    pub(super) fn with(self, other: ValueType) -> Option<ValueType> {
        let numbers = |t: ValueType| t.is_whole() || t.data_type == DataType::F64;
        let unit = match (self.unit, other.unit) {
            (a, b) if a == b => a,
            (Unit::Bytes, Unit::None) | (Unit::None, Unit::Bytes) => Unit::Bytes,
            _ if self.is_plain_number() && other.is_plain_number() => Unit::None,
            _ => return None,
        };
        let data_type = match (self.data_type, other.data_type) {
            (a, b) if a == b => a,
            (DataType::F64, _) | (_, DataType::F64) if numbers(self) && numbers(other) => {
                DataType::F64
            }
            _ if self.is_whole() && other.is_whole() => DataType::I64,
            _ => return None,
        };
        Some(ValueType { data_type, unit })
    }

    /// Description of the type.
    pub(super) fn words(self) -> &'static str {
        kind(&Field::new("", self.data_type, self.unit, ""))
    }
}

impl TypedExpr {
    pub(super) fn new(expr: Planned, of: ValueType) -> TypedExpr {
        TypedExpr {
            expr,
            of: Some(of),
            unit_written: false,
            is_secret: false,
        }
    }

    /// Whether it is constant.
    pub(super) fn is_constant(&self) -> bool {
        matches!(self.expr, Planned::Literal(_) | Planned::Null)
    }
}

/// Description of a field's type.
pub(super) fn kind(field: &Field) -> &'static str {
    match (field.data_type, field.unit) {
        (DataType::Text, _) => "text",
        (DataType::Bool, _) => "true or false",
        (DataType::Ip, _) => "an address",
        (DataType::Json, _) => "a JSON value",
        (DataType::Hashes, _) => "a list of hashes",
        (_, Unit::Nanoseconds) => "a duration",
        (_, Unit::EpochNanoseconds) => "a point in time",
        (_, Unit::Id) => "an id",
        _ => "a number",
    }
}
