//! Columns of rows as information elements of IPFIX and NetFlow v9 (IANA's registry "IPFIX Information Elements",
//! biflows by RFC 5103), and the check that a query's rows are flow records.
//!
//! A column without an element is sent as an element of the user's enterprise, if the address names one. Otherwise, a
//! column that the query names is an error, and one that comes with every row is left out.

use plan::result::{IntervalMode, schema};
use plan::{Column, Dataflow};
use telemetry::ExportProtocol;
use tuple::{Batch, DataType, Field, Schema};

use crate::address::{OutletAddress, OutletScheme};

/// Form of the flow records of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowFormat {
    /// IPFIX or NetFlow v9.
    pub protocol: ExportProtocol,
    /// Both directions are in one record.
    pub directions: FlowDirections,
    /// Element of the bytes of a flow.
    pub octets: OctetElement,
    /// Enterprise number for columns without a registered element.
    pub enterprise: Option<u32>,
}

/// Records of the directions of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowDirections {
    /// One record with reversed elements (RFC 5103).
    Biflow,
    /// One record for each direction with packets.
    Split,
}

/// Element of the bytes of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OctetElement {
    /// `octetDeltaCount`, which collectors show as bytes.
    Octets,
    /// `layer2OctetDeltaCount`, which includes link headers, as the columns do.
    Layer2,
}

/// Direction of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSide {
    /// From the source of the record.
    Forward = 0,
    /// To the source.
    Reverse = 1,
}

/// Meaning of a column in a flow record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowColumn {
    /// First packet, or start of the window.
    Start,
    /// End of the window.
    End,
    /// From the first packet to the last.
    Duration,
    /// Source address.
    Source,
    /// Destination address.
    Destination,
    /// Source port.
    SourcePort,
    /// Destination port.
    DestinationPort,
    /// Name or number of the IP protocol.
    Protocol,
    /// Packets.
    Packets(FlowSide),
    /// Bytes on the wire.
    Octets(FlowSide),
    /// Transport payload.
    Payload(FlowSide),
    /// Another number: element and its length.
    Number(u16, u8),
    /// Share of sampled flows.
    Probability,
    /// Reason of the end.
    EndReason,
    /// Whether the source was guessed.
    Guessed,
    /// Name of the application.
    Application,
    /// Element of the enterprise with this number.
    Private(u32, u16),
}

/// Columns without a registered element; their number in the enterprise is their position, from 1. Append only.
const PRIVATE: [&str; 30] = [
    "quality",
    "ts_end",
    "community_id",
    "tunnel",
    "tunnel_id",
    "tunnel_src",
    "tunnel_dst",
    "proxied_client_ip",
    "proxied_client_port",
    "proxied_server_ip",
    "proxied_server_port",
    "handshake_ns",
    "retransmissions",
    "out_of_order",
    "gaps",
    "gap_bytes",
    "acked_unseen_bytes",
    "duplicates",
    "conn_state",
    "history",
    "client_rtt_ns",
    "server_rtt_ns",
    "syn_retransmissions",
    "approximate",
    "error_bound",
    "lost",
    "agents_missing",
    "encrypted",
    "tls_sni",
    "tls_alpn",
];

/// Columns of every result of a processor.
const OF_EVERY_RESULT: [&str; 4] = ["approximate", "error_bound", "lost", sinks::AGENTS_MISSING];

impl FlowFormat {
    /// The form for an address; `None` if the address is not that of a collector.
    ///
    /// # Errors
    /// A message about an option.
    pub fn of(address: &OutletAddress) -> Result<Option<FlowFormat>, String> {
        let protocol = match address.scheme {
            OutletScheme::Ipfix | OutletScheme::IpfixTcp => ExportProtocol::Ipfix,
            OutletScheme::Netflow9 => ExportProtocol::Netflow9,
            _ => return Ok(None),
        };
        let directions = match address.text("directions", "biflow") {
            _ if protocol == ExportProtocol::Netflow9 => FlowDirections::Split,
            "biflow" => FlowDirections::Biflow,
            "split" => FlowDirections::Split,
            other => return Err(format!("directions={other} is not biflow or split")),
        };
        let octets = match address.text("octets", "ip") {
            "ip" => OctetElement::Octets,
            "layer2" => OctetElement::Layer2,
            other => return Err(format!("octets={other} is not ip or layer2")),
        };
        let enterprise = match address.number("pen", 0)? {
            0 => None,
            pen => {
                Some(u32::try_from(pen).map_err(|_| format!("pen={pen} has more than 32 bits"))?)
            }
        };
        Ok(Some(FlowFormat {
            protocol,
            directions,
            octets,
            enterprise,
        }))
    }

