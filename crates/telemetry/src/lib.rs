//! Decodes the telemetry that switches and routers export: sFlow v5 ([sflow.org]), NetFlow v5 and v9 (RFC 3954), and
//! IPFIX (RFC 7011, biflow RFC 5103, on-path delay RFC 9951), to packet samples and flow records.
//!
//! [`ExportDecoder`] takes datagrams with the address of their sender and calls back with an [`ExportEvent`] per
//! record. It keeps templates, sampling rates, and sequence numbers per [`ExportDomain`], within the bounds of
//! [`ExportLimits`]; all that it discards is counted in [`ExportCounters`]. It reads no clock, file, or socket.
//! [`FlowEncoder`] and [`SflowEncoder`] write such messages.
//!
//! [sflow.org]: https://sflow.org/sflow_version_5.txt

#![forbid(unsafe_code)]

mod clock_map;
mod counters;
mod cursor;
mod decoder;
mod definitions;
mod domain;
mod element_id;
mod element_type;
mod elements;
mod encoder;
mod exported_flow;
mod netflow5;
mod outgoing;
mod pending;
mod sample_context;
mod sampling;
mod saved_state;
mod sequence;
mod sflow;
mod sflow_encoder;
mod template;
mod templated;

pub use clock_map::ClockMap;
pub use counters::ExportCounters;
pub use decoder::{ExportDecoder, ExportLimits};
pub use definitions::{DefinitionError, ElementDefinition, ElementDefinitions};
pub use domain::{ExportDomain, ExportProtocol};
pub use element_id::ElementId;
pub use element_type::ElementType;
pub use encoder::{FlowEncoder, FlowEncoderConfig, RecordRefusal};
pub use exported_flow::{ExportedFlow, FlowDirection, PacketSection, SectionStart};
pub use outgoing::{OutgoingField, OutgoingRecord, OutgoingValue};
pub use sample_context::{
    AsPath, SampleContext, SampleGateway, SampleInterface, SampleRoute, SampleTunnel, VlanStack,
};
pub use sampling::{RateSource, SamplingRate};
pub use sequence::SequenceLosses;
pub use sflow::{DiscardedPacket, HeaderProtocol, InterfaceCounters, PacketSample};
pub use sflow_encoder::{SflowEncoder, SflowEncoderConfig};
pub use template::{TemplateField, TemplateRecord};

/// A decoded record.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ExportEvent<'a> {
    /// A NetFlow or IPFIX flow record, with its fields as sent; a NetFlow v5 record has none.
    Flow(&'a ExportedFlow<'a>, Option<TemplateRecord<'a>>),
    /// The header of a packet that an sFlow agent sampled.
    Sample(&'a PacketSample<'a>),
    /// A packet that an sFlow agent reports as discarded.
    Discarded(&'a DiscardedPacket<'a>),
    /// Counters of an interface (sFlow).
    Counters(&'a InterfaceCounters),
}
