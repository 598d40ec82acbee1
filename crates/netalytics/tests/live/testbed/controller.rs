//! The OpenFlow controller of `sdn/`.

use super::*;

/// The controller of `sdn/`, at a socket and on a port of this machine.
pub(super) struct Sdn {
    pub(super) program: TestProgram,
    pub(super) socket: PathBuf,
    pub(super) listen: String,
    pub(super) token: PathBuf,
}

/// The Python with os-ken. `None` if it cannot be installed and `ALLOW_MISSING` names `os-ken`.
fn os_ken() -> Option<PathBuf> {
    let venv = root().join("target/sdn");
    let installed = Command::new(root().join("sdn/install.sh"))
        .arg(&venv)
        .output()
        .expect("bash");
    testkit::require!("os-ken" => installed.status.success());
    Some(venv.join("bin/python"))
}

impl Sdn {
    /// `None` if it cannot be installed and `ALLOW_MISSING` names `os-ken`; `listen`: address of its HTTP interface.
    pub(super) fn start(folder: &TempDir, listen: Option<String>) -> Option<Sdn> {
        let python = os_ken()?;
        let listen = listen.unwrap_or_else(|| format!("127.0.0.1:{}", free_port()));
        let socket = folder.path().join("openflow");
        // The socket of a killed controller does not count.
        let _ = fs::remove_file(&socket);
        let mut python = Command::new(python);
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

/// A bed that leaves forwarding to a controller, with an `ovs-ofctl` that changes rules only after the controller has
/// installed its own: they stay.
#[test]
fn a_bed_without_rules_keeps_those_of_a_running_controller() {
    let Some(bed) = TestBed::new() else { return };
    let Some(python) = os_ken() else { return };
    let socket = bed.sdn.path().join("openflow");
    let listen = format!("unix:{}", socket.display());
    let mut learning = Command::new(python);
    learning
        .arg(root().join("sdn/learning.py"))
        .args(["--openflow", &listen]);
    let _learning = TestProgram::start(&mut learning);
    wait_for("the controller", || {
        socket.exists().then_some(()).ok_or_else(String::new)
    });
    let path = std::env::var("PATH").expect("a path");
    let late = format!(
        "#!/bin/sh\ncase \"$*\" in *-flows*) sleep 3;; esac\nPATH={path} exec ovs-ofctl \"$@\"\n"
    );
    let tool = bed.sdn.path().join("ovs-ofctl");
    fs::write(&tool, late).expect("a file");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("a file");
    let first = format!("{}:{path}", bed.sdn.path().display());
    let env = [
        ("FORWARDING", "none"),
        ("SERVERS", "none"),
        ("CONTROLLER", &*listen),
        ("PATH", &*first),
    ];
    bed.run(&["up"], &env);
    for switch in LEAVES.into_iter().chain(["spine1"]) {
        let rules = bed.rules(switch);
        let is_learning = |rule: &String| rule.contains("cookie=0x6c6561726e696e67");
        assert!(rules.iter().any(is_learning), "{switch}: {rules:?}");
    }
    let ping = "ping -q -c 3 -W 20 10.60.2.1 >&2";
    shell(&format!("{}client1", bed.prefix()), ping);
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
