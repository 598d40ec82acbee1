//! The origin of tuples: the agent that runs the monitor, and its labels. It is the same for all tuples of a monitor,
//! so no parser writes it: a [`crate::TupleWriter`] fills the columns as a whole if a query names them.

use std::collections::BTreeMap;

use crate::{ColumnFamily, Schema};

/// The column with the name of the agent.
pub const AGENT: &str = "agent";

/// The agent that produced tuples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentOrigin {
    /// The agent's name; `None` without an agent.
    pub agent: Option<String>,
    /// Labels by name.
    pub labels: BTreeMap<String, String>,
}

/// A column for the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginColumn<'n> {
    /// `agent`.
    Agent,
    /// `label.NAME`, with the label's name in the form of [`ColumnFamily::key`].
    Label(&'n str),
}

impl AgentOrigin {
    /// The value of a column; `None` if the agent has no such label. Label names are compared ignoring case, with `-`
    /// equal to `_`.
    #[must_use]
    pub fn value(&self, column: OriginColumn<'_>) -> Option<&str> {
        match column {
            OriginColumn::Agent => self.agent.as_deref(),
            OriginColumn::Label(key) => {
                let is_it = |name: &str| ColumnFamily::key(name).is_some_and(|name| name == key);
                self.labels
                    .iter()
                    .find(|(name, _)| is_it(name))
                    .map(|(_, value)| value.as_str())
            }
        }
    }

    /// The columns for all properties of the origin; labels that cannot be named in a query are skipped.
    pub fn columns(&self) -> impl Iterator<Item = String> {
        let agent = self.agent.iter().map(|_| AGENT.to_owned());
        let labels = self
            .labels
            .keys()
            .filter_map(|name| Schema::label_column(name));
        agent.chain(labels)
    }
}
