//! `-w`: writes packets. Without WHERE, admitted packets are written as they arrive. With WHERE, whole flows with a
//! matching tuple are written: a file is read a second time for their packets; packets from a network or pipe, which
//! cannot be read again, are buffered within limits until the decision. The destination is a file or an sFlow collector.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use capture::live::StopSignal;
use capture::{PacketFile, PacketFileCounts, PacketRotation, PacketSink, PacketSource};
use flow::Flow;
use monitor::capture_walk::{CaptureWalk, FlowData, FlowVisitor};
use monitor::job::JobConfig;
use monitor::look_back::{LookBack, LookBackLimits};
use monitor::{PacketRetention, SharedPacketRetention};
use outlets::address::SystemSecrets;
use outlets::{OutletAddress, SflowWriter};
use plan::MonitorSpec;
use stream::SelectedFlows;
use wire::CapturedPacket;

use crate::cli::flags::WorkFlags;
use crate::cli::flags::limits::KEPT_FLOWS_MAX;
use crate::process::failure::wrong_flags;
use crate::process::file_owner::FileOwner;
use crate::process::signals;
use crate::run::output_folder::OutputFolder;
use crate::run::privileges::RunUser;
use crate::source::live_capture;

/// Beginning of the address of a collector.
const SFLOW: &str = "sflow://";

/// Selection of written packets.
pub enum PacketWriter {
    /// None.
    Nothing,
    /// Admitted packets, or those of the buffer: decided on arrival.
    AtGate(SharedPacketRetention, Option<SelectedFlows>),
    /// Packets of matching flows, found by a second pass.
    OfFlows(Box<dyn PacketSink>, SelectedFlows),
}

impl PacketWriter {
    /// Writes to a prepared file.
    pub fn begin(
        flags: &WorkFlags,
        chosen: Option<SelectedFlows>,
        packets: PacketFileState,
    ) -> anyhow::Result<PacketWriter> {
        let Some(file) = packets.begin(flags)? else {
            return Ok(PacketWriter::Nothing);
        };
        let keeper = match &chosen {
            None => PacketRetention::All(file),
            Some(chosen) if !looks_back(flags, true) => {
                return Ok(PacketWriter::OfFlows(file, chosen.clone()));
            }
            Some(chosen) => {
                let flows_max = flows_max(flags);
                let reach = LookBackLimits {
                    bytes_max: flags.limits.look_back_bytes(),
                    ns: flags.look_back,
                    flows_max,
                };
                PacketRetention::LookBack(LookBack::new(file, chosen.clone(), reach))
            }
        };
        Ok(PacketWriter::AtGate(Arc::new(Mutex::new(keeper)), chosen))
    }

    /// Adds the requirements of the selection to the configuration: engines note matching flows.
    pub fn join(&self, config: &mut JobConfig) {
        match self {
            PacketWriter::Nothing => {}
            PacketWriter::AtGate(keep, chosen) => {
                config.keep = Some(keep.clone());
                config.stream.chosen.clone_from(chosen);
            }
            PacketWriter::OfFlows(_, chosen) => config.stream.chosen = Some(chosen.clone()),
        }
    }

    /// Writes remaining packets; returns the number written, and errors.
    pub fn finish(
        self,
        flags: &WorkFlags,
        plan: &MonitorSpec,
        config: &JobConfig,
        stop: &StopSignal,
    ) -> Option<(PacketFileCounts, Vec<String>)> {
        let ((kept, error), mut wrong) = match self {
            PacketWriter::Nothing => return None,
            PacketWriter::AtGate(keep, _) => (
                keep.lock().unwrap_or_else(PoisonError::into_inner).finish(),
                Vec::new(),
            ),
            PacketWriter::OfFlows(mut file, chosen) => {
                let (flows, tuples_missed) = chosen.all();
                let wrong = second_pass(
                    flags,
                    plan,
                    config,
                    stop,
                    FlowPacketWriter {
                        flows: &flows,
                        file: file.as_mut(),
                    },
                );
                let (kept, error) = file.finish();
                (
                    (
                        PacketFileCounts {
                            tuples_missed,
                            ..kept
                        },
                        error,
                    ),
                    wrong,
                )
            }
        };
        let name = flags
            .write
            .as_deref()
            .map_or_else(Default::default, |path| path.display().to_string());
        wrong.extend(error.map(|e| format!("cannot write all packets to {name}: {e}")));
        Some((kept, wrong))
    }
}

/// Set of flows whose packets are written, if not all are; `filtered`: the query has a WHERE. The plan needs its columns.
pub fn selection(flags: &WorkFlags, filtered: bool) -> Option<SelectedFlows> {
    let is_selective = flags.write.is_some() && filtered;
    is_selective.then(|| {
        if looks_back(flags, filtered) {
            SelectedFlows::with_news(flows_max(flags))
        } else {
            SelectedFlows::ids(flows_max(flags))
        }
    })
}

