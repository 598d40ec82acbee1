//! A monitor's process: started with its order, read by its own thread, controlled by lines on its standard input. Its
//! output goes to a bounded channel: if that is full, the monitor's pipe fills, and its workers wait.

use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use collect::MonitorFrame;
use link::RecordLane;
use plan::TapTable;
use tokio::sync::mpsc::Sender;

use crate::cgroups::{CgroupRoot, MonitorCgroup, ProcessBounds, memory_of};
use crate::selected_packets::SelectedPackets;

/// Maximum bytes kept of a monitor's last error message.
const COMPLAINT_BYTES_MAX: usize = 500;
/// Interval at which a silent process is checked for its exit.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Message from a process: a monitor, identified by the lane that it was started for, or the reader of kept packets.
#[derive(Debug)]
pub enum ProcessEvent {
    /// A frame.
    Said(RecordLane, MonitorFrame),
    /// The process has ended: status and last line of standard error.
    Gone(RecordLane, io::Result<ExitStatus>, String),
    /// The packets of a request were selected.
    Packets(u64, io::Result<SelectedPackets>),
}

/// Start parameters.
pub struct MonitorStart<'a> {
    /// Path of this program.
    pub program: &'a Path,
    /// Arguments after `monitor`.
    pub arguments: &'a [String],
    /// Encoded order.
    pub order: &'a [u8],
    /// Limits.
    pub bounds: ProcessBounds,
}

/// A running monitor.
pub struct MonitorProcess {
    lane: RecordLane,
    child: Arc<Mutex<Child>>,
    pid: u32,
    input: Option<ChildStdin>,
    bounds: ProcessBounds,
    group: Option<MonitorCgroup>,
}

