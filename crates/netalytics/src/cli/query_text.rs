//! The query of a command: reads its text from the command line or a file, parses and checks it.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use query::{CheckedQuery, Diagnostic, ParsedText};

use crate::cli::flags::{QueryText, WorkFlags};
use crate::process::failure::{UsageError, wrong_flags};
use crate::render::hosts::{self, HostNames, TrackedHostTable};

/// Maximum bytes read of a query file; the language has a lower limit.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The query of a command, read and parsed once.
pub struct CommandQuery(ParsedText);

/// A checked query, with the host names that were used.
#[derive(Clone)]
pub struct ResolvedQuery {
    /// The query.
    pub checked: CheckedQuery,
    /// Host names.
    pub names: HostNames,
}

impl CommandQuery {
    /// Reads the query of the flags.
    pub fn read(flags: &QueryText) -> anyhow::Result<CommandQuery> {
        match (&flags.query, &flags.query_file) {
            (Some(text), _) => Ok(CommandQuery::new(text)),
            (None, Some(path)) => Ok(CommandQuery::new(&from_file(path)?)),
            (None, None) => Err(wrong_flags("no query: specify QUERY in quotes, or -f FILE")),
        }
    }

    /// A query with this text.
    pub fn new(text: &str) -> CommandQuery {
        CommandQuery(ParsedText::new(text))
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.text()
    }

    /// The text with its syntax tree.
    pub fn parsed(&self) -> &ParsedText {
        &self.0
    }

    /// Whether the query has SINCE.
    pub fn has_since(&self) -> bool {
        self.0.ast().since.is_some()
    }

    /// Whether the query has BASELINE.
    pub fn has_baseline(&self) -> bool {
        self.0.ast().baseline.is_some()
    }

    /// Checks the query for a run. In a network, BUDGET is allowed and hosts must be known names.
    pub fn resolve(&self, flags: &WorkFlags) -> anyhow::Result<ResolvedQuery> {
        let mut names = hosts::read(flags.text.hosts.as_deref())?;
        let checked = match &flags.network.network {
            None => self.check(&mut names, &flags.read)?,
            Some(_) => self.check_for_network(&names)?,
        };
        Ok(ResolvedQuery { checked, names })
    }

    /// Checks the query; the error lists all positions. A host missing in `names` is looked up in the captures, whose
    /// names are added.
    pub fn check(
        &self,
        names: &mut HostNames,
        captures: &[PathBuf],
    ) -> anyhow::Result<CheckedQuery> {
        let schemas = parsers::registry::schemas();
        let asked = TrackedHostTable::new(&names.addresses);
        let mut checked = self.0.check(&schemas, &asked);
        if asked.missed.get() {
            hosts::add_those_of_captures(captures, names);
            checked = self.0.check(&schemas, &names.addresses);
        }
        checked.map_err(|errors| self.refused(&errors))
    }

    /// Checks the query for a network, where BUDGET is allowed. Hosts must be known names.
    pub fn check_for_network(&self, names: &HostNames) -> anyhow::Result<CheckedQuery> {
        let checked = self
            .0
            .check_for_network(&parsers::registry::schemas(), &names.addresses);
        checked.map_err(|errors| self.refused(&errors))
    }

    /// The query as this program understands it, without host names; a server's check is authoritative.
    pub fn check_for_server(&self, in_network: bool) -> Option<CheckedQuery> {
        let schemas = parsers::registry::schemas();
        if in_network {
            self.0.check_for_network(&schemas, &()).ok()
        } else {
            self.0.check(&schemas, &()).ok()
        }
    }

    fn refused(&self, errors: &[Diagnostic]) -> anyhow::Error {
        UsageError::Query(query::render(errors, self.text())).into()
    }
}

fn from_file(path: &Path) -> anyhow::Result<String> {
    let name = path.display();
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(FILE_BYTES_MAX)
            .read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|f| f.take(FILE_BYTES_MAX).read_to_end(&mut bytes))
    }
    .with_context(|| format!("cannot read the query from {name}"))?;
    String::from_utf8(bytes).map_err(|_| wrong_flags(format!("the query in {name} is not UTF-8")))
}
