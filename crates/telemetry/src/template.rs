//! Templates of NetFlow v9 and IPFIX, and records read by them.

use crate::cursor::Cursor;
use crate::element_id::ElementId;

/// Length of a field with variable length (RFC 7011 section 7).
const VARIABLE: u16 = 0xffff;
/// Fields per template; a message of 64 KiB cannot describe records with more.
const MAX_FIELDS: usize = 4096;

/// A field of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldSpecifier {
    pub element: ElementId,
    /// Bytes, or [`VARIABLE`].
    pub len: u16,
}

/// The layout of records with one template identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    fields: Vec<FieldSpecifier>,
    /// Number of leading fields that are the scope of an options record; `None` for flow records.
    scope: Option<usize>,
    /// Bytes of the shortest record.
    min_len: usize,
    has_variable_fields: bool,
}

/// Why a template is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplateError {
    /// The set ends within the template.
    Truncated,
    /// Records without a byte, an options template without a scope or with more scope fields than fields, or too many
    /// fields.
    Impossible,
}

impl Template {
    /// Reads `count` fields. `is_ipfix`: a set top bit of the element announces an enterprise number.
    pub fn read(
        cursor: &mut Cursor<'_>,
        count: usize,
        scope_fields: Option<usize>,
        is_ipfix: bool,
    ) -> Result<Template, TemplateError> {
        if count > MAX_FIELDS {
            return Err(TemplateError::Impossible);
        }
        let mut fields = Vec::with_capacity(count.min(cursor.len() / 4));
        for n in 0..count {
            let specifier = FieldSpecifier::read(
                cursor,
                is_ipfix,
                !is_ipfix && scope_fields.is_some_and(|s| n < s),
            );
            fields.push(specifier.ok_or(TemplateError::Truncated)?);
        }
        Template::new(fields, scope_fields)
    }

    /// `scope`: the number of scope fields of an options template.
    pub fn new(
        fields: Vec<FieldSpecifier>,
        scope: Option<usize>,
    ) -> Result<Template, TemplateError> {
        let min_len = fields
            .iter()
            .map(|field| {
                if field.len == VARIABLE {
                    1
                } else {
                    usize::from(field.len)
                }
            })
            .sum();
        let is_possible = min_len > 0
            && fields.len() <= MAX_FIELDS
            && scope.is_none_or(|scope| scope <= fields.len());
        if !is_possible {
            return Err(TemplateError::Impossible);
        }
        let has_variable_fields = fields.iter().any(|field| field.len == VARIABLE);
        Ok(Template {
            fields,
            scope,
            min_len,
            has_variable_fields,
        })
    }

    pub fn is_options(&self) -> bool {
        self.scope.is_some()
    }

    pub fn scope(&self) -> Option<usize> {
        self.scope
    }

    pub fn fields(&self) -> &[FieldSpecifier] {
        &self.fields
    }

    /// Bytes of memory.
    pub fn size(&self) -> usize {
        size_of::<Template>() + self.fields.len() * size_of::<FieldSpecifier>()
    }

    /// Reads the next record; `None` at the end of the set, whose rest is padding.
    pub fn next_record<'a>(
        &'a self,
        cursor: &mut Cursor<'a>,
    ) -> Option<Result<TemplateRecord<'a>, TemplateError>> {
        if cursor.len() < self.min_len {
            return None;
        }
        if !self.has_variable_fields {
            let bytes = cursor.take(self.min_len)?;
            return Some(Ok(TemplateRecord {
                template: self,
                bytes,
            }));
        }
        let bytes = cursor.rest();
        let mut len = 0;
        for field in &self.fields {
            match field_len(*field, &bytes[len..]) {
                Some((prefix, value)) if prefix + value <= bytes.len() - len => {
                    len += prefix + value
                }
                _ => return Some(Err(TemplateError::Truncated)),
            }
        }
        let bytes = cursor.take(len)?;
        Some(Ok(TemplateRecord {
            template: self,
            bytes,
        }))
    }
}

impl FieldSpecifier {
    fn read(cursor: &mut Cursor<'_>, is_ipfix: bool, is_v9_scope: bool) -> Option<FieldSpecifier> {
        let id = cursor.u16()?;
        let len = cursor.u16()?;
        let is_enterprise = is_ipfix && id & 0x8000 != 0;
        let element = if is_enterprise {
            ElementId {
                enterprise: cursor.u32()?,
                id: id & 0x7fff,
            }
        } else if is_v9_scope {
            ElementId::v9_scope(id)
        } else {
            ElementId { enterprise: 0, id }
        };
        Some(FieldSpecifier { element, len })
    }
}

