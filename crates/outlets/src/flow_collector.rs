//! Flow records to a collector: IPFIX over UDP or TCP, NetFlow v9 over UDP. Rows of a message are encoded at the attempt
//! to send it, because templates and sequence numbers belong to the connection: after a failure, templates are sent
//! again, and sequence numbers continue from the last message that was sent.
//!
//! UDP has no acknowledgments: rows count as sent when the system has sent them, unless it reports meanwhile that the
//! port is closed. Datagrams are paced, because receive buffers of collectors are small.

use std::io::{self, Write};
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use telemetry::{FlowEncoder, FlowEncoderConfig, RecordRefusal};

use crate::address::{OutletAddress, OutletScheme};
use crate::datagrams::{DATAGRAMS_PER_SECOND, DatagramPacer, LAST_REPORT, connected, now};
use crate::flow_columns::FlowFormat;
use crate::flow_row::FlowRow;
use crate::net::OutletConnection;
use crate::worker::{DeliveryFault, MessageBody, OutletMessage, OutletTransport};

/// Default maximum bytes of a message: an Ethernet frame, with room for tunnels.
const MESSAGE_BYTES: u64 = 1400;
/// Default interval of templates in seconds, over UDP.
const TEMPLATE_SECONDS: u64 = 60;
/// Messages after which templates are repeated, over UDP.
const TEMPLATE_MESSAGES: u64 = 1000;

/// See the module documentation.
pub struct FlowCollector {
    address: OutletAddress,
    encoder: FlowEncoder,
    connection: Option<CollectorConnection>,
    pacer: DatagramPacer,
    /// Rows and time of the last message.
    last: Option<(u64, Instant)>,
}

enum CollectorConnection {
    Datagrams(UdpSocket),
    Stream(OutletConnection),
}

impl FlowCollector {
    /// A collector at this address, without a connection.
    ///
    /// # Errors
    /// A message about an option.
    pub fn new(address: &OutletAddress, format: &FlowFormat) -> Result<FlowCollector, String> {
        let is_stream = address.scheme == OutletScheme::IpfixTcp;
        let domain = address.number("domain", 1)?;
        let max_len = address.number("message", MESSAGE_BYTES)?;
        if !(512..=65_000).contains(&max_len) {
            return Err(format!("message={max_len} is not from 512 to 65000 bytes"));
        }
        let seconds = address.number("templates", TEMPLATE_SECONDS)?;
        let rate = address.number("rate", DATAGRAMS_PER_SECOND)?;
        let config = FlowEncoderConfig {
            protocol: format.protocol,
            domain: u32::try_from(domain)
                .map_err(|_| format!("domain={domain} has more than 32 bits"))?,
            max_len: max_len as usize,
            // A connection delivers templates reliably.
            template_interval_ns: if is_stream {
                i64::MAX
            } else {
                i64::try_from(seconds.saturating_mul(1_000_000_000)).unwrap_or(i64::MAX)
            },
            template_messages: if is_stream {
                u64::MAX
            } else {
                TEMPLATE_MESSAGES
            },
            started: now(),
        };
        Ok(FlowCollector {
            address: address.clone(),
            encoder: FlowEncoder::new(config),
            connection: None,
            pacer: DatagramPacer::new(rate),
            last: None,
        })
    }

    /// Encodes and sends rows; returns the number of rows that have no message, and the reason.
    fn try_send(
        &mut self,
        rows: &[FlowRow],
        patience: Duration,
    ) -> io::Result<Option<(u64, RecordRefusal)>> {
        if let Some(CollectorConnection::Stream(stream)) = &self.connection
            && stream.is_closed()
        {
            self.connection = None;
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let opened = CollectorConnection::open(&self.address, patience)?;
                let sequence = match opened {
                    CollectorConnection::Datagrams(_) => self.encoder.sequence(),
                    CollectorConnection::Stream(_) => 0,
                };
                self.encoder.resume(sequence);
                self.connection.insert(opened)
            }
        };
        let mut failed = None;
        let pacer = &mut self.pacer;
        let mut send = |message: &[u8]| {
            if failed.is_none() {
                failed = connection.send(message, pacer).err();
            }
        };
        let mut refused = None;
        let now = now();
        for row in rows {
            let mut push = |record| self.encoder.push_record(record, now, &mut send);
            if let Err(why) = push(&row.record).and_then(|()| row.reverse.iter().try_for_each(push))
            {
                refused = Some((refused.map_or(1, |(rows, _)| rows + 1), why));
            }
        }
        self.encoder.flush(now, &mut send);
        match failed.or(connection.refusal()) {
            Some(error) => Err(error),
            None => Ok(refused),
        }
    }
}

impl OutletTransport for FlowCollector {
    fn send(&mut self, message: &OutletMessage, patience: Duration) -> Result<(), DeliveryFault> {
        let MessageBody::Flows(rows) = &message.body else {
            return Ok(());
        };
        let sequence = self.encoder.sequence();
        match self.try_send(rows, patience) {
            Ok(refused) => {
                self.last = Some((message.rows, Instant::now()));
                match refused {
                    None => Ok(()),
                    Some((rows, why)) => Err(DeliveryFault::Partly(rows, why.to_string())),
                }
            }
            Err(error) => {
                self.connection = None;
                self.encoder.resume(sequence);
                Err(DeliveryFault::Passing(error.to_string()))
            }
        }
    }

    fn finish(&mut self, patience: Duration) -> Result<(), (u64, String)> {
        match self.connection.take() {
            Some(CollectorConnection::Stream(mut stream)) => {
                // A receiver that does not close the connection has received the data nevertheless.
                let _ = stream.close(patience.min(Duration::from_secs(1)));
            }
            Some(connection) => {
                if let Some((rows, sent)) = self.last {
                    thread::sleep(LAST_REPORT.saturating_sub(sent.elapsed()).min(patience));
                    if let Some(error) = connection.refusal() {
                        return Err((rows, error.to_string()));
                    }
                }
            }
            None => {}
        }
        Ok(())
    }
}

impl CollectorConnection {
    fn open(address: &OutletAddress, patience: Duration) -> io::Result<CollectorConnection> {
        if address.scheme == OutletScheme::IpfixTcp {
            let stream = OutletConnection::open(address, None, patience)?;
            return Ok(CollectorConnection::Stream(stream));
        }
        connected(&address.host, address.port).map(CollectorConnection::Datagrams)
    }

    fn send(&mut self, message: &[u8], pacer: &mut DatagramPacer) -> io::Result<()> {
        match self {
            CollectorConnection::Datagrams(socket) => {
                pacer.wait();
                socket.send(message).map(drop)
            }
            CollectorConnection::Stream(stream) => stream.write_all(message),
        }
    }

    /// The report that an earlier datagram did not arrive.
    fn refusal(&self) -> Option<io::Error> {
        match self {
            CollectorConnection::Datagrams(socket) => socket.take_error().ok().flatten(),
            CollectorConnection::Stream(_) => None,
        }
    }
}
