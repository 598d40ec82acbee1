//! Columns that a schema has only where a query names them, as the fields of a message's head: `request_header.x_request_id`.
//! A query's schema is the parser's with those columns behind its own; from there on they are columns like any other.

use std::borrow::Cow;

use crate::facts::Family;
use crate::schema::{DataType, Field, FieldId, Redact, Schema, Unit};
use crate::taps::{self, TAPS, TapColumns};

/// Most columns that one query may add to a schema.
pub const MEMBERS_MAX: usize = 16;

impl Family {
    /// A key in the one way to write it; `None`: the family has no such column.
    fn whole_key(&self, key: &str) -> Option<String> {
        let key = Family::key(key)?;
        if *self == TAPS { taps::key(&key).map(str::to_owned) } else { Some(key) }
    }

    /// The column of a key.
    fn column(&self, key: &str) -> Field {
        Field {
            name: format!("{}.{key}", self.name).into(),
            data_type: DataType::Text,
            unit: Unit::None,
            doc: format!("{}: {key}", self.doc).into(),
            redact: Redact::Fold(self.fold),
        }
    }
}

impl Schema {
    /// The family that a column's name belongs to, and what follows the point.
    #[must_use]
    pub fn family<'n>(&self, name: &'n str) -> Option<(&'static Family, &'n str)> {
        let (family, key) = name.split_once('.')?;
        let families: &'static [Family] = self.facts.families;
        Some((families.iter().find(|f| f.name.eq_ignore_ascii_case(family))?, key))
    }

    /// A column's name in the one way to write it, if it is of a family.
    #[must_use]
    pub fn member_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match self.family(name).and_then(|(family, key)| Some((family, family.whole_key(key)?))) {
            Some((family, key)) => format!("{}.{key}", family.name).into(),
            None => name.into(),
        }
    }

    /// The same schema with the column `name`, if a family has it and there is room.
    pub fn add_member(&mut self, name: &str) {
        let Some((family, key)) = self.family(name).and_then(|(f, key)| Some((f, f.whole_key(key)?))) else {
            return;
        };
        if *family == TAPS {
            if TapColumns::of(self).is_none() {
                self.fields.extend(taps::fields());
            }
            return;
        }
        let column = family.column(&key);
        if self.find(&column.name).is_none() && self.members().count() < MEMBERS_MAX {
            self.fields.push(column);
        }
    }

    /// The columns of families: where they are, the family's name and the key.
    pub fn members(&self) -> impl Iterator<Item = (FieldId, &str, &str)> {
        self.ids().zip(&self.fields).filter_map(|(id, field)| {
            let (family, key) = self.family(&field.name)?;
            Some((id, family.name, key))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Facts, HASH};

    const FACTS: Facts =
        Facts { families: &[Family { name: "head", doc: "a field of the head", fold: HASH }], ..Facts::NONE };

    #[test]
    fn a_column_has_one_name_however_it_is_written() {
        let own = [Field::new("status", DataType::U64, Unit::None, "")];
        let mut schema = Schema { facts: &FACTS, ..Schema::of_parser("t", 1, "", &own, None, None) };
        for name in ["head.x_id", "HEAD.X-Id", "head.via", "tail.x", "head", "head.", "head.a b", "head.ä"] {
            schema.add_member(name);
        }
        let members: Vec<_> = schema.members().map(|(id, family, key)| (id.0, family, key)).collect();
        let after = crate::common::FIELDS.len() as u16 + 1;
        assert_eq!(members, [(after, "head", "x_id"), (after + 1, "head", "via")]);
        assert_eq!(schema.member_name("Head.X-ID"), "head.x_id");
        assert_eq!(schema.member_name("status"), "status");
    }

    #[test]
    fn what_two_taps_measured_comes_together() {
        const FACTS: Facts = Facts { families: &[TAPS], ..Facts::NONE };
        let mut schema = Schema { facts: &FACTS, ..Schema::of_parser("t", 1, "", &[], None, None) };
        let before = schema.fields.len();
        schema.add_member("tap.other");
        assert_eq!((schema.fields.len(), TapColumns::of(&schema)), (before, None));
        ["tap.network_time", "tap.seen", "TAP.client_time_ns"]
            .iter()
            .for_each(|name| schema.add_member(name));
        let names: Vec<_> = schema.fields[before..].iter().map(|field| &*field.name).collect();
        let all =
            ["tap.request", "tap.seen", "tap.client_time_ns", "tap.server_time_ns", "tap.network_time_ns"];
        assert_eq!(names, all);
        assert_eq!(schema.member_name("tap.network_time"), "tap.network_time_ns");
        let columns = TapColumns::of(&schema).expect("they are there");
        assert_eq!(&*schema.field(columns.network_time).name, "tap.network_time_ns");
        assert!(columns.any(&[columns.request]) && !columns.any(&[FieldId(0)]));
    }

    #[test]
    fn there_is_an_end_to_them() {
        let mut schema = Schema { facts: &FACTS, ..Schema::of_parser("t", 1, "", &[], None, None) };
        (0..100).for_each(|i| schema.add_member(&format!("head.x{i}")));
        assert_eq!(schema.members().count(), MEMBERS_MAX);
    }
}
