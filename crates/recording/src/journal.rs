//! Where the finished row groups of a growing file are: for each a small Parquet footer of its own, with its length and
//! a hash in front. Put together they are the footer that a file lacks whose writer was killed.

use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::thrift;

/// Length and hash.
const ENTRY_HEAD: usize = 12;
/// What stands behind a footer's Thrift: its length and the magic.
const FOOTER_TAIL: usize = 8;

/// The entry of a row group that has been written.
pub fn entry(group: &RowGroupMetaData, facts: &[KeyValue]) -> Result<Vec<u8>, ParquetError> {
    let footer = footer(&metadata(vec![group.clone()], facts.to_vec()))?;
    let length = u32::try_from(footer.len()).map_err(|e| ParquetError::External(e.into()))?;
    Ok([&length.to_le_bytes()[..], &xxh3_64(&footer).to_le_bytes(), &footer].concat())
}

/// What all whole entries say together; `None` when there is none. What follows the first damaged one is not believed.
pub fn read(mut bytes: &[u8]) -> Option<ParquetMetaData> {
    let mut groups = Vec::new();
    let mut facts = Vec::new();
    while let Some((footer, rest)) = next_entry(bytes) {
        let footer = &footer[..footer.len() - FOOTER_TAIL];
        let part = thrift::is_sound(footer).then(|| ParquetMetaDataReader::decode_metadata(footer));
        let Some(Ok(part)) = part else { break };
        groups.extend(part.row_groups().iter().cloned());
        facts = part.file_metadata().key_value_metadata().cloned().unwrap_or_default();
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

/// Where the last row group ends: behind it the footer is written.
pub fn end(metadata: &ParquetMetaData) -> u64 {
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    columns.map(|c| c.byte_range()).map(|(start, length)| start.saturating_add(length)).max().unwrap_or(4)
}

/// A file's last bytes.
pub fn footer(metadata: &ParquetMetaData) -> Result<Vec<u8>, ParquetError> {
    let mut bytes = Vec::new();
    ParquetMetaDataWriter::new(&mut bytes, metadata).finish()?;
    Ok(bytes)
}

fn metadata(groups: Vec<RowGroupMetaData>, facts: Vec<KeyValue>) -> ParquetMetaData {
    let rows = groups.iter().map(RowGroupMetaData::num_rows).sum();
    let schema = groups[0].schema_descr_ptr();
    let file = FileMetaData::new(1, rows, Some(crate::table::CREATED_BY.into()), Some(facts), schema, None);
    ParquetMetaData::new(file, groups)
}
