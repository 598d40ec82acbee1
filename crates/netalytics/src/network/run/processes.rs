//! A monitor or aggregator process on a host, started by the command prefix in the network file: writes frames to its
//! standard output, and ends with its standard input.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Sender, SyncSender};
use std::thread;

use collect::MonitorFrame;
use plan::FlowSlice;

/// Maximum bytes kept of its last error message.
const COMPLAINT_BYTES_MAX: usize = 500;

/// Message from a process.
pub enum RemoteProcessEvent {
    /// A frame.
    Frame(MonitorFrame),
    /// The process has ended; its last error message.
    Gone(String),
}

/// Channels for messages, each with the number of the process.
#[derive(Clone)]
pub struct ProcessEventSink {
    /// Start of a process or the reason of its failure; at most two per process.
    pub started: Sender<(usize, Result<(), String>)>,
    /// All other messages.
    pub said: SyncSender<(usize, RemoteProcessEvent)>,
}

/// Start parameters of a process.
pub struct ProcessStart<'s> {
    /// Verb: `monitor` or `aggregator`.
    pub what: &'static str,
    /// Name of the process's host.
    pub host: &'s str,
    /// Command prefix.
    pub via: &'s [String],
    /// Path of the program on the host.
    pub program: &'s Path,
    /// Capture interfaces.
    pub interfaces: &'s [String],
    /// First bytes of its standard input.
    pub input: &'s [u8],
}

/// See the module documentation.
pub struct RemoteProcess {
    /// Name for messages: `the monitor on leaf1`.
    pub name: String,
    /// Name of the process's host.
    pub host: String,
    /// Whether its capture is open; for an aggregator, those of all its monitors.
    pub is_started: bool,
    /// Whether its output is complete.
    pub has_said_all: bool,
    child: Child,
    input: Option<ChildStdin>,
}

impl RemoteProcess {
    /// Starts a process, and a thread that reads its output.
    pub fn start(
        at: usize,
        starting: &ProcessStart<'_>,
        ears: ProcessEventSink,
    ) -> io::Result<RemoteProcess> {
        let ProcessStart {
            what,
            host,
            via,
            program,
            interfaces,
            input: told,
        } = *starting;
        let mut command = match via {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        command.arg(what);
        interfaces.iter().for_each(|interface| {
            command.arg("-i").arg(interface);
        });
        let piped = || Stdio::piped();
        let mut child = command
            .stdin(piped())
            .stdout(piped())
            .stderr(piped())
            .spawn()?;
        let gone = || io::Error::other("it has no pipes");
        let mut input = child.stdin.take().ok_or_else(gone)?;
        let out = child.stdout.take().ok_or_else(gone)?;
        let complaints = child.stderr.take().ok_or_else(gone)?;
        // A process that ends before it has read its input reports the reason.
        let _ = input.write_all(told).and_then(|()| input.flush());
        let complaining = thread::Builder::new()
            .name("complaints".into())
            .spawn(move || last_line(complaints))?;
        thread::Builder::new()
            .name(format!("{what} {at}"))
            .spawn(move || {
                let mut out = BufReader::new(out);
                // An incomplete frame means that the process was killed while writing.
                let mut is_started = false;
                while let Ok(Some(frame)) = MonitorFrame::read(&mut out) {
                    let heard = match frame {
                        MonitorFrame::Started if std::mem::replace(&mut is_started, true) => Ok(()),
                        MonitorFrame::Started => ears.started.send((at, Ok(()))).map_err(drop),
                        frame => ears
                            .said
                            .send((at, RemoteProcessEvent::Frame(frame)))
                            .map_err(drop),
                    };
                    if heard.is_err() {
                        return;
                    }
                }
                let why = complaining.join().unwrap_or_default();
                let why = if why.is_empty() {
                    "its output ended".to_owned()
                } else {
                    why
                };
                let _ = ears.started.send((at, Err(why.clone())));
                let _ = ears.said.send((at, RemoteProcessEvent::Gone(why)));
            })?;
        let name = format!("the {what} on {host}");
        let host = host.to_owned();
        Ok(RemoteProcess {
            name,
            host,
            is_started: false,
            has_said_all: false,
            child,
            input: Some(input),
        })
    }

    /// Requests the last results and the end.
    pub fn end(&mut self) {
        self.tell("end");
    }

    /// Sets the slice of flows that switches mirror to it.
    pub fn slice(&mut self, slice: FlowSlice) {
        self.tell(&format!("slice {slice}"));
    }

    /// Errors are ignored: the process has ended.
    fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }
}

impl Drop for RemoteProcess {
    fn drop(&mut self) {
        self.input = None;
        if !self.has_said_all {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Last nonempty line.
fn last_line(from: impl io::Read) -> String {
    let mut last = String::new();
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        let text: String = line
            .trim()
            .chars()
            .filter(|c| !c.is_control())
            .take(COMPLAINT_BYTES_MAX)
            .collect();
        if !text.is_empty() {
            last = text;
        }
    }
    last
}
