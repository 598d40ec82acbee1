//! A sink behind redaction, for rows that are stored or leave the machine.

use std::io;
use std::net::IpAddr;

use recording::{CaptureFacts, RecordingTotals};
use tuple::{Batch, Redactor};

use crate::{DeliveryOutcome, RunVitals, Sink};

/// Passes redacted rows on.
pub struct RedactedSink<S> {
    sink: S,
    redactor: Redactor,
}

impl<S: Sink> RedactedSink<S> {
    /// Adds redaction before `sink`.
    #[must_use]
    pub fn new(sink: S, redactor: Redactor) -> RedactedSink<S> {
        RedactedSink { sink, redactor }
    }
}

impl<S: Sink> Sink for RedactedSink<S> {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        self.sink.write(result, &self.redactor.redact(batch))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.sink.finish()
    }

    fn learn_name(&mut self, ip: IpAddr, name: &str) {
        self.sink.learn_name(ip, name);
    }

    fn advance(&mut self, watermark_ns: i64) -> io::Result<()> {
        self.sink.advance(watermark_ns)
    }

    fn learn_capture(&mut self, facts: &CaptureFacts) {
        self.sink.learn_capture(facts);
    }

    fn learn_vitals(&mut self, vitals: &RunVitals) {
        self.sink.learn_vitals(vitals);
    }

    fn delivered(&self) -> Vec<DeliveryOutcome> {
        self.sink.delivered()
    }

    fn kept(&self) -> Option<RecordingTotals> {
        self.sink.kept()
    }

    fn notes(&self) -> Vec<String> {
        self.sink.notes()
    }
}