    /// The meaning of each column of a row. `parser`: of the tuples.
    pub fn columns<'f>(
        &self,
        parser: &str,
        fields: impl Iterator<Item = &'f Field> + Clone,
    ) -> Vec<Option<FlowColumn>> {
        let columns: Vec<_> = fields
            .map(|field| self.column(parser, field).or_else(|| self.private(field)))
            .collect();
        let has_start = columns.contains(&Some(FlowColumn::Start));
        let is_of_use = |column: &FlowColumn| has_start || *column != FlowColumn::Duration;
        columns
            .into_iter()
            .map(|column| column.filter(is_of_use))
            .collect()
    }

    /// Names of the columns of rows that are not sent.
    pub fn unsent<'b>(&self, parser: &str, batch: &'b Batch) -> Vec<&'b str> {
        let fields = &batch.schema().fields;
        let columns = self.columns(parser, fields.iter());
        batch
            .present()
            .filter(|id| columns[usize::from(id.0)].is_none())
            .map(|id| &*fields[usize::from(id.0)].name)
            .collect()
    }

    fn column(&self, parser: &str, field: &Field) -> Option<FlowColumn> {
        use FlowColumn as C;
        use FlowSide::{Forward, Reverse};
        let is_ipfix = self.protocol == ExportProtocol::Ipfix;
        let is_flow = parser == "flow";
        let name = &*field.name;
        let (column, data_type) = match name {
            "ts" | "window_start" => (C::Start, DataType::I64),
            "window_end" => (C::End, DataType::I64),
            "duration_ns" => (C::Duration, DataType::I64),
            "client_ip" if is_flow => (C::Source, DataType::Ip),
            "server_ip" if is_flow => (C::Destination, DataType::Ip),
            "client_port" if is_flow => (C::SourcePort, DataType::U64),
            "server_port" if is_flow => (C::DestinationPort, DataType::U64),
            "src_ip" => (C::Source, DataType::Ip),
            "dst_ip" => (C::Destination, DataType::Ip),
            "src_port" => (C::SourcePort, DataType::U64),
            "dst_port" => (C::DestinationPort, DataType::U64),
            "transport" => (C::Protocol, DataType::Text),
            "client_packets" | "sum_client_packets" => (C::Packets(Forward), DataType::U64),
            "server_packets" | "sum_server_packets" => (C::Packets(Reverse), DataType::U64),
            "client_bytes" | "sum_client_bytes" => (C::Octets(Forward), DataType::U64),
            "server_bytes" | "sum_server_bytes" => (C::Octets(Reverse), DataType::U64),
            "client_payload_bytes" | "sum_client_payload_bytes" if is_ipfix => {
                (C::Payload(Forward), DataType::U64)
            }
            "server_payload_bytes" | "sum_server_payload_bytes" if is_ipfix => {
                (C::Payload(Reverse), DataType::U64)
            }
            // Packets have one value in bytes.
            "sum_bytes" if !is_flow => (C::Octets(Forward), DataType::U64),
            // `deltaFlowCount` (RFC 7015), or packets.
            "count" if is_flow => (C::Number(3, 8), DataType::U64),
            "count" => (C::Packets(Forward), DataType::U64),
            "vlan_id" => (C::Number(58, 2), DataType::U64),
            "id" => (C::Number(148, 8), DataType::U64),
            "reason" => (C::EndReason, DataType::Text),
            "sample_rate" if is_ipfix => (C::Probability, DataType::F64),
            "client_guessed" if is_ipfix => (C::Guessed, DataType::Bool),
            "application" if is_ipfix => (C::Application, DataType::Text),
            _ => return None,
        };
        (field.data_type == data_type).then_some(column)
    }

    fn private(&self, field: &Field) -> Option<FlowColumn> {
        let place = PRIVATE.iter().position(|name| *name == field.name)?;
        let is_scalar = !matches!(field.data_type, DataType::Hashes | DataType::Json);
        let enterprise = self.enterprise.filter(|_| is_scalar)?;
        Some(FlowColumn::Private(enterprise, place as u16 + 1))
    }
}

