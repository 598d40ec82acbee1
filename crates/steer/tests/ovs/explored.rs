//! Exploration during running jobs, which continue, and others start.

use mirror::MirrorMode;
use steer::{CopyJob, CopyRoute, DiscoveredLinks, SwitchBackend, explore};

use crate::bed::{Bed, CABLE, FAR_HOST, FAR_MONITOR, HOSTS, MONITOR, Which};
use crate::fabrics::{both, far_port, tap};
use crate::packets::{SERVER, SERVES, ask, cut, same, serve};

/// Renewed and checked every second.
const LEASE: u16 = 3;

#[test]
fn jobs_continue_during_discovery() {
    let Some(bed) = Bed::new(&["priority=0,actions=NORMAL"]) else {
        return;
    };
    let _server = serve(&bed);
    let fabric = bed.fabric(SERVER, LEASE);
    bed.switch_at(Which::Far)
        .keep_floods_from(FAR_MONITOR)
        .expect("it does");
    let here = CopyRoute::Port(format!("v{MONITOR}"));
    let job = |id, tap| CopyJob {
        id,
        generation: 1,
        taps: vec![tap],
    };
    let one = fabric
        .start(job(1, tap(MirrorMode::FLOW, Some(80), "m", here)))
        .expect("it does");
    let before = both(&bed);
    let switches = [Which::Near, Which::Far].map(|which| {
        let switch = bed.switch_at(which);
        let described = switch.describe().expect("it does");
        (which.name(), switch, described)
    });
    let switches: Vec<_> = switches
        .iter()
        .map(|(name, switch, of)| (*name, switch, of))
        .collect();
    let hosts = HOSTS.map(|port| [10, 9, 0, port as u8].into());
    std::thread::scope(|scope| {
        let explorer = scope.spawn(|| {
            let found = [(); 4].map(|()| explore(&switches, SERVER + 1, &hosts).expect("it does"));
            // On a busy machine not every reply arrives in time.
            let all = |found: &DiscoveredLinks| {
                found.cables == [[(0, CABLE), (1, CABLE)]] && found.answers.len() == HOSTS.len()
            };
            assert!(found.iter().any(all), "{found:?}");
            let nobody_asked = (1, FAR_HOST);
            assert!(
                found
                    .iter()
                    .all(|found| !found.answers.contains_key(&nobody_asked))
            );
        });
        // Repeatedly, during the exploration.
        let mut generation = 1;
        while !explorer.is_finished() {
            let two = tap(
                MirrorMode::ENDS,
                Some(81),
                "n",
                CopyRoute::Switch(mirror::ovsdb::TunnelKind::Vxlan, far_port()),
            );
            let two = fabric
                .start(CopyJob {
                    generation,
                    ..job(2, two)
                })
                .unwrap_or_else(|why| panic!("{why}"));
            two.stop().expect("it does");
            generation = u8::wrapping_add(generation, 1);
            assert_eq!(one.lost(), None);
        }
        explorer.join().expect("it has found all");
    });
    assert_eq!(
        (one.lost(), both(&bed)),
        (None, before),
        "nothing is left of it"
    );
    let server = bed.capture(SERVES, "");
    let monitor = bed.capture(MONITOR, "");
    ask(&bed, "mark", &server);
    let expected = bed.capture_file(&server, "tcp port 80");
    same(
        "mark",
        &cut(monitor.wait(expected.len()), MirrorMode::FLOW),
        &cut(expected, MirrorMode::FLOW),
    );
    one.stop().expect("it does");
    server.end();
    monitor.end();
}
