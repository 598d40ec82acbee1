//! Processes at work for one query, each a lane of one collector: started, heard, and asked to end. Whoever asks has such a team, and an aggregator
//! has one of its pod's monitors. One that goes before its time is told as a problem, and the others go on.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use collect::{Collector, Frame, LaneId, TakeRows};
use runner::Monitored;

use super::processes::{Process, Said, Starting};

/// What was said and nobody has taken yet.
const SAID_MAX: usize = 64;

/// See the module's text.
pub struct Team {
    /// Who is at work.
    pub processes: Vec<Process>,
    /// Where their results meet.
    pub collector: Collector,
    /// What went wrong.
    pub problems: Vec<String>,
    counts: Vec<Monitored>,
    tell: SyncSender<(usize, Said)>,
    said: Receiver<(usize, Said)>,
}

/// What somebody may have to know besides; each with the number of the process.
pub enum Heard {
    /// What it has counted so far.
    Counted(usize, Vec<(String, u64)>),
    /// It says nothing more.
    Gone(usize),
}

impl Team {
    /// Nobody yet.
    pub fn new(collector: Collector) -> Team {
        let (tell, said) = mpsc::sync_channel(SAID_MAX);
        Team { processes: Vec::new(), collector, problems: Vec::new(), counts: Vec::new(), tell, said }
    }

    /// Starts one more.
    pub fn start(&mut self, starting: &Starting<'_>) -> anyhow::Result<()> {
        let at = self.processes.len();
        let process = Process::start(at, starting, self.tell.clone())
            .with_context(|| format!("cannot start the {} on {}", starting.what, starting.host))?;
        self.processes.push(process);
        self.counts.push(Monitored::default());
        self.collector.join(lane(at));
        Ok(())
    }

    /// Until all have their captures open.
    pub fn wait_for_start(&mut self, most: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        while let Some(waiting) = self.processes.iter().find(|process| !process.is_started) {
            let name = waiting.name.clone();
            match self.said.recv_timeout(most.saturating_sub(begun.elapsed())) {
                Ok((at, Said::Frame(Frame::Started))) => self.processes[at].is_started = true,
                Ok((at, Said::Gone(why))) => bail!("{} has ended: {why}", self.processes[at].name),
                Ok(_) => {}
                Err(_) => bail!("{name} has not started for {} s", most.as_secs()),
            }
        }
        Ok(())
    }

    /// Whether all have said all.
    pub fn is_over(&self) -> bool {
        self.processes.iter().all(|process| process.has_said_all)
    }

    /// Takes what one says next, if it says something soon.
    pub fn hear(&mut self, patience: Duration, out: &mut dyn TakeRows) -> Option<Heard> {
        let (at, said) = self.said.recv_timeout(patience).ok()?;
        let name = &self.processes[at].name;
        match said {
            Said::Frame(Frame::Report(bytes)) => {
                let counts = &mut self.counts[at];
                (counts.reports, counts.bytes) = (counts.reports + 1, counts.bytes + bytes.len() as u64);
                match self.collector.decode(&bytes) {
                    Ok(report) => self.collector.take(lane(at), report, out),
                    Err(why) => {
                        counts.malformed += 1;
                        self.problems.push(format!("{name} has sent a {why}"));
                    }
                }
                None
            }
            Said::Frame(Frame::Account(counted)) => {
                let counts = &mut self.counts[at];
                for (name, n) in &counted {
                    match name.as_str() {
                        "packets" => counts.packets = *n,
                        "tuples" => counts.tuples = *n,
                        "lost" => counts.lost = *n,
                        "sampled_out" => counts.sampled_out = *n,
                        "cut_off" => counts.cut_off = *n,
                        _ => {}
                    }
                }
                Some(Heard::Counted(at, counted))
            }
            Said::Frame(Frame::Problem(text)) => {
                self.problems.push(format!("{name}: {text}"));
                None
            }
            Said::Frame(Frame::Closing { .. }) => {
                self.processes[at].has_said_all = true;
                self.collector.finish(lane(at), out);
                Some(Heard::Gone(at))
            }
            Said::Frame(Frame::Started | Frame::TookBack { .. }) => None,
            Said::Gone(why) => {
                if !self.processes[at].has_said_all {
                    self.problems.push(format!("{name} has ended before its time: {why}"));
                    self.processes[at].has_said_all = true;
                    self.collector.lost(lane(at), out);
                }
                Some(Heard::Gone(at))
            }
        }
    }

    /// Asks all to end, hears what they still have, and closes what is open. What they count meanwhile goes to `heed`.
    pub fn end(&mut self, most: Duration, out: &mut dyn TakeRows, heed: &mut dyn FnMut(Heard)) {
        self.processes.iter_mut().for_each(Process::end);
        let begun = Instant::now();
        while !self.is_over() && begun.elapsed() < most {
            if let Some(heard) = self.hear(most.saturating_sub(begun.elapsed()), out) {
                heed(heard);
            }
        }
        for silent in self.processes.iter().filter(|process| !process.has_said_all) {
            self.problems.push(format!("{} did not end when it was asked to", silent.name));
        }
        self.collector.end(out);
    }

    /// What all have said together.
    pub fn counts(&self) -> Monitored {
        let mut all = Monitored::default();
        for counts in &self.counts {
            all.reports += counts.reports;
            all.bytes += counts.bytes;
            all.packets += counts.packets;
            all.tuples += counts.tuples;
            all.lost += counts.lost;
            all.sampled_out += counts.sampled_out;
            all.cut_off += counts.cut_off;
            all.malformed += counts.malformed;
        }
        all
    }
}

fn lane(at: usize) -> LaneId {
    LaneId(at as u64)
}
