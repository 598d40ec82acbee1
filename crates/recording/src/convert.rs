//! Converts batches to Arrow record batches with the types expected by Parquet readers, and back: times are UTC
//! timestamps, addresses text, hashes lists of numbers. Both conversions are lossless.

use std::sync::Arc;

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, FixedSizeBinaryArray, Int32Array, Int64Array, ListArray,
    RecordBatch, StringArray, TimestampNanosecondArray, UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType as ArrowType, Field as ArrowField, SchemaRef, TimeUnit};
use hashbrown::HashMap;
use tuple::{Batch, DataType, FieldId, Schema, Unit, hashes};
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use crate::file_metadata::WATERMARK;

/// Maximum cached address texts while a batch is read.
const ADDRESSES_MAX: usize = 1 << 16;
/// Maximum hashes of a batch to read: the limit of an Arrow batch.
const HASHES_MAX: usize = i32::MAX as usize / hashes::BYTES;

/// The record batch schema: `columns` of `schema`, and the watermark column if `watermark` is set.
pub fn arrow_schema(schema: &Schema, columns: &[FieldId], watermark: bool) -> SchemaRef {
    let field = |id: &FieldId| {
        let field = schema.field(*id);
        ArrowField::new(field.name.as_ref(), arrow_type(field.data_type, field.unit), true)
    };
    let mut fields: Vec<ArrowField> = columns.iter().map(field).collect();
    if watermark {
        fields.push(ArrowField::new(WATERMARK, timestamp(), false));
    }
    Arc::new(arrow_schema::Schema::new(fields))
}

fn arrow_type(data_type: DataType, unit: Unit) -> ArrowType {
    match data_type {
        DataType::I64 if unit == Unit::EpochNanoseconds => timestamp(),
        DataType::Hashes => ArrowType::List(Arc::new(list_element())),
        DataType::Ip => ArrowType::Dictionary(ArrowType::Int32.into(), ArrowType::Utf8.into()),
        other => tuple::batch::arrow_type(other),
    }
}

/// The type of a column in a file.
pub fn stored_type(data_type: DataType, unit: Unit) -> ArrowType {
    match data_type {
        DataType::Ip => ArrowType::Utf8,
        _ => arrow_type(data_type, unit),
    }
}

