//! Raw rows as a stream in Arrow's IPC format. Arrow's reader trusts some fields (buffer positions, value counts), so
//! messages are checked here first: no dictionaries, no compression, no nested types, only columns of the engine's
//! tuples.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::Buffer;
use arrow_data::transform::MutableArrayData;
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::writer::StreamWriter;
use arrow_ipc::{Endianness, Message, MessageHeader, Precision, Type, root_as_message};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use stream::Engine;
use tuple::batch::arrow_type;
use tuple::{Batch, FieldId};

const CONTINUATION: [u8; 4] = [0xff; 4];
/// Alignment of buffers in a message's body.
const ALIGNMENT: i64 = 8;

/// Encodes rows; empty without rows.
pub fn encode(rows: &[Batch]) -> Vec<u8> {
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let columns: Vec<FieldId> = first.present().collect();
    let schema = Arc::new(arrow_schema(first.schema(), &columns));
    let mut writer =
        StreamWriter::try_new(Vec::new(), &schema).expect("writing to memory cannot fail");
    for batch in rows {
        let column = |id: &FieldId| {
            batch
                .column(*id)
                .expect("batches of an engine have one schema")
                .clone()
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.rows()));
        let columns = columns.iter().map(column).collect();
        let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options);
        writer
            .write(&batch.expect("columns are of their fields' types"))
            .expect("writing to memory cannot fail");
    }
    writer.into_inner().expect("writing to memory cannot fail")
}

/// Decodes rows if they are tuples of the engine.
pub fn decode(bytes: &[u8], engine: &Engine) -> Result<Vec<Batch>, String> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    if !engine.gives_tuples() {
        return Err("results come as windows".into());
    }
    let mut messages = IpcMessages(bytes);
    let (head, _) = messages.next()?.ok_or("the schema is missing")?;
    let columns = columns(&head, engine)?;
    let schema = Arc::new(arrow_schema(engine.tuples().0, &columns));
    let mut rows = Vec::new();
    while let Some((message, body)) = messages.next()? {
        let batch = checked(&message, body, &schema)?;
        let none = HashMap::new();
        let body = Buffer::from(body);
        let batch = read_record_batch(
            &body,
            batch,
            schema.clone(),
            &none,
            None,
            &message.version(),
        );
        let batch = batch.and_then(|batch| tuples(&batch, engine, &columns));
        rows.push(batch.map_err(|e| e.to_string())?);
    }
    Ok(rows)
}

fn arrow_schema(schema: &tuple::Schema, columns: &[FieldId]) -> Schema {
    let field = |id: &FieldId| {
        let field = schema.field(*id);
        Field::new(field.name.to_string(), arrow_type(field.data_type), true)
    };
    Schema::new(columns.iter().map(field).collect::<Vec<_>>())
}

/// A batch of the engine's tuples; columns are copied, so that they do not keep the whole report in memory.
fn tuples(batch: &RecordBatch, engine: &Engine, columns: &[FieldId]) -> Result<Batch, ArrowError> {
    let schema = engine.tuples().0;
    let mut all: Vec<Option<ArrayRef>> = vec![None; schema.fields.len()];
    for (id, column) in columns.iter().zip(batch.columns()) {
        let data = column.to_data();
        let mut copy = MutableArrayData::new(vec![&data], false, column.len());
        copy.try_extend(0, 0, column.len())?;
        all[usize::from(id.0)] = Some(make_array(copy.freeze()));
    }
    Ok(Batch::new(schema.clone(), batch.num_rows(), all))
}

/// Number of rows declared in a stream's messages.
pub fn count(bytes: &[u8]) -> u64 {
    let mut messages = IpcMessages(bytes);
    let mut rows = 0_u64;
    while let Ok(Some((message, _))) = messages.next() {
        let length = message
            .header_as_record_batch()
            .map_or(0, |batch| batch.length());
        rows = rows.saturating_add(u64::try_from(length).unwrap_or(0));
    }
    rows
}

struct IpcMessages<'a>(&'a [u8]);

impl<'a> IpcMessages<'a> {
    fn next(&mut self) -> Result<Option<(Message<'a>, &'a [u8])>, String> {
        const SHORT: &str = "they are truncated";
        let mut take = |len: usize| {
            let (taken, rest) = self.0.split_at_checked(len).ok_or(SHORT)?;
            self.0 = rest;
            Ok::<_, String>(taken)
        };
        if take(4)? != CONTINUATION {
            return Err("they are not a stream".into());
        }
        let length = take(4)?
            .try_into()
            .map(u32::from_le_bytes)
            .map_err(|_| SHORT)?;
        if length == 0 {
            return if self.0.is_empty() {
                Ok(None)
            } else {
                Err("more bytes follow".into())
            };
        }
        let message = root_as_message(take(length as usize)?).map_err(|e| e.to_string())?;
        let body = usize::try_from(message.bodyLength()).map_err(|_| SHORT)?;
        Ok(Some((message, take(body)?)))
    }
}

