//! What goes wrong with records: told with its place, the first few times.

use crate::summary::InputError;

/// So many are told; how often it went wrong is counted elsewhere.
const TOLD_MAX: usize = 10;

/// See the module's text.
#[derive(Default)]
pub struct Problems(Vec<(String, String)>);

impl Problems {
    /// Something went wrong somewhere.
    pub fn note(&mut self, place: impl Into<String>, why: impl ToString) {
        if self.0.len() < TOLD_MAX {
            self.0.push((place.into(), why.to_string()));
        }
    }

    /// Whether nothing did.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For the summary.
    pub fn told(&self) -> Vec<InputError> {
        let told = |(place, why): &(String, String)| InputError {
            path: place.clone(),
            offset: None,
            text: format!("{place}: {why}"),
            after_packets: 0,
        };
        self.0.iter().map(told).collect()
    }
}
