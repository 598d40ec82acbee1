//! The modules at the root of a crate, and which of them imports which.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{Source, uses};

/// An import of one room by a file of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoomImport {
    /// The importing room.
    pub from: String,
    /// The imported room.
    pub to: String,
    /// The importing file.
    pub file: PathBuf,
}

/// Names of the modules at the root.
pub fn root_modules(sources: &[Source]) -> BTreeSet<String> {
    sources.iter().filter_map(|source| source.module.first().cloned()).collect()
}

/// Imports between modules at the root; re-exports do not count. The file at the root is in none.
pub fn room_imports(sources: &[Source]) -> BTreeSet<RoomImport> {
    let between = |(from, to): (usize, usize)| {
        let source = &sources[from];
        let (from, to) = (source.module.first()?, sources[to].module.first()?);
        let import = RoomImport { from: from.clone(), to: to.clone(), file: source.path.clone() };
        (from != to).then_some(import)
    };
    uses(sources, false).into_iter().filter_map(between).collect()
}
