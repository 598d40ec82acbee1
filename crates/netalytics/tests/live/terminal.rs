//! On a terminal: open windows are shown, marked, and replaced by final rows. `script` provides the terminal.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::capture::BINARY;
use crate::net::{Net, within};

/// Timeout: the program hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running query on a terminal.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    shown: String,
}

impl Terminal {
    fn start(net: &Net, query: &str) -> Terminal {
        // exec: a shell in between would handle the interrupt itself.
        let command = format!("exec {BINARY} query '{query}' -i eth0 udp port 4000");
        let mut child = within(&net.server, "script")
            .args(["-qefc", &command, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script starts");
        let keys = child.stdin.take().expect("piped");
        let mut out = child.stdout.take().expect("piped");
        let (tell, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = out.read(&mut bytes) {
                if tell.send(bytes[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        let mut terminal = Terminal {
            child,
            keys,
            screen,
            shown: String::new(),
        };
        terminal.wait_for("capturing from");
        terminal
    }

    /// Waits until these words were shown.
    fn wait_for(&mut self, words: &str) {
        self.wait_until(|shown| shown.contains(words));
    }

    fn wait_until(&mut self, is_there: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_there(&self.shown) {
            let more = self
                .screen
                .recv_timeout(end.saturating_duration_since(Instant::now()));
            let more = more.unwrap_or_else(|e| panic!("{e}: {}", self.shown));
            self.shown.push_str(&String::from_utf8_lossy(&more));
        }
    }

    /// Ctrl-C; returns the complete output.
    fn interrupt(mut self) -> String {
        self.keys.write_all(b"\x03").expect("a key");
        self.wait_for("done in");
        // script waits for the end of its input, too.
        drop(self.keys);
        while let Ok(more) = self.screen.recv_timeout(PATIENCE) {
            self.shown.push_str(&String::from_utf8_lossy(&more));
        }
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {}", self.shown);
        self.shown
    }
}

#[test]
fn open_windows_are_drawn_and_replaced() {
    let Some(net) = Net::new() else { return };
    // A window that began before the capture is approximate.
    for (query, marked, row) in [
        (
            "PARSE packet PROCESS (group-count: group=dst_port, w=10h)",
            "still open: so far",
            " 4000 6 true",
        ),
        ("PARSE packet PROCESS (count)", "count, so far", "6"),
    ] {
        let mut terminal = Terminal::start(&net, query);
        net.send(6, 4000);
        terminal.wait_for(marked);
        // No window has been closed: these are open rows.
        terminal.wait_until(|shown| has_row(shown, row));
        let shown = terminal.interrupt();
        let (_, end) = shown
            .rsplit_once("\x1b[J")
            .expect("the drawing is taken away");
        assert!(!end.contains("so far"), "{shown}");
        assert!(has_row(end, row), "the final row follows: {shown}");
    }
}

/// Whether a line ends with this row, ignoring spaces.
fn has_row(shown: &str, row: &str) -> bool {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    shown
        .lines()
        .any(|line| format!(" {}", words(line)).ends_with(&format!(" {}", row.trim())))
}
