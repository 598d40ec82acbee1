//! Resolves field names: with or without their parser, case-insensitive, without `_ns`, or by an alias.

use std::sync::Arc;

use plan::Column;
use tuple::{Field, FieldId, Schema, SchemaFacts};

use super::computed_fields::ComputedFields;
use super::members;
use crate::ast::{Atom, NamedExpr};
use crate::blocks::BLOCKS;
use crate::error::quoted;
use crate::nearest::{did_you_mean, nearest, one_of};
use crate::{Diagnostic, HostResolver};
use crate::{aggregates, aliases, grammar};

/// The scope of names.
#[derive(Clone, Copy)]
pub(super) struct NameScope<'a> {
    /// The query's parsers.
    pub inputs: &'a [Arc<Schema>],
    /// All available parsers.
    known: &'a [Arc<Schema>],
    /// Whether `inputs` contains all names of PARSE; otherwise a name may belong to a missing parser.
    complete: bool,
    /// Restricts the scope to this input.
    only: Option<usize>,
    /// Text of the query.
    pub text: &'a str,
    /// Hosts by name.
    pub hosts: &'a dyn HostResolver,
    /// The computed columns so far.
    pub computing: &'a ComputedFields,
    /// Columns of a statement with names of their own.
    aliases: &'a [NamedExpr],
    /// Kind of its fields.
    of: ScopeKind,
}

/// Kind of the fields of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScopeKind {
    /// Fields of the query's parsers.
    Parsers,
    /// Columns of a processor's results.
    Results,
}

/// A resolved field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResolvedField {
    /// The column.
    pub column: Column,
    /// Whether `_ns` was written, so that a number without unit means nanoseconds.
    pub unit_written: bool,
}

