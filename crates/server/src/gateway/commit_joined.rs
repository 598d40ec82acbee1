//! From records to rows where the requests of two taps are joined in between: what agents sent, what joining that came to, and how
//! far it has come by that are committed together.

use std::collections::BTreeMap;
use std::time::Instant;

use control::{ServerEvent, Why};

use super::commit::release;
use super::lanes::{End, mark};
use super::pending::Entry;
use super::thread::Core;
use super::tuples::When;
use super::work::{Results, Row, Work};
use crate::job::JobId;
use crate::meters::Stage;
use crate::store::{Joined, NewFrame, Progress};
use crate::unkept::Unkept;

impl Core {
    /// What has come of a job over both taps of flows, if anything has, and what waits no longer.
    pub fn commit_joined(&mut self, job: JobId, entries: Vec<Entry>) {
        let ahead = self.clocks();
        let ahead_of = |agent: &str| ahead.get(agent).copied().unwrap_or(0);
        let mut marks = self.marks(&entries, &mut |_, _, _| {});
        marks.iter_mut().for_each(|((_, key), (_, facts))| facts.ahead_ns = ahead_of(&key.agent));
        let Some(work) = self.works.get_mut(&job) else { return };
        let Work { joining: Some(joining), results, lanes, progress, .. } = work else { return };
        if let Err(error) = joining.recover(&self.store) {
            entries.into_iter().for_each(|entry| self.pending.push(entry));
            return self.store_failed(&error);
        }
        let taken = entries.iter().filter_map(|entry| joining.take(entry, ahead_of(&entry.key.agent)));
        let mut frames: Vec<NewFrame> = taken.collect();
        let open = lanes.known.iter().filter(|(_, known)| known.facts.end == End::Open);
        let given = self.hub.meters.during(Stage::Merge, || {
            joining.give(open.map(|(key, _)| ahead_of(&key.agent)))
        });
        if entries.is_empty() && given.is_none() {
            return;
        }
        let watermark = given.as_ref().map_or(joining.watermark(), |report| report.watermark);
        let rows: Vec<Row> = match (results, &given) {
            (Results::Tuples(tuples), Some(report)) if tuples.when == When::AtOnce => {
                let row = |batch| Row { result: 0, batch, watermark_ns: watermark.0, missing: Vec::new() };
                tuples.take(report).into_iter().map(row).collect()
            }
            (Results::Tuples(_), Some(report)) if !report.part.is_empty() => {
                frames.push(NewFrame { job, lane: None, over_ns: i64::MAX, payload: report.encode().into() });
                Vec::new()
            }
            (Results::Windows(windows), Some(report)) if !report.part.is_empty() => {
                let over_ns = windows.over_at(report, stream::Loss::default());
                frames.push(NewFrame { job, lane: None, over_ns, payload: report.encode().into() });
                Vec::new()
            }
            _ => Vec::new(),
        };
        let mut stored: Vec<_> = marks.iter().map(|((job, key), of)| mark(*job, key, of)).collect();
        stored.push(joining.mark(watermark));
        let joined = Joined { frames, marks: stored, over_ns: joining.over_ns() };
        let of_many = joined.frames.iter().filter(|frame| frame.lane.is_none());
        let bytes: usize = of_many.map(|frame| frame.payload.len()).sum();
        let text = serde_json::to_string(progress).unwrap_or_default();
        let is_direct = work.is_direct();
        let kept = match is_direct {
            true => {
                let watermark_ns = i64::MIN;
                let progress = Progress { text, watermark_ns, joined: Some(joined), ..Progress::default() };
                release(&self.hub, job, &rows, &progress)
            }
            false => self.keep_joined(job, &joined),
        };
        if let Err(error) = kept {
            if let (true, Ok(kept)) = (is_direct, self.hub.rows_kept(job, 0))
                && let Some(Work { results: Results::Tuples(tuples), .. }) = self.works.get_mut(&job)
            {
                tuples.begin_at(kept);
            }
            entries.into_iter().for_each(|entry| self.pending.push(entry));
            return self.unkept(job, &error);
        }
        self.store_works();
        let Some(work) = self.works.get_mut(&job) else { return };
        work.frames_bytes += bytes as u64;
        if let Some(joining) = &mut work.joining {
            joining.committed(watermark);
        }
        if let Some(report) = given.filter(|_| !is_direct) {
            self.hub.meters.during(Stage::Merge, || work.count_joined(report));
        }
        self.count(entries, |work, entry, mut mark| {
            mark.1.ahead_ns = ahead.get(&entry.key.agent).copied().unwrap_or(0);
            work.take(&entry.key, entry.report, mark);
        });
        self.publish(job);
        if self.works.get(&job).is_some_and(Work::is_full) {
            self.decide(ServerEvent::Stop { job: job.0.unsigned_abs(), why: Why::RowLimit });
        }
    }

    fn keep_joined(&self, job: JobId, joined: &Joined) -> Result<(), Unkept> {
        let begun = Instant::now();
        self.hub.meters.during(Stage::Commit, || self.store.keep_joined(job, joined))?;
        self.hub.meters.commits.record(begun.elapsed());
        Ok(())
    }

    /// By how much the clocks of agents are ahead, as far as that has been measured.
    fn clocks(&self) -> BTreeMap<String, i64> {
        let known = self.control.agents();
        known.filter_map(|(agent, _, offset_ns)| Some((agent.to_owned(), offset_ns?))).collect()
    }
}
