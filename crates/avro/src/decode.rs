//! Decodes datums to columns. A datum is untrusted: malformed input is reported with its position and discarded, and
//! no memory is allocated for a claimed length.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float64Array,
    Int64Array, RecordBatch, RecordBatchOptions, StringArray, UInt64Array,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::SchemaRef;

use super::input::{DatumFault, DatumInput};
use super::{AvroType, DECIMAL_DIGITS, UnsupportedType, kinds};

/// A datum that does not match the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` at byte {at}: {fault}")]
pub struct MalformedDatum {
    /// The field.
    pub field: String,
    /// Byte offset of the error in the datum.
    pub at: usize,
    /// The error.
    pub fault: DatumFault,
}

/// Decodes datums to batches.
pub struct AvroDecoder {
    /// Schema of the required columns.
    schema: SchemaRef,
    columns: Vec<DecodedColumn>,
    names: Vec<String>,
    rows: usize,
    /// Minimum number of columns in the datums so far.
    told: usize,
}

impl AvroDecoder {
    /// Creates a decoder for datums of `schema`. Columns for which `wanted` returns false are skipped and not part of
    /// the batch.
    ///
    /// # Errors
    /// If a column has an unsupported type.
    pub fn new(
        schema: &SchemaRef,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<AvroDecoder, UnsupportedType> {
        let kinds = kinds(schema)?;
        let places: Vec<usize> = (0..kinds.len()).filter(|place| wanted(*place)).collect();
        let column = |(place, kind): (usize, &AvroType)| {
            if wanted(place) {
                DecodedColumn::new(*kind)
            } else {
                DecodedColumn {
                    kind: *kind,
                    valid: BooleanBufferBuilder::new(0),
                    values: DecodedValues::Passed,
                }
            }
        };
        Ok(AvroDecoder {
            columns: kinds.iter().enumerate().map(column).collect(),
            names: schema
                .fields()
                .iter()
                .map(|field| field.name().clone())
                .collect(),
            schema: Arc::new(schema.project(&places).expect("places of the schema")),
            rows: 0,
            told: kinds.len(),
        })
    }

    /// The schema of batches.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Number of rows since the last batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Required columns missing from some datum, because it has an earlier version.
    pub fn lacking(&self) -> impl Iterator<Item = &str> {
        let named = self.columns.iter().zip(&self.names).skip(self.told);
        named
            .filter(|(column, _)| !matches!(column.values, DecodedValues::Passed))
            .map(|(_, name)| name.as_str())
    }

    /// Decodes a datum. Bytes after the last field belong to fields of a later version and are ignored. A datum that
    /// ends after a field has an earlier version; its remaining fields are null.
    ///
    /// # Errors
    /// If the datum is malformed; it is skipped as a whole.
    pub fn push(&mut self, datum: &[u8]) -> Result<(), MalformedDatum> {
        let mut input = DatumInput::new(datum);
        for place in 0..self.columns.len() {
            let at = input.at;
            if at == datum.len() && place > 0 {
                self.columns[place..]
                    .iter_mut()
                    .for_each(DecodedColumn::pass);
                self.told = self.told.min(place);
                break;
            }
            if let Err(fault) = self.columns[place].take(&mut input) {
                self.columns
                    .iter_mut()
                    .for_each(|column| column.truncate(self.rows));
                return Err(MalformedDatum {
                    field: self.names[place].clone(),
                    at,
                    fault,
                });
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Returns the rows so far and resets the decoder.
    ///
    /// # Panics
    /// Never: lengths and types are those of the schema.
    #[must_use]
    pub fn finish(&mut self) -> RecordBatch {
        let arrays: Vec<ArrayRef> = self
            .columns
            .iter_mut()
            .filter_map(DecodedColumn::finish)
            .collect();
        let options =
            RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .expect("columns of the schema")
    }
}

/// A growing column. If a row is malformed, its values are removed.
struct DecodedColumn {
    kind: AvroType,
    valid: BooleanBufferBuilder,
    values: DecodedValues,
}

enum DecodedValues {
    /// Not required.
    Passed,
    Bool(BooleanBufferBuilder),
    I64(Vec<i64>),
    U64(Vec<u64>),
    F64(Vec<f64>),
    Bytes {
        ends: Vec<i32>,
        bytes: Vec<u8>,
    },
    Fixed {
        length: i32,
        bytes: Vec<u8>,
    },
    Decimal(Vec<i128>),
}

impl DecodedColumn {
    fn new(kind: AvroType) -> DecodedColumn {
        let values = match kind {
            AvroType::Bool => DecodedValues::Bool(BooleanBufferBuilder::new(0)),
            AvroType::I64 => DecodedValues::I64(Vec::new()),
            AvroType::U64 => DecodedValues::U64(Vec::new()),
            AvroType::F64 => DecodedValues::F64(Vec::new()),
            AvroType::Text | AvroType::Bytes => DecodedValues::Bytes {
                ends: vec![0],
                bytes: Vec::new(),
            },
            AvroType::Fixed(length) => DecodedValues::Fixed {
                length,
                bytes: Vec::new(),
            },
            AvroType::Decimal => DecodedValues::Decimal(Vec::new()),
        };
        DecodedColumn {
            kind,
            valid: BooleanBufferBuilder::new(0),
            values,
        }
    }

    fn take(&mut self, input: &mut DatumInput) -> Result<(), DatumFault> {
        let is_value = match input.long()? {
            0 => false,
            1 => true,
            other => return Err(DatumFault::Branch(other)),
        };
        if !is_value {
            self.pass();
            return Ok(());
        }
        self.value(input)?;
        if !matches!(self.values, DecodedValues::Passed) {
            self.valid.append(true);
        }
        Ok(())
    }

    /// Appends null for a field missing from the datum.
    fn pass(&mut self) {
        self.null();
        if !matches!(self.values, DecodedValues::Passed) {
            self.valid.append(false);
        }
    }

    fn null(&mut self) {
        match &mut self.values {
            DecodedValues::Passed => {}
            DecodedValues::Bool(values) => values.append(false),
            DecodedValues::I64(values) => values.push(0),
            DecodedValues::U64(values) => values.push(0),
            DecodedValues::F64(values) => values.push(0.0),
            DecodedValues::Bytes { ends, .. } => ends.push(ends[ends.len() - 1]),
            DecodedValues::Fixed { length, bytes } => {
                bytes.resize(bytes.len() + *length as usize, 0)
            }
            DecodedValues::Decimal(values) => values.push(0),
        }
    }

    fn value(&mut self, input: &mut DatumInput) -> Result<(), DatumFault> {
        match self.kind {
            AvroType::Bool => {
                let value = match input.take(1)?[0] {
                    bit @ (0 | 1) => bit == 1,
                    other => return Err(DatumFault::Boolean(other)),
                };
                if let DecodedValues::Bool(values) = &mut self.values {
                    values.append(value);
                }
            }
            AvroType::I64 | AvroType::U64 => match (input.long()?, &mut self.values) {
                (value, DecodedValues::I64(values)) => values.push(value),
                (value, DecodedValues::U64(values)) => values.push(value.cast_unsigned()),
                _ => {}
            },
            AvroType::F64 => {
                let value = f64::from_le_bytes(*input.take(8)?.first_chunk().expect("eight bytes"));
                if let DecodedValues::F64(values) = &mut self.values {
                    values.push(value);
                }
            }
            AvroType::Text | AvroType::Bytes | AvroType::Fixed(_) => {
                let value = input.bytes()?;
                self.bytes(value)?;
            }
            AvroType::Decimal => {
                let value = input.decimal()?;
                if let DecodedValues::Decimal(values) = &mut self.values {
                    values.push(value);
                }
            }
        }
        Ok(())
    }

    fn bytes(&mut self, value: &[u8]) -> Result<(), DatumFault> {
        match self.kind {
            AvroType::Text if str::from_utf8(value).is_err() => return Err(DatumFault::Utf8),
            AvroType::Fixed(length) if value.len() != length as usize => {
                return Err(DatumFault::Fixed(value.len(), length));
            }
            _ => {}
        }
        match &mut self.values {
            DecodedValues::Bytes { ends, bytes } => {
                ends.push(i32::try_from(bytes.len() + value.len()).map_err(|_| DatumFault::Full)?);
                bytes.extend_from_slice(value);
            }
            DecodedValues::Fixed { bytes, .. } => bytes.extend_from_slice(value),
            _ => {}
        }
        Ok(())
    }

    fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            DecodedValues::Passed => return,
            DecodedValues::Bool(values) => values.truncate(rows),
            DecodedValues::I64(values) => values.truncate(rows),
            DecodedValues::U64(values) => values.truncate(rows),
            DecodedValues::F64(values) => values.truncate(rows),
            DecodedValues::Bytes { ends, bytes } => {
                ends.truncate(rows + 1);
                bytes.truncate(ends[ends.len() - 1] as usize);
            }
            DecodedValues::Fixed { length, bytes } => bytes.truncate(rows * *length as usize),
            DecodedValues::Decimal(values) => values.truncate(rows),
        }
        self.valid.truncate(rows);
    }

    /// Returns the array and clears the column; `None` if it is not required.
    fn finish(&mut self) -> Option<ArrayRef> {
        let fresh = match self.values {
            DecodedValues::Passed => return None,
            _ => DecodedColumn::new(self.kind),
        };
        let DecodedColumn {
            kind,
            mut valid,
            values,
        } = std::mem::replace(self, fresh);
        let nulls = Some(NullBuffer::new(valid.finish()));
        Some(match values {
            DecodedValues::Passed => return None,
            DecodedValues::Bool(mut values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            DecodedValues::I64(values) => Arc::new(Int64Array::new(values.into(), nulls)),
            DecodedValues::U64(values) => Arc::new(UInt64Array::new(values.into(), nulls)),
            DecodedValues::F64(values) => Arc::new(Float64Array::new(values.into(), nulls)),
            DecodedValues::Decimal(values) => Arc::new(
                Decimal128Array::new(values.into(), nulls)
                    .with_precision_and_scale(DECIMAL_DIGITS, 0)
                    .expect("38 digits are allowed"),
            ),
            DecodedValues::Bytes { ends, bytes } => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
                let bytes = Buffer::from_vec(bytes);
                match kind {
                    AvroType::Text => Arc::new(StringArray::new(offsets, bytes, nulls)),
                    _ => Arc::new(BinaryArray::new(offsets, bytes, nulls)),
                }
            }
            DecodedValues::Fixed { length, bytes } => Arc::new(FixedSizeBinaryArray::new(
                length,
                Buffer::from_vec(bytes),
                nulls,
            )),
        })
    }
}
