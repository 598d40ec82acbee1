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
use plan::{Arithmetic, Column, Compare, Computed, Expr, Literal};
use tuple::batch::arrow_type;
use tuple::{Batch, DataType, FieldId, Schema};

use crate::ops::filter::{Filter, Truth};
use crate::ops::text::Function;

pub use crate::ops::text::compiled;

/// Appends computed columns to those of a schema.
pub struct Computer {
    schema: Arc<Schema>,
    /// Position of the first computed column.
    base: u16,
    columns: Vec<Computation>,
}

struct Computation {
    node: Node,
    /// Declared type of the column.
    data_type: DataType,
}

/// An expression resolved to the columns of one schema. All integers are `I64`.
enum Node {
    Column(FieldId),
    Literal(Literal),
    Null(DataType),
    /// An integer converted to floating point.
    Real(Box<Node>),
    Whole(Box<Node>, Arithmetic, Box<Node>),
    Reals(Box<Node>, Arithmetic, Box<Node>),
    Compare(Box<Node>, Compare, Box<Node>, DataType),
    Test(Filter),
    If(Filter, Box<Node>, Box<Node>, DataType),
    Coalesce(Vec<Node>, DataType),
    Trunc(Box<Node>, i64),
    Subnet(Box<Node>, u8, u8),
    Text(Box<Node>, Function),
    Length(Box<Node>),
}

