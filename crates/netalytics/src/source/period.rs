//! SINCE, UNTIL, and BASELINE as points in time. Relative times count back from the end of a capture or recording, the
//! time of its last packet; a live capture has no stored past, so only UNTIL is possible.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use plan::TimeBounds;
use query::CheckedQuery;
use recording::{DataSet, RecordedTable, TableKind};

use crate::cli::flags::WorkFlags;
use crate::process::failure::wrong_flags;

/// The periods of a query.
#[derive(Clone, Copy, Debug)]
pub struct QueryPeriods {
    /// SINCE and UNTIL.
    pub own: TimeBounds,
    /// BASELINE.
    pub baseline: Option<TimeBounds>,
    /// Duration of a live capture until UNTIL, with or without packets, in ns.
    pub live_ns: Option<i64>,
}

/// Resolves the periods for the inputs of the flags.
pub fn settle(query: &CheckedQuery, flags: &WorkFlags) -> anyhow::Result<QueryPeriods> {
    if query.period.is_open() && query.baseline.is_none() {
        return Ok(QueryPeriods {
            own: TimeBounds::default(),
            baseline: None,
            live_ns: None,
        });
    }
    if flags.live.is_live() || flags.network.network.is_some() {
        return live(query);
    }
    if flags.bus.kafka.is_some() {
        return published(query);
    }
    let counts_back = query.period.counts_back() || query.baseline.is_some();
    let end_ns = if counts_back { end(&flags.read)? } else { 0 };
    let own = query.period.settle(end_ns);
    let own = match query.baseline {
        // A compared period has a start and an end; the last packet is inside.
        Some(_) => TimeBounds {
            until_ns: own.until_ns.or(Some(end_ns.saturating_add(1))),
            ..own
        },
        None => own,
    };
    let baseline = query.baseline.map(|baseline| baseline.settle(own, end_ns));
    for (name, bounds) in [("SINCE and UNTIL", Some(own)), ("BASELINE", baseline)] {
        if bounds.is_some_and(|bounds| bounds.is_empty()) {
            return Err(wrong_flags(format!(
                "the period of {name} is empty: it ends before it starts; relative times count back from the \
                 last packet"
            )));
        }
    }
    Ok(QueryPeriods {
        own,
        baseline,
        live_ns: None,
    })
}

/// The query's period, as far as known without reading input.
pub fn as_far_as_known(query: &CheckedQuery) -> TimeBounds {
    if query.period.counts_back() {
        TimeBounds::default()
    } else {
        query.period.settle(0)
    }
}

/// Time of the first and the last packet or tuple; `None`: no data.
pub fn extent(read: &[PathBuf]) -> anyhow::Result<Option<(i64, i64)>> {
    if read.iter().any(|path| path.is_dir()) {
        return Ok(extent_of_recordings(read));
    }
    if read
        .iter()
        .any(|path| path == Path::new("-") || !path.is_file())
    {
        return Err(wrong_flags(
            "times relative to the end, and comparisons, read the input twice: use files (-r FILE)",
        ));
    }
    let mut source = capture::open(read);
    Ok(extent_of_packets(&mut *source, || true))
}

/// Time of the first and the last packet of a source: of its first block, and of further ones while `goes_on` holds.
pub fn extent_of_packets(
    source: &mut dyn capture::PacketSource,
    goes_on: impl Fn() -> bool,
) -> Option<(i64, i64)> {
    let mut block = capture::PacketBlock::default();
    let mut extent: Option<(i64, i64)> = None;
    while source.next_block(&mut block) {
        for record in block.records() {
            let (first, last) = extent.unwrap_or((record.ts.0, record.ts.0));
            extent = Some((first.min(record.ts.0), last.max(record.ts.0)));
        }
        block.clear();
        if !goes_on() {
            break;
        }
    }
    extent
}

/// Time of the first and the last tuple of recordings.
pub fn extent_of_recordings(folders: &[PathBuf]) -> Option<(i64, i64)> {
    let set = DataSet::open(folders);
    let heads = || {
        set.tables
            .values()
            .flat_map(RecordedTable::heads)
            .filter(|head| head.kind == TableKind::Tuples)
    };
    let first = heads().filter_map(|head| head.capture.first_ts).min()?;
    Some((
        first,
        heads()
            .filter_map(|head| head.capture.last_ts)
            .max()
            .unwrap_or(first),
    ))
}

/// Replaces missing bounds by those of the input. The last packet is inside.
pub fn closed(bounds: TimeBounds, read: &[PathBuf]) -> anyhow::Result<TimeBounds> {
    if bounds.nanos().is_some() {
        return Ok(bounds);
    }
    let (first, last) = extent(read)?.unwrap_or((0, 0));
    Ok(TimeBounds {
        since_ns: bounds.since_ns.or(Some(first)),
        until_ns: bounds.until_ns.or(Some(last.saturating_add(1))),
    })
}

fn end(read: &[PathBuf]) -> anyhow::Result<i64> {
    // The run reports unreadable input.
    Ok(extent(read)?.map_or(0, |(_, last)| last))
}

/// Periods for published data, which continues: relative times count back from now.
pub fn published(query: &CheckedQuery) -> anyhow::Result<QueryPeriods> {
    if query.baseline.is_some() {
        return Err(wrong_flags(
            "BASELINE is not supported with Kafka: store the published tuples (netalytics record --kafka) and compare the recordings",
        ));
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let own = query
        .period
        .settle(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
    Ok(QueryPeriods {
        own,
        baseline: None,
        live_ns: None,
    })
}

fn live(query: &CheckedQuery) -> anyhow::Result<QueryPeriods> {
    if query.baseline.is_some() || query.period.since.is_some() {
        return Err(wrong_flags(
            "SINCE and BASELINE need captures or recordings (-r), not a live capture; store tuples with netalytics record, then query the recording",
        ));
    }
    if query.period.counts_back() {
        return Err(wrong_flags(
            "UNTIL of a live capture must be a time, such as '2026-11-22T10:00'; LIMIT sets its duration",
        ));
    }
    let own = query.period.settle(0);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
    let left = own.until_ns.map(|until| until.saturating_sub(now));
    if left.is_some_and(|left| left <= 0) {
        return Err(wrong_flags(
            "UNTIL is in the past: a live capture reads only new packets",
        ));
    }
    Ok(QueryPeriods {
        own,
        baseline: None,
        live_ns: left,
    })
}

impl QueryPeriods {
    /// The only period; an error if there are two.
    pub fn only(&self) -> anyhow::Result<TimeBounds> {
        match self.baseline {
            None => Ok(self.own),
            Some(_) => Err(wrong_flags(
                "BASELINE compares results: use it with query and check",
            )),
        }
    }
}