fn flows_max(flags: &WorkFlags) -> usize {
    flags.limits.kept_flows_max.unwrap_or(KEPT_FLOWS_MAX)
}

/// Whether packets are buffered because they cannot be read again.
pub fn looks_back(flags: &WorkFlags, filtered: bool) -> bool {
    let is_in_files = !flags.live.is_live() && flags.read.iter().all(|path| path.is_file());
    flags.write.is_some() && filtered && !is_in_files
}

/// Output file of packets.
pub enum PacketFileState {
    /// None.
    Nowhere,
    /// One open file, or a collector.
    Begun(Box<dyn PacketSink>),
    /// The first of several files, all created after the change of user.
    Rotating(PathBuf),
}

impl PacketFileState {
    /// Opens files that need privileges.
    pub fn prepare(flags: &WorkFlags) -> anyhow::Result<PacketFileState> {
        let Some(path) = flags.write.as_deref() else {
            return Ok(PacketFileState::Nowhere);
        };
        if let Some(address) = path.to_str().filter(|path| path.starts_with(SFLOW)) {
            if flags.rotate.is_some() {
                return Err(wrong_flags("--rotate needs files"));
            }
            let wrong = |why: String| wrong_flags(format!("-w {address}: {why}"));
            let address = OutletAddress::read(address, &SystemSecrets).map_err(wrong)?;
            let writer = SflowWriter::open(&address).map_err(wrong)?;
            return Ok(PacketFileState::Begun(Box::new(writer)));
        }
        if path == Path::new("-") {
            if flags.rotate.is_some() {
                return Err(wrong_flags(
                    "--rotate needs files, and -w - writes to standard output",
                ));
            }
            let file =
                PacketFile::to_stdout().context("cannot write packets to standard output")?;
            return Ok(PacketFileState::Begun(Box::new(
                file.ending(signals::is_end_requested),
            )));
        }
        if flags.rotate.is_none() {
            let file = PacketFile::create(path, PacketRotation::default())
                .with_context(|| unwritten(path))?;
            if let FileOwner::Caller { user, group } = flags.live.file_owner() {
                file.give_to(user, group);
            }
            return Ok(PacketFileState::Begun(Box::new(
                file.ending(signals::is_end_requested),
            )));
        }
        let name = path
            .file_name()
            .ok_or_else(|| wrong_flags("--write requires a file"))?;
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let becoming = RunUser::of(&flags.live)?;
        let folder = OutputFolder::prepare(parent.unwrap_or(Path::new(".")), becoming);
        Ok(PacketFileState::Rotating(
            folder.with_context(|| unwritten(path))?.reach().join(name),
        ))
    }

    fn begin(self, flags: &WorkFlags) -> anyhow::Result<Option<Box<dyn PacketSink>>> {
        Ok(match self {
            PacketFileState::Nowhere => None,
            PacketFileState::Begun(file) => Some(file),
            PacketFileState::Rotating(path) => {
                let rotate = flags.rotate.unwrap_or_default();
                let rotation = PacketRotation {
                    every_ns: rotate.every_ns,
                    bytes: rotate.bytes,
                };
                let named = flags.write.as_deref().unwrap_or(&path);
                let file = PacketFile::create(&path, rotation);
                Some(Box::new(file.with_context(|| unwritten(named))?))
            }
        })
    }
}

fn unwritten(path: &Path) -> String {
    format!("cannot write packets to {}", path.display())
}

/// Reads the captures again for the packets of selected flows; returns errors.
fn second_pass(
    flags: &WorkFlags,
    plan: &MonitorSpec,
    config: &JobConfig,
    stop: &StopSignal,
    mut of: FlowPacketWriter<'_>,
) -> Vec<String> {
    if of.flows.is_empty() {
        return Vec::new();
    }
    let source = match live_capture::filter(capture::open_until(&flags.read, stop), &flags.live) {
        Ok(source) => source,
        Err(error) => return vec![format!("cannot read the packets again: {error:#}")],
    };
    let mut source: Box<dyn PacketSource> = source;
    CaptureWalk::new(plan, config.monitor.clone())
        .walk(source.as_mut(), &mut of, &|| !stop.is_asked());
    if stop.is_asked() {
        vec!["ended before all selected packets were found".to_owned()]
    } else {
        Vec::new()
    }
}

/// Writes packets of flows.
struct FlowPacketWriter<'k> {
    flows: &'k HashSet<u64>,
    file: &'k mut dyn PacketSink,
}

impl FlowVisitor for FlowPacketWriter<'_> {
    fn opens(&mut self, _: &Flow<'_>) -> bool {
        false
    }

    fn packet(&mut self, captured: &CapturedPacket<'_>, flow: &Flow<'_>) {
        if self.flows.contains(&flow.id()) {
            self.file.take(captured);
        }
    }

    fn said(&mut self, _: &Flow<'_>, _: FlowData<'_>) {}
}
