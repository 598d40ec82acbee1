//! What goes wrong with records, told with its place, the first few times; and why reading has ended before its time.

use crate::summary::InputError;

/// Maximum problems reported; counters have their total number.
const TOLD_MAX: usize = 10;

/// See the module's text.
#[derive(Default)]
pub struct Problems {
    of_records: Vec<(String, String)>,
    /// Why nothing more was read, though there is more.
    end: Option<(String, String)>,
}

impl Problems {
    /// Something is wrong with a record.
    pub fn note(&mut self, place: impl Into<String>, why: impl ToString) {
        if self.of_records.len() < TOLD_MAX {
            self.of_records.push((place.into(), why.to_string()));
        }
    }

    /// Nothing more is read, though there is more.
    pub fn end(&mut self, place: &str, why: impl ToString) {
        self.end.get_or_insert_with(|| (place.to_owned(), why.to_string()));
    }

    /// Whether nothing went wrong.
    pub fn is_empty(&self) -> bool {
        self.of_records.is_empty() && self.end.is_none()
    }

    /// Why nothing more was read, if there is more.
    pub fn cut_short(&self) -> Option<String> {
        self.end.as_ref().map(|(place, why)| format!("{place}: {why}"))
    }

    /// For the summary.
    pub fn told(&self) -> Vec<InputError> {
        let told = |(place, why): &(String, String)| InputError {
            path: place.clone(),
            offset: None,
            text: format!("{place}: {why}"),
            after_packets: 0,
        };
        self.of_records.iter().chain(&self.end).map(told).collect()
    }
}
