//! Names of Kafka topics by their identifiers, learned from responses to Metadata and CreateTopics. Identifiers are random numbers of 122
//! bits, so that all connections of a worker share them.

use std::cell::RefCell;

use hashbrown::HashMap;

/// Maximum number of names; beyond it no further names are learned.
const NAMES_MAX: usize = 65_536;

/// Names learned by one worker.
#[derive(Debug, Default)]
pub struct TopicNames(RefCell<HashMap<[u8; 16], Box<[u8]>>>);

impl TopicNames {
    /// Records a name.
    pub(crate) fn learn(&self, id: [u8; 16], name: &[u8]) {
        let mut names = self.0.borrow_mut();
        if id != [0; 16] && (names.len() < NAMES_MAX || names.contains_key(&id)) {
            let known = names.entry(id).or_default();
            if **known != *name {
                *known = name.into();
            }
        }
    }

    /// Calls `with` with the name of a topic, if known.
    pub(crate) fn with_name<T>(&self, id: &[u8; 16], with: impl FnOnce(Option<&[u8]>) -> T) -> T {
        with(self.0.borrow().get(id).map(|name| &**name))
    }
}