impl<'a> NameScope<'a> {
    pub(super) fn new(
        inputs: &'a [Arc<Schema>],
        known: &'a [Arc<Schema>],
        complete: bool,
        text: &'a str,
        hosts: &'a dyn HostResolver,
        computing: &'a ComputedFields,
    ) -> NameScope<'a> {
        let complete = complete && !inputs.is_empty();
        NameScope {
            inputs,
            known,
            complete,
            only: None,
            text,
            hosts,
            computing,
            aliases: &[],
            of: ScopeKind::Parsers,
        }
    }

    /// The scope of a statement with these named columns.
    pub(super) fn with_aliases(self, aliases: &'a [NamedExpr]) -> NameScope<'a> {
        NameScope { aliases, ..self }
    }

    /// The scope of a processor's results in the same query; not `complete` if it had errors.
    pub(super) fn of_results<'b>(
        self,
        schema: &'b [Arc<Schema>; 1],
        complete: bool,
        computing: &'b ComputedFields,
    ) -> NameScope<'b>
    where
        'a: 'b,
    {
        NameScope {
            inputs: schema,
            known: &[],
            complete,
            only: None,
            computing,
            of: ScopeKind::Results,
            ..self
        }
    }

    /// The scope of another text, with the fields of only one input.
    pub(super) fn only<'b>(self, input: usize, text: &'b str) -> NameScope<'b>
    where
        'a: 'b,
    {
        NameScope {
            only: Some(input),
            text,
            ..self
        }
    }

    /// Whether missing names are certainly missing.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The names of all parsers with a property.
    pub(super) fn parsers_with(
        &self,
        what: impl Fn(&SchemaFacts) -> bool,
    ) -> impl Iterator<Item = &'a str> {
        self.known
            .iter()
            .filter(move |schema| what(schema.facts))
            .map(|schema| schema.name.as_ref())
    }

    /// The field of a column.
    pub(super) fn field(&self, column: Column) -> &'a Field {
        if let Some(place) = column.computed_place() {
            return self.computing.field(place);
        }
        self.inputs[usize::from(column.input)].field(column.field)
    }

    /// Parser and field name.
    pub(super) fn full_name(&self, column: Column) -> String {
        if column.computed_place().is_some() {
            return self.field(column).name.to_string();
        }
        format!(
            "{}.{}",
            self.inputs[usize::from(column.input)].name,
            self.field(column).name
        )
    }

    /// The first input's field with exactly this name.
    pub(super) fn exact(&self, name: &str) -> Option<Column> {
        self.searched()
            .find_map(|(i, schema)| schema.find(name).map(|field| column(i, field)))
    }

    /// Resolves `name`. The error is `None` if an error about PARSE is sufficient.
    pub(super) fn find(&self, name: &Atom) -> Result<ResolvedField, Option<Diagnostic>> {
        if self.of == ScopeKind::Parsers
            && self
                .searched()
                .any(|(_, schema)| schema.family(&name.text).is_some())
        {
            return self.member(name);
        }
        match name
            .text
            .split_once('.')
            .filter(|_| self.of == ScopeKind::Parsers)
        {
            Some((parser, field)) => self.qualified(name, parser, field),
            None => self.unqualified(name),
        }
    }

    /// Resolves a column of a family.
    fn member(&self, name: &Atom) -> Result<ResolvedField, Option<Diagnostic>> {
        let found = self
            .searched()
            .find_map(|(i, schema)| by_name(i, schema, &name.text));
        found.ok_or_else(|| Some(members::missing(name, &name.text)))
    }

    fn unqualified(&self, name: &Atom) -> Result<ResolvedField, Option<Diagnostic>> {
        let by_name = self
            .searched()
            .find_map(|(i, schema)| by_name(i, schema, &name.text));
        let by_alias = || {
            self.searched()
                .find_map(|(i, schema)| by_alias(i, schema, &name.text))
        };
        let by_unit = || {
            (self.of == ScopeKind::Results)
                .then(|| without_unit(&self.inputs[0], &name.text))
                .flatten()
        };
        by_name
            .or_else(by_unit)
            .or_else(by_alias)
            .ok_or_else(|| self.complete.then(|| self.unknown(name)))
    }

    fn qualified(
        &self,
        name: &Atom,
        parser: &str,
        field: &str,
    ) -> Result<ResolvedField, Option<Diagnostic>> {
        let is_it = |schema: &Arc<Schema>| schema.name.eq_ignore_ascii_case(parser);
        if let Some((i, schema)) = self.searched().find(|(_, s)| is_it(s)) {
            let found = by_name(i, schema, field).or_else(|| by_alias(i, schema, field));
            return found.ok_or_else(|| {
                Some(match schema.family(field) {
                    Some(_) => members::missing(name, field),
                    None => no_field(name, field, schema),
                })
            });
        }
        let of_other_tools = || {
            let fields = aliases::called(&name.text);
            let is_here = |field: &&&str| self.inputs.iter().any(|s| s.find(field).is_some());
            Some(format!("did you mean `{}`?", fields.iter().find(is_here)?))
        };
        let error = Diagnostic::new(
            name.span,
            format!("the query has no parser {}", quoted(parser)),
        );
        let own = || did_you_mean(parser, self.inputs.iter().map(|s| s.name.as_ref()));
        let hint = match self.known.iter().find(|s| is_it(s)) {
            Some(other) => Some(format!(
                "add it: PARSE {}, {} …",
                one_name(self.inputs),
                other.name
            )),
            None => of_other_tools()
                .or_else(|| self.elsewhere(&name.text))
                .or_else(own),
        };
        Err(self.complete.then(|| error.maybe_hint(hint)))
    }

    fn searched(&self) -> impl Iterator<Item = (usize, &'a Arc<Schema>)> + use<'a> {
        let only = self.only;
        self.inputs
            .iter()
            .enumerate()
            .filter(move |(i, _)| only.is_none_or(|o| o == *i))
    }

    fn unknown(&self, name: &Atom) -> Diagnostic {
        if self.of == ScopeKind::Results {
            return no_column(name, &self.inputs[0]);
        }
        if let Some(hint) = self.of_alias(&name.text) {
            let message = format!("{} is a column of SELECT", quoted(&name.text));
            return Diagnostic::new(name.span, message).hint(hint);
        }
        if name.text.eq_ignore_ascii_case("count") && grammar::is_sql(self.text) {
            let error = Diagnostic::new(name.span, "`count` is an aggregate, not a field");
            return error.hint("write count(*)");
        }
        if let [schema] = self.inputs {
            let error = no_field(name, &name.text, schema);
            let is_renamed = called_here(&name.text, schema).is_some();
            return match self.elsewhere(&name.text).filter(|_| !is_renamed) {
                Some(hint) => Diagnostic {
                    expected: None,
                    hint: Some(hint),
                    ..error
                },
                None => error,
            };
        }
        let error = Diagnostic::new(
            name.span,
            format!("no parser of the query has a field {}", quoted(&name.text)),
        );
        let fields = || {
            self.inputs
                .iter()
                .flat_map(|s| &s.fields)
                .map(|f| f.name.as_ref())
        };
        let hint = self
            .elsewhere(&name.text)
            .or_else(|| did_you_mean(&name.text, fields()));
        error.maybe_hint(hint)
    }

    /// A hint if a column of the statement has the name.
    fn of_alias(&self, name: &str) -> Option<String> {
        let is_it = |named: &&NamedExpr| {
            let own = named.name.as_ref();
            own.is_some_and(|own| own.text.eq_ignore_ascii_case(name))
        };
        let expr = &self.aliases.iter().find(is_it)?.expr;
        let has_aggregate = aggregates::calls(expr).next().is_some();
        Some(if has_aggregate {
            format!(
                "WHERE selects tuples, before aggregates: write the condition on {name} after HAVING"
            )
        } else {
            format!(
                "WHERE knows fields only: write {}",
                &self.text[expr.span.range()]
            )
        })
    }

    /// A hint if another parser has the field.
    fn elsewhere(&self, name: &str) -> Option<String> {
        let has_it = |s: &&Arc<Schema>| by_name(0, s, name).is_some() || s.family(name).is_some();
        self.known
            .iter()
            .find(has_it)
            .map(|s| format!("{} has it", quoted(&s.name)))
    }
}