impl Computer {
    /// Computed columns of a dataflow over tuples of `schema`; `place` maps columns of inputs.
    ///
    /// # Panics
    /// If the types of an expression do not match; the checker rejects these.
    #[must_use]
    pub fn new(computed: &[Computed], schema: &Schema, place: &dyn Fn(Column) -> FieldId) -> Computer {
        let base = schema.fields.len() as u16;
        let fields = schema.fields.iter().chain(computed.iter().map(|c| &c.field)).cloned().collect();
        let schema = Arc::new(Schema { fields, ..schema.clone() });
        let at = |column: Column| placed(base, column, place);
        let columns = computed
            .iter()
            .map(|c| Computation { node: Node::new(&c.expr, &schema, &at).0, data_type: c.field.data_type });
        Computer { base, columns: columns.collect(), schema }
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

impl Computation {
    fn evaluate(&self, batch: &Batch) -> ArrayRef {
        match &self.node {
            // A renamed column is shared.
            Node::Column(id) => batch.column(*id).expect("what is computed of is there").clone(),
            node => {
                let column = node.evaluate(batch);
                if self.data_type == DataType::F64 { Arc::new(reals(&column)) } else { column }
            }
        }
    }
}

impl Node {
    /// The node and its type; null has no type.
    fn new(expr: &Expr, schema: &Schema, place: &dyn Fn(Column) -> FieldId) -> (Node, Option<DataType>) {
        let new = |expr: &Expr| Node::new(expr, schema, place);
        let boxed = |expr: &Expr, wanted| Box::new(of_type(new(expr), wanted));
        let all = |list: &[&Expr]| unified(list.iter().map(|expr| new(expr)).collect());
        let (node, data_type) = match expr {
            Expr::Column(column) => {
                let id = place(*column);
                let data_type = schema.field(id).data_type;
                (Node::Column(id), if data_type == DataType::U64 { DataType::I64 } else { data_type })
            }
            Expr::Literal(literal) => (Node::Literal(literal.clone()), type_of(literal)),
            Expr::Null => return (Node::Null(DataType::I64), None),
            Expr::Arithmetic(a, op, b) => {
                let ((a, a_type), (b, b_type)) = (new(a), new(b));
                let is_whole = ![a_type, b_type].contains(&Some(DataType::F64)) && *op != Arithmetic::Ratio;
                let (a, b) = (Box::new(a), Box::new(b));
                match is_whole {
                    true => (Node::Whole(a, *op, b), DataType::I64),
                    false => (Node::Reals(a, *op, b), DataType::F64),
                }
            }
            Expr::Compare(a, op, b) => {
                let (nodes, data_type) = all(&[a, b]);
                let [a, b] = two(nodes);
                (Node::Compare(a, *op, b, data_type.unwrap_or(DataType::I64)), DataType::Bool)
            }
            Expr::Test(condition) => (Node::Test(Filter::new(condition, schema, place)), DataType::Bool),
            Expr::If(condition, a, b) => {
                let (nodes, data_type) = all(&[a, b]);
                let (Some(data_type), [a, b]) = (data_type, two(nodes)) else { return new(&Expr::Null) };
                (Node::If(Filter::new(condition, schema, place), a, b, data_type), data_type)
            }
            Expr::Coalesce(list) => {
                let (nodes, data_type) = all(&list.iter().collect::<Vec<_>>());
                let Some(data_type) = data_type else { return new(&Expr::Null) };
                (Node::Coalesce(nodes, data_type), data_type)
            }
            Expr::Trunc(of, step) => (Node::Trunc(boxed(of, DataType::I64), *step), DataType::I64),
            Expr::Subnet(of, v4, v6) => (Node::Subnet(boxed(of, DataType::Ip), *v4, *v6), DataType::Text),
            Expr::Text(of, function) => {
                (Node::Text(boxed(of, DataType::Text), Function::new(function)), DataType::Text)
            }
            Expr::Length(of) => (Node::Length(boxed(of, DataType::Text)), DataType::I64),
        };
        (node, Some(data_type))
    }

    fn evaluate(&self, batch: &Batch) -> ArrayRef {
        let n = batch.rows();
        match self {
            Node::Column(id) => signed(batch.column(*id).expect("what is computed of is there")),
            Node::Literal(literal) => constant(literal, n),
            Node::Null(data_type) => new_null_array(&arrow_type(*data_type), n),
            Node::Real(of) => Arc::new(reals(&of.evaluate(batch))),
            Node::Whole(a, op, b) => {
                let (a, b) = (a.evaluate(batch), b.evaluate(batch));
                let pairs = a.as_primitive::<Int64Type>().iter().zip(b.as_primitive::<Int64Type>());
                Arc::new(pairs.map(|(x, y)| whole(x?, *op, y?)).collect::<Int64Array>())
            }
            Node::Reals(a, op, b) => {
                let (a, b) = (reals(&a.evaluate(batch)), reals(&b.evaluate(batch)));
                let pairs = a.iter().zip(&b);
                Arc::new(pairs.map(|(x, y)| real(x?, *op, y?)).collect::<Float64Array>())
            }
            Node::Compare(a, op, b, data_type) => {
                Arc::new(compared(&a.evaluate(batch), *op, &b.evaluate(batch), *data_type))
            }
            Node::Test(condition) => {
                let Truth { yes, no } = condition.evaluate(batch);
                let known = &yes | &no;
                Arc::new(BooleanArray::new(yes, Some(NullBuffer::new(known))))
            }
            Node::If(condition, a, b, data_type) => {
                let yes = condition.evaluate(batch).yes;
                chosen(&yes, &a.evaluate(batch), &b.evaluate(batch), *data_type)
            }
            Node::Coalesce(list, data_type) => {
                let columns = list.iter().map(|node| node.evaluate(batch));
                let first = columns.reduce(|first, next| match first.nulls() {
                    Some(valid) => chosen(valid.inner(), &first, &next, *data_type),
                    None => first,
                });
                first.unwrap_or_else(|| new_null_array(&arrow_type(*data_type), n))
            }
            Node::Trunc(of, step) => {
                let of = of.evaluate(batch);
                let down = |v: i64| v.checked_sub(v.rem_euclid(*step));
                Arc::new(of.as_primitive::<Int64Type>().iter().map(|v| down(v?)).collect::<Int64Array>())
            }
            Node::Subnet(of, v4, v6) => subnets(&of.evaluate(batch), *v4, *v6),
            Node::Text(of, function) => {
                let of = of.evaluate(batch);
                let texts = of.as_string::<i32>();
                let mut out = StringBuilder::with_capacity(n, texts.value_data().len());
                for text in texts {
                    out.append_option(text.and_then(|text| function.of(text)));
                }
                Arc::new(out.finish())
            }
            Node::Length(of) => {
                let of = of.evaluate(batch);
                let lengths = of.as_string::<i32>().iter().map(|text| Some(text?.chars().count() as i64));
                Arc::new(lengths.collect::<Int64Array>())
            }
        }
    }
}

/// Converts nodes to a common type, if there is one: integers become floating point next to floating point.
fn unified(nodes: Vec<(Node, Option<DataType>)>) -> (Vec<Node>, Option<DataType>) {
    let types = nodes.iter().filter_map(|(_, data_type)| *data_type);
    let common = types.reduce(|a, b| if b == DataType::F64 { b } else { a });
    let wanted = common.unwrap_or(DataType::I64);
    (nodes.into_iter().map(|node| of_type(node, wanted)).collect(), common)
}

fn of_type((node, data_type): (Node, Option<DataType>), wanted: DataType) -> Node {
    match data_type {
        None => Node::Null(wanted),
        Some(DataType::I64) if wanted == DataType::F64 => Node::Real(Box::new(node)),
        Some(data_type) => {
            assert_eq!(data_type, wanted, "values of one type");
            node
        }
    }
}

fn two(nodes: Vec<Node>) -> [Box<Node>; 2] {
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
        Some(numbers) => Arc::new(numbers.iter().map(|v| i64::try_from(v?).ok()).collect::<Int64Array>()),
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
            if *v { BooleanBuffer::new_set(n) } else { BooleanBuffer::new_unset(n) },
            None,
        )),
        Literal::U64(v) => signed(&(Arc::new(arrow_array::UInt64Array::from_value(*v, n)) as ArrayRef)),
        Literal::I64(v) => Arc::new(Int64Array::from_value(*v, n)),
        Literal::F64(v) => Arc::new(Float64Array::from_value(*v, n)),
        Literal::Text(v) => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(v, n))),
        Literal::Net(ip, _) => {
            let ip = match ip {
                std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                std::net::IpAddr::V6(ip) => *ip,
            };
            addresses(std::iter::repeat_n(ip.octets(), n).flatten().collect(), None)
        }
    }
}