impl MonitorProcess {
    /// Starts a monitor. Its messages go to `news`.
    ///
    /// # Errors
    /// `io::Error` if the process cannot be started.
    pub fn start(
        lane: RecordLane,
        start: &MonitorStart<'_>,
        groups: Option<&CgroupRoot>,
        news: Sender<ProcessEvent>,
    ) -> io::Result<MonitorProcess> {
        let mut child = Command::new(start.program)
            .arg("monitor")
            .args(start.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let piped = "the stream is piped";
        let mut input = child.stdin.take().expect(piped);
        let out = child.stdout.take().expect(piped);
        let complaints = child.stderr.take().expect(piped);
        let pid = child.id();
        let group = groups.and_then(|groups| {
            let made = groups.make(&format!("{}-{}", lane.job, lane.attempt), start.bounds);
            let entered = made.and_then(|group| group.enter(pid).map(|()| group));
            entered
                .inspect_err(|e| tracing::warn!("job {}: no control group: {e}", lane.job))
                .ok()
        });
        // A process that ends before it has read its order reports the reason.
        let order = collect::encode_block(start.order)?;
        let _ = input.write_all(&order).and_then(|()| input.flush());
        let child = Arc::new(Mutex::new(child));
        let complaining = thread::spawn(move || last_line(BufReader::new(complaints)));
        let heard = child.clone();
        thread::Builder::new()
            .name(format!("job {}", lane.job))
            .spawn(move || {
                let mut out = BufReader::new(out);
                // An incomplete frame means that the monitor was killed while writing.
                while let Ok(Some(frame)) = MonitorFrame::read(&mut out) {
                    if news.blocking_send(ProcessEvent::Said(lane, frame)).is_err() {
                        break;
                    }
                }
                let status = wait(&heard);
                let complaint = complaining.join().unwrap_or_default();
                // The channel is closed when the agent ends.
                let _ = news.blocking_send(ProcessEvent::Gone(lane, status, complaint));
            })?;
        Ok(MonitorProcess {
            lane,
            child,
            pid,
            input: Some(input),
            bounds: start.bounds,
            group,
        })
    }

    /// Renews the monitor's lease for `lasts` from now.
    pub fn renew(&mut self, lasts: Duration) {
        self.tell(&format!("renew {}", lasts.as_millis()));
    }

    /// Sets the tap table.
    pub fn retap(&mut self, taps: &TapTable) {
        let list = |ips: &[IpAddr]| {
            ips.iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        self.tell(&format!("taps {};{}", list(&taps.own), list(&taps.others)));
    }

    /// Raises the monitor's packet limit, counted from its start.
    pub fn allow(&mut self, packets: u64) {
        self.tell(&format!("allow {packets}"));
    }

    /// Requests that it takes no further packets and reports their number; `grant` is returned in the reply.
    pub fn take_back(&mut self, grant: u64) {
        self.tell(&format!("take-back {grant}"));
    }

    /// Requests all results so far, confirmed with `number`.
    pub fn flush(&mut self, number: u64) {
        self.tell(&format!("flush {number}"));
    }

    /// Requests the last results and the end.
    pub fn stop(&mut self) {
        self.tell("end");
    }

    /// Kills it.
    pub fn kill(&self) {
        let killed = self
            .child
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .kill();
        if let Err(error) = killed {
            tracing::warn!(
                "job {}: the monitor cannot be killed: {error}",
                self.lane.job
            );
        }
    }

    /// Bytes of memory above the monitor's limit; `None`: within the limit.
    #[must_use]
    pub fn excess(&self) -> Option<u64> {
        memory_of(self.pid)?
            .checked_sub(self.bounds.memory_max)
            .filter(|excess| *excess > 0)
    }

    /// Whether the kernel has killed the monitor for lack of memory.
    #[must_use]
    pub fn was_killed_for_memory(&self) -> bool {
        self.group
            .as_ref()
            .is_some_and(|group| group.killed_for_memory() > 0)
    }

    fn tell(&mut self, line: &str) {
        // Errors are ignored: the process has ended.
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }
}

impl Drop for MonitorProcess {
    /// A monitor does not outlive its agent: it ends when its standard input is closed.
    fn drop(&mut self) {
        self.input = None;
    }
}

/// Waits for the end. The lock is released meanwhile, so that the process can be killed.
fn wait(child: &Mutex<Child>) -> io::Result<ExitStatus> {
    loop {
        match child
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .try_wait()
        {
            Ok(None) => thread::sleep(LOOK_EVERY),
            Ok(Some(status)) => return Ok(status),
            Err(error) => return Err(error),
        }
    }
}

/// Last nonempty line, limited in length.
pub(crate) fn last_line(from: impl BufRead) -> String {
    let mut last = String::new();
    for line in from.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if !line.trim().is_empty() {
            last = line.trim().chars().take(COMPLAINT_BYTES_MAX).collect();
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const LANE: RecordLane = RecordLane {
        boot: 1,
        job: 7,
        attempt: 1,
    };

    /// Messages of a script in place of a monitor.
    fn hear(
        script: &str,
        tell: impl FnOnce(&mut MonitorProcess),
    ) -> (Vec<MonitorFrame>, Option<i32>, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("monitor");
        std::fs::write(&program, format!("#!/bin/sh\n{script}")).expect("written");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("a mode");
        let (news, mut heard) = tokio::sync::mpsc::channel(1);
        let bounds = ProcessBounds {
            memory_max: 1 << 40,
            cores: 1,
        };
        let start = MonitorStart {
            program: &program,
            arguments: &["-q".into()],
            order: b"abc",
            bounds,
        };
        // A process forked concurrently by another test may briefly hold the file open for writing.
        let started =
            (0..100).find_map(
                |_| match MonitorProcess::start(LANE, &start, None, news.clone()) {
                    Err(busy) if busy.kind() == io::ErrorKind::ExecutableFileBusy => {
                        thread::sleep(Duration::from_millis(10));
                        None
                    }
                    started => Some(started.expect("it starts")),
                },
            );
        let mut monitor = started.expect("no writer");
        drop(news);
        assert_eq!(monitor.excess(), None);
        tell(&mut monitor);
        let mut frames = Vec::new();
        loop {
            match heard.blocking_recv().expect("an event") {
                ProcessEvent::Said(LANE, frame) => frames.push(frame),
                ProcessEvent::Gone(LANE, status, complaint) => {
                    return (frames, status.expect("it was waited for").code(), complaint);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn commands_and_frames_pass_the_pipes() {
        // The order's length and content, then lines; outputs a Started and an Account frame.
        let script = r#"head -c 7 | od -An -tx1 >&2; read line; echo "$1 $2 $line" >&2
            printf '\0\0\0\0\1\4\0\0\0\3a 1\n'; exit 3"#;
        let (frames, code, complaint) =
            hear(script, |monitor| monitor.renew(Duration::from_secs(2)));
        assert_eq!(
            frames,
            [
                MonitorFrame::Started,
                MonitorFrame::Account(vec![("a".into(), 1)])
            ]
        );
        assert_eq!(
            (code, complaint.as_str()),
            (Some(3), "monitor -q renew 2000")
        );
    }

    #[test]
    fn monitors_end_on_request_or_when_the_agent_is_gone() {
        let (_, code, _) = hear(
            "head -c 7 >/dev/null; while read line; do [ \"$line\" = end ] && exit 0; done; exit 1",
            MonitorProcess::stop,
        );
        assert_eq!(code, Some(0));
        let (_, code, _) = hear("cat >/dev/null; exit 4", |monitor| monitor.input = None);
        assert_eq!(code, Some(4));
        let (_, code, complaint) = hear(
            "echo; echo ' why '; exec >&2; echo why; echo; exec sleep 60",
            |monitor| {
                thread::sleep(Duration::from_millis(100));
                monitor.kill();
            },
        );
        assert_eq!((code, complaint.as_str()), (None, "why"));
    }
}
