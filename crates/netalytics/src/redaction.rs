//! Redaction as the person who runs the program meets it: where its key comes from, and what a query over redacted tuples
//! cannot find.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use plan::{Column, Computed, Dataflow, Predicate};
use recording::Head;
use tuple::{Redact, Secret};

use crate::failure::wrong_flags;
use crate::output;

/// The key in a file, or one that nobody knows.
pub fn secret(file: Option<&Path>) -> anyhow::Result<Secret> {
    let mut key = [0; 16];
    let Some(path) = file else {
        let random = Path::new("/dev/urandom");
        let read = File::open(random).and_then(|mut random| random.read_exact(&mut key));
        read.with_context(|| format!("cannot read {}", random.display()))?;
        return Ok(Secret::new(&key));
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let digits = text.trim();
    let number = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 32);
    let number = number.ok_or_else(|| {
        wrong_flags(format!(
            "{} is no key: 32 hexadecimal digits are wanted, as `openssl rand -hex 16` gives them",
            path.display()
        ))
    })?;
    Ok(Secret::new(&number.to_be_bytes()))
}

/// Says what may surprise in the answer over files with these heads.
pub fn mention<'a>(dataflow: &Dataflow, heads: impl Iterator<Item = &'a Head>) {
    let mut keys: Vec<Option<u64>> = heads.map(|head| head.redacted).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.iter().all(Option::is_none) {
        return;
    }
    let field = |column: Column| dataflow.inputs[usize::from(column.input)].schema.field(column.field);
    let mut compared = Vec::new();
    let filters = dataflow.inputs.iter().map(|input| &input.filter).chain([&dataflow.filter]);
    let mut add = |column| Computed::sources(&dataflow.computed, column, &mut |column| compared.push(column));
    filters.flatten().for_each(|filter| compared_by(filter, &mut add));
    compared.retain(|column| field(*column).redact != Redact::Keep);
    if let Some(column) = compared.first() {
        output::complain(&format!(
            "note: {} was redacted when it was recorded; WHERE sees what is left of it",
            field(*column).name
        ));
    }
    let mut inputs = dataflow.inputs.iter();
    let reads = inputs.any(|i| i.columns.iter().any(|id| i.schema.field(*id).redact != Redact::Keep));
    if reads && keys.len() > 1 {
        output::complain(
            "note: parts of the recording were redacted with different keys, or not at all: one text has several hashes \
             there (--redact-key keeps them the same)",
        );
    }
}

fn compared_by(predicate: &Predicate, add: &mut dyn FnMut(Column)) {
    match predicate {
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().for_each(|part| compared_by(part, add)),
        Predicate::Not(part) => compared_by(part, add),
        Predicate::IsNull(_) => {}
        compares => compares.columns(add),
    }
}
