//! AF_XDP on virtual interfaces: captured and ignored packets, loss, and cleanup.

mod cable;

use std::env;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use cable::{
    await_that, end, inside, output, peer, receive, run, seen, send, send_frames, this_test,
};
use capture::af_xdp::{XdpError, XdpMode, XdpOptions};
use capture::live::{self, CaptureBackend, LiveError, LiveOptions};
use capture::xdp_filter::{XdpEndMatch, XdpFilter};
use capture::{PacketBlock, PacketSource};
use testkit::SentPacket;
use wire::Timestamp;

#[test]
fn native_loses_nothing() {
    inside("native_loses_nothing", &[], || {
        loses_nothing(XdpMode::Native)
    });
}

#[test]
fn generic_loses_nothing() {
    inside("generic_loses_nothing", &[], || {
        loses_nothing(XdpMode::Generic)
    });
}

fn loses_nothing(mode: XdpMode) {
    let mut sources = open(
        &live(),
        &XdpOptions {
            mode,
            ..XdpOptions::default()
        },
    )
    .expect("opens");
    assert_eq!(sources.len(), 1);
    let sender = send("10.9.0.2:80 20000 200");
    let seen = receive(&mut sources, |seen| seen.len() == 20_000);
    end(sender);
    assert_eq!(
        sources[0].counters().lost_before_us,
        Some(0),
        "at a modest rate"
    );
    assert!(
        seen.iter().map(|s| s.number).eq(0..20_000),
        "each once, in order"
    );
    let counters = sources[0].counters();
    // The kernel's neighbor discovery is also captured.
    assert!(
        counters.packets >= 20_000 && counters.captured_bytes >= 20_000 * 242,
        "{counters:?}"
    );
}

#[test]
fn only_requested_packets_are_redirected() {
    inside("only_requested_packets_are_redirected", &[], || {
        run("ip addr add 10.9.0.2/24 dev mon");
        run("ip -6 addr add fd09::2/64 dev mon nodad");
        let filter = |clients: &[&str], servers: &[&str]| XdpFilter {
            clients: clients.iter().map(|text| end_match(text)).collect(),
            servers: servers.iter().map(|text| end_match(text)).collect(),
        };
        let wanted = filter(&["10.9.0.0/24 *", "fd09::1/128 *"], &["* 80"]);
        let polite = XdpOptions {
            filter: wanted,
            ..XdpOptions::default()
        };
        let Err(refusal @ XdpError::InUse { .. }) = open(&live(), &polite) else {
            panic!("the interface is the host's own");
        };
        assert!(
            refusal.to_string().contains("it has the address 10.9.0.2"),
            "{refusal}"
        );
        let hosts = |address: &str| {
            let socket = UdpSocket::bind(address).expect("a free port");
            socket
                .set_read_timeout(Some(Duration::from_millis(300)))
                .expect("a timeout");
            socket
        };
        let web = hosts("10.9.0.2:80");
        let other = hosts("10.9.0.2:81");
        let six = hosts("[fd09::2]:80");
        let stack_gets = |socket: &UdpSocket| {
            let mut buffer = [0; 2048];
            (0..)
                .take_while(|_| socket.recv(&mut buffer).is_ok())
                .count()
        };
        for mode in [XdpMode::Native, XdpMode::Generic] {
            let xdp = XdpOptions {
                steal: true,
                mode,
                ..polite.clone()
            };
            let mut sources = open(&live(), &xdp).expect("opens");
            let sender = send("10.9.0.2:80 50 10,10.9.0.2:81 50 10,[fd09::2]:80 50 10");
            let seen = receive(&mut sources, |seen| seen.len() == 100);
            end(sender);
            let port_80 = |s: &&cable::Seen| s.to.ends_with(":80");
            assert_eq!(
                (seen.len(), seen.iter().filter(port_80).count()),
                (100, 100),
                "{mode:?}"
            );
            assert_eq!(
                [stack_gets(&web), stack_gets(&other), stack_gets(&six)],
                [0, 50, 0],
                "{mode:?}"
            );
            assert!(output("ip link show dev mon").contains("xdp"));
            drop(sources);
            assert!(
                !output("ip link show dev mon").contains("xdp"),
                "it is off at the end"
            );
            end(send(
                "10.9.0.2:80 50 10,10.9.0.2:81 50 10,[fd09::2]:80 50 10",
            ));
            assert_eq!(
                [stack_gets(&web), stack_gets(&other), stack_gets(&six)],
                [50; 3],
                "{mode:?}"
            );
        }
    });
}

