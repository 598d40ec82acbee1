//! JSON lines over TCP.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};

use super::{Query, free_port, over_shop, shop};

fn listen(port: u16) -> TcpListener {
    TcpListener::bind(("127.0.0.1", port)).expect("a port")
}

fn accept(listener: &TcpListener) -> BufReader<TcpStream> {
    BufReader::new(listener.accept().expect("a connection").0)
}

#[test]
fn a_reader_gets_the_lines_that_are_printed() {
    let listener = listen(0);
    let to = format!("tcp://{}", listener.local_addr().expect("bound"));
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        accept(&listener).read_to_string(&mut text).expect("text");
        text
    });
    let done = over_shop(
        "PARSE http PROCESS (diff-group: group=url_template)",
        &["--to", &to],
    );
    done.adds_up();
    let text = reader.join().expect("no panic");
    assert_eq!(
        text.lines().map(String::from).collect::<Vec<_>>(),
        done.lines
    );
    assert_eq!((done.code, done.lost()), (Some(0), 0));
}

#[test]
fn values_in_urls_are_redacted_by_default() {
    for (flags, folded) in [(&[][..], true), (&["--no-redact"][..], false)] {
        let listener = listen(0);
        let to = format!("tcp://{}", listener.local_addr().expect("bound"));
        let reader = std::thread::spawn(move || {
            accept(&listener)
                .lines()
                .map_while(Result::ok)
                .collect::<Vec<_>>()
        });
        let done = over_shop(
            "PARSE mysql_query WHERE query like '%WHERE id = %' SELECT query",
            &[&["--to", &to][..], flags].concat(),
        );
        let lines = reader.join().expect("no panic");
        assert_eq!(lines.len(), done.lines.len(), "{}", done.err);
        assert!(!lines.is_empty());
        assert_eq!(lines != done.lines, folded, "{lines:?}");
        assert!(
            !folded || lines.iter().all(|line| line.contains("id = ?")),
            "{lines:?}"
        );
    }
}

#[test]
fn reconnected_readers_get_the_remaining_rows() {
    let port = free_port();
    let packets = shop();
    let listener = listen(port);
    let to = format!("tcp://127.0.0.1:{port}");
    let mut run = Query::start("PARSE http", &["--to", &to, "--no-redact"]);
    // Half of the packets.
    let half = packets.len() / 2;
    run.feed(&packets[..half]);
    let mut first = accept(&listener);
    let mut seen: Vec<String> = first
        .by_ref()
        .lines()
        .take(20)
        .map_while(Result::ok)
        .collect();
    // Disconnected with unread data; nothing listens for a while.
    drop(first);
    drop(listener);
    run.feed(&packets[half..]);
    let listener = listen(port);
    let rest = std::thread::spawn(move || {
        accept(&listener)
            .lines()
            .map_while(Result::ok)
            .collect::<Vec<_>>()
    });
    let done = run.done();
    seen.extend(rest.join().expect("no panic"));
    done.adds_up();
    let seen: BTreeSet<_> = seen.into_iter().collect();
    let made: BTreeSet<_> = done.lines.iter().cloned().collect();
    assert!(seen.is_subset(&made), "only whole lines that were made");
    assert!(
        seen.len() as u64 <= done.count("/sent") && seen.len() > 40,
        "{} of {}",
        seen.len(),
        made.len()
    );
    assert_eq!(done.lost(), 0, "{}", done.err);
}

#[test]
fn absent_receiver_delays_only_the_end_of_the_query() {
    let to = format!("tcp://127.0.0.1:{}", free_port());
    let done = over_shop("PARSE http", &["--to", &to, "--to-timeout", "250ms"]);
    done.adds_up();
    assert_eq!(
        (done.count("/sent"), done.count("/lost/at_end")),
        (0, done.lines.len() as u64)
    );
    assert!(
        done.err.contains("Connection refused") && done.err.contains(&format!("--to {to}: ")),
        "{}",
        done.err
    );
    let full = over_shop(
        "PARSE http",
        &["--to", &to, "--to-timeout", "250ms", "--to-buffer", "1"],
    );
    full.adds_up();
    assert!(full.count("/lost/queue_full") > 0, "{}", full.err);
    let gave_up = over_shop("PARSE http", &["--to", &to, "--to-retry", "1ms"]);
    gave_up.adds_up();
    assert_eq!(gave_up.count("/lost/gave_up"), gave_up.lines.len() as u64);
}

#[test]
fn wrong_addresses_are_wrong_flags() {
    for (to, part) in [
        ("127.0.0.1:9", "must start with one of tcp://"),
        ("tcp://me:secret@127.0.0.1:9", "all users of this machine"),
        ("@/nowhere", "cannot read /nowhere"),
    ] {
        let done = Query::start("PARSE http", &["--to", to]).done();
        assert_eq!(done.code, Some(2), "{}", done.err);
        assert!(
            done.err.contains(part) && !done.err.contains("secret@"),
            "{}",
            done.err
        );
    }
}
