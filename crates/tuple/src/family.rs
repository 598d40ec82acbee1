//! Columns that a schema has only if a query names them, such as header fields: `request_header.x_request_id`. The
//! schema of a query is the parser's with these columns appended; they are then ordinary columns. Every schema
//! supports two of these for a tuple's [`AgentOrigin`](crate::AgentOrigin): `agent`, and the family `label`.

use std::borrow::Cow;

use crate::facts::ColumnFamily;
use crate::origin::{AGENT, OriginColumn};
use crate::schema::{DataType, Field, FieldId, RedactionRule, Schema, Unit};
use crate::taps::{self, TAPS, TapColumns};

/// Maximum columns that a query may add to a schema.
pub const MEMBERS_MAX: usize = 16;

/// Description of the agent column.
pub const AGENT_DOC: &str = "agent that captured the flow; null without an agent";
/// The agent's labels.
pub const LABELS: ColumnFamily = ColumnFamily {
    name: "label",
    doc: "label of the agent",
    fold: None,
};
/// Families of all schemas.
const OF_ALL: &[ColumnFamily] = &[LABELS];

impl ColumnFamily {
    /// The canonical form of a key; `None` if the family has no such column.
    fn whole_key(&self, key: &str) -> Option<String> {
        let key = ColumnFamily::key(key)?;
        if *self == TAPS {
            taps::key(&key).map(str::to_owned)
        } else {
            Some(key)
        }
    }

    /// The column for a key.
    fn column(&self, key: &str) -> Field {
        Field {
            name: format!("{}.{key}", self.name).into(),
            data_type: DataType::Text,
            unit: Unit::None,
            doc: format!("{}: {key}", self.doc).into(),
            redact: self.fold.map_or(RedactionRule::Keep, RedactionRule::Fold),
        }
    }
}

