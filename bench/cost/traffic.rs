//! Traffic of bench/cost_of_measuring.py, and the collector of flow telemetry.
//!
//!     traffic serve ADDRESS:PORT RESPONSE              answers requests with RESPONSE bytes; 0: discards streams. Discards datagrams
//!     traffic requests ADDRESS:PORT RESPONSE GAP_NS    HTTP requests of 512 bytes at fixed intervals on one connection
//!     traffic stream ADDRESS:PORT                      one TCP stream at full speed
//!     traffic datagrams ADDRESS:PORT FLOWS GAP_NS BURST  BURST UDP datagrams at fixed intervals, in turn from FLOWS source ports
//!     traffic collect ADDRESS                          receives sFlow, IPFIX, and NetFlow v5, and counts samples and records
//!
//! Prints its counters for each line of standard input, and exits at the end of the input.
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, fs, io, process, thread};

const REQUEST: usize = 512;
/// Maximum number of outstanding requests.
const OUTSTANDING: u64 = 64;
/// Maximum delay that a sender makes up for by sending faster.
const BEHIND: Duration = Duration::from_millis(10);
/// Payload bytes of a datagram; 8,600 frames per second are 100 Mb/s.
const DATAGRAM: usize = 1411;
/// Pause of the collector after its sockets are empty, so that senders do not wake it for each datagram.
const PAUSE: Duration = Duration::from_millis(1);

static SENT: AtomicU64 = AtomicU64::new(0);
static RECEIVED: AtomicU64 = AtomicU64::new(0);
/// Collector: datagrams, bytes, flow samples or records, counter samples, undecodable datagrams.
static COLLECTED: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

fn main() {
    // Timers of 100 µs are otherwise rounded up to 150 µs.
    let _ = fs::write("/proc/self/timerslack_ns", "1000");
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let begun = match words[..] {
        ["serve", at, response] => serve(at, number(response) as usize),
        ["requests", to, response, gap] => requests(to, number(response) as usize, Duration::from_nanos(number(gap))),
        ["stream", to] => stream(to),
        ["datagrams", to, flows, gap, burst] => datagrams(to, number(flows), Duration::from_nanos(number(gap)), number(burst)),
        ["collect", at] => collect(at),
        _ => Err(io::Error::other("see the head of traffic.rs for the arguments")),
    };
    if let Err(why) = begun {
        eprintln!("traffic {}: {why}", words.join(" "));
        process::exit(1);
    }
    println!("ready");
    let mut line = String::new();
    while io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        let collected: Vec<String> = COLLECTED.iter().map(|n| n.load(Relaxed).to_string()).collect();
        println!("{} {} {}", SENT.load(Relaxed), RECEIVED.load(Relaxed), collected.join(" "));
    }
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word:?} is not a number"))
}

fn serve(at: &str, response: usize) -> io::Result<()> {
    let listener = TcpListener::bind(at)?;
    let datagrams = UdpSocket::bind(at)?;
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while datagrams.recv(&mut buffer).is_ok() {
            RECEIVED.fetch_add(1, Relaxed);
        }
    });
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || answer(connection, response));
        }
    });
    Ok(())
}

fn answer(mut connection: TcpStream, size: usize) -> io::Result<()> {
    connection.set_nodelay(true)?;
    if size == 0 {
        let mut buffer = vec![0; 1 << 17];
        while connection.read(&mut buffer)? > 0 {}
        return Ok(());
    }
    let mut request = [0; REQUEST];
    let response = response(size);
    loop {
        connection.read_exact(&mut request)?;
        connection.write_all(&response)?;
        RECEIVED.fetch_add(1, Relaxed);
    }
}

/// An HTTP response of exactly `size` bytes.
fn response(size: usize) -> Vec<u8> {
    let head = |body: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {body}\r\n\r\n").into_bytes();
    let body = (0..size).rev().find(|body| head(*body).len() + body == size).unwrap_or_default();
    let mut all = head(body);
    all.resize(size, b'x');
    all
}

/// Sends at fixed intervals from now on; `send` returns false if nothing can be sent now.
fn paced(gap: Duration, mut send: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let mut due = Instant::now();
    loop {
        let now = Instant::now();
        if now < due {
            thread::sleep(due - now);
        } else if send()? {
            due = (due + gap).max(now - BEHIND);
        } else {
            thread::sleep(gap);
            due = due.max(Instant::now() - BEHIND);
        }
    }
}

fn requests(to: &str, size: usize, gap: Duration) -> io::Result<()> {
    let mut connection = TcpStream::connect(to)?;
    connection.set_nodelay(true)?;
    let mut request = b"GET /item HTTP/1.1\r\nHost: shop.example\r\nX-Fill: ".to_vec();
    request.resize(REQUEST - 4, b'x');
    request.extend(b"\r\n\r\n");
    let mut reader = connection.try_clone()?;
    thread::spawn(move || {
        let mut response = vec![0; size];
        while reader.read_exact(&mut response).is_ok() {
            RECEIVED.fetch_add(1, Relaxed);
        }
    });
    thread::spawn(move || {
        paced(gap, || {
            let can_send = SENT.load(Relaxed) - RECEIVED.load(Relaxed) < OUTSTANDING;
            if can_send {
                connection.write_all(&request)?;
                SENT.fetch_add(1, Relaxed);
            }
            Ok(can_send)
        })
    });
    Ok(())
}

