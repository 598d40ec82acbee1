//! Columns `field.ELEMENT`, `field.ENTERPRISE_ELEMENT`, and `field.NAME` of `flow`: any information element of a record.

use plan::MonitorSpec;
use telemetry::{ElementDefinitions, ElementId, ElementType, TemplateRecord};
use tuple::{FieldId, TupleWriter};

/// Prefix of the columns.
const PREFIX: &str = "field.";
/// Longest value written, in bytes.
const VALUE_MAX: usize = 256;

/// A column with its element.
#[derive(Clone, Copy, Debug)]
pub(super) struct ElementColumn {
    field: FieldId,
    element: ElementId,
    /// `None` for elements without a definition.
    data_type: Option<ElementType>,
}

/// Writes the elements of a record that the tuples have columns for.
pub(super) fn write(w: &mut TupleWriter, columns: &[ElementColumn], record: &TemplateRecord<'_>) {
    for column in columns {
        if let Some(value) = record.field(column.element) {
            let value = &value[..value.len().min(VALUE_MAX)];
            let text = column
                .data_type
                .map_or_else(|| text(value), |data_type| data_type.text(value));
            w.text(column.field, text.as_bytes());
        }
    }
}

/// Columns of a writer with their elements.
pub(super) fn columns(w: &TupleWriter, definitions: &ElementDefinitions) -> Vec<ElementColumn> {
    let schema = w.schema();
    let wanted = schema.ids().filter(|id| w.wants(*id));
    let column = |field| {
        let (element, data_type) =
            element(schema.field(field).name.strip_prefix(PREFIX)?, definitions)?;
        Some(ElementColumn {
            field,
            element,
            data_type,
        })
    };
    wanted.filter_map(column).collect()
}

/// The first column of a plan whose name is neither an element's number nor defined.
#[must_use]
pub fn undefined_column<'p>(
    spec: &'p MonitorSpec,
    definitions: &ElementDefinitions,
) -> Option<&'p str> {
    let fields = spec.parsers.iter().flat_map(|parser| &parser.schema.fields);
    let mut names = fields.map(|field| field.name.as_ref());
    names.find(|name: &&str| {
        name.strip_prefix(PREFIX)
            .is_some_and(|key| element(key, definitions).is_none())
    })
}

/// The element of a column, with its type if it is defined: `ELEMENT` of IANA's registry, `ENTERPRISE_ELEMENT`, or a
/// name.
fn element(
    key: &str,
    definitions: &ElementDefinitions,
) -> Option<(ElementId, Option<ElementType>)> {
    if let Some(defined) = definitions.find(key) {
        return Some((defined.element, Some(defined.data_type)));
    }
    let (enterprise, id) = key.split_once('_').unwrap_or(("0", key));
    let element = ElementId {
        enterprise: enterprise.parse().ok()?,
        id: id.parse().ok()?,
    };
    Some((element, None))
}

/// A value as text: printable text of more than eight bytes as it is, up to eight bytes as an unsigned number, anything
/// else in hexadecimal.
fn text(value: &[u8]) -> String {
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
        let definitions = ElementDefinitions::parse("x_2(7/2)<string>").expect("a definition");
        let of = |enterprise, id, data_type| Some((ElementId { enterprise, id }, data_type));
        assert_eq!(element("9999_1", &definitions), of(9999, 1, None));
        assert_eq!(element("61", &definitions), of(0, 61, None));
        let text = Some(ElementType::String);
        assert_eq!(element("x_2", &definitions), of(7, 2, text));
        assert_eq!(element("x_1", &definitions), None);
        assert_eq!(element("1_70000", &definitions), None);
    }

    #[test]
    fn values_are_numbers_text_or_hexadecimal() {
        assert_eq!(text(&[0, 0, 1, 2]), "258");
        assert_eq!(text(b"GigabitEthernet0/1\0\0"), "GigabitEthernet0/1");
        assert_eq!(text(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), "010203040506070809");
        assert_eq!(text(&[]), "0");
    }
}
