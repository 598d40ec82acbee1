//! Types of conditions and values as evaluated by the engine: integers are signed in expressions and become floating
//! point next to floating point.

use tuple::{DataType, Field};

use crate::expr::{
    ArithmeticOperator, Column, ComparisonOperator, Expr, Literal, Predicate, TextFunction,
};

/// Returns the field of an existing column.
pub type FieldLookup<'f, 'a> = &'f dyn Fn(Column) -> Result<&'a Field, String>;

/// Validates a condition.
pub fn condition(predicate: &Predicate, fields: FieldLookup<'_, '_>) -> Result<(), String> {
    match predicate {
        Predicate::And(parts) | Predicate::Or(parts) => {
            parts.iter().try_for_each(|p| condition(p, fields))
        }
        Predicate::Not(inner) => condition(inner, fields),
        Predicate::IsNull(column) => fields(*column).map(|_| ()),
        Predicate::Compare {
            column,
            op,
            literal,
        } => compared(fields(*column)?, *op, literal),
        Predicate::In { column, literals } => {
            let field = fields(*column)?;
            literals
                .iter()
                .try_for_each(|literal| compared(field, ComparisonOperator::Eq, literal))
        }
        Predicate::Like { column, .. } => is_text(fields(*column)?),
        Predicate::Matches { column, regex } => {
            is_text(fields(*column)?)?;
            pattern(regex)
        }
    }
}

fn is_text(field: &Field) -> Result<(), String> {
    match field.data_type {
        DataType::Text | DataType::Json | DataType::Hashes => Ok(()),
        _ => Err(format!("{} is not text", field.name)),
    }
}

fn pattern(regex: &crate::expr::RegexPattern) -> Result<(), String> {
    regex
        .compile()
        .map(|_| ())
        .map_err(|_| "an invalid or too large regular expression".into())
}

fn compared(field: &Field, op: ComparisonOperator, literal: &Literal) -> Result<(), String> {
    let fits = match (field.data_type, literal) {
        (DataType::Bool, Literal::Bool(_))
        | (DataType::U64, Literal::U64(_))
        | (DataType::I64, Literal::I64(_))
        | (DataType::Text | DataType::Json, Literal::Text(_)) => true,
        (DataType::F64, Literal::F64(v)) => v.is_finite(),
        (DataType::Ip, Literal::Net(..)) => {
            matches!(op, ComparisonOperator::Eq | ComparisonOperator::Ne)
        }
        _ => false,
    };
    if fits {
        Ok(())
    } else {
        Err(format!(
            "{} is compared with a value of another type",
            field.name
        ))
    }
}

/// The type of a value; `None` if it is always null.
pub fn value(expr: &Expr, fields: FieldLookup<'_, '_>) -> Result<Option<DataType>, String> {
    let of = |expr: &Expr| value(expr, fields);
    Ok(Some(match expr {
        Expr::Column(column) => match fields(*column)?.data_type {
            DataType::U64 => DataType::I64,
            DataType::Json | DataType::Hashes => return Err("an expression uses a list".into()),
            same => same,
        },
        Expr::Literal(literal) => literal_type(literal)?,
        Expr::Null => return Ok(None),
        Expr::Arithmetic(a, op, b) => arithmetic(of(a)?, *op, of(b)?)?,
        Expr::Compare(a, _, b) => {
            unified([of(a)?, of(b)?])?;
            DataType::Bool
        }
        Expr::Test(predicate) => {
            condition(predicate, fields)?;
            DataType::Bool
        }
        Expr::If(predicate, a, b) => {
            condition(predicate, fields)?;
            return unified([of(a)?, of(b)?]);
        }
        Expr::Coalesce(list) => {
            return unified(list.iter().map(of).collect::<Result<Vec<_>, _>>()?);
        }
        Expr::Trunc(inner, step) => {
            wanted(of(inner)?, DataType::I64)?;
            match step {
                1.. => DataType::I64,
                _ => return Err(format!("multiples of {step}")),
            }
        }
        Expr::Subnet(inner, v4, v6) => {
            wanted(of(inner)?, DataType::Ip)?;
            match (v4, v6) {
                (0..=32, 0..=128) => DataType::Text,
                _ => return Err("more bits than an address has".into()),
            }
        }
        Expr::Text(inner, function) => {
            wanted(of(inner)?, DataType::Text)?;
            match function {
                TextFunction::Extract(regex) | TextFunction::Replace(regex, _) => pattern(regex)?,
                TextFunction::Lower | TextFunction::Upper => {}
                TextFunction::UrlQuery(_) | TextFunction::Split(..) => {}
            }
            DataType::Text
        }
        Expr::Length(inner) => {
            wanted(of(inner)?, DataType::Text)?;
            DataType::I64
        }
    }))
}

fn literal_type(literal: &Literal) -> Result<DataType, String> {
    match literal {
        Literal::Bool(_) => Ok(DataType::Bool),
        Literal::U64(_) | Literal::I64(_) => Ok(DataType::I64),
        Literal::F64(v) if v.is_finite() => Ok(DataType::F64),
        Literal::F64(_) => Err("a number that is not finite".into()),
        Literal::Text(_) => Ok(DataType::Text),
        Literal::Net(..) => Ok(DataType::Ip),
    }
}

fn arithmetic(
    a: Option<DataType>,
    op: ArithmeticOperator,
    b: Option<DataType>,
) -> Result<DataType, String> {
    let is_number = |t: &DataType| matches!(t, DataType::I64 | DataType::F64);
    if !a.iter().chain(&b).all(is_number) {
        return Err("arithmetic on a value that is not a number".into());
    }
    let is_whole = ![a, b].contains(&Some(DataType::F64)) && op != ArithmeticOperator::Ratio;
    match (is_whole, op) {
        (true, _) => Ok(DataType::I64),
        (false, ArithmeticOperator::BitAnd | ArithmeticOperator::BitOr) => {
            Err("bit operators on real numbers".into())
        }
        (false, _) => Ok(DataType::F64),
    }
}

fn wanted(found: Option<DataType>, wanted: DataType) -> Result<(), String> {
    if found.is_none_or(|found| found == wanted) {
        Ok(())
    } else {
        Err("a function of a wrong argument type".into())
    }
}

/// The common type of several values.
fn unified(types: impl IntoIterator<Item = Option<DataType>>) -> Result<Option<DataType>, String> {
    let types: Vec<DataType> = types.into_iter().flatten().collect();
    let common = types
        .iter()
        .copied()
        .reduce(|a, b| if b == DataType::F64 { b } else { a });
    let fits =
        |t: &DataType| Some(*t) == common || (*t, common) == (DataType::I64, Some(DataType::F64));
    if types.iter().all(fits) {
        Ok(common)
    } else {
        Err("values of different types".into())
    }
}