/// Columns of the schema message: those of tuples, and possibly others known to the engine.
fn columns(message: &Message<'_>, engine: &Engine) -> Result<Vec<FieldId>, String> {
    let schema = message
        .header_as_schema()
        .ok_or("they do not begin with a schema")?;
    if schema.endianness() != Endianness::Little {
        return Err("they have the wrong byte order".into());
    }
    let (ours, shown) = engine.tuples();
    let mut columns = Vec::new();
    for field in schema.fields().into_iter().flatten() {
        let name = field.name().ok_or("a column has no name")?;
        let id = ours
            .find(name)
            .ok_or_else(|| format!("a column {name} that is not part of the query"))?;
        let is_flat =
            field.dictionary().is_none() && field.children().is_none_or(|all| all.is_empty());
        if !is_flat || !is_of(&field, &arrow_type(ours.field(id).data_type)) {
            return Err(format!("{name} has the wrong type"));
        }
        if columns.contains(&id) {
            return Err(format!("column {name} occurs twice"));
        }
        columns.push(id);
    }
    match shown.iter().find(|id| !columns.contains(id)) {
        Some(id) => Err(format!("{} is missing", ours.field(*id).name)),
        None => Ok(columns),
    }
}

fn is_of(field: &arrow_ipc::Field<'_>, data_type: &DataType) -> bool {
    let is_integer = |signed| {
        field
            .type_as_int()
            .is_some_and(|int| int.bitWidth() == 64 && int.is_signed() == signed)
    };
    match data_type {
        DataType::Boolean => field.type_type() == Type::Bool,
        DataType::UInt64 => is_integer(false),
        DataType::Int64 => is_integer(true),
        DataType::Float64 => field
            .type_as_floating_point()
            .is_some_and(|real| real.precision() == Precision::DOUBLE),
        DataType::Utf8 => field.type_type() == Type::Utf8,
        DataType::Binary => field.type_type() == Type::Binary,
        DataType::FixedSizeBinary(width) => field
            .type_as_fixed_size_binary()
            .is_some_and(|bytes| bytes.byteWidth() == *width),
        _ => false,
    }
}

/// Checks a message of rows against the size of its body.
fn checked<'a>(
    message: &Message<'a>,
    body: &[u8],
    schema: &Schema,
) -> Result<arrow_ipc::RecordBatch<'a>, String> {
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        _ => None,
    };
    let batch = batch.ok_or("a message is not a record batch")?;
    if batch.compression().is_some() {
        return Err("its columns are compressed".into());
    }
    // A row needs at least one bit per column.
    let rows_max = if schema.fields().is_empty() {
        0
    } else {
        body.len() as u64 * 8
    };
    let rows = u64::try_from(batch.length())
        .ok()
        .filter(|rows| *rows <= rows_max);
    let rows = rows.ok_or("there are more rows than bytes")?;
    let nodes = batch.nodes().ok_or("no columns")?;
    let buffers = batch.buffers().ok_or("no buffers")?;
    let is_node = |node: &arrow_ipc::FieldNode| {
        node.length() as u64 == rows
            && u64::try_from(node.null_count()).is_ok_and(|nulls| nulls <= rows)
    };
    let is_within = |buffer: &arrow_ipc::Buffer| {
        let from = usize::try_from(buffer.offset()).ok();
        let end = from
            .zip(usize::try_from(buffer.length()).ok())
            .and_then(|(from, len)| from.checked_add(len));
        end.is_some_and(|end| end <= body.len())
    };
    // Per column: the validity bitmap, and the values, or the offsets and bytes of texts.
    let widths = schema
        .fields()
        .iter()
        .flat_map(|field| match field.data_type() {
            DataType::Utf8 | DataType::Binary => &[1, 4, 1][..],
            DataType::UInt64 | DataType::Int64 | DataType::Float64 => &[1, 8],
            _ => &[1, 1],
        });
    let widths: Vec<i64> = widths.copied().collect();
    let is_aligned = |(buffer, width): (&arrow_ipc::Buffer, &i64)| {
        buffer.offset() % ALIGNMENT == 0 && buffer.length() % width == 0
    };
    let is_sound = nodes.len() == schema.fields().len()
        && nodes.iter().all(is_node)
        && buffers.len() == widths.len()
        && buffers.iter().all(is_within)
        && buffers.iter().zip(&widths).all(is_aligned)
        && batch
            .variadicBufferCounts()
            .is_none_or(|counts| counts.is_empty());
    if is_sound {
        Ok(batch)
    } else {
        Err("columns are not at their declared positions".into())
    }
}
