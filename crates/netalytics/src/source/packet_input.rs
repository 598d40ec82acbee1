//! Packets of a run: from files, interfaces, or received mirrors.

use std::fs::File;
use std::path::PathBuf;

use anyhow::Context;
use capture::live::StopSignal;
use monitor::JobInput;
use monitor::exports::TemplateFile;
use plan::{MonitorSpec, SampleMode};

use crate::cli::flags::WorkerCount;
use crate::cli::flags::live::LiveFlags;
use crate::process::failure::UnreadableInputs;
use crate::source::live_capture;

/// Opens the input. Files are read by one worker per core; live capture defaults to one worker, because the machine may
/// have other work.
pub fn open(
    read: &[PathBuf],
    live: &LiveFlags,
    workers: WorkerCount,
    wanted: &MonitorSpec,
    stop: &StopSignal,
) -> anyhow::Result<JobInput> {
    // The state of an exporter, such as its templates, belongs to one worker.
    let is_export = wanted.sample == SampleMode::Exported;
    // A rate that follows the results is one for all packets of a reader.
    let has_goal = wanted.goal.is_set() && live.interfaces.is_empty();
    let workers = if is_export || has_goal {
        WorkerCount(Some(1))
    } else {
        workers
    };
    let some = workers.0.unwrap_or(1);
    if !live.listen.is_empty() {
        let source = live_capture::listen(live, stop)?;
        return Ok(if some > 1 {
            JobInput::Shared(source, some)
        } else {
            JobInput::Each(vec![source])
        });
    }
    if !live.interfaces.is_empty() {
        let sources = if live.one_reader { 1 } else { some };
        let mut sources = live_capture::open(live, sources, wanted, stop)?;
        // If the kernel cannot distinguish flows, there is one source, and its packets are distributed here.
        return Ok(match (sources.len(), sources.pop()) {
            (1, Some(source)) if some > 1 => JobInput::Shared(source, some),
            (_, last) => JobInput::Each(sources.into_iter().chain(last).collect()),
        });
    }
    let source = live_capture::filter(capture::open_until(read, stop), live)?;
    if source.errors().len() == read.len() {
        return Err(
            UnreadableInputs(source.errors().iter().map(ToString::to_string).collect()).into(),
        );
    }
    let cores = || std::thread::available_parallelism().map_or(1, Into::into);
    Ok(JobInput::Shared(source, workers.0.unwrap_or_else(cores)))
}

/// Opens the file for the templates of exporters, if there is one.
pub fn template_file(live: &LiveFlags) -> anyhow::Result<Option<TemplateFile>> {
    let Some(path) = &live.templates else {
        return Ok(None);
    };
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Some(TemplateFile::new(file)))
}