/// Checks that an address accepts the rows of a query.
///
/// # Errors
/// A message.
pub fn check_rows(address: &OutletAddress, dataflow: &Dataflow) -> Result<(), String> {
    if dataflow.pipelines.is_empty() && address.scheme.wants_results() {
        return Err(
            "single tuples are not metrics; use PROCESS, as in PROCESS (diff-group)".into(),
        );
    }
    let Some(format) = FlowFormat::of(address)? else {
        return Ok(());
    };
    let [input] = &dataflow.inputs[..] else {
        return Err("flow records are of one parser: PARSE flow".into());
    };
    let parser = &*input.schema.name;
    let is_raw = dataflow.pipelines.is_empty();
    if parser != "flow" && (parser != "packet" || is_raw) {
        return Err(
            "flow records require PARSE flow, or PARSE packet with PROCESS (group-count-sum: …)"
                .into(),
        );
    }
    let field = |column: Column| match column.computed_place() {
        Some(place) => dataflow.computed[place].field.clone(),
        None => input.schema.field(column.field).clone(),
    };
    if is_raw {
        return match &dataflow.rows.select {
            Some(select) => {
                let fields: Vec<Field> = select.iter().map(|column| field(*column)).collect();
                check(&format, parser, &fields, |_| true)
            }
            None => check(&format, parser, &input.schema.fields, |_| false),
        };
    }
    for pipeline in &dataflow.pipelines {
        if pipeline.profile.is_some() {
            return Err(format!("{} has no flow records", pipeline.name));
        }
        let Schema { fields, .. } = schema(pipeline, IntervalMode::None, &field);
        check(&format, parser, &fields, |name| {
            !OF_EVERY_RESULT.contains(&name)
        })?;
    }
    Ok(())
}

/// Checks the columns of a row; `is_named`: whether the query names a column.
fn check(
    format: &FlowFormat,
    parser: &str,
    fields: &[Field],
    is_named: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let columns = format.columns(parser, fields.iter());
    let unsent = fields.iter().zip(&columns);
    let unsent: Vec<&str> = unsent
        .filter(|(field, column)| column.is_none() && is_named(&field.name))
        .map(|(field, _)| &*field.name)
        .collect();
    if !unsent.is_empty() {
        return Err(format!(
            "no information element for {}: {}",
            unsent.join(", "),
            format.hint(&unsent)
        ));
    }
    let has = |wanted: fn(&FlowColumn) -> bool| columns.iter().flatten().any(wanted);
    let has_address = has(|column| matches!(column, FlowColumn::Source | FlowColumn::Destination));
    let has_count = has(|column| {
        matches!(
            column,
            FlowColumn::Packets(_) | FlowColumn::Octets(_) | FlowColumn::Payload(_)
        )
    });
    match (has_address, parser) {
        (true, _) if has_count => Ok(()),
        (_, "flow") => Err("a flow record needs an address (client_ip, server_ip) and a count (client_packets, \
                            client_bytes, …; in results sum_client_packets, …, by value= with several columns)"
            .into()),
        _ => Err("a flow record needs an address (src_ip, dst_ip) and a count (count, sum_bytes)".into()),
    }
}

impl FlowFormat {
    /// Advice about columns without an element.
    fn hint(&self, unsent: &[&str]) -> &'static str {
        let is_private = |name: &&str| PRIVATE.contains(name);
        if unsent.iter().any(|name| name.starts_with("sum")) {
            "only sums of counters (client_packets, client_bytes, …) have elements, named sum_client_packets, … by value= with several columns"
        } else if unsent.contains(&"duration_ns") {
            "with ts, duration_ns is the end of the flow"
        } else if self.protocol == ExportProtocol::Netflow9 {
            "leave it out, or use ipfix://"
        } else if unsent.iter().all(is_private) {
            "leave it out, or send it as an element of your enterprise with #pen=NUMBER"
        } else {
            "leave it out"
        }
    }
}
