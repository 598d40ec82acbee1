//! Messages of a job's process to its parent: progress, counters, and the final summary.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use collect::{EXPORTS, ExporterCounts, MonitorFrame, ReportPart, TAKEN, WAITING, WorkerReport};
use monitor::allowance::{PacketAllowance, RevokedGrant};
use monitor::flush::CompletedFlush;
use monitor::vitals::VitalsReading;
use monitor::{ExportAccounting, MonitorJob, MonitorProgress};
use stream::{LimitedStretch, LossCount, LossStretch};
use wire::Timestamp;

use crate::summary::{self, RunSummary};

/// Interval at which counters are sent without other messages.
const ACCOUNT_EVERY: Duration = Duration::from_secs(1);
/// Exporters reported one by one.
const EXPORTERS_MAX: usize = 16;
/// Interval at which used packets of a shared LIMIT are reported.
const TAKEN_EVERY: Duration = Duration::from_millis(50);

/// See the module documentation.
pub struct FrameWriter<'w> {
    out: &'w mut dyn Write,
    /// Last reported watermark and capture loss.
    watermark: Timestamp,
    loss: LossCount,
    counted: Instant,
    /// Allowance of a packet limit shared by several processes.
    allowance: Option<PacketAllowance>,
    /// Last report: packets taken, and whether further ones wait for permission.
    taken: (u64, bool),
    /// Last reported level of the slice of flows that switches mirror.
    slice_level: u8,
    /// Error of `out`; nothing more is written then.
    failed: Option<io::Error>,
}

impl<'w> FrameWriter<'w> {
    /// Writes the start message.
    pub fn new(out: &'w mut dyn Write, allowance: Option<PacketAllowance>) -> FrameWriter<'w> {
        let mut frames = FrameWriter {
            out,
            watermark: Timestamp::MIN,
            loss: LossCount::default(),
            counted: Instant::now(),
            allowance,
            taken: (0, false),
            slice_level: 0,
            failed: None,
        };
        frames.say(&MonitorFrame::Started);
        frames.flush();
        frames
    }

    /// Whether event time has advanced past the last report.
    #[must_use]
    pub fn is_behind(&self, watermark: Timestamp) -> bool {
        watermark > self.watermark
    }

    /// Sets the current watermark and capture loss.
    pub fn come_to(&mut self, watermark: Timestamp, loss: LossCount) {
        self.watermark = watermark;
        self.loss = loss;
    }

    /// Writes the results up to the watermark.
    pub fn report(
        &mut self,
        part: ReportPart,
        lost: Option<LossStretch>,
        limited: Option<LimitedStretch>,
    ) {
        let FrameWriter {
            watermark, loss, ..
        } = *self;
        let report = WorkerReport {
            epoch: 0,
            watermark,
            part,
            loss,
            lost,
            limited,
            open: None,
        };
        self.say(&MonitorFrame::Report(report.encode()));
    }

    /// Writes the counters if due; `dropped`: records that could not be published.
    pub fn account(&mut self, job: &MonitorJob, step: MonitorProgress, dropped: u64) {
        let taken = self
            .allowance
            .as_ref()
            .map(|of| (of.taken(), of.is_waited_for()));
        let every = if taken.is_some_and(|taken| taken != self.taken) {
            TAKEN_EVERY
        } else {
            ACCOUNT_EVERY
        };
        let slice_level = job.slice_level();
        let is_told = slice_level == self.slice_level;
        if self.counted.elapsed() >= every || !is_told || step == MonitorProgress::Done {
            self.slice_level = slice_level;
            self.counted = Instant::now();
            self.taken = taken.unwrap_or_default();
            let mut counts = counts(&job.readings(), slice_level, &job.exports());
            counts.extend((dropped > 0).then(|| ("dropped".to_owned(), dropped)));
            let said =
                taken.map(|(n, waits)| [(TAKEN.to_owned(), n), (WAITING.to_owned(), waits.into())]);
            counts.extend(said.into_iter().flatten());
            self.say(&MonitorFrame::Account(counts));
            self.flush();
        }
        let taken_back = self
            .allowance
            .as_ref()
            .and_then(PacketAllowance::taken_back);
        if let Some(RevokedGrant { grant, taken }) = taken_back {
            self.say(&MonitorFrame::TookBack { grant, taken });
            self.flush();
        }
    }

    /// Writes the current counters, and that a flush was carried out.
    pub fn flushed(&mut self, job: &MonitorJob, CompletedFlush { number, until }: CompletedFlush) {
        self.say(&MonitorFrame::Account(counts(
            &job.readings(),
            job.slice_level(),
            &job.exports(),
        )));
        self.say(&MonitorFrame::Flushed { number, until });
        self.flush();
    }

    /// Writes the summary and the end.
    ///
    /// # Errors
    /// The first `io::Error` of the output.
    pub fn close(mut self, summary: &RunSummary) -> io::Result<()> {
        self.say(&MonitorFrame::Closing {
            cut_short: summary.cut_short.clone(),
            summary: summary.json(),
        });
        self.flush();
        self.failed.map_or(Ok(()), Err)
    }

    /// Whether the reader has closed the stream.
    #[must_use]
    pub fn is_unheard(&self) -> bool {
        self.failed.is_some()
    }

    /// Flushes the stream.
    pub fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
    }

