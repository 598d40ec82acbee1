//! Serialized specification of a monitor.

use tuple::Schema;

use super::expression::{net, read_net};
use super::form;
use super::refused::Lacks;
use super::schemas::{INPUTS_MAX, Registry, read_columns, sent, sent_columns};
use super::words::Word;
use crate::monitor_spec::{AddressMatch, Limit, MonitorSpec, ParserUse, Sample, Span};
use crate::taps::Taps;

/// Maximum endpoints in FROM, and in TO.
pub const ADDRESSES_MAX: usize = 65_536;

/// Encodes the specification of a monitor.
pub fn monitor(spec: &MonitorSpec) -> form::Monitor {
    let (sample, fraction) = match spec.sample {
        Sample::All => ("all", None),
        Sample::Auto => ("auto", None),
        Sample::Fraction(share) => ("fraction", Some(share)),
    };
    let parser = |parser: &ParserUse| {
        let schema: &Schema = &parser.schema;
        form::ParserUse { schema: Some(sent(schema)), columns: sent_columns(schema, &parser.columns) }
    };
    form::Monitor {
        parsers: spec.parsers.iter().map(parser).collect(),
        clients: spec.clients.iter().map(address).collect(),
        servers: spec.servers.iter().map(address).collect(),
        packets_max: spec.limit.packets,
        nanos_max: spec.limit.nanos,
        sample: sample.to_owned(),
        fraction,
        sample_seed: spec.sample_seed,
        start_ns: spec.span.start_ns,
        end_ns: spec.span.end_ns,
        taps: if spec.taps == Taps::default() { String::new() } else { spec.taps.word().to_owned() },
    }
}

fn address(of: &AddressMatch) -> form::AddressMatch {
    form::AddressMatch { net: of.net.map(|(ip, prefix)| net(ip, prefix)), port: of.port.map(u32::from) }
}

/// Decodes the specification of a monitor.
pub fn read_monitor(
    sent: &form::Monitor,
    registry: &mut Registry<'_>,
    lacks: &mut Lacks,
) -> Option<MonitorSpec> {
    lacks.at_most("parsers", sent.parsers.len(), INPUTS_MAX)?;
    let parsers: Vec<_> = sent.parsers.iter().map(|parser| read_parser(parser, registry, lacks)).collect();
    let sample = match (sent.sample.as_str(), sent.fraction) {
        ("all", None) => Some(Sample::All),
        ("auto", None) => Some(Sample::Auto),
        ("fraction", Some(share)) => Some(Sample::Fraction(share)),
        (word, _) => lacks.word("sample", word),
    };
    let taps = if sent.taps.is_empty() { Some(Taps::default()) } else { Taps::read(&sent.taps, lacks) };
    let (clients, servers) = (addresses(&sent.clients, lacks), addresses(&sent.servers, lacks));
    Some(MonitorSpec {
        parsers: parsers.into_iter().collect::<Option<_>>()?,
        clients: clients?,
        servers: servers?,
        limit: Limit { packets: sent.packets_max, nanos: sent.nanos_max },
        span: Span { start_ns: sent.start_ns, end_ns: sent.end_ns },
        sample: sample?,
        sample_seed: sent.sample_seed,
        taps: taps?,
    })
}

fn read_parser(sent: &form::ParserUse, registry: &mut Registry<'_>, lacks: &mut Lacks) -> Option<ParserUse> {
    let schema = registry.read(sent.schema.as_ref(), lacks)?;
    Some(ParserUse { columns: read_columns(&schema, &sent.columns, lacks)?, schema })
}

fn addresses(sent: &[form::AddressMatch], lacks: &mut Lacks) -> Option<Vec<AddressMatch>> {
    lacks.at_most("addresses", sent.len(), ADDRESSES_MAX)?;
    sent.iter().map(|of| read_address(of, lacks)).collect()
}

fn read_address(sent: &form::AddressMatch, lacks: &mut Lacks) -> Option<AddressMatch> {
    let net = match &sent.net {
        Some(net) => Some(read_net(net, lacks)?),
        None => None,
    };
    match sent.port.map(u16::try_from).transpose() {
        Ok(port) => Some(AddressMatch { net, port }),
        Err(_) => lacks.malformed("a port that is none"),
    }
}
