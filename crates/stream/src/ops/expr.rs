//! Computed columns, evaluated a batch at a time with the semantics of [`plan::expr`].

use std::net::Ipv6Addr;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array, StringArray,
    new_null_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use plan::{ArithmeticOperator, Column, ComparisonOperator, ComputedField, Expr, Literal};
use tuple::batch::arrow_type;
use tuple::{Batch, DataType, FieldId, Schema};

use crate::ops::filter::{TruthMask, TupleFilter};
use crate::ops::text::CompiledTextFunction;

/// Appends computed columns to those of a schema.
pub struct ColumnComputer {
    schema: Arc<Schema>,
    /// Position of the first computed column.
    base: u16,
    columns: Vec<ComputedColumn>,
}

struct ComputedColumn {
    node: ExprNode,
    /// Declared type of the column.
    data_type: DataType,
}

/// An expression resolved to the columns of one schema. All integers are `I64`.
enum ExprNode {
    Column(FieldId),
    Literal(Literal),
    Null(DataType),
    /// An integer converted to floating point.
    Real(Box<ExprNode>),
    Whole(Box<ExprNode>, ArithmeticOperator, Box<ExprNode>),
    Reals(Box<ExprNode>, ArithmeticOperator, Box<ExprNode>),
    Compare(Box<ExprNode>, ComparisonOperator, Box<ExprNode>, DataType),
    Test(TupleFilter),
    If(TupleFilter, Box<ExprNode>, Box<ExprNode>, DataType),
    Coalesce(Vec<ExprNode>, DataType),
    Trunc(Box<ExprNode>, i64),
    Subnet(Box<ExprNode>, u8, u8),
    Text(Box<ExprNode>, CompiledTextFunction),
    Length(Box<ExprNode>),
}

impl ColumnComputer {
    /// Computed columns of a dataflow over tuples of `schema`; `place` maps columns of inputs.
    ///
    /// # Panics
    /// If the types of an expression do not match; the checker rejects these.
    #[must_use]
    pub fn new(
        computed: &[ComputedField],
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
    ) -> ColumnComputer {
        let base = schema.fields.len() as u16;
        let fields = schema
            .fields
            .iter()
            .chain(computed.iter().map(|c| &c.field))
            .cloned()
            .collect();
        let schema = Arc::new(Schema {
            fields,
            ..schema.clone()
        });
        let at = |column: Column| placed(base, column, place);
        let columns = computed.iter().map(|c| ComputedColumn {
            node: ExprNode::new(&c.expr, &schema, &at).0,
            data_type: c.field.data_type,
        });
        ColumnComputer {
            base,
            columns: columns.collect(),
            schema,
        }
    }

    /// The schema with the computed columns.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Position of a column in that schema.
    #[must_use]
    pub fn place(&self, column: Column, place: &dyn Fn(Column) -> FieldId) -> FieldId {
        placed(self.base, column, place)
    }

    /// Adds the computed columns in `wanted` to a batch.
    #[must_use]
    pub fn extend(&self, batch: &Batch, wanted: &[usize]) -> Batch {
        let present = batch.schema().ids().map(|id| batch.column(id).cloned());
        let mut columns: Vec<Option<ArrayRef>> = present.collect();
        columns.resize(self.schema.fields.len(), None);
        let mut extended = Batch::new(self.schema.clone(), batch.rows(), columns.clone());
        for &place in wanted {
            let at = usize::from(self.base) + place;
            columns[at] = Some(self.columns[place].evaluate(&extended));
            extended = Batch::new(self.schema.clone(), batch.rows(), columns.clone());
        }
        extended
    }
}

fn placed(base: u16, column: Column, place: &dyn Fn(Column) -> FieldId) -> FieldId {
    match column.computed_place() {
        Some(computed) => FieldId(base + computed as u16),
        None => place(column),
    }
}

