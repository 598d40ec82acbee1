//! Fields by name: with or without their parser's, in any case, with `_ns` left off, or by an alias.

use std::sync::Arc;

use plan::Column;
use tuple::{Facts, Field, FieldId, Schema};

use crate::Diagnostic;
use crate::aliases;
use crate::ast::Atom;
use crate::error::quoted;
use crate::nearest::{did_you_mean, nearest, one_of};

/// Where names are looked up.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    /// The query's parsers.
    pub inputs: &'a [Arc<Schema>],
    /// All parsers there are.
    known: &'a [Arc<Schema>],
    /// Whether every name of PARSE is in `inputs`; else a name may belong to one that is not.
    complete: bool,
    /// Look at this input only.
    only: Option<usize>,
}

/// A field that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// Which.
    pub column: Column,
    /// Whether `_ns` was written, so that a bare number can only mean nanoseconds.
    pub unit_written: bool,
}

impl<'a> Scope<'a> {
    pub(super) fn new(inputs: &'a [Arc<Schema>], known: &'a [Arc<Schema>], complete: bool) -> Scope<'a> {
        Scope { inputs, known, complete: complete && !inputs.is_empty(), only: None }
    }

    /// The same, with the fields of one input only.
    pub(super) fn only(self, input: usize) -> Scope<'a> {
        Scope { only: Some(input), ..self }
    }

    /// Whether what is missing is really missing.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The names of all parsers that know something of their tuples.
    pub(super) fn who_know(&self, what: impl Fn(&Facts) -> bool) -> impl Iterator<Item = &'a str> {
        self.known.iter().filter(move |schema| what(schema.facts)).map(|schema| schema.name.as_ref())
    }

    /// The field of a column.
    pub(super) fn field(&self, column: Column) -> &'a Field {
        self.inputs[usize::from(column.input)].field(column.field)
    }

    /// Parser and field.
    pub(super) fn full_name(&self, column: Column) -> String {
        format!("{}.{}", self.inputs[usize::from(column.input)].name, self.field(column).name)
    }

    /// The field of the first input that has it by this very name.
    pub(super) fn exact(&self, name: &str) -> Option<Column> {
        self.searched().find_map(|(i, schema)| schema.find(name).map(|field| column(i, field)))
    }

    /// The field called `name`. The error is `None` where one about PARSE says enough.
    pub(super) fn find(&self, name: &Atom) -> Result<Named, Option<Diagnostic>> {
        match name.text.split_once('.') {
            Some((parser, field)) => self.qualified(name, parser, field),
            None => self.unqualified(name),
        }
    }

    fn unqualified(&self, name: &Atom) -> Result<Named, Option<Diagnostic>> {
        let by_name = self.searched().find_map(|(i, schema)| by_name(i, schema, &name.text));
        let by_alias = || self.searched().find_map(|(i, schema)| by_alias(i, schema, &name.text));
        by_name.or_else(by_alias).ok_or_else(|| self.complete.then(|| self.unknown(name)))
    }

    fn qualified(&self, name: &Atom, parser: &str, field: &str) -> Result<Named, Option<Diagnostic>> {
        let is_it = |schema: &Arc<Schema>| schema.name.eq_ignore_ascii_case(parser);
        if let Some((i, schema)) = self.searched().find(|(_, s)| is_it(s)) {
            let found = by_name(i, schema, field).or_else(|| by_alias(i, schema, field));
            return found.ok_or_else(|| Some(no_field(name, field, schema)));
        }
        let error = Diagnostic::new(name.span, format!("the query has no parser {}", quoted(parser)));
        let own = || did_you_mean(parser, self.inputs.iter().map(|s| s.name.as_ref()));
        let hint = match self.known.iter().find(|s| is_it(s)) {
            Some(other) => Some(format!("add it: PARSE {}, {} …", one_name(self.inputs), other.name)),
            None => own(),
        };
        Err(self.complete.then(|| error.maybe_hint(hint)))
    }

    fn searched(&self) -> impl Iterator<Item = (usize, &'a Arc<Schema>)> + use<'a> {
        let only = self.only;
        self.inputs.iter().enumerate().filter(move |(i, _)| only.is_none_or(|o| o == *i))
    }

    fn unknown(&self, name: &Atom) -> Diagnostic {
        if let [schema] = self.inputs {
            let error = no_field(name, &name.text, schema);
            return match self.elsewhere(&name.text) {
                Some(hint) => Diagnostic { expected: None, hint: Some(hint), ..error },
                None => error,
            };
        }
        let error =
            Diagnostic::new(name.span, format!("no parser of the query has a field {}", quoted(&name.text)));
        let fields = || self.inputs.iter().flat_map(|s| &s.fields).map(|f| f.name.as_ref());
        let hint = self.elsewhere(&name.text).or_else(|| did_you_mean(&name.text, fields()));
        error.maybe_hint(hint)
    }

    /// A hint when a parser that the query does not use has the field.
    fn elsewhere(&self, name: &str) -> Option<String> {
        let has_it = |s: &&Arc<Schema>| by_name(0, s, name).is_some();
        self.known.iter().find(has_it).map(|s| format!("{} has it", quoted(&s.name)))
    }
}

fn one_name(inputs: &[Arc<Schema>]) -> &str {
    inputs.first().map_or("", |s| s.name.as_ref())
}

fn column(input: usize, field: FieldId) -> Column {
    Column { input: input as u16, field }
}

fn by_name(input: usize, schema: &Schema, name: &str) -> Option<Named> {
    let found = |called: &str| schema.fields.iter().position(|f| f.name.eq_ignore_ascii_case(called));
    let (place, unit_written) = match (schema.find(name), found(name)) {
        (Some(exact), _) => (exact, true),
        (None, Some(place)) => (FieldId(place as u16), true),
        (None, None) => (FieldId(found(&format!("{name}_ns"))? as u16), false),
    };
    Some(Named { column: column(input, place), unit_written })
}

fn by_alias(input: usize, schema: &Schema, name: &str) -> Option<Named> {
    let field = aliases::meant_by(name).iter().find_map(|field| schema.find(field))?;
    Some(Named { column: column(input, field), unit_written: true })
}

fn no_field(name: &Atom, field: &str, schema: &Schema) -> Diagnostic {
    let error =
        Diagnostic::new(name.span, format!("parser `{}` has no field {}", schema.name, quoted(field)));
    let fields = || schema.fields.iter().map(|f| f.name.as_ref());
    let named_otherwise = aliases::called(field).iter().copied().find(|name| schema.find(name).is_some());
    match named_otherwise.or_else(|| nearest(field, fields())) {
        Some(meant) => error.hint(format!("did you mean `{meant}`?")),
        // The parser's own fields come last and tell the most.
        None => error.expected(one_of(fields().skip(tuple::common::FIELDS.len()).chain(fields().take(2)))),
    }
}