fn timestamp() -> ArrowType {
    ArrowType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

/// Converts a batch to that schema, with the watermark of each row.
///
/// # Panics
/// If the batch lacks one of `columns`.
pub fn to_arrow(
    batch: &Batch,
    columns: &[FieldId],
    arrow: &SchemaRef,
    watermark: Option<Int64Array>,
) -> RecordBatch {
    let column = |id: &FieldId| -> ArrayRef {
        let field = batch.schema().field(*id);
        let Some(array) = batch.column(*id) else {
            panic!("{}.{} is not in the batch", batch.schema().name, field.name)
        };
        match field.data_type {
            DataType::I64 if field.unit == Unit::EpochNanoseconds => times(batch.i64(*id)),
            DataType::Ip => Arc::new(addresses_to_text(batch.ip(*id))),
            DataType::Hashes => Arc::new(hashes_to_lists(batch.hashes(*id))),
            _ => array.clone(),
        }
    };
    let mut arrays: Vec<ArrayRef> = columns.iter().map(column).collect();
    arrays.extend(watermark.as_ref().map(times));
    RecordBatch::try_new(arrow.clone(), arrays).expect("the columns are those of the schema")
}

fn times(array: &Int64Array) -> ArrayRef {
    Arc::new(array.reinterpret_cast::<TimestampNanosecondType>().with_timezone("UTC"))
}

/// A dictionary of the distinct addresses as text.
fn addresses_to_text(array: &FixedSizeBinaryArray) -> DictionaryArray<Int32Type> {
    let mut known: HashMap<&[u8], i32, Xxh3DefaultBuilder> = HashMap::default();
    let mut texts: Vec<String> = Vec::new();
    // Addresses often repeat in consecutive rows.
    let mut last: Option<(&[u8], i32)> = None;
    let keys: Int32Array = array
        .iter()
        .map(|address| {
            let address = address?;
            let key = match last {
                Some((same, key)) if same == address => key,
                _ => *known.entry(address).or_insert_with(|| {
                    texts.push(text_of(address));
                    texts.len() as i32 - 1
                }),
            };
            last = Some((address, key));
            Some(key)
        })
        .collect();
    DictionaryArray::new(keys, Arc::new(StringArray::from(texts)))
}

/// The element of a list of hashes; null if unknown.
fn list_element() -> ArrowField {
    ArrowField::new("element", ArrowType::UInt64, true)
}

/// The hashes of all rows, concatenated.
pub fn hash_values(array: &BinaryArray) -> UInt64Array {
    let offsets = array.value_offsets();
    let bytes = &array.value_data()[offsets[0] as usize..offsets[array.len()] as usize];
    match bytes.as_chunks::<{ hashes::BYTES }>().0 {
        words if words.contains(&[0; hashes::BYTES]) => hashes::of(bytes).collect(),
        words => words.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>().into(),
    }
}

fn hashes_to_lists(array: &BinaryArray) -> ListArray {
    let offsets = array.value_offsets();
    let ends = offsets.iter().map(|offset| (offset - offsets[0]) / hashes::BYTES as i32).collect::<Vec<_>>();
    ListArray::new(
        Arc::new(list_element()),
        OffsetBuffer::new(ends.into()),
        Arc::new(hash_values(array)),
        array.nulls().cloned(),
    )
}

fn lists_to_hashes(lists: &ListArray) -> Result<BinaryArray, String> {
    if lists.values().len() > HASHES_MAX {
        return Err("has lists longer than the maximum".into());
    }
    let list = |list: ArrayRef| {
        let hashes = list.as_primitive::<UInt64Type>().iter();
        hashes.flat_map(|hash| hash.unwrap_or_default().to_le_bytes()).collect::<Vec<u8>>()
    };
    Ok(lists.iter().map(|row| row.map(list)).collect())
}

fn text_of(address: &[u8]) -> String {
    let octets: [u8; 16] = address.try_into().expect("an Ip column is FixedSizeBinary(16)");
    std::net::Ipv6Addr::from(octets).to_canonical().to_string()
}

/// Converts the output of [`to_arrow`] for all columns of `schema`.
///
/// # Errors
/// If the record batch has another schema.
pub fn of_record(record: &RecordBatch, schema: &Arc<Schema>) -> Result<Batch, String> {
    if record.num_columns() != schema.fields.len() {
        return Err(format!("there are {} columns, not {}", record.num_columns(), schema.fields.len()));
    }
    let column = |(array, field): (&ArrayRef, &tuple::Field)| {
        let texts = match field.data_type {
            DataType::Ip => dictionary_to_text(array),
            _ => None,
        };
        let column = of_arrow(texts.as_ref().unwrap_or(array), field.data_type, field.unit);
        column.map(Some).map_err(|why| format!("column {} {why}", field.name))
    };
    let columns = record.columns().iter().zip(&schema.fields).map(column).collect::<Result<_, _>>()?;
    Ok(Batch::new(schema.clone(), record.num_rows(), columns))
}

fn dictionary_to_text(array: &ArrayRef) -> Option<ArrayRef> {
    let dictionary = array.as_dictionary_opt::<Int32Type>()?;
    let texts: StringArray = dictionary.downcast_dict::<StringArray>()?.into_iter().collect();
    Some(Arc::new(texts))
}

/// Converts a column of a file to the type in the tuples' schema.
///
/// # Errors
/// If the file's column has another type, an address is invalid, or lists are too long.
pub fn of_arrow(array: &ArrayRef, data_type: DataType, unit: Unit) -> Result<ArrayRef, String> {
    if *array.data_type() != stored_type(data_type, unit) {
        return Err(format!("is of type {}, not {}", array.data_type(), stored_type(data_type, unit)));
    }
    Ok(match data_type {
        DataType::I64 if unit == Unit::EpochNanoseconds => {
            let times: &TimestampNanosecondArray = array.as_primitive();
            Arc::new(times.reinterpret_cast::<Int64Type>())
        }
        DataType::Ip => Arc::new(text_to_addresses(array.as_string())?),
        DataType::Hashes => Arc::new(lists_to_hashes(array.as_list())?),
        _ => array.clone(),
    })
}

fn text_to_addresses(texts: &StringArray) -> Result<FixedSizeBinaryArray, String> {
    let mut known: HashMap<&str, [u8; 16], Xxh3DefaultBuilder> = HashMap::default();
    let mut builder = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
    for text in texts {
        let Some(text) = text else {
            builder.append_null();
            continue;
        };
        let address = match known.get(text) {
            Some(address) => *address,
            None => {
                let address = address_of(text)?;
                if known.len() < ADDRESSES_MAX {
                    known.insert(text, address);
                }
                address
            }
        };
        builder.append_value(address).expect("sixteen bytes");
    }
    Ok(builder.finish())
}

fn address_of(text: &str) -> Result<[u8; 16], String> {
    match text.parse() {
        Ok(std::net::IpAddr::V4(v4)) => Ok(v4.to_ipv6_mapped().octets()),
        Ok(std::net::IpAddr::V6(v6)) => Ok(v6.octets()),
        Err(_) => {
            Err(format!("holds {:?}, which is not an address", text.chars().take(50).collect::<String>()))
        }
    }
}
