//! Queries over Kafka, with separate publishers and readers.

mod attach;
mod contact;
mod continuing;
mod feed;
mod feedback;
mod growing;
mod in_order;
mod lane;
mod late;
mod marks;
mod merged;
mod problems;
mod publish;
mod topics;
mod waking;

pub use continuing::Continuing;
pub use feed::{BusFeed, Reach, SILENCE};
pub use feedback::{Changed, Feedback, Who};
pub use growing::{Growing, Recognise};
pub use lane::Records;
pub use marks::Marks;
pub use merged::{MergedFeed, Merges, Merging, Until, Work};
pub use publish::{Publishing, What};
pub use topics::{SAMPLE_SEED, cells, configured, merged, of_job, settings, tuples};
pub use waking::{Read, Waking};