impl Schema {
    /// The family of a column name, and the part after the period.
    #[must_use]
    pub fn family<'n>(&self, name: &'n str) -> Option<(&'static ColumnFamily, &'n str)> {
        let (family, key) = name.split_once('.')?;
        Some((
            self.families()
                .find(|f| f.name.eq_ignore_ascii_case(family))?,
            key,
        ))
    }

    /// The families of the schema.
    pub fn families(&self) -> impl Iterator<Item = &'static ColumnFamily> + use<> {
        let families: &'static [ColumnFamily] = self.facts.families;
        families.iter().chain(OF_ALL)
    }

    /// The canonical form of a column name, if it belongs to a family.
    #[must_use]
    pub fn member_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match self
            .family(name)
            .and_then(|(family, key)| Some((family, family.whole_key(key)?)))
        {
            Some((family, key)) => format!("{}.{key}", family.name).into(),
            None => name.into(),
        }
    }

    /// Adds the column `name`, if a family supports it and the maximum is not reached.
    pub fn add_member(&mut self, name: &str) {
        let of_taps = |(family, key): (&ColumnFamily, &str)| {
            *family == TAPS && family.whole_key(key).is_some()
        };
        if self.family(name).is_some_and(of_taps) && TapColumns::of(self).is_none() {
            self.fields.extend(taps::fields());
        }
        let member = || {
            self.family(name)
                .and_then(|(f, key)| Some(f.column(&f.whole_key(key)?)))
        };
        let agent = || Field::new(AGENT, DataType::Text, Unit::None, AGENT_DOC);
        let Some(column) = (if name.eq_ignore_ascii_case(AGENT) {
            Some(agent())
        } else {
            member()
        }) else {
            return;
        };
        if self.find(&column.name).is_none() && self.members().count() < MEMBERS_MAX {
            self.fields.push(column);
        }
    }

    /// The canonical column name of a label, if there is one.
    #[must_use]
    pub fn label_column(label: &str) -> Option<String> {
        Some(format!("{}.{}", LABELS.name, ColumnFamily::key(label)?))
    }

    /// The columns for the origin of tuples.
    pub fn origin_columns(&self) -> impl Iterator<Item = (FieldId, OriginColumn<'_>)> {
        self.members().filter_map(|(id, family, key)| match family {
            AGENT => Some((id, OriginColumn::Agent)),
            _ if family == LABELS.name => Some((id, OriginColumn::Label(key))),
            _ => None,
        })
    }

    /// The columns added for a query: position, family name, and key; for the agent's name [`AGENT`] and an empty
    /// key.
    pub fn members(&self) -> impl Iterator<Item = (FieldId, &str, &str)> {
        self.ids().zip(&self.fields).filter_map(|(id, field)| {
            if field.name == AGENT {
                return Some((id, AGENT, ""));
            }
            let (family, key) = self.family(&field.name)?;
            Some((id, family.name, key))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HASH, SchemaFacts};

    const FACTS: SchemaFacts = SchemaFacts {
        families: &[ColumnFamily {
            name: "head",
            doc: "a field of the head",
            fold: Some(HASH),
        }],
        ..SchemaFacts::NONE
    };

    #[test]
    fn a_column_has_one_name_however_it_is_written() {
        let own = [Field::new("status", DataType::U64, Unit::None, "")];
        let mut schema = Schema {
            facts: &FACTS,
            ..Schema::of_parser("t", 1, "", &own, None, None)
        };
        for name in [
            "head.x_id",
            "HEAD.X-Id",
            "head.via",
            "tail.x",
            "head",
            "head.",
            "head.a b",
            "head.ä",
        ] {
            schema.add_member(name);
        }
        let members: Vec<_> = schema
            .members()
            .map(|(id, family, key)| (id.0, family, key))
            .collect();
        let after = crate::common::FIELDS.len() as u16 + 1;
        assert_eq!(
            members,
            [(after, "head", "x_id"), (after + 1, "head", "via")]
        );
        assert_eq!(schema.member_name("Head.X-ID"), "head.x_id");
        assert_eq!(schema.member_name("status"), "status");
    }

    #[test]
    fn columns_of_both_taps_are_combined() {
        const FACTS: SchemaFacts = SchemaFacts {
            families: &[TAPS],
            ..SchemaFacts::NONE
        };
        let mut schema = Schema {
            facts: &FACTS,
            ..Schema::of_parser("t", 1, "", &[], None, None)
        };
        let before = schema.fields.len();
        schema.add_member("tap.other");
        assert_eq!(
            (schema.fields.len(), TapColumns::of(&schema)),
            (before, None)
        );
        ["tap.network_time", "tap.seen", "TAP.client_time_ns"]
            .iter()
            .for_each(|name| schema.add_member(name));
        let names: Vec<_> = schema.fields[before..]
            .iter()
            .map(|field| &*field.name)
            .collect();
        let all = [
            "tap.request",
            "tap.seen",
            "tap.client_time_ns",
            "tap.server_time_ns",
            "tap.network_time_ns",
        ];
        assert_eq!(names, all);
        assert_eq!(
            schema.member_name("tap.network_time"),
            "tap.network_time_ns"
        );
        let columns = TapColumns::of(&schema).expect("they are there");
        assert_eq!(
            &*schema.field(columns.network_time).name,
            "tap.network_time_ns"
        );
        assert!(columns.any(&[columns.request]) && !columns.any(&[FieldId(0)]));
    }

    #[test]
    fn every_schema_can_tell_of_the_origin() {
        let mut schema = Schema::of_parser("t", 1, "", &[], None, None);
        [
            "Agent",
            "label.Rack-Id",
            "LABEL.rack_id",
            "label.",
            "label",
            "head.x",
        ]
        .iter()
        .for_each(|name| schema.add_member(name));
        let columns: Vec<_> = schema
            .origin_columns()
            .map(|(id, column)| (id.0, column))
            .collect();
        let after = crate::common::FIELDS.len() as u16;
        assert_eq!(
            columns,
            [
                (after, OriginColumn::Agent),
                (after + 1, OriginColumn::Label("rack_id"))
            ]
        );
        assert!(
            columns
                .iter()
                .all(|(id, _)| schema.field(FieldId(*id)).redact == RedactionRule::Keep)
        );
    }

    #[test]
    fn members_are_limited() {
        let mut schema = Schema {
            facts: &FACTS,
            ..Schema::of_parser("t", 1, "", &[], None, None)
        };
        (0..100).for_each(|i| schema.add_member(&format!("head.x{i}")));
        assert_eq!(schema.members().count(), MEMBERS_MAX);
    }
}
