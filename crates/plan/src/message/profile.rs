//! Serialization of workload profiles.

use super::column_names::{ColumnNames, ColumnPlaces};
use super::expression::{condition, read_condition};
use super::proto;
use super::refusal::UnmetRequirements;
use crate::dataflow::ProfileSpec;
use crate::expr::{Column, Predicate};

/// Encodes a profile.
pub fn profile(of: &ProfileSpec, names: ColumnNames<'_>) -> proto::ProfileProto {
    let column = |column: Option<Column>| column.map(|column| names.sent(column));
    proto::ProfileProto {
        operation: Some(names.sent(of.operation)),
        reads: Some(condition(&of.reads, names)),
        writes: Some(condition(&of.writes, names)),
        success: of.success.as_ref().map(|success| condition(success, names)),
        status: column(of.status),
        response_time: column(of.response_time),
        read_bytes: column(of.read_bytes),
        write_bytes: column(of.write_bytes),
        size: column(of.size),
        offset: column(of.offset),
        file: column(of.file),
        aligned: column(of.aligned),
        checksums: column(of.checksums),
        object: column(of.object),
        client: Some(names.sent(of.client)),
        k: of.k as u64,
        near: of.near,
    }
}

/// Decodes a profile.
pub fn read_profile(
    sent: &proto::ProfileProto,
    places: ColumnPlaces<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<ProfileSpec> {
    let predicate = |sent: &Option<proto::ExpressionProto>,
                     lacks: &mut UnmetRequirements|
     -> Option<Predicate> {
        read_condition(
            lacks.required(sent, "operations that read and write")?,
            places,
            lacks,
        )
    };
    // `None` if something is missing; `Some(None)` without such a column.
    let column = |sent: &Option<proto::ColumnProto>,
                  lacks: &mut UnmetRequirements|
     -> Option<Option<Column>> {
        match sent {
            Some(column) => places.read(Some(column), lacks).map(Some),
            None => Some(None),
        }
    };
    let operation = places.read(sent.operation.as_ref(), lacks);
    let client = places.read(sent.client.as_ref(), lacks);
    let reads = predicate(&sent.reads, lacks);
    let writes = predicate(&sent.writes, lacks);
    let success = match &sent.success {
        Some(success) => read_condition(success, places, lacks).map(Some),
        None => Some(None),
    };
    let Ok(k) = usize::try_from(sent.k) else {
        return lacks.malformed("a number that is too large");
    };
    Some(ProfileSpec {
        operation: operation?,
        reads: reads?,
        writes: writes?,
        success: success?,
        status: column(&sent.status, lacks)?,
        response_time: column(&sent.response_time, lacks)?,
        read_bytes: column(&sent.read_bytes, lacks)?,
        write_bytes: column(&sent.write_bytes, lacks)?,
        size: column(&sent.size, lacks)?,
        offset: column(&sent.offset, lacks)?,
        file: column(&sent.file, lacks)?,
        aligned: column(&sent.aligned, lacks)?,
        checksums: column(&sent.checksums, lacks)?,
        object: column(&sent.object, lacks)?,
        client: client?,
        k,
        near: sent.near,
    })
}
