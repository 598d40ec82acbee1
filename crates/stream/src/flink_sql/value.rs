//! Printed values, and the small pieces that they are made of.

use plan::Compare;
use tuple::DataType;

use super::lexical::{LEAST, column_type, real};

const NULL: &str = "NULL";

/// A printed value.
#[derive(Clone, Debug)]
pub struct Value {
    /// What stands for it. Needs no brackets around it.
    pub sql: String,
    /// Its type: of whole numbers `I64`; `None`: it is null.
    pub data_type: Option<DataType>,
    /// Of reals: whether it can be one that is not finite, in place of null. Sums, differences and products hand that on.
    pub ends: Ends,
}

/// Where the range of reals ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// It is finite or null.
    Kept,
    /// It may be infinite or no number.
    Open,
}

impl Value {
    /// Of this type.
    pub fn new(sql: impl Into<String>, data_type: DataType) -> Value {
        Value { sql: sql.into(), data_type: Some(data_type), ends: Ends::Kept }
    }

    /// Null, of a type or none.
    pub fn null(data_type: Option<DataType>) -> Value {
        Value { sql: NULL.into(), data_type, ends: Ends::Kept }
    }

    /// Whether it is null whatever columns say. Flink's planner fails at arithmetic with that.
    pub fn is_null(&self) -> bool {
        self.sql == NULL
    }

    /// What it is as a text, null where it is not finite.
    pub fn finite(self) -> String {
        match self.ends {
            Ends::Kept => self.sql,
            Ends::Open => {
                format!("CASE WHEN ABS({0}) <= {1} THEN {0} END", self.sql, real(f64::MAX))
            }
        }
    }

    /// As a value of this type: whole numbers become real ones, null gets a type.
    pub fn of(self, wanted: DataType) -> Value {
        let ends = self.ends;
        let sql = match (self.data_type, wanted) {
            _ if self.is_null() => format!("CAST(NULL AS {})", column_type(wanted)),
            (Some(DataType::I64), DataType::F64) => format!("CAST({} AS DOUBLE)", self.sql),
            _ => self.sql,
        };
        Value { sql, data_type: Some(wanted), ends }
    }
}

/// The UTF-8 of a text.
pub fn bytes_of(text: &str) -> String {
    format!("ENCODE({text}, 'UTF-8')")
}

/// The operator.
pub fn sign(op: Compare) -> &'static str {
    match op {
        Compare::Eq => "=",
        Compare::Ne => "<>",
        Compare::Lt => "<",
        Compare::Le => "<=",
        Compare::Gt => ">",
        Compare::Ge => ">=",
    }
}

/// The least whole number as a value.
pub fn least() -> String {
    format!("CAST({LEAST} AS BIGINT)")
}