fn one_name(inputs: &[Arc<Schema>]) -> &str {
    inputs.first().map_or("", |s| s.name.as_ref())
}

fn column(input: usize, field: FieldId) -> Column {
    Column {
        input: input as u16,
        field,
    }
}

fn by_name(input: usize, schema: &Schema, name: &str) -> Option<ResolvedField> {
    let name = &*schema.member_name(name);
    let found = |called: &str| {
        schema
            .fields
            .iter()
            .position(|f| f.name.eq_ignore_ascii_case(called))
    };
    let (place, unit_written) = match (schema.find(name), found(name)) {
        (Some(exact), _) => (exact, true),
        (None, Some(place)) => (FieldId(place as u16), true),
        (None, None) => (FieldId(found(&format!("{name}_ns"))? as u16), false),
    };
    Some(ResolvedField {
        column: column(input, place),
        unit_written,
    })
}

fn by_alias(input: usize, schema: &Schema, name: &str) -> Option<ResolvedField> {
    let field = aliases::meant_by(name)
        .iter()
        .find_map(|field| schema.find(field))?;
    Some(ResolvedField {
        column: column(input, field),
        unit_written: true,
    })
}

/// A result column named without its unit.
fn without_unit(schema: &Schema, name: &str) -> Option<ResolvedField> {
    let place = schema
        .fields
        .iter()
        .position(|field| names_result(name, field))?;
    Some(ResolvedField {
        column: column(0, FieldId(place as u16)),
        unit_written: false,
    })
}

/// Whether a name refers to a result column; the unit may be omitted, and `baseline.p99` is `baseline_p99_ns`.
pub(super) fn names_result(name: &str, field: &Field) -> bool {
    let name = &name.replace('.', "_");
    let bare = ["_ns", "_bytes"]
        .iter()
        .find_map(|unit| field.name.strip_suffix(unit));
    field.name.eq_ignore_ascii_case(name)
        || bare.is_some_and(|bare| bare.eq_ignore_ascii_case(name))
}

/// The error for an unknown result column.
fn no_column(name: &Atom, schema: &Schema) -> Diagnostic {
    let message = format!(
        "the results of {} have no column {}",
        quoted(&schema.name),
        quoted(&name.text)
    );
    let error = Diagnostic::new(name.span, message);
    let columns = || schema.fields.iter().map(|f| f.name.as_ref());
    let word = name.text.to_ascii_lowercase();
    let percent = word
        .strip_prefix('p')
        .filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    let missing = match percent {
        Some(percent) => Some(format!(
            "the block `quantile` with q=0.{percent} computes it"
        )),
        None => BLOCKS
            .iter()
            .find(|b| b.block.is_aggregate() && b.name == word)
            .map(|b| format!("the block `{}` computes it", b.name)),
    };
    match did_you_mean(&name.text, columns()).filter(|_| missing.is_none()) {
        Some(hint) => error.hint(hint),
        None => error.expected(one_of(columns())).maybe_hint(missing),
    }
}

/// The field of a schema that other tools call `name`.
fn called_here(name: &str, schema: &Schema) -> Option<&'static str> {
    let is_here = |field: &&str| schema.find(field).is_some();
    aliases::called(name)
        .iter()
        .copied()
        .find(|field| is_here(field))
}

fn no_field(name: &Atom, field: &str, schema: &Schema) -> Diagnostic {
    let error = Diagnostic::new(
        name.span,
        format!("parser `{}` has no field {}", schema.name, quoted(field)),
    );
    let fields = || schema.fields.iter().map(|f| f.name.as_ref());
    let named_otherwise = called_here(&name.text, schema).or_else(|| called_here(field, schema));
    match named_otherwise.or_else(|| nearest(field, fields())) {
        Some(meant) => error.hint(format!("did you mean `{meant}`?")),
        // The parser's own fields are last and the most informative.
        None => error
            .maybe_hint(members::hint(field, schema))
            .expected(one_of(
                fields()
                    .skip(tuple::common::FIELDS.len())
                    .chain(fields().take(2)),
            )),
    }
}
