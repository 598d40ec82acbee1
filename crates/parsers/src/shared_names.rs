//! Names and texts that the connections of a worker share.

use crate::prepared_texts::PreparedTexts;
use crate::topic_names::TopicNames;

/// What one worker learned on all its connections.
#[derive(Debug, Default)]
pub struct SharedNames {
    /// Names of Kafka's topics.
    pub(crate) topics: TopicNames,
    /// Prepared statements of Cassandra.
    pub(crate) statements: PreparedTexts,
}