impl ComputedColumn {
    fn evaluate(&self, batch: &Batch) -> ArrayRef {
        match &self.node {
            // A renamed column is shared.
            ExprNode::Column(id) => batch
                .column(*id)
                .expect("the operand column exists")
                .clone(),
            node => {
                let column = node.evaluate(batch);
                if self.data_type == DataType::F64 {
                    Arc::new(reals(&column))
                } else {
                    column
                }
            }
        }
    }
}

impl ExprNode {
    /// The node and its type; null has no type.
    fn new(
        expr: &Expr,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
    ) -> (ExprNode, Option<DataType>) {
        let new = |expr: &Expr| ExprNode::new(expr, schema, place);
        let boxed = |expr: &Expr, wanted| Box::new(of_type(new(expr), wanted));
        let all = |list: &[&Expr]| unified(list.iter().map(|expr| new(expr)).collect());
        let (node, data_type) = match expr {
            Expr::Column(column) => {
                let id = place(*column);
                let data_type = schema.field(id).data_type;
                (
                    ExprNode::Column(id),
                    if data_type == DataType::U64 {
                        DataType::I64
                    } else {
                        data_type
                    },
                )
            }
            Expr::Literal(literal) => (ExprNode::Literal(literal.clone()), type_of(literal)),
            Expr::Null => return (ExprNode::Null(DataType::I64), None),
            Expr::Arithmetic(a, op, b) => {
                let (a, a_type) = new(a);
                let (b, b_type) = new(b);
                let is_whole = ![a_type, b_type].contains(&Some(DataType::F64))
                    && *op != ArithmeticOperator::Ratio;
                let a = Box::new(a);
                let b = Box::new(b);
                if is_whole {
                    (ExprNode::Whole(a, *op, b), DataType::I64)
                } else {
                    (ExprNode::Reals(a, *op, b), DataType::F64)
                }
            }
            Expr::Compare(a, op, b) => {
                let (nodes, data_type) = all(&[a, b]);
                let [a, b] = two(nodes);
                (
                    ExprNode::Compare(a, *op, b, data_type.unwrap_or(DataType::I64)),
                    DataType::Bool,
                )
            }
            Expr::Test(condition) => (
                ExprNode::Test(TupleFilter::new(condition, schema, place)),
                DataType::Bool,
            ),
            Expr::If(condition, a, b) => {
                let (nodes, data_type) = all(&[a, b]);
                let Some(data_type) = data_type else {
                    return new(&Expr::Null);
                };
                let [a, b] = two(nodes);
                (
                    ExprNode::If(TupleFilter::new(condition, schema, place), a, b, data_type),
                    data_type,
                )
            }
            Expr::Coalesce(list) => {
                let (nodes, data_type) = all(&list.iter().collect::<Vec<_>>());
                let Some(data_type) = data_type else {
                    return new(&Expr::Null);
                };
                (ExprNode::Coalesce(nodes, data_type), data_type)
            }
            Expr::Trunc(of, step) => (
                ExprNode::Trunc(boxed(of, DataType::I64), *step),
                DataType::I64,
            ),
            Expr::Subnet(of, v4, v6) => (
                ExprNode::Subnet(boxed(of, DataType::Ip), *v4, *v6),
                DataType::Text,
            ),
            Expr::Text(of, function) => (
                ExprNode::Text(
                    boxed(of, DataType::Text),
                    CompiledTextFunction::new(function),
                ),
                DataType::Text,
            ),
            Expr::Length(of) => (ExprNode::Length(boxed(of, DataType::Text)), DataType::I64),
        };
        (node, Some(data_type))
    }

