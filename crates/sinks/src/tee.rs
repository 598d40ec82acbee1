//! Two sinks for the same rows: a local one, and one that never fails because of remote errors.

use std::io;
use std::net::IpAddr;

use recording::{CaptureFacts, RecordingTotals};
use tuple::Batch;

use crate::{DeliveryOutcome, RunVitals, Sink};

/// Passes rows to both; open windows are shown by the first only.
pub struct TeeSink {
    first: Box<dyn Sink>,
    second: Box<dyn Sink>,
}

impl TeeSink {
    /// Combines both sinks.
    #[must_use]
    pub fn new(first: Box<dyn Sink>, second: Box<dyn Sink>) -> TeeSink {
        TeeSink { first, second }
    }
}

impl Sink for TeeSink {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        self.second.write(result, batch)?;
        self.first.write(result, batch)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.second.flush()?;
        self.first.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        // Local output is complete before others are waited for.
        let finished = self.first.finish();
        self.second.finish().and(finished)
    }

    fn learn_name(&mut self, ip: IpAddr, name: &str) {
        self.first.learn_name(ip, name);
        self.second.learn_name(ip, name);
    }

    fn advance(&mut self, watermark_ns: i64) -> io::Result<()> {
        self.second.advance(watermark_ns)?;
        self.first.advance(watermark_ns)
    }

    fn show_open(&mut self, rows: &[(usize, Batch)]) -> io::Result<()> {
        self.first.show_open(rows)
    }

    fn hide_open(&mut self) -> io::Result<()> {
        self.first.hide_open()
    }

    fn learn_capture(&mut self, facts: &CaptureFacts) {
        self.first.learn_capture(facts);
        self.second.learn_capture(facts);
    }

    fn learn_vitals(&mut self, vitals: &RunVitals) {
        self.first.learn_vitals(vitals);
        self.second.learn_vitals(vitals);
    }

    fn delivered(&self) -> Vec<DeliveryOutcome> {
        [self.first.delivered(), self.second.delivered()].concat()
    }

    fn kept(&self) -> Option<RecordingTotals> {
        self.first.kept().or_else(|| self.second.kept())
    }

    fn notes(&self) -> Vec<String> {
        [self.first.notes(), self.second.notes()].concat()
    }
}
