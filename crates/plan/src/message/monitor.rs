//! Serialized specification of a monitor.

use tuple::Schema;

use super::enum_words::EnumWord;
use super::expression::{net, read_net};
use super::proto;
use super::refusal::UnmetRequirements;
use super::schemas::{INPUTS_MAX, SchemaCatalog, read_columns, sent, sent_columns};
use crate::monitor_spec::{
    AddressMatch, MonitorSpec, ParserUse, QueryLimit, RateGoal, SampleMode, TimeSpan,
};
use crate::taps::TapSelection;

/// Maximum endpoints in FROM, and in TO.
pub const ADDRESSES_MAX: usize = 65_536;

/// Encodes the specification of a monitor.
pub fn monitor(spec: &MonitorSpec) -> proto::MonitorSpecProto {
    let (sample, fraction) = match spec.sample {
        SampleMode::All => ("all", None),
        SampleMode::Auto => ("auto", None),
        SampleMode::Fraction(share) => ("fraction", Some(share)),
        SampleMode::Exported => ("exported", None),
    };
    let parser = |parser: &ParserUse| {
        let schema: &Schema = &parser.schema;
        proto::ParserUseProto {
            schema: Some(sent(schema)),
            columns: sent_columns(schema, &parser.columns),
        }
    };
    proto::MonitorSpecProto {
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
        taps: if spec.taps == TapSelection::default() {
            String::new()
        } else {
            spec.taps.word().to_owned()
        },
        error_max: spec.goal.error,
        cpu_max: spec.goal.cpu,
    }
}

fn address(of: &AddressMatch) -> proto::AddressMatchProto {
    proto::AddressMatchProto {
        net: of.net.map(|(ip, prefix)| net(ip, prefix)),
        port: of.port.map(u32::from),
    }
}

/// Decodes the specification of a monitor.
pub fn read_monitor(
    sent: &proto::MonitorSpecProto,
    registry: &mut SchemaCatalog<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<MonitorSpec> {
    lacks.at_most("parsers", sent.parsers.len(), INPUTS_MAX)?;
    let parsers: Vec<_> = sent
        .parsers
        .iter()
        .map(|parser| read_parser(parser, registry, lacks))
        .collect();
    let sample = match (sent.sample.as_str(), sent.fraction) {
        ("all", None) => Some(SampleMode::All),
        ("auto", None) => Some(SampleMode::Auto),
        ("exported", None) => Some(SampleMode::Exported),
        ("fraction", Some(share)) => Some(SampleMode::Fraction(share)),
        (word, _) => lacks.word("sample", word),
    };
    let taps = if sent.taps.is_empty() {
        Some(TapSelection::default())
    } else {
        TapSelection::read(&sent.taps, lacks)
    };
    let clients = addresses(&sent.clients, lacks);
    let servers = addresses(&sent.servers, lacks);
    Some(MonitorSpec {
        parsers: parsers.into_iter().collect::<Option<_>>()?,
        clients: clients?,
        servers: servers?,
        limit: QueryLimit {
            packets: sent.packets_max,
            nanos: sent.nanos_max,
        },
        span: TimeSpan {
            start_ns: sent.start_ns,
            end_ns: sent.end_ns,
        },
        sample: sample?,
        goal: RateGoal {
            error: sent.error_max,
            cpu: sent.cpu_max,
        },
        sample_seed: sent.sample_seed,
        taps: taps?,
    })
}

fn read_parser(
    sent: &proto::ParserUseProto,
    registry: &mut SchemaCatalog<'_>,
    lacks: &mut UnmetRequirements,
) -> Option<ParserUse> {
    let schema = registry.read(sent.schema.as_ref(), lacks)?;
    Some(ParserUse {
        columns: read_columns(&schema, &sent.columns, lacks)?,
        schema,
    })
}

fn addresses(
    sent: &[proto::AddressMatchProto],
    lacks: &mut UnmetRequirements,
) -> Option<Vec<AddressMatch>> {
    lacks.at_most("addresses", sent.len(), ADDRESSES_MAX)?;
    sent.iter().map(|of| read_address(of, lacks)).collect()
}

fn read_address(
    sent: &proto::AddressMatchProto,
    lacks: &mut UnmetRequirements,
) -> Option<AddressMatch> {
    let net = match &sent.net {
        Some(net) => Some(read_net(net, lacks)?),
        None => None,
    };
    match sent.port.map(u16::try_from).transpose() {
        Ok(port) => Some(AddressMatch { net, port }),
        Err(_) => lacks.malformed("an invalid port"),
    }
}