    fn evaluate(&self, batch: &Batch) -> ArrayRef {
        let n = batch.rows();
        match self {
            ExprNode::Column(id) => signed(batch.column(*id).expect("the operand column exists")),
            ExprNode::Literal(literal) => constant(literal, n),
            ExprNode::Null(data_type) => new_null_array(&arrow_type(*data_type), n),
            ExprNode::Real(of) => Arc::new(reals(&of.evaluate(batch))),
            ExprNode::Whole(a, op, b) => {
                let a = a.evaluate(batch);
                let b = b.evaluate(batch);
                let pairs = a
                    .as_primitive::<Int64Type>()
                    .iter()
                    .zip(b.as_primitive::<Int64Type>());
                Arc::new(
                    pairs
                        .map(|(x, y)| whole(x?, *op, y?))
                        .collect::<Int64Array>(),
                )
            }
            ExprNode::Reals(a, op, b) => {
                let a = reals(&a.evaluate(batch));
                let b = reals(&b.evaluate(batch));
                let pairs = a.iter().zip(&b);
                Arc::new(
                    pairs
                        .map(|(x, y)| real(x?, *op, y?))
                        .collect::<Float64Array>(),
                )
            }
            ExprNode::Compare(a, op, b, data_type) => Arc::new(compared(
                &a.evaluate(batch),
                *op,
                &b.evaluate(batch),
                *data_type,
            )),
            ExprNode::Test(condition) => {
                let TruthMask { yes, no } = condition.evaluate(batch);
                let known = &yes | &no;
                Arc::new(BooleanArray::new(yes, Some(NullBuffer::new(known))))
            }
            ExprNode::If(condition, a, b, data_type) => {
                let yes = condition.evaluate(batch).yes;
                chosen(&yes, &a.evaluate(batch), &b.evaluate(batch), *data_type)
            }
            ExprNode::Coalesce(list, data_type) => {
                let columns = list.iter().map(|node| node.evaluate(batch));
                let first = columns.reduce(|first, next| match first.nulls() {
                    Some(valid) => chosen(valid.inner(), &first, &next, *data_type),
                    None => first,
                });
                first.unwrap_or_else(|| new_null_array(&arrow_type(*data_type), n))
            }
            ExprNode::Trunc(of, step) => {
                let of = of.evaluate(batch);
                let down = |v: i64| v.checked_sub(v.rem_euclid(*step));
                Arc::new(
                    of.as_primitive::<Int64Type>()
                        .iter()
                        .map(|v| down(v?))
                        .collect::<Int64Array>(),
                )
            }
            ExprNode::Subnet(of, v4, v6) => subnets(&of.evaluate(batch), *v4, *v6),
            ExprNode::Text(of, function) => {
                let of = of.evaluate(batch);
                let texts = of.as_string::<i32>();
                let mut out = StringBuilder::with_capacity(n, texts.value_data().len());
                for text in texts {
                    out.append_option(text.and_then(|text| function.of(text)));
                }
                Arc::new(out.finish())
            }
            ExprNode::Length(of) => {
                let of = of.evaluate(batch);
                let lengths = of
                    .as_string::<i32>()
                    .iter()
                    .map(|text| Some(text?.chars().count() as i64));
                Arc::new(lengths.collect::<Int64Array>())
            }
        }
    }
}

/// Converts nodes to a common type, if there is one: integers become floating point next to floating point.
fn unified(nodes: Vec<(ExprNode, Option<DataType>)>) -> (Vec<ExprNode>, Option<DataType>) {
    let types = nodes.iter().filter_map(|(_, data_type)| *data_type);
    let common = types.reduce(|a, b| if b == DataType::F64 { b } else { a });
    let wanted = common.unwrap_or(DataType::I64);
    (
        nodes
            .into_iter()
            .map(|node| of_type(node, wanted))
            .collect(),
        common,
    )
}

fn of_type((node, data_type): (ExprNode, Option<DataType>), wanted: DataType) -> ExprNode {
    match data_type {
        None => ExprNode::Null(wanted),
        Some(DataType::I64) if wanted == DataType::F64 => ExprNode::Real(Box::new(node)),
        Some(data_type) => {
            assert_eq!(data_type, wanted, "values of one type");
            node
        }
    }
}

fn two(nodes: Vec<ExprNode>) -> [Box<ExprNode>; 2] {
    let mut nodes = nodes.into_iter().map(Box::new);
    std::array::from_fn(|_| nodes.next().expect("two nodes"))
}