    fn say(&mut self, frame: &MonitorFrame) {
        if self.failed.is_none() {
            self.failed = frame.write(self.out).err();
        }
    }
}

/// Sampling rate of flows in millionths: the lowest of all workers.
fn sample_ppm(readings: &[VitalsReading]) -> u64 {
    let least = readings
        .iter()
        .map(|reading| reading.sample_rate)
        .fold(1.0, f64::min);
    (least * 1e6).round() as u64
}

/// Counts of export messages that are not zero, and the exporters with the largest losses.
fn export_counts(of: &ExportAccounting) -> Vec<(String, u64)> {
    let all = summary::exports(of).into_iter();
    // The number of exporters is not a total.
    let all = all.filter(|(name, _)| *name != "exporters");
    let all = all.chain(summary::export_trouble(of));
    let mut counts: Vec<_> = all
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| (format!("{EXPORTS}{name}"), n))
        .collect();
    for state in of.exporters.iter().take(EXPORTERS_MAX) {
        let exporter = ExporterCounts {
            exporter: state.exporter,
            protocol: state.protocol.name().to_owned(),
            domain: state.domain,
            received: state.losses.received,
            lost: state.losses.lost,
            restarts: state.losses.restarts,
            clock_offset_ns: state.clock_offset_ns,
        };
        counts.extend(exporter.counters());
    }
    counts
}

/// Sum of the workers' counters.
fn counts(
    readings: &[VitalsReading],
    slice_level: u8,
    exports: &ExportAccounting,
) -> Vec<(String, u64)> {
    let sum = |name: &str, of: fn(&VitalsReading) -> u64| {
        (name.to_owned(), readings.iter().map(of).sum())
    };
    let mut counts = vec![
        sum("packets", |reading| reading.packets),
        sum("bytes", |reading| reading.bytes),
        sum("tuples", |reading| reading.tuples),
        sum("flows", |reading| reading.flows),
        sum("gaps", |reading| reading.gaps),
        sum("lost", |reading| reading.lost),
        sum("sampled_out", |reading| reading.sampled_out),
        sum("cut_off", |reading| reading.cut_off),
        sum("strays", |reading| reading.strays),
        ("slice_level".to_owned(), slice_level.into()),
        ("sample_ppm".to_owned(), sample_ppm(readings)),
    ];
    counts.extend(export_counts(exports));
    counts
}

#[cfg(test)]
mod tests {
    use telemetry::{ExportProtocol, SequenceLosses};

    use super::*;

    fn reading(packets: u64, sample_rate: f64) -> VitalsReading {
        VitalsReading {
            packets,
            sample_rate,
            ..VitalsReading::default()
        }
    }

