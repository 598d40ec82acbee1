//! Where tuples come from: the agent whose monitor has found them, and that agent's labels. It is the same for all tuples of a
//! monitor, so no parser writes it: a [`crate::TupleWriter`] fills whole columns with it, where a query names them.

use std::collections::BTreeMap;

use crate::{Family, Schema};

/// The column that says which agent has found a tuple.
pub const AGENT: &str = "agent";

/// Who has found tuples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The agent's name; none where no agent has taken part.
    pub agent: Option<String>,
    /// Labels by name.
    pub labels: BTreeMap<String, String>,
}

/// A column that tells of the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginColumn<'n> {
    /// `agent`.
    Agent,
    /// `label.NAME`: the label's name as [`Family::key`] writes it.
    Label(&'n str),
}

impl Origin {
    /// What a column says; null where the agent has no such label. Names of labels differ in no more than case and `-` or `_`.
    #[must_use]
    pub fn value(&self, column: OriginColumn<'_>) -> Option<&str> {
        match column {
            OriginColumn::Agent => self.agent.as_deref(),
            OriginColumn::Label(key) => {
                let is_it = |name: &str| Family::key(name).is_some_and(|name| name == key);
                self.labels.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value.as_str())
            }
        }
    }

    /// The columns that say all of it; labels whose names no query can write are left out.
    pub fn columns(&self) -> impl Iterator<Item = String> {
        let agent = self.agent.iter().map(|_| AGENT.to_owned());
        let labels = self.labels.keys().filter_map(|name| Schema::label_column(name));
        agent.chain(labels)
    }
}