fn type_of(literal: &Literal) -> DataType {
    match literal {
        Literal::Bool(_) => DataType::Bool,
        Literal::U64(_) | Literal::I64(_) => DataType::I64,
        Literal::F64(_) => DataType::F64,
        Literal::Text(_) => DataType::Text,
        Literal::Net(..) => DataType::Ip,
    }
}

/// Converts unsigned integers to signed ones; values that do not fit are null.
fn signed(column: &ArrayRef) -> ArrayRef {
    match column.as_primitive_opt::<UInt64Type>() {
        Some(numbers) => Arc::new(
            numbers
                .iter()
                .map(|v| i64::try_from(v?).ok())
                .collect::<Int64Array>(),
        ),
        None => column.clone(),
    }
}

fn reals(column: &ArrayRef) -> Float64Array {
    match column.as_primitive_opt::<Int64Type>() {
        Some(whole) => whole.iter().map(|v| v.map(|v| v as f64)).collect(),
        None => column.as_primitive::<Float64Type>().clone(),
    }
}

fn constant(literal: &Literal, n: usize) -> ArrayRef {
    match literal {
        Literal::Bool(v) => Arc::new(BooleanArray::new(
            if *v {
                BooleanBuffer::new_set(n)
            } else {
                BooleanBuffer::new_unset(n)
            },
            None,
        )),
        Literal::U64(v) => {
            signed(&(Arc::new(arrow_array::UInt64Array::from_value(*v, n)) as ArrayRef))
        }
        Literal::I64(v) => Arc::new(Int64Array::from_value(*v, n)),
        Literal::F64(v) => Arc::new(Float64Array::from_value(*v, n)),
        Literal::Text(v) => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(v, n))),
        Literal::Net(ip, _) => {
            let ip = match ip {
                std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                std::net::IpAddr::V6(ip) => *ip,
            };
            addresses(
                std::iter::repeat_n(ip.octets(), n).flatten().collect(),
                None,
            )
        }
    }
}

fn addresses(bytes: Vec<u8>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(FixedSizeBinaryArray::new(
        16,
        Buffer::from_vec(bytes),
        nulls,
    ))
}

fn whole(x: i64, op: ArithmeticOperator, y: i64) -> Option<i64> {
    match op {
        ArithmeticOperator::Add => x.checked_add(y),
        ArithmeticOperator::Subtract => x.checked_sub(y),
        ArithmeticOperator::Multiply => x.checked_mul(y),
        ArithmeticOperator::Divide => x.checked_div(y),
        ArithmeticOperator::Remainder => x.checked_rem(y),
        ArithmeticOperator::BitAnd => Some(x & y),
        ArithmeticOperator::BitOr => Some(x | y),
        ArithmeticOperator::Ratio => unreachable!("a ratio is a real number"),
    }
}

fn real(x: f64, op: ArithmeticOperator, y: f64) -> Option<f64> {
    let value = match op {
        ArithmeticOperator::Add => x + y,
        ArithmeticOperator::Subtract => x - y,
        ArithmeticOperator::Multiply => x * y,
        ArithmeticOperator::Divide | ArithmeticOperator::Ratio => x / y,
        ArithmeticOperator::Remainder => x % y,
        ArithmeticOperator::BitAnd | ArithmeticOperator::BitOr => {
            unreachable!("bits are of whole numbers")
        }
    };
    value.is_finite().then_some(value)
}

