//! Networks that use more of Open vSwitch than forwarding: mirrors, meters, bonds, and drop rules. With copies in
//! addition, the monitor receives the packets of the server's capture, and the owner's mirror is unchanged.

use mirror::MirrorMode;
use steer::{CopyJob, CopyRoute};

use crate::bed::{Bed, MONITOR, Which};
use crate::fabrics::tap;
use crate::packets::{SERVER, SERVES, ask, cut, same, serve};

const NORMAL: &str = "priority=0,actions=NORMAL";

struct Case {
    name: &'static str,
    which: Which,
    /// Changes of the database by the owner, and their reversal.
    database: Option<[&'static str; 2]>,
    rules: &'static [&'static str],
}

const SPAN: [&str; 2] = [
    "-- --id=@s get port v2 -- --id=@o get port v3 -- --id=@m create mirror name=span select-src-port=@s select-dst-port=@s output-port=@o -- add bridge br0 mirrors @m",
    "clear bridge br0 mirrors",
];
const SPAN_OF_ALL: [&str; 2] = [
    "-- --id=@o get port v3 -- --id=@m create mirror name=span select-all=true output-port=@o -- add bridge br0 mirrors @m",
    "clear bridge br0 mirrors",
];
const SPAN_FAR: [&str; 2] = [
    "-- --id=@s get port v4 -- --id=@o get port v19 -- --id=@m create mirror name=span select-src-port=@s select-dst-port=@s output-port=@o -- add bridge br0 mirrors @m",
    "clear bridge br0 mirrors",
];
const BOND: [&str; 2] = [
    "-- add-bond br0 bond0 b0 b1 bond_mode=active-backup -- set interface b0 type=internal -- set interface b1 type=internal",
    "-- --if-exists del-port br0 bond0",
];

const fn case(name: &'static str, which: Which) -> Case {
    Case {
        name,
        which,
        database: None,
        rules: &[NORMAL],
    }
}

const CASES: [Case; 9] = [
    Case {
        database: Some(SPAN),
        ..case("a mirror of the server's port", Which::Near)
    },
    Case {
        database: Some(SPAN_OF_ALL),
        ..case("a mirror of all ports", Which::Near)
    },
    Case {
        database: Some(SPAN_FAR),
        ..case("a mirror on another switch", Which::Far)
    },
    Case {
        database: Some(BOND),
        ..case("a bond", Which::Near)
    },
    Case {
        database: Some(BOND),
        ..case("a bond on another switch", Which::Far)
    },
    Case {
        rules: &[NORMAL, "priority=7,ip,actions=meter:1,NORMAL"],
        ..case("a meter", Which::Near)
    },
    Case {
        rules: &[NORMAL, "priority=7,ip,actions=meter:1,NORMAL"],
        ..case("a meter on another switch", Which::Far)
    },
    Case {
        rules: &[
            NORMAL,
            "priority=65535,tcp,nw_src=10.9.0.3,tp_dst=9,actions=drop",
            "priority=65535,icmp,actions=drop",
        ],
        ..case("rules that drop others", Which::Near)
    },
    Case {
        rules: &[
            NORMAL,
            "priority=9,tcp,tp_dst=80,nw_src=10.9.0.4,actions=drop",
        ],
        ..case("a rule that drops on the way", Which::Far)
    },
];

#[test]
fn copies_coexist_with_rules_of_owners() {
    let Some(bed) = Bed::new(&[NORMAL]) else {
        return;
    };
    let _server = serve(&bed);
    for which in [Which::Near, Which::Far] {
        bed.ofctl13(
            which,
            "add-meter",
            "meter=1,kbps,band=type=drop,rate=10000000",
        );
    }
    let mut failed = Vec::new();
    for Case {
        name,
        which,
        database,
        rules,
    } in CASES
    {
        bed.rules(which, rules);
        if let Some([make, _]) = database {
            bed.vsctl(which, make);
        }
        let before = [bed.state(Which::Near), bed.state(Which::Far)];
        let monitor = CopyRoute::Port(format!("v{MONITOR}"));
        let job = CopyJob {
            id: 1,
            generation: 1,
            taps: vec![tap(MirrorMode::FLOW, Some(80), "m", monitor)],
        };
        match bed.fabric(SERVER, 30).start(job) {
            Err(why) => failed.push(format!("{name}: {why}")),
            Ok(running) => {
                assert!(running.proved().classes > 0, "{name}");
                let server = bed.capture(SERVES, "");
                let monitor = bed.capture(MONITOR, "");
                ask(&bed, &format!("mark {name}"), &server);
                let expected = cut(bed.capture_file(&server, "tcp port 80"), MirrorMode::FLOW);
                assert!(!expected.is_empty());
                same(
                    name,
                    &cut(monitor.wait(expected.len()), MirrorMode::FLOW),
                    &expected,
                );
                server.end();
                monitor.end();
                running.stop().expect("it does");
            }
        }
        let after = [bed.state(Which::Near), bed.state(Which::Far)];
        assert_eq!(after, before, "{name}");
        if let Some([_, remove]) = database {
            bed.vsctl(which, remove);
        }
        bed.rules(which, &[NORMAL]);
    }
    for which in [Which::Near, Which::Far] {
        bed.ofctl13(which, "del-meters", "");
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
