//! `calibrate`: its file is readable and contains measured times, and no switch remains, also after a kill.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use planner::physical::PlanCosts;
use testkit::programs::wait_for;

use crate::capture::BINARY;
use crate::turn::TestTurn;

/// Environment variable of all processes started by a calibration.
pub fn mark(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

fn calibrate(mark: &str, output: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command
        .args(["calibrate", "--rounds", "1", "-o"])
        .arg(output)
        .env("CALIBRATED_BY", mark);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Names of running processes started by a calibration.
pub fn at_work(mark: &str) -> Vec<String> {
    let all = fs::read_dir("/proc")
        .expect("processes")
        .flatten()
        .map(|entry| entry.path());
    let is_marked = |path: &Path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(mark)
    };
    let name = |path: std::path::PathBuf| {
        fs::read_to_string(path.join("comm"))
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    all.filter(|path| is_marked(path)).map(name).collect()
}

/// A process reads its own CPU time before the kernel has first looked at it: 0, which is no error.
#[test]
fn senders_that_have_just_started_report_their_time() {
    let _turn = TestTurn::wait();
    for _ in 0..150 {
        let sent = Command::new(BINARY)
            .args(["calibrate", "--send", "300,10,127.0.0.1"])
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&sent.stderr);
        assert!(sent.status.success(), "{said}");
        let ns: f64 = String::from_utf8_lossy(&sent.stdout)
            .trim()
            .parse()
            .expect("a number");
        assert!(ns > 0.0);
    }
}

#[test]
fn a_calibration_measures_and_leaves_nothing() {
    let _turn = TestTurn::wait();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("costs.toml");
    let done = mark("done");
    let output = calibrate(&done, &file).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = fs::read_to_string(&file).expect("a file");
    let PlanCosts {
        monitor,
        switch,
        export,
        ..
    } = PlanCosts::parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    let times = [
        monitor.receive_ns,
        monitor.receive_byte_ns,
        monitor.refuse_ns,
        switch.copy_ns,
        switch.mirror_ns,
        switch.tunnel_ns,
        export.sflow_sample_ns,
        export.ipfix_sample_ns,
    ];
    for ns in times.into_iter().chain(switch.cut_ns) {
        assert!(ns.is_finite() && ns > 0.0, "{text}");
    }
    assert_eq!(at_work(&done), Vec::<String>::new());
    testkit::require!("unshare", "nsenter", "ip", "ovs-vswitchd", "ovsdb-server");
    testkit::require!("namespaces" => !said.contains("root privileges are required"));
    assert!(
        said.contains("copying a packet in a userspace switch: "),
        "{said}"
    );
    assert!(said.contains("in IPFIX records"), "{said}");

    let killed = mark("killed");
    let mut program = calibrate(&killed, &file)
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    wait_for("its switch", || {
        let names = at_work(&killed);
        if names.iter().any(|name| name == "ovs-vswitchd") {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        }
    });
    program.kill().expect("it runs");
    program.wait().expect("it ends");
    wait_for("the end of all that it has started", || {
        let names = at_work(&killed);
        if names.is_empty() {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        }
    });
}
