//! Printed values and their parts.

use plan::ComparisonOperator;
use tuple::DataType;

use super::lexical::{LEAST, column_type, real};

const NULL: &str = "NULL";

/// A printed value.
#[derive(Clone, Debug)]
pub struct SqlValue {
    /// The expression. Needs no parentheses around it.
    pub sql: String,
    /// The type, `I64` for all integers; `None` for null.
    pub data_type: Option<DataType>,
    /// Whether a floating point value may be non-finite instead of null. Sums, differences, and products propagate
    /// this.
    pub ends: RealRangeEnds,
}

/// Range of floating point values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealRangeEnds {
    /// The value is finite or null.
    Kept,
    /// May be infinite or NaN.
    Open,
}

impl SqlValue {
    /// Creates a value of a type.
    pub fn new(sql: impl Into<String>, data_type: DataType) -> SqlValue {
        SqlValue {
            sql: sql.into(),
            data_type: Some(data_type),
            ends: RealRangeEnds::Kept,
        }
    }

    /// Null, with or without a type.
    pub fn null(data_type: Option<DataType>) -> SqlValue {
        SqlValue {
            sql: NULL.into(),
            data_type,
            ends: RealRangeEnds::Kept,
        }
    }

    /// Whether the value is constant null, for which arithmetic fails in Flink's planner.
    pub fn is_null(&self) -> bool {
        self.sql == NULL
    }

    /// The expression, with null instead of non-finite values.
    pub fn finite(self) -> String {
        match self.ends {
            RealRangeEnds::Kept => self.sql,
            RealRangeEnds::Open => {
                format!(
                    "CASE WHEN ABS({0}) <= {1} THEN {0} END",
                    self.sql,
                    real(f64::MAX)
                )
            }
        }
    }

    /// The value cast to `wanted`: integers become floating point, null gets a type.
    pub fn of(self, wanted: DataType) -> SqlValue {
        let ends = self.ends;
        let sql = match (self.data_type, wanted) {
            _ if self.is_null() => format!("CAST(NULL AS {})", column_type(wanted)),
            (Some(DataType::I64), DataType::F64) => format!("CAST({} AS DOUBLE)", self.sql),
            _ => self.sql,
        };
        SqlValue {
            sql,
            data_type: Some(wanted),
            ends,
        }
    }
}

/// The UTF-8 encoding of a text.
pub fn bytes_of(text: &str) -> String {
    format!("ENCODE({text}, 'UTF-8')")
}

/// The SQL operator.
pub fn sign(op: ComparisonOperator) -> &'static str {
    match op {
        ComparisonOperator::Eq => "=",
        ComparisonOperator::Ne => "<>",
        ComparisonOperator::Lt => "<",
        ComparisonOperator::Le => "<=",
        ComparisonOperator::Gt => ">",
        ComparisonOperator::Ge => ">=",
    }
}

/// The smallest BIGINT as a value.
pub fn least() -> String {
    format!("CAST({LEAST} AS BIGINT)")
}
