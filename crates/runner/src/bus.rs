//! Queries over Kafka, with separate publishers and readers.

mod attach;
mod broker_contact;
mod continuation;
mod feed;
mod feedback;
mod growing_topics;
mod keep_alive;
mod lane;
mod late_marks;
mod limit_marks;
mod merged;
mod publish;
mod record_problems;
mod topics;
mod tuple_orderer;

pub use continuation::RunContinuation;
pub use feed::{BusFeed, SILENCE, TopicReach};
pub use feedback::{CeilingChange, FeedbackSource, PublishFeedback};
pub use growing_topics::{GrowingTopics, Recognize};
pub use keep_alive::{AwakeTopic, TopicKeepAlive};
pub use lane::TopicRecords;
pub use limit_marks::LimitMarks;
pub use merged::{ExternalMerge, MergeInput, MergeJobStatus, MergeScope, MergedFeed};
pub use publish::{PublishRun, PublishedContent};
pub use topics::{SAMPLE_SEED, cells, configured, merged, of_job, settings, tuples};
