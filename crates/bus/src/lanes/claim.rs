//! Claim of a partition by a lane and its renewal: the log read so far and the time are the input, entries to write are
//! the output. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::log::{CaptureBytes, EXPIRY_MS, LaneEntry, LaneLog, LaneStanding, LaneStatement};

/// Interval between entries of the holder of a partition.
pub const BEAT_MS: i64 = 5_000;
/// Maximum remembered write times of entries.
const UNREAD_MAX: usize = 16;

/// Next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimAction {
    /// Write this entry; first, grow all topics to at least this number of partitions.
    Claim(LaneEntry, i32),
    /// Write this entry of the holder.
    Hold(LaneEntry),
    /// Wait until more of the log is read or until this time.
    Wait(i64),
    /// The partition is lost to another lane: a new claim may be made.
    Lost,
}

/// Claim of a lane.
#[derive(Clone, Debug)]
pub struct LaneClaim {
    entry: LaneEntry,
    stage: ClaimStage,
    /// First entry of this stage.
    since: u64,
    /// Write times of entries not read back yet, by number.
    unread: VecDeque<(u64, i64)>,
    /// Write time of the last entry confirmed as holder.
    sure_ms: Option<i64>,
    /// Partitions not to claim.
    unfit: BTreeSet<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimStage {
    /// The lane has no claim, and looks for a free partition.
    Looking,
    /// An entry is written and not read back yet; it is repeated after a timeout.
    Claimed { again_ms: i64 },
    /// Holder of the partition.
    Holding { next_ms: i64 },
}

impl LaneClaim {
    /// A lane without a partition, which is selected later.
    #[must_use]
    pub fn new(lane: String, topics: Vec<String>, about: BTreeMap<String, String>) -> LaneClaim {
        let number = 0;
        let says = LaneStatement::Claims;
        let partition = 0;
        let entry = LaneEntry {
            lane,
            number,
            says,
            partition,
            topics,
            about,
            capture: None,
            limited: None,
        };
        LaneClaim {
            entry,
            stage: ClaimStage::Looking,
            since: 0,
            unread: VecDeque::new(),
            sure_ms: None,
            unfit: BTreeSet::new(),
        }
    }

    /// Does not claim these partitions from now on, and releases the one that is held if it is among them.
    pub fn pass_over(&mut self, unfit: BTreeSet<i32>) {
        self.unfit.extend(unfit);
        if self.unfit.contains(&self.entry.partition) {
            self.stage = ClaimStage::Looking;
            self.sure_ms = None;
        }
    }

    /// The partition that is held exclusively at this time.
    #[must_use]
    pub fn partition(&self, now_ms: i64) -> Option<i32> {
        let is_sure = self
            .sure_ms
            .is_some_and(|sure_ms| now_ms - sure_ms <= EXPIRY_MS);
        (is_sure && matches!(self.stage, ClaimStage::Holding { .. }))
            .then_some(self.entry.partition)
    }

    /// Next action by the log read so far. `log_ms`: time by the brokers' clock, `now_ms`: that of the caller; both are
    /// monotonic.
    pub fn step(&mut self, log: &LaneLog, log_ms: i64, now_ms: i64) -> ClaimAction {
        let read = self.read_back(log);
        match self.stage {
            ClaimStage::Looking => self.claim(log, log_ms, now_ms),
            ClaimStage::Claimed { again_ms } => match read {
                Some(LaneStanding::Live) => self.hold(now_ms),
                Some(_) => self.claim(log, log_ms, now_ms),
                None if now_ms >= again_ms => self.claim(log, log_ms, now_ms),
                None => ClaimAction::Wait(again_ms),
            },
            ClaimStage::Holding { next_ms } => match read {
                Some(LaneStanding::Refused) => {
                    self.stage = ClaimStage::Looking;
                    self.sure_ms = None;
                    ClaimAction::Lost
                }
                _ if now_ms >= next_ms => self.hold(now_ms),
                _ => ClaimAction::Wait(next_ms),
            },
        }
    }

    /// Writes an entry of the holder with the next step.
    pub fn hold_now(&mut self) {
        if let ClaimStage::Holding { next_ms } = &mut self.stage {
            *next_ms = i64::MIN;
        }
    }

    /// The last entry of the lane.
    #[must_use]
    pub fn end(&self, capture: Option<CaptureBytes>) -> LaneEntry {
        LaneEntry {
            says: LaneStatement::Ended,
            number: self.entry.number + 1,
            capture,
            ..self.entry.clone()
        }
    }

    /// State of our last entry of this stage when it was written, if just read back.
    fn read_back(&mut self, log: &LaneLog) -> Option<LaneStanding> {
        let known = log.find(&self.entry.lane)?;
        while self
            .unread
            .front()
            .is_some_and(|(number, _)| *number < known.entry.number)
        {
            self.unread.pop_front();
        }
        let (_, written_ms) = self
            .unread
            .pop_front_if(|(number, _)| *number == known.entry.number)?;
        if known.entry.number < self.since {
            return None;
        }
        let standing = known.standing(known.at_ms);
        self.sure_ms = (standing == LaneStanding::Live).then_some(written_ms);
        Some(standing)
    }

    fn next(&mut self, says: LaneStatement, now_ms: i64) {
        self.entry.says = says;
        self.entry.number += 1;
        if self.unread.len() == UNREAD_MAX {
            self.unread.pop_front();
        }
        self.unread.push_back((self.entry.number, now_ms));
    }

    fn claim(&mut self, log: &LaneLog, log_ms: i64, now_ms: i64) -> ClaimAction {
        self.next(LaneStatement::Claims, now_ms);
        self.entry.partition = log.free(&self.entry.topics, &self.unfit, log_ms);
        self.since = self.entry.number;
        self.stage = ClaimStage::Claimed {
            again_ms: now_ms + BEAT_MS,
        };
        ClaimAction::Claim(self.entry.clone(), self.entry.partition + 1)
    }

    fn hold(&mut self, now_ms: i64) -> ClaimAction {
        self.next(LaneStatement::Holds, now_ms);
        if matches!(self.stage, ClaimStage::Claimed { .. }) {
            self.since = self.entry.number;
        }
        self.stage = ClaimStage::Holding {
            next_ms: now_ms + BEAT_MS,
        };
        ClaimAction::Hold(self.entry.clone())
    }
}