fn addresses(bytes: Vec<u8>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(FixedSizeBinaryArray::new(16, Buffer::from_vec(bytes), nulls))
}

fn whole(x: i64, op: Arithmetic, y: i64) -> Option<i64> {
    match op {
        Arithmetic::Add => x.checked_add(y),
        Arithmetic::Subtract => x.checked_sub(y),
        Arithmetic::Multiply => x.checked_mul(y),
        Arithmetic::Divide => x.checked_div(y),
        Arithmetic::Remainder => x.checked_rem(y),
        Arithmetic::BitAnd => Some(x & y),
        Arithmetic::BitOr => Some(x | y),
        Arithmetic::Ratio => unreachable!("a ratio is a real number"),
    }
}

fn real(x: f64, op: Arithmetic, y: f64) -> Option<f64> {
    let value = match op {
        Arithmetic::Add => x + y,
        Arithmetic::Subtract => x - y,
        Arithmetic::Multiply => x * y,
        Arithmetic::Divide | Arithmetic::Ratio => x / y,
        Arithmetic::Remainder => x % y,
        Arithmetic::BitAnd | Arithmetic::BitOr => unreachable!("bits are of whole numbers"),
    };
    value.is_finite().then_some(value)
}

fn compared(a: &ArrayRef, op: Compare, b: &ArrayRef, data_type: DataType) -> BooleanArray {
    match data_type {
        DataType::Bool => pairs(a.as_boolean().iter(), op, b.as_boolean().iter()),
        DataType::F64 => {
            pairs(a.as_primitive::<Float64Type>().iter(), op, b.as_primitive::<Float64Type>().iter())
        }
        DataType::Text | DataType::Json => {
            pairs(a.as_string::<i32>().iter(), op, b.as_string::<i32>().iter())
        }
        DataType::Ip => pairs(a.as_fixed_size_binary().iter(), op, b.as_fixed_size_binary().iter()),
        _ => pairs(a.as_primitive::<Int64Type>().iter(), op, b.as_primitive::<Int64Type>().iter()),
    }
}

fn pairs<T: PartialOrd>(
    a: impl Iterator<Item = Option<T>>,
    op: Compare,
    b: impl Iterator<Item = Option<T>>,
) -> BooleanArray {
    let holds = |x: T, y: T| match op {
        Compare::Eq => x == y,
        Compare::Ne => x != y,
        Compare::Lt => x < y,
        Compare::Le => x <= y,
        Compare::Gt => x > y,
        Compare::Ge => x >= y,
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
        a.zip(b).zip(yes.iter()).map(|((a, b), yes)| if yes { a } else { b })
    }
    match data_type {
        DataType::Bool => {
            Arc::new(pick(yes, a.as_boolean().iter(), b.as_boolean().iter()).collect::<BooleanArray>())
        }
        DataType::F64 => {
            let (a, b) = (a.as_primitive::<Float64Type>(), b.as_primitive::<Float64Type>());
            Arc::new(pick(yes, a.iter(), b.iter()).collect::<Float64Array>())
        }
        DataType::Text | DataType::Json => Arc::new(
            pick(yes, a.as_string::<i32>().iter(), b.as_string::<i32>().iter()).collect::<StringArray>(),
        ),
        DataType::Ip => {
            let picked: Vec<Option<&[u8]>> =
                pick(yes, a.as_fixed_size_binary().iter(), b.as_fixed_size_binary().iter()).collect();
            let bytes = picked.iter().flat_map(|ip| ip.unwrap_or(&[0; 16])).copied().collect();
            addresses(bytes, Some(picked.iter().map(Option::is_some).collect::<Vec<_>>().into()))
        }
        _ => {
            let (a, b) = (a.as_primitive::<Int64Type>(), b.as_primitive::<Int64Type>());
            Arc::new(pick(yes, a.iter(), b.iter()).collect::<Int64Array>())
        }
    }
}

fn subnets(column: &ArrayRef, v4: u8, v6: u8) -> ArrayRef {
    let mask = |bits: u32| u128::MAX.checked_shl(128 - bits).unwrap_or(0);
    let texts = column.as_fixed_size_binary().iter().map(|ip| {
        let ip = u128::from_be_bytes(ip?.try_into().ok()?);
        Some(match ip >> 32 == 0xffff {
            true => {
                let net = Ipv6Addr::from_bits(ip & mask(96 + u32::from(v4)) | 0xffff << 32);
                format!("{}/{v4}", net.to_ipv4_mapped()?)
            }
            false => format!("{}/{v6}", Ipv6Addr::from_bits(ip & mask(u32::from(v6)))),
        })
    });
    Arc::new(texts.collect::<StringArray>())
}

#[cfg(test)]
mod tests;
