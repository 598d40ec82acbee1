//! Link latency: round trips of 64 bytes, one at a time per connection, a thread each. Standard library only: `rustc -O`.
//! `pingpong serve ADDRESS`, `pingpong ask ADDRESS CONNECTIONS SECONDS`; the latter prints microseconds as JSON.

use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const BYTES: usize = 64;
/// The switch learns addresses during the first round trips.
const WARM: usize = 50;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => serve(address),
        ["ask", address, connections, seconds] => {
            let seconds = Duration::from_secs_f64(seconds.parse().expect("seconds"));
            ask(address, connections.parse().expect("a number"), seconds)
        }
        _ => panic!("serve ADDRESS, or ask ADDRESS CONNECTIONS SECONDS"),
    }
}

fn serve(address: &str) -> Result<()> {
    for connection in TcpListener::bind(address)?.incoming() {
        let mut connection = connection?;
        connection.set_nodelay(true)?;
        thread::spawn(move || {
            let mut message = [0; BYTES];
            while connection.read_exact(&mut message).is_ok() && connection.write_all(&message).is_ok() {}
        });
    }
    Ok(())
}

fn ask(address: &str, connections: usize, seconds: Duration) -> Result<()> {
    let asking: Vec<_> = (0..connections)
        .map(|_| {
            let connection = TcpStream::connect(address)?;
            connection.set_nodelay(true)?;
            Ok(thread::spawn(move || exchanges(connection, seconds)))
        })
        .collect::<Result<_>>()?;
    let mut times = Vec::new();
    for thread in asking {
        times.extend(thread.join().expect("a thread ends")?);
    }
    times.sort_unstable();
    let us = |time: &Duration| time.as_secs_f64() * 1e6;
    let at = |share: usize| us(&times[(times.len() - 1) * share / 100]);
    let mean = times.iter().map(us).sum::<f64>() / times.len() as f64;
    println!("{{\"exchanges\": {}, \"mean\": {mean:.2}, \"p50\": {:.2}, \"p99\": {:.2}}}", times.len(), at(50), at(99));
    Ok(())
}

fn exchanges(mut connection: TcpStream, seconds: Duration) -> Result<Vec<Duration>> {
    let mut message = [7; BYTES];
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < seconds || times.len() <= WARM {
        let sent = Instant::now();
        connection.write_all(&message)?;
        connection.read_exact(&mut message)?;
        times.push(sent.elapsed());
    }
    Ok(times.split_off(WARM))
}
