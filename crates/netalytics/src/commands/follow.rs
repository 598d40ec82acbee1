//! `netalytics follow ID -r FILE…`: prints the data of both sides of a flow, and writes its packets.

use std::cell::Cell;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use capture::live::StopSignal;
use capture::{PacketFile, PacketRotation, PacketSink};
use flow::{CloseReason, Flow};
use monitor::capture_walk::{CaptureWalk, FlowData, FlowVisitor};
use plan::MonitorSpec;
use wire::CapturedPacket;

use crate::cli::flags::{FlowName, FollowFlags};
use crate::process::failure::{CommandOutcome, UnreadableInputs, wrong_flags};
use crate::process::file_owner::FileOwner;
use crate::process::output::{self, OutputDestination};
use crate::process::signals::{self, SignalHandlers};
use crate::render::conversation::{ByteFormat, ConversationPrinter, flow_community_id};
use crate::source::recording_replay;

/// Prints the flow.
pub fn follow(flags: &FollowFlags, quiet: bool) -> anyhow::Result<CommandOutcome> {
    check_paths(flags)?;
    let stop = StopSignal::default();
    let signals = SignalHandlers::end(&stop).context("cannot handle signals")?;
    let mut source = capture::open_until(&flags.read, &stop);
    if source.errors().len() == flags.read.len() {
        return Err(
            UnreadableInputs(source.errors().iter().map(ToString::to_string).collect()).into(),
        );
    }
    let file = flags.write.as_deref().map(keep).transpose()?;
    let file = file.map(|file| file.ending(signals::is_end_requested));
    let destination = OutputDestination::open(flags.output.as_deref(), FileOwner::Us)?;
    let show = if flags.hex {
        ByteFormat::Hex
    } else {
        ByteFormat::Text
    };
    let is_over = Cell::new(false);
    let mut following = FlowFollower {
        name: &flags.id,
        text: ConversationPrinter::new(destination.writer, show, flags.bytes_max.0),
        file,
        flows: 0,
        found: 0,
        failed: None,
        is_over: &is_over,
    };
    let go_on = || !stop.is_asked() && !is_over.get();
    CaptureWalk::new(&MonitorSpec::default(), flags.config()).walk(
        source.as_mut(),
        &mut following,
        &go_on,
    );

    let FlowFollower {
        mut text,
        file,
        flows,
        found,
        failed,
        ..
    } = following;
    let failed = failed.or_else(|| text.finish().err());
    let mut complaints: Vec<String> = source.errors().iter().map(ToString::to_string).collect();
    if let Some(error) = failed.filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
        complaints.push(format!("cannot write to {}: {error}", destination.name));
    }
    if let Some((kept, error)) = file.map(|mut file| file.finish()) {
        complaints.extend(error.map(|error| format!("cannot write all packets: {error}")));
        if !quiet {
            output::complain(&format!(
                "{} packets kept, {} bytes",
                kept.packets, kept.bytes
            ));
        }
    }
    match signals.name() {
        Some(signal) => complaints.push(format!("{signal} ended the run before the end of the input")),
        None if found == 0 => complaints.push(format!(
            "none of the {flows} flows has the id {}: `netalytics query \"PARSE flow\"` over the same files lists them",
            flags.id
        )),
        None => {}
    }
    complaints
        .iter()
        .for_each(|text| output::complain(&format!("error: {text}")));
    Ok(if complaints.is_empty() {
        CommandOutcome::Done
    } else {
        CommandOutcome::Incomplete
    })
}

fn check_paths(flags: &FollowFlags) -> anyhow::Result<()> {
    let dash = |path: &Path| path == Path::new("-");
    if recording_replay::asked(&flags.read)? {
        return Err(wrong_flags("a recording has no packets: use its captures"));
    }
    if flags.read.iter().filter(|path| dash(path)).count() > 1 {
        return Err(wrong_flags("standard input (-) can be read once only"));
    }
    let output = flags.output.as_deref().filter(|path| !dash(path));
    let write = flags.write.as_deref().filter(|path| !dash(path));
    if flags.write.is_some() && write.is_none() && output.is_none() {
        return Err(wrong_flags(
            "packets (-w -) and text both go to standard output: write the text to a file with -o FILE",
        ));
    }
    if output.is_some() && output == write {
        return Err(wrong_flags("--output and --write name the same file"));
    }
    [output, write]
        .into_iter()
        .flatten()
        .try_for_each(|path| output::refuse_inputs(path, &flags.read))
}

fn keep(path: &Path) -> anyhow::Result<PacketFile> {
    if path == Path::new("-") {
        return PacketFile::to_stdout().context("cannot write packets to standard output");
    }
    PacketFile::create(path, PacketRotation::default())
        .with_context(|| format!("cannot write packets to {}", path.display()))
}

/// Finds a flow and prints it.
struct FlowFollower<'f> {
    name: &'f FlowName,
    text: ConversationPrinter<Box<dyn Write + Send>>,
    file: Option<PacketFile>,
    /// Number of flows examined, and found.
    flows: u64,
    found: u64,
    failed: Option<io::Error>,
    is_over: &'f Cell<bool>,
}

impl FlowFollower<'_> {
    fn is_it(&self, flow: &Flow<'_>) -> bool {
        match self.name {
            FlowName::Id(id) => flow.id() == *id,
            FlowName::CommunityId(id) => flow_community_id(flow) == *id,
        }
    }
}

impl FlowVisitor for FlowFollower<'_> {
    fn opens(&mut self, flow: &Flow<'_>) -> bool {
        self.flows += 1;
        let is_it = self.is_it(flow);
        self.found += u64::from(is_it);
        is_it
    }

    fn packet(&mut self, captured: &CapturedPacket<'_>, flow: &Flow<'_>) {
        if self.file.is_some()
            && self.is_it(flow)
            && let Some(file) = &mut self.file
        {
            file.take(captured);
        }
    }

    fn said(&mut self, flow: &Flow<'_>, said: FlowData<'_>) {
        if self.failed.is_some() || !self.is_it(flow) {
            return;
        }
        self.failed = self.text.tell(flow, said).err();
        let is_last = matches!(said, FlowData::Closed(reason) if reason != CloseReason::Rst);
        // Another flow may have the same Community ID.
        let is_only = matches!(self.name, FlowName::Id(_));
        if is_last && is_only || self.failed.is_some() && self.file.is_none() {
            self.is_over.set(true);
        }
    }
}
