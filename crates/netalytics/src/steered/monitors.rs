//! A monitor's process on some host, started by the words that the network file has for that host; it ends with its standard input.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::SyncSender;
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

/// See the module's text.
pub struct Monitor {
    /// Where it runs.
    pub host: String,
    /// Whether its capture is open.
    pub is_started: bool,
    /// Whether nothing more will come.
    pub has_said_all: bool,
    child: Child,
    input: Option<ChildStdin>,
}

impl Monitor {
    /// Starts one that captures at these interfaces. All that it says goes to `tell`, with its number.
    pub fn start(
        (at, host): (usize, &str),
        via: &[String],
        program: &Path,
        interfaces: &[String],
        order: &[u8],
        tell: SyncSender<(usize, Said)>,
    ) -> io::Result<Monitor> {
        let mut command = match via {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        command.arg("monitor");
        interfaces.iter().for_each(|interface| {
            command.arg("-i").arg(interface);
        });
        let piped = || Stdio::piped();
        let mut child = command.stdin(piped()).stdout(piped()).stderr(piped()).spawn()?;
        let gone = || io::Error::other("it has no pipes");
        let mut input = child.stdin.take().ok_or_else(gone)?;
        let out = child.stdout.take().ok_or_else(gone)?;
        let complaints = child.stderr.take().ok_or_else(gone)?;
        // One that ends before it has read its order says why itself.
        let length = u32::try_from(order.len()).map_err(io::Error::other)?;
        let _ = input.write_all(&length.to_le_bytes()).and_then(|()| input.write_all(order));
        let _ = input.flush();
        let complaining =
            thread::Builder::new().name("complaints".into()).spawn(move || last_line(complaints))?;
        thread::Builder::new().name(format!("monitor {at}")).spawn(move || {
            let mut out = BufReader::new(out);
            // What is no frame comes of a monitor that was ended in the middle of one.
            while let Ok(Some(frame)) = Frame::read(&mut out) {
                if tell.send((at, Said::Frame(frame))).is_err() {
                    return;
                }
            }
            let why = complaining.join().unwrap_or_default();
            let why = if why.is_empty() { "it says nothing more".to_owned() } else { why };
            let _ = tell.send((at, Said::Gone(why)));
        })?;
        let host = host.to_owned();
        Ok(Monitor { host, is_started: false, has_said_all: false, child, input: Some(input) })
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

impl Drop for Monitor {
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
