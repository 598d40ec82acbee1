//! Columns `field.ELEMENT` and `field.ENTERPRISE_ELEMENT` of `flow`: any information element of a record.

use telemetry::{ElementId, TemplateRecord};
use tuple::{FieldId, TupleWriter};

/// Prefix of the columns.
const PREFIX: &str = "field.";
/// Longest value written, in bytes.
const VALUE_MAX: usize = 256;

/// A column with its element.
pub(super) type ElementColumn = (FieldId, ElementId);

/// Writes the elements of a record that the tuples have columns for.
pub(super) fn write(w: &mut TupleWriter, columns: &[ElementColumn], record: &TemplateRecord<'_>) {
    for (id, element) in columns {
        if let Some(value) = record.field(*element) {
            w.text(*id, text(value).as_bytes());
        }
    }
}

/// Columns of a writer with their elements.
pub(super) fn columns(w: &TupleWriter) -> Vec<ElementColumn> {
    let schema = w.schema();
    let known = schema.ids().filter(|id| w.wants(*id));
    known
        .filter_map(|id| Some((id, element(schema.field(id).name.strip_prefix(PREFIX)?)?)))
        .collect()
}

/// The element of a column: `ELEMENT` of IANA's registry, or `ENTERPRISE_ELEMENT`.
fn element(key: &str) -> Option<ElementId> {
    let (enterprise, id) = key.split_once('_').unwrap_or(("0", key));
    Some(ElementId {
        enterprise: enterprise.parse().ok()?,
        id: id.parse().ok()?,
    })
}

/// A value as text: printable text of more than eight bytes as it is, up to eight bytes as an unsigned number, anything
/// else in hexadecimal.
fn text(value: &[u8]) -> String {
    let value = &value[..value.len().min(VALUE_MAX)];
    let padded = value.iter().rposition(|b| *b != 0).map_or(0, |n| n + 1);
    let trimmed = &value[..padded];
    let is_text = |b: &u8| (0x20..0x7f).contains(b);
    if value.len() > 8 && !trimmed.is_empty() && trimmed.iter().all(is_text) {
        return String::from_utf8_lossy(trimmed).into_owned();
    }
    if value.len() <= 8 {
        return value
            .iter()
            .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
            .to_string();
    }
    value.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_an_enterprise_or_none() {
        let of = |enterprise, id| Some(ElementId { enterprise, id });
        assert_eq!(element("9999_1"), of(9999, 1));
        assert_eq!(element("61"), of(0, 61));
        assert_eq!(element("x_1"), None);
        assert_eq!(element("1_70000"), None);
    }

    #[test]
    fn values_are_numbers_text_or_hexadecimal() {
        assert_eq!(text(&[0, 0, 1, 2]), "258");
        assert_eq!(text(b"GigabitEthernet0/1\0\0"), "GigabitEthernet0/1");
        assert_eq!(text(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), "010203040506070809");
        assert_eq!(text(&[]), "0");
    }
}
