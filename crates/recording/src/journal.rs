//! Positions of the finished row groups of a growing file: per row group a small Parquet footer, prefixed by its
//! length and a hash. Combined, they form the footer missing from the file of a killed writer.

use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaData,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::file_metadata::CREATED_BY;
use crate::thrift;

/// Size of the length and hash.
const ENTRY_HEAD: usize = 12;
/// Size of the length and magic after the Thrift data of a footer.
const FOOTER_TAIL: usize = 8;

/// The entry of a written row group.
pub fn entry(group: &RowGroupMetaData, facts: &[KeyValue]) -> Result<Vec<u8>, ParquetError> {
    let footer = footer_of(vec![group.clone()], facts.to_vec())?;
    let length = u32::try_from(footer.len()).map_err(|e| ParquetError::External(e.into()))?;
    Ok([
        &length.to_le_bytes()[..],
        &xxh3_64(&footer).to_le_bytes(),
        &footer,
    ]
    .concat())
}

/// The combined metadata of all complete entries; `None` if there are none. Entries after the first damaged one are
/// ignored.
pub fn read(mut bytes: &[u8]) -> Option<ParquetMetaData> {
    let mut groups = Vec::new();
    let mut facts = Vec::new();
    while let Some((footer, rest)) = next_entry(bytes) {
        let footer = &footer[..footer.len() - FOOTER_TAIL];
        let part = thrift::is_sound(footer).then(|| ParquetMetaDataReader::decode_metadata(footer));
        let Some(Ok(part)) = part else { break };
        groups.extend(part.row_groups().iter().cloned());
        facts = part
            .file_metadata()
            .key_value_metadata()
            .cloned()
            .unwrap_or_default();
        bytes = rest;
    }
    (!groups.is_empty()).then(|| metadata(groups, facts))
}

fn next_entry(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(ENTRY_HEAD)?;
    let length = u32::from_le_bytes(*head.first_chunk()?) as usize;
    let hash = u64::from_le_bytes(*head.last_chunk()?);
    let (footer, rest) = rest.split_at_checked(length)?;
    (footer.len() > FOOTER_TAIL && xxh3_64(footer) == hash).then_some((footer, rest))
}

/// End of the last row group, the position of the footer.
pub fn end(metadata: &ParquetMetaData) -> u64 {
    let columns = metadata
        .row_groups()
        .iter()
        .flat_map(RowGroupMetaData::columns);
    columns
        .map(|c| c.byte_range())
        .map(|(start, length)| start.saturating_add(length))
        .max()
        .unwrap_or(4)
}

/// The footer of a file with these row groups, of which there must be at least one.
pub fn footer_of(
    groups: Vec<RowGroupMetaData>,
    facts: Vec<KeyValue>,
) -> Result<Vec<u8>, ParquetError> {
    footer(&metadata(groups, facts))
}

/// The footer of a file.
pub fn footer(metadata: &ParquetMetaData) -> Result<Vec<u8>, ParquetError> {
    let mut bytes = Vec::new();
    ParquetMetaDataWriter::new(&mut bytes, metadata).finish()?;
    Ok(bytes)
}

fn metadata(groups: Vec<RowGroupMetaData>, facts: Vec<KeyValue>) -> ParquetMetaData {
    let rows = groups.iter().map(RowGroupMetaData::num_rows).sum();
    let schema = groups[0].schema_descr_ptr();
    let file = FileMetaData::new(1, rows, Some(CREATED_BY.into()), Some(facts), schema, None);
    ParquetMetaData::new(file, groups)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::data_type::Int64Type;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;

    /// A file with row groups of these lengths, and its metadata from the Parquet library.
    fn file(groups: &[i64]) -> (Vec<u8>, ParquetMetaData) {
        let schema = parse_message_type("message t { required int64 n; }").expect("a schema");
        let properties = Arc::new(WriterProperties::default());
        let mut writer =
            SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties).expect("a writer");
        for rows in groups {
            let mut group = writer.next_row_group().expect("a row group");
            let mut column = group.next_column().expect("no error").expect("a column");
            let values: Vec<i64> = (0..*rows).collect();
            column
                .typed::<Int64Type>()
                .write_batch(&values, None, None)
                .expect("values");
            column.close().expect("a column");
            group.close().expect("a row group");
        }
        let metadata = writer.finish().expect("a footer");
        (writer.inner().clone(), metadata)
    }

    fn facts() -> Vec<KeyValue> {
        vec![KeyValue::new("k".to_owned(), "v".to_owned())]
    }

    /// Number of rows and column position of each row group.
    fn places(metadata: &ParquetMetaData) -> Vec<(i64, (u64, u64))> {
        metadata
            .row_groups()
            .iter()
            .map(|group| (group.num_rows(), group.column(0).byte_range()))
            .collect()
    }

    /// The entries of all row groups, and their ends.
    fn journal(metadata: &ParquetMetaData) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for group in metadata.row_groups() {
            bytes.extend(entry(group, &facts()).expect("an entry"));
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn journal_equals_the_footer() {
        let (_, metadata) = file(&[3, 1, 500]);
        let read = read(&journal(&metadata).0).expect("three entries");
        assert_eq!(places(&read), places(&metadata));
        assert_eq!(read.file_metadata().num_rows(), 504);
        assert_eq!(read.file_metadata().key_value_metadata(), Some(&facts()));
        assert_eq!(
            read.file_metadata().schema(),
            metadata.file_metadata().schema()
        );
    }

    #[test]
    fn truncated_journals_have_the_complete_entries() {
        let (_, metadata) = file(&[3, 1, 500]);
        let (bytes, ends) = journal(&metadata);
        for n in 0..=bytes.len() {
            let whole = ends[1..].iter().filter(|end| **end <= n).count();
            let found = read(&bytes[..n]).map_or(0, |read| read.row_groups().len());
            assert_eq!(found, whole, "{n} of {} bytes", bytes.len());
        }
    }

    #[test]
    fn nothing_behind_a_damaged_entry_is_believed() {
        let (_, metadata) = file(&[3, 1, 500]);
        let (bytes, ends) = journal(&metadata);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            let whole = ends[1..].iter().filter(|end| **end <= at).count();
            let found = read(&damaged).map_or(0, |read| read.row_groups().len());
            assert_eq!(found, whole, "byte {at}");
        }
    }

    #[test]
    fn a_footer_put_behind_the_row_groups_makes_the_file() {
        let (bytes, metadata) = file(&[7, 2]);
        let found = read(&journal(&metadata).0).expect("two entries");
        let end = usize::try_from(end(&found)).expect("a small file");
        let repaired = [&bytes[..end], &footer(&found).expect("a footer")].concat();
        let reader = ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(repaired));
        assert_eq!(places(&reader.expect("a Parquet file")), places(&metadata));
    }

    #[test]
    fn empty_journals_have_no_entries() {
        assert!(read(&[]).is_none());
        assert!(read(&[0; ENTRY_HEAD]).is_none());
        assert!(read(&[0xff; 100]).is_none());
    }
}
