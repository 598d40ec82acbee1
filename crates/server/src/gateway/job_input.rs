//! Form in which a job's results arrive.

use super::job_joiner::JobJoiner;
use super::merge_reader::MergeReader;

/// Source of a job's results.
pub enum JobInput {
    /// Records of agents.
    Agents,
    /// Records of agents at both taps, joined here.
    BothTaps(Box<JobJoiner>),
    /// Merged rows of a bus; agents report their progress to the server.
    Bus(MergeReader),
}

impl JobInput {
    /// Join of requests, for a job over both taps.
    pub fn joiner(&self) -> Option<&JobJoiner> {
        if let JobInput::BothTaps(joiner) = self {
            Some(joiner)
        } else {
            None
        }
    }

    /// As [`JobInput::joiner`].
    pub fn joiner_mut(&mut self) -> Option<&mut JobJoiner> {
        if let JobInput::BothTaps(joiner) = self {
            Some(joiner)
        } else {
            None
        }
    }

    /// Reader of the bus.
    pub fn reader(&self) -> Option<&MergeReader> {
        if let JobInput::Bus(reader) = self {
            Some(reader)
        } else {
            None
        }
    }

    /// As [`JobInput::reader`].
    pub fn reader_mut(&mut self) -> Option<&mut MergeReader> {
        if let JobInput::Bus(reader) = self {
            Some(reader)
        } else {
            None
        }
    }
}