fn compared(
    a: &ArrayRef,
    op: ComparisonOperator,
    b: &ArrayRef,
    data_type: DataType,
) -> BooleanArray {
    match data_type {
        DataType::Bool => pairs(a.as_boolean().iter(), op, b.as_boolean().iter()),
        DataType::F64 => pairs(
            a.as_primitive::<Float64Type>().iter(),
            op,
            b.as_primitive::<Float64Type>().iter(),
        ),
        DataType::Text | DataType::Json => {
            pairs(a.as_string::<i32>().iter(), op, b.as_string::<i32>().iter())
        }
        DataType::Ip => pairs(
            a.as_fixed_size_binary().iter(),
            op,
            b.as_fixed_size_binary().iter(),
        ),
        _ => pairs(
            a.as_primitive::<Int64Type>().iter(),
            op,
            b.as_primitive::<Int64Type>().iter(),
        ),
    }
}

fn pairs<T: PartialOrd>(
    a: impl Iterator<Item = Option<T>>,
    op: ComparisonOperator,
    b: impl Iterator<Item = Option<T>>,
) -> BooleanArray {
    let holds = |x: T, y: T| match op {
        ComparisonOperator::Eq => x == y,
        ComparisonOperator::Ne => x != y,
        ComparisonOperator::Lt => x < y,
        ComparisonOperator::Le => x <= y,
        ComparisonOperator::Gt => x > y,
        ComparisonOperator::Ge => x >= y,
    };
    a.zip(b).map(|(x, y)| Some(holds(x?, y?))).collect()
}

/// The value of `a` in rows of `yes`, otherwise the value of `b`.
fn chosen(yes: &BooleanBuffer, a: &ArrayRef, b: &ArrayRef, data_type: DataType) -> ArrayRef {
    fn pick<T>(
        yes: &BooleanBuffer,
        a: impl Iterator<Item = Option<T>>,
        b: impl Iterator<Item = Option<T>>,
    ) -> impl Iterator<Item = Option<T>> {
        a.zip(b)
            .zip(yes.iter())
            .map(|((a, b), yes)| if yes { a } else { b })
    }
    match data_type {
        DataType::Bool => Arc::new(
            pick(yes, a.as_boolean().iter(), b.as_boolean().iter()).collect::<BooleanArray>(),
        ),
        DataType::F64 => {
            let a = a.as_primitive::<Float64Type>();
            let b = b.as_primitive::<Float64Type>();
            Arc::new(pick(yes, a.iter(), b.iter()).collect::<Float64Array>())
        }
        DataType::Text | DataType::Json => Arc::new(
            pick(
                yes,
                a.as_string::<i32>().iter(),
                b.as_string::<i32>().iter(),
            )
            .collect::<StringArray>(),
        ),
        DataType::Ip => {
            let picked: Vec<Option<&[u8]>> = pick(
                yes,
                a.as_fixed_size_binary().iter(),
                b.as_fixed_size_binary().iter(),
            )
            .collect();
            let bytes = picked
                .iter()
                .flat_map(|ip| ip.unwrap_or(&[0; 16]))
                .copied()
                .collect();
            addresses(
                bytes,
                Some(
                    picked
                        .iter()
                        .map(Option::is_some)
                        .collect::<Vec<_>>()
                        .into(),
                ),
            )
        }
        _ => {
            let a = a.as_primitive::<Int64Type>();
            let b = b.as_primitive::<Int64Type>();
            Arc::new(pick(yes, a.iter(), b.iter()).collect::<Int64Array>())
        }
    }
}

fn subnets(column: &ArrayRef, v4: u8, v6: u8) -> ArrayRef {
    let mask = |bits: u32| u128::MAX.checked_shl(128 - bits).unwrap_or(0);
    let texts = column.as_fixed_size_binary().iter().map(|ip| {
        let ip = u128::from_be_bytes(ip?.try_into().ok()?);
        Some(if ip >> 32 == 0xffff {
            let net = Ipv6Addr::from_bits(ip & mask(96 + u32::from(v4)) | 0xffff << 32);
            format!("{}/{v4}", net.to_ipv4_mapped()?)
        } else {
            format!("{}/{v6}", Ipv6Addr::from_bits(ip & mask(u32::from(v6))))
        })
    });
    Arc::new(texts.collect::<StringArray>())
}

#[cfg(test)]
mod tests;