#[test]
fn the_kernel_takes_long_lists() {
    inside("the_kernel_takes_long_lists", &[], || {
        let host = |i: u32| XdpEndMatch {
            net: Some(((0x0a00_0000 + i).to_be_bytes().into(), 32)),
            port: Some(80),
        };
        let mut servers: Vec<XdpEndMatch> = (0..700).map(host).collect();
        servers.push(end_match("10.9.0.2/32 80"));
        let filter = XdpFilter {
            clients: vec![end_match("10.0.0.0/8 *")],
            servers,
        };
        let mut sources = open(
            &live(),
            &XdpOptions {
                filter,
                ..XdpOptions::default()
            },
        )
        .expect("opens");
        let sender = send("10.9.0.2:81 50 10,10.9.0.2:80 50 10");
        assert_eq!(receive(&mut sources, |seen| seen.len() == 50).len(), 50);
        end(sender);
    });
}

#[test]
fn a_bridge_on_top_is_a_use() {
    inside("a_bridge_on_top_is_a_use", &[], || {
        run("ip link add br0 type bridge");
        run("ip link set mon master br0");
        let refusal = open(&live(), &XdpOptions::default())
            .err()
            .expect("the bridge needs the packets");
        assert!(
            refusal.to_string().contains("br0 is on top of it"),
            "{refusal}"
        );
    });
}

#[test]
fn a_capture_filter_applies() {
    inside("a_capture_filter_applies", &[], || {
        let options = LiveOptions {
            filter: "udp port 80".into(),
            ..live()
        };
        let mut sources = open(&options, &XdpOptions::default()).expect("opens");
        let sender = send("10.9.0.2:81 50 10,10.9.0.2:80 50 10");
        let seen = receive(&mut sources, |seen| seen.len() == 50);
        end(sender);
        assert!(seen.len() == 50 && seen.iter().all(|s| s.to.ends_with(":80")));
        assert!(sources[0].counters().filtered >= 50);
    });
}

#[test]
fn all_queues_are_read() {
    inside("all_queues_are_read", &["queues"], || {
        // No hash is known to be symmetric here, so one source reads all packets.
        let options = LiveOptions {
            workers: 3,
            ..live()
        };
        let mut sources = open(&options, &XdpOptions::default()).expect("opens");
        assert_eq!(sources.len(), 1);
        let from_many_ports = vec!["10.9.0.2:80 100 50"; 40].join(",");
        let sender = send(&from_many_ports);
        assert_eq!(receive(&mut sources, |seen| seen.len() == 4000).len(), 4000);
        end(sender);
        drop(sources);
        let mut sources = open(
            &options,
            &XdpOptions {
                trust_queues: true,
                ..XdpOptions::default()
            },
        )
        .expect("opens");
        assert_eq!(sources.len(), 3);
        let sender = send(&from_many_ports);
        assert_eq!(receive(&mut sources, |seen| seen.len() == 4000).len(), 4000);
        end(sender);
        let shares: Vec<u64> = sources.iter().map(|s| s.counters().packets).collect();
        assert!(shares.iter().filter(|&&n| n > 0).count() > 1, "{shares:?}");
    });
}

#[test]
fn frames_beyond_the_ring_are_counted() {
    inside("frames_beyond_the_ring_are_counted", &[], || {
        const FRAMES: usize = 4096;
        let options = LiveOptions {
            buffer_bytes: 0,
            ..live()
        };
        let ipv4 = XdpFilter {
            clients: vec![end_match("0.0.0.0/0 *")],
            servers: Vec::new(),
        };
        let xdp = XdpOptions {
            filter: ipv4,
            ..XdpOptions::default()
        };
        let mut sources = open(&options, &xdp).expect("opens");
        end(send("10.9.0.2:80 6000 50"));
        let mut held = Vec::new();
        let mut number = 0;
        while number < FRAMES {
            let mut block = PacketBlock::default();
            assert!(sources[0].next_block(&mut block));
            number += block.len();
            held.push(block);
        }
        assert_eq!(number, FRAMES);
        let counters = sources[0].counters();
        assert_eq!(
            counters.packets + counters.lost_before_us.expect("known"),
            6000,
            "{counters:?}"
        );
        // Blocks in use keep their frames.
        end(send("10.9.0.2:80 100 50"));
        assert_eq!(
            sources[0].counters().lost_before_us,
            Some(6100 - FRAMES as u64)
        );
        assert!(
            held.iter()
                .flat_map(|b| b.packets())
                .filter_map(|c| seen(&c))
                .map(|s| s.number)
                .eq(0..4096)
        );
        thread::spawn(move || drop(held))
            .join()
            .expect("may be dropped anywhere");
        let sender = send("10.9.0.2:80 3000 50");
        assert_eq!(receive(&mut sources, |seen| seen.len() == 3000).len(), 3000);
        end(sender);
    });
}

#[test]
fn packets_longer_than_a_frame() {
    inside("packets_longer_than_a_frame", &[], || {
        run("ip link set mon mtu 9000");
        run(&format!("ip -n {} link set e0 mtu 9000", peer()));
        for mode in [XdpMode::Native, XdpMode::Generic] {
            let mut sources = open(
                &live(),
                &XdpOptions {
                    mode,
                    ..XdpOptions::default()
                },
            )
            .expect("opens");
            let sender = send("10.9.0.2:80 300 8500,10.9.0.2:80 100 20");
            let seen = receive(&mut sources, |seen| seen.len() == 400);
            end(sender);
            let long = seen
                .iter()
                .filter(|s| s.payload_len == 8500 && s.intact)
                .count();
            assert_eq!((seen.len(), long), (400, 300), "{mode:?}");
        }
    });
}

