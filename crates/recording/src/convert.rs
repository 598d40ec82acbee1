//! Converts batches to Arrow record batches with the types expected by Parquet readers, and back: times are UTC
//! timestamps, addresses text, hashes lists of numbers. Both conversions are lossless.

use std::fmt::Write;
use std::net::Ipv6Addr;
use std::sync::Arc;

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, FixedSizeBinaryArray, Int32Array, Int64Array,
    ListArray, RecordBatch, StringArray, TimestampNanosecondArray, UInt64Array,
};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{DataType as ArrowType, Field as ArrowField, SchemaRef, TimeUnit};
use hashbrown::{HashMap, HashTable};
use tuple::{Batch, DataType, FieldId, Schema, Unit, hashes};
use xxhash_rust::xxh3::{Xxh3DefaultBuilder, xxh3_64};

use crate::file_metadata::WATERMARK;

/// Maximum cached address texts while a batch is read.
const ADDRESSES_MAX: usize = 1 << 16;
/// Maximum hashes of a batch to read: the limit of an Arrow batch.
const HASHES_MAX: usize = i32::MAX as usize / hashes::BYTES;

/// The record batch schema: `columns` of `schema`, and the watermark column if `watermark` is set.
pub fn arrow_schema(schema: &Schema, columns: &[FieldId], watermark: bool) -> SchemaRef {
    let field = |id: &FieldId| {
        let field = schema.field(*id);
        ArrowField::new(
            field.name.as_ref(),
            arrow_type(field.data_type, field.unit),
            true,
        )
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
    watermark: Option<&Int64Array>,
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
    arrays.extend(watermark.map(times));
    RecordBatch::try_new(arrow.clone(), arrays).expect("the columns are those of the schema")
}

fn times(array: &Int64Array) -> ArrayRef {
    Arc::new(
        array
            .reinterpret_cast::<TimestampNanosecondType>()
            .with_timezone("UTC"),
    )
}

/// A dictionary of the distinct addresses as text.
fn addresses_to_text(array: &FixedSizeBinaryArray) -> DictionaryArray<Int32Type> {
    // By address: the key of its text.
    let mut known: HashTable<(&[u8], i32)> = HashTable::new();
    let mut texts = String::new();
    let mut ends = vec![0];
    // Addresses often repeat in consecutive rows.
    let mut last: Option<(&[u8], i32)> = None;
    let mut key_of = |address| {
        let key = match last {
            Some((same, key)) if same == address => key,
            _ => {
                let hash = |address: &[u8]| xxh3_64(address);
                let entry = known.entry(
                    hash(address),
                    |(same, _)| *same == address,
                    |(other, _)| hash(other),
                );
                let entry = entry.or_insert_with(|| {
                    push_address(address, &mut texts);
                    ends.push(texts.len() as i32);
                    (address, ends.len() as i32 - 2)
                });
                entry.get().1
            }
        };
        last = Some((address, key));
        key
    };
    let keys: Vec<i32> = array
        .iter()
        .map(|address| address.map_or(0, &mut key_of))
        .collect();
    let texts = StringArray::new(
        OffsetBuffer::new(ends.into()),
        Buffer::from_vec(texts.into_bytes()),
        None,
    );
    DictionaryArray::new(
        Int32Array::new(keys.into(), array.nulls().cloned()),
        Arc::new(texts),
    )
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
        words => words
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect::<Vec<_>>()
            .into(),
    }
}

fn hashes_to_lists(array: &BinaryArray) -> ListArray {
    let offsets = array.value_offsets();
    let ends = offsets
        .iter()
        .map(|offset| (offset - offsets[0]) / hashes::BYTES as i32)
        .collect::<Vec<_>>();
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
        hashes
            .flat_map(|hash| hash.unwrap_or_default().to_le_bytes())
            .collect::<Vec<u8>>()
    };
    Ok(lists.iter().map(|row| row.map(list)).collect())
}