    fn count(counts: &[(String, u64)], name: &str) -> u64 {
        counts
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, n)| *n)
            .expect(name)
    }

    #[test]
    fn counters_of_all_workers_are_added_up() {
        let counts = counts(
            &[reading(5, 1.0), reading(7, 1.0)],
            3,
            &ExportAccounting::default(),
        );
        assert_eq!(
            (count(&counts, "packets"), count(&counts, "slice_level")),
            (12, 3)
        );
        assert_eq!(count(&counts, "sample_ppm"), 1_000_000);
        assert_eq!(
            count(
                &super::counts(&[], 0, &ExportAccounting::default()),
                "packets"
            ),
            0
        );
    }

    #[test]
    fn the_sampling_rate_is_the_lowest_of_all_workers() {
        assert_eq!(
            sample_ppm(&[reading(1, 0.5), reading(1, 0.25), reading(1, 1.0)]),
            250_000
        );
        assert_eq!(sample_ppm(&[reading(1, 1.0 / 3.0)]), 333_333);
        assert_eq!(sample_ppm(&[]), 1_000_000);
    }

    /// Accepts this number of writes.
    struct ClosedStream(usize);

    impl Write for ClosedStream {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.0.checked_sub(1) {
                Some(left) => {
                    self.0 = left;
                    Ok(bytes.len())
                }
                None => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_stream_is_noticed_and_not_written_again() {
        let mut stream = ClosedStream(0);
        let mut frames = FrameWriter::new(&mut stream, None);
        assert!(frames.is_unheard());
        frames.report(ReportPart::default(), None, None);
        assert_eq!(
            frames.failed.map(|error| error.kind()),
            Some(io::ErrorKind::BrokenPipe)
        );
        let mut open = ClosedStream(usize::MAX);
        assert!(!FrameWriter::new(&mut open, None).is_unheard());
    }

    #[test]
    fn a_stream_begins_with_its_start_and_reports_event_time() {
        let mut bytes = Vec::new();
        let mut frames = FrameWriter::new(&mut bytes, None);
        assert!(frames.is_behind(Timestamp(5)));
        frames.come_to(Timestamp(5), LossCount { seen: 9, lost: 1 });
        assert!(!frames.is_behind(Timestamp(5)) && frames.is_behind(Timestamp(6)));
        frames.report(ReportPart::default(), None, None);
        let mut stream = bytes.as_slice();
        assert!(matches!(
            MonitorFrame::read(&mut stream),
            Ok(Some(MonitorFrame::Started))
        ));
        let Ok(Some(MonitorFrame::Report(report))) = MonitorFrame::read(&mut stream) else {
            panic!("a report");
        };
        assert!(!report.is_empty());
        assert!(matches!(MonitorFrame::read(&mut stream), Ok(None)));
    }

    /// What the server reads of the counters is what the monitor has counted.
    #[test]
    fn the_exporters_with_the_largest_losses_are_reported() {
        let exporter = |n: u32| monitor::ExporterState {
            exporter: if n.is_multiple_of(2) {
                std::net::Ipv6Addr::from_bits(u128::from(n)).into()
            } else {
                std::net::Ipv4Addr::from_bits(n).into()
            },
            protocol: telemetry_protocol(n),
            domain: n,
            losses: SequenceLosses {
                received: 1000,
                lost: u64::from(100 - n),
                ..SequenceLosses::default()
            },
            clock_offset_ns: (n == 3).then_some(i64::MIN),
        };
        let mut of = ExportAccounting {
            domains: 40,
            unread: 7,
            exporters: (0..40).map(exporter).collect(),
            ..ExportAccounting::default()
        };
        of.decoded.messages = 5;
        let counts = counts(&[reading(1, 1.0)], 0, &of);
        let mut counts: std::collections::BTreeMap<_, _> = counts.into_iter().collect();
        let exporters = ExporterCounts::take(&mut counts);
        assert_eq!(exporters.len(), EXPORTERS_MAX);
        for counts in exporters {
            let n = counts.domain;
            let of = exporter(n);
            assert!(n < 16, "{n} is not among the first");
            assert_eq!(
                (counts.exporter, counts.lost),
                (of.exporter, of.losses.lost)
            );
            assert_eq!(counts.clock_offset_ns, of.clock_offset_ns);
        }
        let of_exports: Vec<_> = counts
            .iter()
            .filter(|(name, _)| name.starts_with(EXPORTS))
            .map(|(name, n)| (&name[EXPORTS.len()..], *n))
            .collect();
        // Neither zeros nor the number of exporters, which is not a total.
        assert_eq!(of_exports, [("messages", 5), ("unread", 7)]);
    }

    fn telemetry_protocol(n: u32) -> ExportProtocol {
        if n < 20 {
            ExportProtocol::Ipfix
        } else {
            ExportProtocol::Netflow9
        }
    }

    /// The reader goes away in the middle of a message.
    #[test]
    fn the_first_error_is_that_of_the_end() {
        for writes in 0..6 {
            let mut stream = ClosedStream(writes);
            let mut frames = FrameWriter::new(&mut stream, None);
            for n in 0..10 {
                frames.come_to(Timestamp(n), LossCount::default());
                frames.report(ReportPart::default(), None, None);
                frames.flush();
            }
            assert!(frames.is_unheard(), "{writes}");
            let error = frames.failed.expect("an error");
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