#[test]
fn tags_stay_on() {
    inside("tags_stay_on", &[], || {
        let filter = XdpFilter {
            clients: Vec::new(),
            servers: vec![end_match("10.5.0.2/32 80")],
        };
        let mut sources = open(
            &live(),
            &XdpOptions {
                filter,
                ..XdpOptions::default()
            },
        )
        .expect("opens");
        let tagged = |to: &str| {
            let ends = (
                "10.5.0.1:20000".parse().expect("an end"),
                to.parse().expect("an end"),
            );
            SentPacket {
                vlans: vec![5, 6],
                ..SentPacket::udp(Timestamp(0), ends, &7u32.to_be_bytes())
            }
            .wire_bytes()
        };
        testkit::require!("python3");
        send_frames(&[
            tagged("10.5.0.2:81"),
            tagged("10.5.0.2:80"),
            tagged("10.5.0.3:80"),
        ]);
        let seen = receive(&mut sources, |seen| seen.len() == 1);
        assert!(seen.len() == 1 && seen[0].tagged && seen[0].to == "10.5.0.2:80");
        assert_eq!(sources[0].counters().packets, 1);
    });
}

#[test]
fn stop_returns_the_received_packets() {
    inside("stop_returns_the_received_packets", &[], || {
        let options = live();
        let mut sources = open(&options, &XdpOptions::default()).expect("opens");
        end(send("10.9.0.2:80 1000 50"));
        options.stop.stop();
        let mut block = PacketBlock::default();
        let mut n = 0;
        while sources[0].next_block(&mut block) {
            n += block.packets().filter_map(|c| seen(&c)).count();
        }
        assert_eq!(n, 1000);
        assert!(sources[0].errors().is_empty());
    });
}

#[test]
fn an_interface_that_is_removed_is_an_error() {
    inside("an_interface_that_is_removed_is_an_error", &[], || {
        let mut sources = open(&live(), &XdpOptions::default()).expect("opens");
        run("ip link del mon");
        let mut block = PacketBlock::default();
        while sources[0].next_block(&mut block) {}
        let error = sources[0].errors().first().expect("the interface is gone");
        assert!(
            error
                .to_string()
                .starts_with("mon: the interface has been removed"),
            "{error}"
        );
    });
}

#[test]
fn one_program_at_a_time() {
    inside("one_program_at_a_time", &[], || {
        let first = open(&live(), &XdpOptions::default()).expect("opens");
        let refusal = open(&live(), &XdpOptions::default())
            .err()
            .expect("the hook is taken");
        assert!(matches!(refusal, XdpError::Busy { .. }), "{refusal}");
        drop(first);
        open(&live(), &XdpOptions::default()).expect("at once");
    });
}

/// Killed by the test below while it captures.
#[test]
fn captures_for_ever() {
    if env::var_os("AF_XDP_TEST_FOR_EVER").is_some() {
        let mut sources = open(&live(), &XdpOptions::default()).expect("opens");
        while sources[0].next_block(&mut PacketBlock::default()) {}
    }
}

#[test]
fn nothing_is_left_by_a_process_that_dies() {
    inside("nothing_is_left_by_a_process_that_dies", &[], || {
        let attached = || output("ip link show dev mon").contains("xdp");
        let mut child = this_test("captures_for_ever")
            .env("AF_XDP_TEST_FOR_EVER", "1")
            .spawn()
            .expect("runs");
        await_that("the program is on", attached);
        child.kill().expect("it runs");
        child.wait().expect("it ran");
        await_that("the program is off", || !attached());
    });
}

/// Used by the tests above: sends from the other namespace.
#[test]
fn sender() {
    cable::sender();
}

fn end_match(text: &str) -> XdpEndMatch {
    let (net, port) = text.split_once(' ').expect("an address and a port");
    let net = net.split_once('/');
    let net = net.map(|(ip, prefix)| {
        (
            ip.parse().expect("an address"),
            prefix.parse().expect("a length"),
        )
    });
    XdpEndMatch {
        net,
        port: port.parse().ok(),
    }
}

fn live() -> LiveOptions {
    LiveOptions {
        backend: CaptureBackend::AfXdp,
        ..LiveOptions::new("mon")
    }
}

fn open(options: &LiveOptions, xdp: &XdpOptions) -> Result<Vec<Box<dyn PacketSource>>, XdpError> {
    live::open(&LiveOptions {
        xdp: xdp.clone(),
        ..options.clone()
    })
    .map_err(|e| match e {
        LiveError::Xdp(error) => error,
        other => panic!("{other}"),
    })
}