/// Appends the canonical text of an address.
fn push_address(address: &[u8], texts: &mut String) {
    let octets: [u8; 16] = address
        .try_into()
        .expect("an Ip column is FixedSizeBinary(16)");
    let address = Ipv6Addr::from(octets);
    let Some(v4) = address.to_ipv4_mapped() else {
        write!(texts, "{address}").expect("a string can be written to");
        return;
    };
    for (i, octet) in v4.octets().into_iter().enumerate() {
        if i > 0 {
            texts.push('.');
        }
        let digit = |of: u8| char::from(b'0' + of % 10);
        if octet >= 100 {
            texts.push(digit(octet / 100));
        }
        if octet >= 10 {
            texts.push(digit(octet / 10));
        }
        texts.push(digit(octet));
    }
}

/// Converts the output of [`to_arrow`] for all columns of `schema`.
///
/// # Errors
/// If the record batch has another schema.
pub fn of_record(record: &RecordBatch, schema: &Arc<Schema>) -> Result<Batch, String> {
    if record.num_columns() != schema.fields.len() {
        return Err(format!(
            "there are {} columns, not {}",
            record.num_columns(),
            schema.fields.len()
        ));
    }
    let column = |(array, field): (&ArrayRef, &tuple::Field)| {
        let texts = match field.data_type {
            DataType::Ip => dictionary_to_text(array),
            _ => None,
        };
        let column = of_arrow(texts.as_ref().unwrap_or(array), field.data_type, field.unit);
        column
            .map(Some)
            .map_err(|why| format!("column {} {why}", field.name))
    };
    let columns = record
        .columns()
        .iter()
        .zip(&schema.fields)
        .map(column)
        .collect::<Result<_, _>>()?;
    Ok(Batch::new(schema.clone(), record.num_rows(), columns))
}

fn dictionary_to_text(array: &ArrayRef) -> Option<ArrayRef> {
    let dictionary = array.as_dictionary_opt::<Int32Type>()?;
    let texts: StringArray = dictionary
        .downcast_dict::<StringArray>()?
        .into_iter()
        .collect();
    Some(Arc::new(texts))
}

/// Converts a column of a file to the type in the tuples' schema.
///
/// # Errors
/// If the file's column has another type, an address is invalid, or lists are too long.
pub fn of_arrow(array: &ArrayRef, data_type: DataType, unit: Unit) -> Result<ArrayRef, String> {
    if *array.data_type() != stored_type(data_type, unit) {
        return Err(format!(
            "is of type {}, not {}",
            array.data_type(),
            stored_type(data_type, unit)
        ));
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
        Err(_) => Err(format!(
            "holds {:?}, which is not an address",
            text.chars().take(50).collect::<String>()
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn addresses_are_written_as_text_and_read_again() {
        let v4 = (0..=255u8).map(|n| IpAddr::from([n, 255 - n, n / 3, 9]));
        let v6 = [
            "::",
            "::1",
            "2001:db8::a:0:0:1",
            "::2.3.4.5",
            "fe80::1:2:3:4",
        ];
        let all: Vec<IpAddr> = v4
            .chain(v6.iter().map(|text| text.parse().expect("an address")))
            .collect();
        let mut builder = FixedSizeBinaryBuilder::new(16);
        for address in all.iter().chain(&all) {
            let octets = match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            };
            builder.append_value(octets).expect("sixteen bytes");
            builder.append_null();
        }
        let addresses = builder.finish();
        let dictionary: ArrayRef = Arc::new(addresses_to_text(&addresses));
        let texts = dictionary_to_text(&dictionary).expect("a dictionary of texts");
        let expected = all
            .iter()
            .chain(&all)
            .flat_map(|address| [Some(address.to_string()), None]);
        assert_eq!(texts.as_string::<i32>(), &expected.collect::<StringArray>());
        assert_eq!(text_to_addresses(texts.as_string()), Ok(addresses));
        let nothing = FixedSizeBinaryArray::new(
            16,
            Buffer::from_vec(vec![0u8; 48]),
            Some(arrow_buffer::NullBuffer::new_null(3)),
        );
        assert_eq!(addresses_to_text(&nothing).null_count(), 3);
    }
}