/// Bytes of the length prefix, and of the value, of a field at the start of `bytes`.
fn field_len(field: FieldSpecifier, bytes: &[u8]) -> Option<(usize, usize)> {
    if field.len != VARIABLE {
        return Some((0, usize::from(field.len)));
    }
    match *bytes {
        [0xff, high, low, ..] => Some((3, usize::from(u16::from_be_bytes([high, low])))),
        [0xff, ..] | [] => None,
        [len, ..] => Some((1, usize::from(len))),
    }
}

/// A record with its template.
#[derive(Clone, Copy, Debug)]
pub struct TemplateRecord<'a> {
    template: &'a Template,
    bytes: &'a [u8],
}

/// A field of a record as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateField<'a> {
    /// Information element.
    pub element: ElementId,
    /// Bytes, without the prefix of a variable length.
    pub value: &'a [u8],
    /// The field is part of the scope of an options record.
    pub is_scope: bool,
}

impl<'a> TemplateRecord<'a> {
    /// The fields in the order of the template, unknown and enterprise elements included.
    pub fn fields(&self) -> impl Iterator<Item = TemplateField<'a>> + use<'a> {
        let mut rest = self.bytes;
        let scope_fields = self.template.scope.unwrap_or(0);
        self.template
            .fields
            .iter()
            .enumerate()
            .map_while(move |(n, field)| {
                let (prefix, len) = field_len(*field, rest)?;
                let value = rest.get(prefix..prefix + len)?;
                rest = &rest[prefix + len..];
                Some(TemplateField {
                    element: field.element,
                    value,
                    is_scope: n < scope_fields,
                })
            })
    }

    /// The first field with this element.
    pub fn field(&self, element: ElementId) -> Option<&'a [u8]> {
        self.fields()
            .find(|field| field.element == element)
            .map(|field| field.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(fields: &[(u16, u16)]) -> Result<Template, TemplateError> {
        let bytes: Vec<u8> = fields
            .iter()
            .flat_map(|(id, len)| [id.to_be_bytes(), len.to_be_bytes()].concat())
            .collect();
        Template::read(&mut Cursor::new(&bytes), fields.len(), None, true)
    }

    fn values<'a>(template: &'a Template, bytes: &'a [u8]) -> Vec<Vec<&'a [u8]>> {
        let mut cursor = Cursor::new(bytes);
        let records = std::iter::from_fn(|| template.next_record(&mut cursor));
        records
            .map_while(Result::ok)
            .map(|record| record.fields().map(|field| field.value).collect())
            .collect()
    }

    #[test]
    fn short_and_long_variable_fields() {
        let template = template(&[(4, 1), (82, VARIABLE)]).expect("a template");
        let bytes = [6, 2, b'e', b'0', 17, 0xff, 0, 1, b'x', 1, 0];
        assert_eq!(
            values(&template, &bytes),
            [[&[6][..], b"e0"], [&[17], b"x"], [&[1], b""]]
        );
    }

    #[test]
    fn padding_is_no_record() {
        let template = template(&[(8, 4)]).expect("a template");
        assert_eq!(values(&template, &[1, 2, 3, 4, 0, 0, 0]).len(), 1);
    }

    #[test]
    fn a_field_beyond_the_set_is_an_error() {
        let template = template(&[(82, VARIABLE)]).expect("a template");
        for bytes in [&[4, 1, 2][..], &[0xff, 1], &[0xff]] {
            let record = template.next_record(&mut Cursor::new(bytes));
            assert_eq!(
                record.map(|record| record.map(|_| ())),
                Some(Err(TemplateError::Truncated)),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn records_without_bytes_are_impossible() {
        assert_eq!(template(&[(8, 0), (12, 0)]), Err(TemplateError::Impossible));
        assert_eq!(template(&[]), Err(TemplateError::Impossible));
    }

    #[test]
    fn a_template_ends_with_its_set() {
        let read = |count| {
            Template::read(
                &mut Cursor::new(&[0, 8, 0, 4, 0x80, 1, 0, 2]),
                count,
                None,
                true,
            )
        };
        assert!(read(1).is_ok());
        assert_eq!(read(2), Err(TemplateError::Truncated));
    }
}
