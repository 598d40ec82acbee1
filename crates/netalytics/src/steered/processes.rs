//! A monitor's process on some host, or that of an aggregator, started by the words that the network file has for that host: both speak in
//! frames, and end with their standard input.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Sender, SyncSender};
use std::thread;

use collect::Frame;
use plan::Slice;

/// Longest text kept of what it complains of.
const COMPLAINT_BYTES_MAX: usize = 500;

/// What is heard of it.
pub enum Said {
    /// It says something.
    Frame(Frame),
    /// It is gone; its last complaint.
    Gone(String),
}

/// Who hears it, each thing with its number.
#[derive(Clone)]
pub struct Ears {
    /// Whether it has started, or why it never will; said of each twice at most.
    pub started: Sender<(usize, Result<(), String>)>,
    /// All else.
    pub said: SyncSender<(usize, Said)>,
}

/// How one is started.
pub struct Starting<'s> {
    /// What it is: `monitor` or `aggregator`.
    pub what: &'static str,
    /// Where it runs.
    pub host: &'s str,
    /// The words that stand before the program there.
    pub via: &'s [String],
    /// The program there.
    pub program: &'s Path,
    /// Where it captures.
    pub interfaces: &'s [String],
    /// What it reads first.
    pub input: &'s [u8],
}

/// See the module's text.
pub struct Process {
    /// What it is, and where it runs: `the monitor on leaf1`.
    pub name: String,
    /// Where it runs.
    pub host: String,
    /// Whether its capture is open, or those of all for whom it speaks.
    pub is_started: bool,
    /// Whether nothing more will come.
    pub has_said_all: bool,
    child: Child,
    input: Option<ChildStdin>,
}

impl Process {
    /// Starts one, and has it heard.
    pub fn start(at: usize, starting: &Starting<'_>, ears: Ears) -> io::Result<Process> {
        let Starting { what, host, via, program, interfaces, input: told } = *starting;
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
        let mut child = command.stdin(piped()).stdout(piped()).stderr(piped()).spawn()?;
        let gone = || io::Error::other("it has no pipes");
        let mut input = child.stdin.take().ok_or_else(gone)?;
        let out = child.stdout.take().ok_or_else(gone)?;
        let complaints = child.stderr.take().ok_or_else(gone)?;
        // One that ends before it has read that says why itself.
        let _ = input.write_all(told).and_then(|()| input.flush());
        let complaining =
            thread::Builder::new().name("complaints".into()).spawn(move || last_line(complaints))?;
        thread::Builder::new().name(format!("{what} {at}")).spawn(move || {
            let mut out = BufReader::new(out);
            // What is no frame comes of one that was ended in the middle of it.
            let mut is_started = false;
            while let Ok(Some(frame)) = Frame::read(&mut out) {
                let heard = match frame {
                    Frame::Started if std::mem::replace(&mut is_started, true) => Ok(()),
                    Frame::Started => ears.started.send((at, Ok(()))).map_err(drop),
                    frame => ears.said.send((at, Said::Frame(frame))).map_err(drop),
                };
                if heard.is_err() {
                    return;
                }
            }
            let why = complaining.join().unwrap_or_default();
            let why = if why.is_empty() { "it says nothing more".to_owned() } else { why };
            let _ = ears.started.send((at, Err(why.clone())));
            let _ = ears.said.send((at, Said::Gone(why)));
        })?;
        let (name, host) = (format!("the {what} on {host}"), host.to_owned());
        Ok(Process { name, host, is_started: false, has_said_all: false, child, input: Some(input) })
    }

    /// Asks it to say what it has, and to end.
    pub fn end(&mut self) {
        self.tell("end");
    }

    /// Tells it which slice of the flows switches copy to it.
    pub fn slice(&mut self, slice: Slice) {
        self.tell(&format!("slice {slice}"));
    }

    /// One that is gone does not hear it.
    fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.input = None;
        if !self.has_said_all {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// The last line that says something.
fn last_line(from: impl io::Read) -> String {
    let mut last = String::new();
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        let text: String =
            line.trim().chars().filter(|c| !c.is_control()).take(COMPLAINT_BYTES_MAX).collect();
        if !text.is_empty() {
            last = text;
        }
    }
    last
}
