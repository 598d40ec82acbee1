//! Both switches behind the controller of `sdn/`, over HTTP.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use mirror::MirrorMode;
use steer::{
    CopyJob, CopyRoute, CopyTap, NetworkMap, PortPlace, SelectionMethod, SwitchController,
    SwitchFabric, SwitchSite,
};
use testkit::namespaces::run;
use testkit::programs::{TestProgram, free_port, wait_for};

use crate::bed::{BRIDGE, Bed, FAR_HOST, FAR_MONITOR, HOSTS, MONITOR, Which};
use crate::fabrics::{both, tap};
use crate::packets::{SERVER, SERVES, Stream, ask, cut, same, serve};

/// In seconds; short, so that renewals are observed.
const LEASE: u16 = 3;
const NUMBERS: [&str; 2] = ["0000000000000001", "0000000000000002"];

#[test]
fn rules_are_installed_over_http() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let venv = root.join("target/sdn");
    testkit::require!("os-ken" => run(Command::new(root.join("sdn/install.sh")).arg(&venv)));
    let _server = serve(&bed);
    let openflow = bed.folder.join("openflow");
    let (listen, url) = {
        let port = free_port();
        (
            format!("127.0.0.1:{port}"),
            format!("http://127.0.0.1:{port}"),
        )
    };
    let token_file = bed.folder.join("sdn.token");
    let start = || {
        let mut python = Command::new(venv.join("bin/python"));
        python
            .arg(root.join("sdn"))
            .arg("--openflow")
            .arg(format!("unix:{}", openflow.display()));
        TestProgram::start(
            python
                .args(["--listen", &listen])
                .arg("--token-file")
                .arg(&token_file),
        )
    };
    let mut controller = start();
    wait_for("the controller", || {
        let made = openflow.metadata().map_err(|e| e.to_string())?;
        (made.permissions().mode() != 0)
            .then_some(())
            .ok_or_else(String::new)
    });
    for (which, number) in [Which::Near, Which::Far].into_iter().zip(NUMBERS) {
        bed.vsctl(
            which,
            &format!("set bridge {BRIDGE} other-config:datapath-id={number}"),
        );
        // A switch accepts no other path of a socket.
        let socket = bed.sockets(which).join(format!("{BRIDGE}.controller"));
        std::os::unix::fs::symlink(&openflow, &socket).expect("a link");
        bed.vsctl(
            which,
            &format!("set-controller {BRIDGE} unix:{}", socket.display()),
        );
    }
    // A bridge loses its rules when it gets its first controller; flooding to a monitor's port is disabled by the owner
    // of the switch.
    let reached = || {
        let path = format!("{url}/v1/health");
        let mut answer = ureq::get(&path).call().map_err(|e| e.to_string())?;
        let said = answer
            .body_mut()
            .read_to_string()
            .map_err(|e| e.to_string())?;
        said.contains("\"switches\": 2").then_some(()).ok_or(said)
    };
    wait_for("both switches", reached);
    for which in [Which::Near, Which::Far] {
        bed.rules(which, &["priority=0,actions=NORMAL"]);
        let mut switch = bed.switch_at(which);
        let port = if which == Which::Near {
            MONITOR
        } else {
            FAR_MONITOR
        };
        steer::SwitchBackend::keep_floods_from(&mut switch, port).expect("it does");
    }
    let before = both(&bed);
    let token = std::fs::read_to_string(&token_file)
        .expect("the controller has made it")
        .trim()
        .to_owned();
    let mut nobody = SwitchController::new(&url, NUMBERS[0], None, &[]);
    let refused = steer::SwitchBackend::list(&mut nobody)
        .expect_err("no token")
        .to_string();
    assert!(refused.contains("missing or wrong token"), "{refused}");
    let fabric = |quiet: bool| {
        let site = |which: Which, number: &str, port: u32| {
            let name = format!("v{port}");
            let ports = if quiet {
                vec![name.as_str()]
            } else {
                Vec::new()
            };
            let backend = Box::new(SwitchController::new(&url, number, Some(&token), &ports));
            SwitchSite {
                name: which.name().to_owned(),
                backend,
                tunnel_address: None,
            }
        };
        let place = |which: Which, port: u32| PortPlace::new(which.name(), &format!("v{port}"));
        let host = |which, port: u32| ([10, 9, 0, port as u8].into(), place(which, port));
        let near = HOSTS.into_iter().map(|port| host(Which::Near, port));
        let map = NetworkMap {
            cables: vec![(place(Which::Near, 20), place(Which::Far, 20))],
            hosts: near.chain([host(Which::Far, FAR_HOST)]).collect(),
        };
        let sites = vec![
            site(Which::Near, NUMBERS[0], MONITOR),
            site(Which::Far, NUMBERS[1], FAR_MONITOR),
        ];
        SwitchFabric::new(SERVER, LEASE, sites, map)
    };
    // The server's switch copies all, the other one the traffic of its own host, each to its own monitor.
    let near = tap(
        MirrorMode::HEADERS,
        Some(80),
        "m",
        CopyRoute::Port(format!("v{MONITOR}")),
    );
    let entering = SelectionMethod::Rules(vec![format!("v{FAR_HOST}")]);
    let far = CopyTap {
        switch: Which::Far.name().to_owned(),
        how: entering,
        ..tap(
            MirrorMode::FLOW,
            Some(80),
            "n",
            CopyRoute::Port(format!("v{FAR_MONITOR}")),
        )
    };
    let job = |taps: Vec<CopyTap>| CopyJob {
        id: 5,
        generation: 1,
        taps,
    };
    let refused = fabric(false)
        .start(job(vec![near.clone()]))
        .err()
        .expect("floods");
    assert!(
        refused
            .to_string()
            .contains("not the setting no-flood of port 9 (v9)"),
        "{refused}"
    );
    let mirror = CopyTap {
        how: SelectionMethod::Mirror(vec!["v2".to_owned()]),
        ..near.clone()
    };
    let refused = fabric(true)
        .start(job(vec![mirror]))
        .err()
        .expect("no mirrors");
    assert!(
        refused.to_string().contains("it has no") || refused.to_string().contains("mirrors"),
        "{refused}"
    );
    assert_eq!(both(&bed), before);
    let stream = Stream::start(&bed);
    let owner = fabric(true);
    let running = owner
        .start(job(vec![near, far]))
        .unwrap_or_else(|e| panic!("{e}"));
    let check = |mark: &str, is_copied: bool| {
        let server = bed.capture(SERVES, "");
        let monitors = [MONITOR, FAR_MONITOR].map(|at| bed.capture(at, ""));
        ask(&bed, mark, &server);
        let expected = if is_copied {
            bed.capture_file(&server, "tcp port 80")
        } else {
            Vec::new()
        };
        same(
            mark,
            &cut(monitors[0].wait(expected.len()), MirrorMode::FLOW),
            &cut(expected, MirrorMode::HEADERS),
        );
        assert_eq!(
            monitors[1].frames().len(),
            0,
            "the far host has said nothing"
        );
        server.end();
        monitors.into_iter().for_each(crate::bed::Capture::end);
    };
    check("mark controlled", true);
    // Traffic from the remote host is copied at its own switch.
    let monitor = bed.capture(FAR_MONITOR, "");
    let get = "import socket; c = socket.create_connection(('10.9.0.2', 80)); c.sendall(b'10'); assert len(c.recv(99)) == 10";
    run(bed.within(FAR_HOST, "python3").args(["-c", get])).expect("it is answered");
    assert!(
        monitor
            .wait(3)
            .iter()
            .all(|frame| frame[6..12] == [2, 0, 0, 0, 0, 4]),
        "it alone"
    );
    monitor.end();
    // Longer than a lease, which is renewed.
    std::thread::sleep(std::time::Duration::from_secs(u64::from(LEASE) + 1));
    check("mark renewed", true);
    running.stop().expect("it does");
    assert_eq!(both(&bed), before);
    check("mark stopped", false);
    // Without the process, and without the controller, rules expire with their leases.
    let held = fabric(true);
    let running = held.start(job(vec![tap(
        MirrorMode::FLOW,
        Some(80),
        "m",
        CopyRoute::Port(format!("v{MONITOR}")),
    )]));
    std::mem::forget(running.unwrap_or_else(|e| panic!("{e}")));
    controller.kill();
    wait_for("the end of the lease", || {
        if both(&bed) == before {
            Ok(())
        } else {
            Err(String::new())
        }
    });
    stream.end();
    for which in [Which::Near, Which::Far] {
        std::fs::remove_file(bed.sockets(which).join(format!("{BRIDGE}.controller")))
            .expect("it exists");
        bed.vsctl(which, &format!("del-controller {BRIDGE}"));
    }
}
