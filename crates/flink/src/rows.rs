//! Result of a statement: rows of text.

use serde_json::Value;

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatementRows {
    /// Column names.
    pub columns: Vec<String>,
    /// Text per column; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Job started by the statement.
    pub job: Option<String>,
}

impl StatementRows {
    /// Index of a column.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// First value of the first row.
    #[must_use]
    pub fn first(&self) -> Option<&str> {
        self.rows.first()?.first()?.as_deref()
    }

    /// Adds the rows of a page.
    pub(crate) fn take_in(&mut self, page: &Value) {
        if let Some(job) = page["jobID"].as_str() {
            self.job = Some(job.to_owned());
        }
        let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
        if self.columns.is_empty() {
            let names = list(&page["results"]["columns"]);
            self.columns = names
                .iter()
                .filter_map(|column| Some(column["name"].as_str()?.to_owned()))
                .collect();
        }
        for row in list(&page["results"]["data"]) {
            self.rows
                .push(list(&row["fields"]).iter().map(text).collect());
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
