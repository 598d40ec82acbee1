//! The OpenFlow controller of `sdn/`.

use super::*;

/// The controller of `sdn/`, at a socket and on a port of this machine.
pub(super) struct Sdn {
    pub(super) program: TestProgram,
    pub(super) socket: PathBuf,
    pub(super) listen: String,
    pub(super) token: PathBuf,
}

impl Sdn {
    /// `None` if it cannot be installed and `ALLOW_MISSING` names `os-ken`; `listen`: address of its HTTP interface.
    pub(super) fn start(folder: &TempDir, listen: Option<String>) -> Option<Sdn> {
        let venv = root().join("target/sdn");
        let installed = Command::new(root().join("sdn/install.sh"))
            .arg(&venv)
            .output()
            .expect("bash");
        testkit::require!("os-ken" => installed.status.success());
        let listen = listen.unwrap_or_else(|| format!("127.0.0.1:{}", free_port()));
        let socket = folder.path().join("openflow");
        // The socket of a killed controller does not count.
        let _ = fs::remove_file(&socket);
        let mut python = Command::new(venv.join("bin/python"));
        python
            .arg(root().join("sdn"))
            .arg("--openflow")
            .arg(format!("unix:{}", socket.display()));
        let token = folder.path().join("sdn.token");
        let program = TestProgram::start(
            python
                .args(["--listen", &listen])
                .arg("--token-file")
                .arg(&token),
        );
        wait_for("the controller", || {
            let made = socket.metadata().map_err(|e| e.to_string())?;
            (made.permissions().mode() != 0)
                .then_some(())
                .ok_or_else(String::new)
        });
        Some(Sdn {
            program,
            socket,
            listen,
            token,
        })
    }

    /// A network file with the controller in place of the switches' databases.
    pub(super) fn instead_of_databases(&self, network: &str) -> String {
        let url = format!("http://{}", self.listen);
        let token = self.token.display();
        let line = |line: &str| {
            let name = line
                .strip_prefix("ovsdb = ")
                .and_then(|path| path.split('/').rev().nth(1));
            match name.map(|name| (name.strip_prefix("leaf"), name.strip_prefix("spine"))) {
                Some((Some(leaf), _)) => format!(
                    "controller = {url:?}\ncontroller_token = \"{token}\"\ndatapath = \"{leaf:0>16}\""
                ),
                Some((_, Some(spine))) => {
                    format!(
                        "controller = {url:?}\ncontroller_token = \"{token}\"\ndatapath = \"{:0>16}\"",
                        format!("10{spine}")
                    )
                }
                _ if line == "spare = true" => format!("{line}\nquiet = true"),
                _ => line.to_owned(),
            }
        };
        network.lines().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Runs the controller's own tests in Python, before the bed's switches.
#[test]
fn the_controllers_tests_pass() {
    if TestBed::new().is_none() {
        return;
    }
    let installed = Command::new(root().join("sdn/install.sh"))
        .output()
        .expect("bash");
    let reason = String::from_utf8_lossy(&installed.stderr);
    testkit::require!("os-ken" => installed.status.success().then_some(()).ok_or(reason));
    let tested = Command::new(root().join("sdn/test.sh"))
        .stdin(Stdio::null())
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&tested.stderr);
    assert!(tested.status.success(), "{said}");
    eprintln!(
        "{}",
        said.lines().rev().take(3).collect::<Vec<_>>().join(" ")
    );
}
