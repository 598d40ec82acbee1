//! Packets of a run: from files, interfaces, or received mirrors.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use capture::live::StopSignal;
use monitor::JobInput;
use monitor::exports::{self, ElementDefinitions, ExportConfig, TemplateFile};
use plan::{MonitorSpec, SampleMode};

use crate::cli::flags::WorkerCount;
use crate::cli::flags::live::LiveFlags;
use crate::process::failure::{UnreadableInputs, wrong_flags};
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

/// Opens the files for reading export messages.
///
/// # Errors
/// A file that cannot be opened or read, or a column of an element that is not defined.
pub fn export_config(live: &LiveFlags, wanted: &MonitorSpec) -> anyhow::Result<ExportConfig> {
    let config = ExportConfig {
        templates: template_file(live)?,
        elements: Arc::new(element_definitions(live)?),
        exporters: None,
    };
    let is_export = wanted.sample == SampleMode::Exported;
    if let Some(name) = exports::undefined_column(wanted, &config.elements).filter(|_| is_export) {
        return Err(wrong_flags(format!(
            "{name}: neither the number of an information element, as in field.9999_1 or field.61, nor a name that \
             --elements FILE defines"
        )));
    }
    Ok(config)
}

fn element_definitions(live: &LiveFlags) -> anyhow::Result<ElementDefinitions> {
    let Some(path) = &live.elements else {
        return Ok(ElementDefinitions::default());
    };
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    ElementDefinitions::parse(&text)
        .map_err(|error| wrong_flags(format!("{}, {error}", path.display())))
}

/// Opens the file for the templates of exporters, if there is one.
fn template_file(live: &LiveFlags) -> anyhow::Result<Option<TemplateFile>> {
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
