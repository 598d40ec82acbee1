//! External programs used by tests. Time is real here.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::require;

/// Timeout for hanging programs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A Python with these packages (`NAME==VERSION`, separated by spaces), created once in the folder `name` below `tmp`;
/// `None` if that is impossible and `ALLOW_MISSING` names `pip`.
///
/// # Panics
/// If it is impossible otherwise.
#[must_use]
pub fn python(tmp: &Path, name: &str, packages: &str) -> Option<PathBuf> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one = MAKING.lock().unwrap_or_else(|e| e.into_inner());
    let venv = tmp.join(name);
    let python = venv.join("bin/python");
    let works = || {
        let check = "import importlib.metadata as m, sys; assert all(m.version(n) == v for n, v in \
                     (p.split('==') for p in sys.argv[1:]))";
        let mut command = Command::new(&python);
        command
            .args(["-c", check])
            .args(packages.split(' '))
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !works() {
        let script = format!(
            "python3 -m venv {venv} && {venv}/bin/pip install --quiet --disable-pip-version-check {packages}",
            venv = venv.display()
        );
        let _ = Command::new("sh").args(["-c", &script]).status();
    }
    require!("pip" => works().then_some(()).ok_or_else(|| format!("{packages} could not be installed")));
    Some(python)
}

/// A program that is killed on drop.
pub struct TestProgram(pub Child);

impl TestProgram {
    /// Starts the program and discards its output.
    pub fn start(command: &mut Command) -> TestProgram {
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        TestProgram(command.spawn().expect("it starts"))
    }

    /// Kills the program and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for TestProgram {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that was free at the time of the call.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a port")
        .port()
}

/// Waits until `ready` returns a value; `seen` is the last error.
#[track_caller]
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        let seen = match ready() {
            Ok(found) => return found,
            Err(seen) => seen,
        };
        assert!(
            begun.elapsed() < PATIENCE,
            "waited for {what} in vain: {seen}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Checks a page with Prometheus's linter.
pub fn lint(page: &str) {
    require!("promtool");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool");
    promtool
        .stdin
        .take()
        .expect("piped")
        .write_all(page.as_bytes())
        .expect("it reads");
    let checked = promtool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(
        checked.status.success(),
        "{said}{}\n{page}",
        String::from_utf8_lossy(&checked.stdout)
    );
}
