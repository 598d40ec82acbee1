//! The values of a tuple, as reported by a monitor for one transaction.

use std::fmt;

use arrow_array::Array;
use tuple::common::{self, FIELDS};
use tuple::{Batch, DataType, FieldId};
use wire::{Addr, Endpoint};

/// A tuple.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedTuple {
    /// Flow ID.
    pub id: u64,
    /// The client.
    pub client: Endpoint,
    /// The server.
    pub server: Endpoint,
    /// Time of the first byte of the request, or of the response without a request.
    pub ts: i64,
    /// Time of completion.
    pub ts_end: i64,
    /// The quality stated by the tuple.
    pub quality: String,
    /// Whether the tuple contains a request.
    pub asked: bool,
    /// From the request's last byte to the response's first.
    pub response_time: Option<i64>,
    /// From the response's first byte to its last.
    pub transfer_time: Option<i64>,
    /// From the request's last byte to the response's last.
    pub total_time: Option<i64>,
    /// The parser's own fields.
    pub values: Vec<(&'static str, Option<ObservedValue>)>,
}

/// A value of any type; times and numbers as in the column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedValue {
    /// A number or boolean.
    Number(i128),
    /// A text.
    Text(String),
}

impl ObservedValue {
    /// The number, unless it is a text.
    #[must_use]
    pub fn number(&self) -> Option<i128> {
        match self {
            ObservedValue::Number(n) => Some(*n),
            ObservedValue::Text(_) => None,
        }
    }
}

impl ObservedTuple {
    /// The tuples of a batch with all columns.
    pub fn of(batch: &Batch) -> impl Iterator<Item = ObservedTuple> + '_ {
        (0..batch.rows()).map(|row| ObservedTuple::of_row(batch, row))
    }

    /// Whether the tuple is marked as complete.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.quality == "exact"
    }

    /// Whether the tuple is marked `half`.
    #[must_use]
    pub fn is_half(&self) -> bool {
        self.quality == "half"
    }

    /// The value of one of the parser's own fields.
    #[must_use]
    pub fn value(&self, field: &str) -> Option<&ObservedValue> {
        self.values
            .iter()
            .find(|(name, _)| *name == field)?
            .1
            .as_ref()
    }

    fn of_row(batch: &Batch, row: usize) -> ObservedTuple {
        let end = |ip, port| {
            let bytes = batch
                .ip(ip)
                .value(row)
                .try_into()
                .expect("an address has 16 bytes");
            Endpoint {
                addr: Addr(bytes),
                port: batch.u64(port).value(row) as u16,
            }
        };
        let own = batch.schema().ids().skip(FIELDS.len());
        let values: Vec<_> = own
            .map(|id| (name(batch, id), value(batch, id, row)))
            .collect();
        let find = |field: &str| {
            values
                .iter()
                .find(|(name, _)| *name == field)
                .and_then(|(_, v)| v.as_ref())
        };
        let number = |field| match find(field)? {
            ObservedValue::Number(n) => i64::try_from(*n).ok(),
            ObservedValue::Text(_) => None,
        };
        ObservedTuple {
            id: batch.u64(common::ID).value(row),
            client: end(common::CLIENT_IP, common::CLIENT_PORT),
            server: end(common::SERVER_IP, common::SERVER_PORT),
            ts: batch.i64(common::TS).value(row),
            ts_end: batch.i64(common::TS_END).value(row),
            quality: batch.text(common::QUALITY).value(row).to_owned(),
            asked: find("push") != Some(&ObservedValue::Number(1))
                && find("event").is_none()
                && ["method", "command", "operation", "procedure", "api"]
                    .into_iter()
                    .any(|field| find(field).is_some()),
            response_time: number("response_time_ns").or(number("waited_ns")),
            transfer_time: number("transfer_time_ns"),
            total_time: number("total_time_ns"),
            values,
        }
    }
}

impl fmt::Display for ObservedTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:016x} {} ts={} ts_end={}",
            self.id, self.quality, self.ts, self.ts_end
        )?;
        write!(f, " {}:{}", self.client.addr, self.client.port)?;
        for (name, value) in &self.values {
            if let Some(value) = value {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for ObservedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObservedValue::Number(n) => n.fmt(f),
            ObservedValue::Text(text) => {
                let start: String = text.chars().take(60).collect();
                write!(f, "{}", start.escape_debug())
            }
        }
    }
}

fn name(batch: &Batch, id: FieldId) -> &'static str {
    match batch.schema().field(id).name {
        std::borrow::Cow::Borrowed(name) => name,
        std::borrow::Cow::Owned(_) => unreachable!("a parser's fields are known at compile time"),
    }
}

fn value(batch: &Batch, id: FieldId, row: usize) -> Option<ObservedValue> {
    batch.column(id).filter(|column| column.is_valid(row))?;
    Some(match batch.schema().field(id).data_type {
        DataType::Bool => ObservedValue::Number(batch.bool(id).value(row).into()),
        DataType::U64 => ObservedValue::Number(batch.u64(id).value(row).into()),
        DataType::I64 => ObservedValue::Number(batch.i64(id).value(row).into()),
        DataType::Text | DataType::Json => {
            ObservedValue::Text(batch.text(id).value(row).to_owned())
        }
        DataType::Hashes => {
            ObservedValue::Text(tuple::hashes::to_text(batch.hashes(id).value(row)))
        }
        DataType::Ip => ObservedValue::Text(format!("{:?}", batch.ip(id).value(row))),
        DataType::F64 => ObservedValue::Text(batch.f64(id).value(row).to_string()),
    })
}