fn stream(to: &str) -> io::Result<()> {
    let mut connection = TcpStream::connect(to)?;
    thread::spawn(move || {
        let bytes = vec![0; 1 << 17];
        while let Ok(sent) = connection.write(&bytes) {
            SENT.fetch_add(sent as u64, Relaxed);
        }
    });
    Ok(())
}

fn datagrams(to: &str, flows: u64, gap: Duration, burst: u64) -> io::Result<()> {
    let mut sockets = Vec::new();
    for _ in 0..flows {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(to)?;
        sockets.push(socket);
    }
    thread::spawn(move || {
        let mut turns = sockets.iter().cycle();
        paced(gap, || {
            for socket in turns.by_ref().take(burst as usize) {
                if socket.send(&[0; DATAGRAM]).is_ok() {
                    SENT.fetch_add(1, Relaxed);
                }
            }
            Ok(true)
        })
    });
    Ok(())
}

fn collect(at: &str) -> io::Result<()> {
    let mut sockets = Vec::new();
    for port in [6343, 4739, 2055] {
        let socket = UdpSocket::bind((at, port))?;
        socket.set_nonblocking(true)?;
        sockets.push((port, socket));
    }
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        let mut templates = HashMap::new();
        loop {
            for (port, socket) in &sockets {
                loop {
                    match socket.recv(&mut buffer) {
                        Ok(length) => count(*port, &buffer[..length], &mut templates),
                        Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                        Err(_) => {}
                    }
                }
            }
            thread::sleep(PAUSE);
        }
    });
    Ok(())
}

/// Counts a datagram and its contents.
fn count(port: u16, datagram: &[u8], templates: &mut HashMap<u16, Vec<u16>>) {
    let found = match port {
        6343 => sflow(datagram),
        4739 => ipfix(datagram, templates),
        _ => u16_at(datagram, 2).map(|records| (records.into(), 0)),
    };
    let (reports, counters) = found.unwrap_or_default();
    let counts = [1, datagram.len() as u64, reports, counters, u64::from(found.is_none())];
    for (total, count) in COLLECTED.iter().zip(counts) {
        total.fetch_add(count, Relaxed);
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Flow samples and counter samples of an sFlow v5 datagram from an IPv4 agent.
fn sflow(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut found = (0, 0);
    let mut at = 28;
    for _ in 0..u32_at(bytes, 24)? {
        match u32_at(bytes, at)? {
            1 | 3 => found.0 += 1,
            2 | 4 => found.1 += 1,
            _ => {}
        }
        at += 8 + u32_at(bytes, at + 4)? as usize;
    }
    Some(found)
}

/// Data records of an IPFIX message, except those of options templates.
fn ipfix(bytes: &[u8], templates: &mut HashMap<u16, Vec<u16>>) -> Option<(u64, u64)> {
    let mut records = 0;
    let mut at = 16;
    while at + 4 <= bytes.len() {
        let id = u16_at(bytes, at)?;
        let length = u16_at(bytes, at + 2)? as usize;
        let set = bytes.get(at + 4..at + length)?;
        match id {
            2 => learn(set, templates)?,
            256.. => records += data(set, templates.get(&id)),
            _ => {}
        }
        at += length;
    }
    Some((records, 0))
}

/// Stores the field lengths of templates.
fn learn(set: &[u8], templates: &mut HashMap<u16, Vec<u16>>) -> Option<()> {
    let mut at = 0;
    while at + 4 <= set.len() {
        let id = u16_at(set, at)?;
        let fields = u16_at(set, at + 2)?;
        at += 4;
        let mut lengths = Vec::new();
        for _ in 0..fields {
            lengths.push(u16_at(set, at + 2)?);
            at += if set[at] & 0x80 == 0 { 4 } else { 8 };
        }
        templates.insert(id, lengths);
    }
    Some(())
}

/// Number of records in a data set; without a template, none.
fn data(set: &[u8], lengths: Option<&Vec<u16>>) -> u64 {
    let mut records = 0;
    let mut at = 0;
    let Some(lengths) = lengths.filter(|lengths| !lengths.is_empty()) else { return 0 };
    loop {
        for length in lengths {
            at += match (*length, set.get(at)) {
                (u16::MAX, Some(255)) => 3 + u16_at(set, at + 1).unwrap_or(u16::MAX) as usize,
                (u16::MAX, Some(length)) => 1 + *length as usize,
                (u16::MAX, None) => return records,
                (length, _) => length as usize,
            };
        }
        if at > set.len() {
            return records;
        }
        records += 1;
    }
}
