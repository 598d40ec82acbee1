//! What a statement gives: a few rows of text.

use serde_json::Value;

/// See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The columns' names.
    pub columns: Vec<String>,
    /// A text for each column; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// The job that the statement has started.
    pub job: Option<String>,
}

impl Rows {
    /// A column's place.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The first row's first value.
    #[must_use]
    pub fn first(&self) -> Option<&str> {
        self.rows.first()?.first()?.as_deref()
    }

    /// Takes in what a page of the result holds.
    pub(crate) fn take_in(&mut self, page: &Value) {
        if let Some(job) = page["jobID"].as_str() {
            self.job = Some(job.to_owned());
        }
        let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
        if self.columns.is_empty() {
            let names = list(&page["results"]["columns"]);
            self.columns =
                names.iter().filter_map(|column| Some(column["name"].as_str()?.to_owned())).collect();
        }
        for row in list(&page["results"]["data"]) {
            self.rows.push(list(&row["fields"]).iter().map(text).collect());
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
