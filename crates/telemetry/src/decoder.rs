//! The decoder: messages of many exporters to events.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use wire::Timestamp;

use crate::clock_map::ClockMap;
use crate::cursor::Cursor;
use crate::elements::RecordFields;
use crate::exported_flow::{ExportedFlow, FlowTotals};
use crate::netflow5::Netflow5Header;
use crate::pending::PendingSets;
use crate::sampling::{SamplerTable, SamplingFields};
use crate::sequence::SequenceTracker;
use crate::sflow;
use crate::template::{Template, TemplateError};
use crate::templated::{
    MessageHeader, MessageSet, TemplateChange, TemplatedMessage, next_template,
};
use crate::{ExportCounters, ExportDomain, ExportEvent, ExportProtocol, SequenceLosses};

/// Bounds of an [`ExportDecoder`].
#[derive(Clone, Copy, Debug)]
pub struct ExportLimits {
    /// Domains; the least recently used ones are discarded.
    pub domains: usize,
    /// Templates of one domain; further ones are rejected.
    pub templates_per_domain: usize,
    /// Bytes of all templates.
    pub template_bytes: usize,
    /// Bytes of data sets that wait for their template.
    pub pending_bytes: usize,
    /// Longest wait for a template, in nanoseconds.
    pub pending_ns: i64,
    /// Flows with total counters.
    pub totals: usize,
}

impl Default for ExportLimits {
    fn default() -> ExportLimits {
        ExportLimits {
            domains: 16_384,
            templates_per_domain: 4096,
            template_bytes: 64 << 20,
            pending_bytes: 16 << 20,
            pending_ns: 600_000_000_000,
            totals: 65_536,
        }
    }
}

/// State of one domain.
#[derive(Debug, Default)]
pub(crate) struct DomainState {
    pub templates: HashMap<u16, Arc<Template>>,
    pub samplers: SamplerTable,
    sequence: SequenceTracker,
    uptime_ms: Option<u32>,
    /// Element 160 of an options record.
    pub exporter_start_ms: Option<u64>,
}

impl DomainState {
    fn template_bytes(&self) -> usize {
        self.templates
            .values()
            .map(|template| template.size())
            .sum()
    }

    /// Notes the exporter's uptime; returns whether it restarted.
    fn is_restarted(&mut self, uptime_ms: u32) -> bool {
        let before = self.uptime_ms.replace(uptime_ms);
        // Datagrams that arrive out of order are a little older; after 49 days the uptime wraps.
        before.is_some_and(|before| {
            before > uptime_ms && (60_000..u32::MAX / 2).contains(&(before - uptime_ms))
        })
    }
}

/// Key of a flow with total counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TotalsKey {
    domain: ExportDomain,
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    ports: (Option<u16>, Option<u16>),
    protocol: Option<u8>,
    input: Option<u32>,
}

/// Decodes export datagrams. See the crate's documentation.
#[derive(Debug)]
pub struct ExportDecoder {
    limits: ExportLimits,
    pub(crate) domains: ClockMap<ExportDomain, DomainState>,
    /// Rates by exporter: some report them in another domain than the records.
    exporters: ClockMap<(IpAddr, ExportProtocol), SamplerTable>,
    pending: PendingSets,
    totals: ClockMap<TotalsKey, FlowTotals>,
    template_bytes: usize,
    counters: ExportCounters,
}

impl ExportDecoder {
    /// A decoder without exporters.
    #[must_use]
    pub fn new(limits: ExportLimits) -> ExportDecoder {
        ExportDecoder {
            domains: ClockMap::new(limits.domains),
            exporters: ClockMap::new(limits.domains),
            totals: ClockMap::new(limits.totals),
            limits,
            pending: PendingSets::default(),
            template_bytes: 0,
            counters: ExportCounters::default(),
        }
    }

    /// Counters since the start.
    #[must_use]
    pub fn counters(&self) -> ExportCounters {
        self.counters
    }

    /// Losses by domain, in no particular order.
    pub fn losses(&self) -> impl Iterator<Item = (ExportDomain, SequenceLosses)> {
        self.domains
            .iter()
            .map(|(domain, state)| (*domain, state.sequence.losses()))
    }

    /// Decodes a datagram, or complete IPFIX messages of a stream. `received` is the time by the receiver's clock.
    pub fn decode(
        &mut self,
        exporter: SocketAddr,
        received: Timestamp,
        datagram: &[u8],
        mut on_event: impl FnMut(ExportEvent<'_>),
    ) {
        let expired = self.pending.expire(received.plus(-self.limits.pending_ns));
        self.counters.sets_discarded += expired;
        let mut cursor = Cursor::new(datagram);
        loop {
            let is_known = match cursor.u16() {
                Some(0) => self.sflow(exporter, received, &mut cursor, &mut on_event),
                Some(5) => self.netflow5(exporter, &mut cursor, &mut on_event),
                Some(9) => match TemplatedMessage::read_netflow9(&mut cursor) {
                    Some(message) => self.templated(
                        exporter,
                        received,
                        &message,
                        ExportProtocol::Netflow9,
                        &mut on_event,
                    ),
                    None => false,
                },
                Some(10) => match TemplatedMessage::read_ipfix(&mut cursor) {
                    Some(message) => self.templated(
                        exporter,
                        received,
                        &message,
                        ExportProtocol::Ipfix,
                        &mut on_event,
                    ),
                    None => false,
                },
                _ => false,
            };
            if !is_known {
                self.counters.not_export += 1;
                return;
            }
            self.counters.messages += 1;
            // Several IPFIX messages can share a buffer; bytes behind other messages are padding.
            if cursor.rest().get(..2) != Some(&[0, 10]) {
                return;
            }
        }
    }

    fn sflow(
        &mut self,
        exporter: SocketAddr,
        received: Timestamp,
        cursor: &mut Cursor<'_>,
        on_event: &mut impl FnMut(ExportEvent<'_>),
    ) -> bool {
        let Some(datagram) = sflow::SflowDatagram::read(exporter.ip(), received, cursor) else {
            return false;
        };
        let state = self.domain(datagram.domain);
        let is_restarted = state.is_restarted(datagram.uptime_ms);
        state.sequence.advance(datagram.sequence, 1, is_restarted);
        sflow::read_samples(&datagram, cursor, &mut self.counters, on_event);
        true
    }

    fn netflow5(
        &mut self,
        exporter: SocketAddr,
        cursor: &mut Cursor<'_>,
        on_event: &mut impl FnMut(ExportEvent<'_>),
    ) -> bool {
        let Some(header) = Netflow5Header::read(cursor) else {
            return false;
        };
        let state = self.domain(header.domain(exporter));
        let is_restarted = state.is_restarted(header.uptime_ms);
        state
            .sequence
            .advance(header.sequence, u32::from(header.count), is_restarted);
        for _ in 0..header.count {
            let Some(record) = header.record(exporter, cursor) else {
                self.counters.malformed += 1;
                break;
            };
            self.counters.flows += 1;
            on_event(ExportEvent::Flow(&record, None));
        }
        true
    }

    fn templated(
        &mut self,
        exporter: SocketAddr,
        received: Timestamp,
        message: &TemplatedMessage<'_>,
        protocol: ExportProtocol,
        on_event: &mut impl FnMut(ExportEvent<'_>),
    ) -> bool {
        let domain = ExportDomain {
            exporter: exporter.ip(),
            port: exporter.port(),
            protocol,
            id: message.domain,
        };
        let is_ipfix = protocol == ExportProtocol::Ipfix;
        let state = self.domain(domain);
        let is_restarted = message
            .header
            .uptime_ms
            .is_some_and(|uptime| state.is_restarted(uptime));
        let mut cursor = Cursor::new(message.sets);
        let mut is_malformed = message.is_truncated;
        let mut records = Some(0u32);
        // Records are decoded last: the options of the same message may have their sampling rate.
        let mut waiting: Vec<(Arc<Template>, &[u8])> = Vec::new();
        let mut count = |found: Result<u32, TemplateError>| {
            let more = found.as_ref().ok().copied();
            records = records.zip(more).map(|(sum, more)| sum.wrapping_add(more));
            found.is_err()
        };
        let mut is_held = false;
        while let Some(set) = MessageSet::next(&mut cursor, is_ipfix, &mut is_malformed) {
            match set {
                Ok(MessageSet::Templates(bytes)) => {
                    is_malformed |= self.take_templates(domain, bytes, false, on_event).is_err();
                }
                Ok(MessageSet::OptionsTemplates(bytes)) => {
                    is_malformed |= self.take_templates(domain, bytes, true, on_event).is_err();
                }
                Ok(MessageSet::Data {
                    template: id,
                    bytes,
                }) => match self.domain(domain).templates.get(&id).map(Arc::clone) {
                    Some(template) if template.is_options() => {
                        let found =
                            self.take_data(domain, &message.header, &template, bytes, on_event);
                        is_malformed |= count(found);
                    }
                    Some(template) => waiting.push((template, bytes)),
                    None => {
                        self.hold(domain, id, message.header, received, bytes);
                        is_held = true;
                    }
                },
                Ok(MessageSet::Reserved) => {}
                Err(_) => {
                    is_malformed = true;
                    break;
                }
            }
        }
        for (template, bytes) in waiting {
            let found = self.take_data(domain, &message.header, &template, bytes, on_event);
            is_malformed |= count(found);
        }
        let records = records.filter(|_| !is_held);
        let sequence = &mut self.domain(domain).sequence;
        match (is_ipfix, records) {
            (false, _) => sequence.advance(message.sequence, 1, is_restarted),
            (true, Some(records)) => sequence.advance(message.sequence, records, is_restarted),
            (true, None) => {
                sequence.advance(message.sequence, 0, is_restarted);
                sequence.lose_count();
            }
        }
        self.counters.malformed += u64::from(is_malformed);
        true
    }

    fn hold(
        &mut self,
        domain: ExportDomain,
        id: u16,
        header: MessageHeader,
        received: Timestamp,
        bytes: &[u8],
    ) {
        self.counters.sets_held += 1;
        let max_bytes = self.limits.pending_bytes;
        self.counters.sets_discarded +=
            self.pending
                .hold((domain, id), header, received, bytes, max_bytes);
    }

    fn take_templates(
        &mut self,
        domain: ExportDomain,
        set: &[u8],
        is_options: bool,
        on_event: &mut impl FnMut(ExportEvent<'_>),
    ) -> Result<(), TemplateError> {
        let is_ipfix = domain.protocol == ExportProtocol::Ipfix;
        let mut cursor = Cursor::new(set);
        while let Some(change) = next_template(&mut cursor, is_options, is_ipfix) {
            match change? {
                TemplateChange::Define(id, template) => self.define(domain, id, template, on_event),
                TemplateChange::Reject(_) => self.counters.templates_rejected += 1,
                TemplateChange::Withdraw(id) => self.withdraw(domain, |of, _| of == id),
                TemplateChange::WithdrawAll { is_options } => {
                    self.withdraw(domain, |_, template| template.is_options() == is_options);
                }
            }
        }
        Ok(())
    }

    fn define(
        &mut self,
        domain: ExportDomain,
        id: u16,
        template: Template,
        on_event: &mut impl FnMut(ExportEvent<'_>),
    ) {
        let template = Arc::new(template);
        if !self.add_template(domain, id, Arc::clone(&template)) {
            self.counters.templates_rejected += 1;
            return;
        }
        self.counters.templates += 1;
        for set in self.pending.take((domain, id)) {
            self.counters.sets_decoded_late += 1;
            let decoded = self.take_data(domain, &set.header, &template, &set.bytes, on_event);
            self.counters.malformed += u64::from(decoded.is_err());
        }
    }

    /// Adds or replaces a template; returns whether the domain has room for it.
    pub(crate) fn add_template(
        &mut self,
        domain: ExportDomain,
        id: u16,
        template: Arc<Template>,
    ) -> bool {
        let max_templates = self.limits.templates_per_domain;
        let size = template.size();
        let templates = &mut self.domain(domain).templates;
        if templates.len() >= max_templates && !templates.contains_key(&id) {
            return false;
        }
        let replaced = templates.insert(id, template);
        self.template_bytes += size;
        self.template_bytes -= replaced.map_or(0, |replaced| replaced.size());
        while self.template_bytes > self.limits.template_bytes {
            match self.domains.evict(&domain) {
                Some((_, evicted)) => self.forget(&evicted),
                None => break,
            }
        }
        true
    }

    fn withdraw(&mut self, domain: ExportDomain, is_withdrawn: impl Fn(u16, &Template) -> bool) {
        let mut withdrawn = 0;
        let mut bytes = 0;
        self.domain(domain).templates.retain(|id, template| {
            let is_kept = !is_withdrawn(*id, template);
            withdrawn += u64::from(!is_kept);
            bytes += if is_kept { 0 } else { template.size() };
            is_kept
        });
        self.template_bytes -= bytes;
        self.counters.templates_withdrawn += withdrawn;
    }

    /// Decodes the records of a data set; returns their number.
    fn take_data(
        &mut self,
        domain: ExportDomain,
        header: &MessageHeader,
        template: &Template,
        set: &[u8],
        on_event: &mut impl FnMut(ExportEvent<'_>),
    ) -> Result<u32, TemplateError> {
        if template.is_options() {
            self.take_options(domain, header, template, set)
        } else {
            self.take_flows(domain, header, template, set, on_event)
        }
    }

    fn take_options(
        &mut self,
        domain: ExportDomain,
        header: &MessageHeader,
        template: &Template,
        set: &[u8],
    ) -> Result<u32, TemplateError> {
        let mut cursor = Cursor::new(set);
        let mut records = 0;
        while let Some(found) = template.next_record(&mut cursor) {
            let mut fields = RecordFields::new(ExportedFlow::new(domain, header.exported));
            fields.take_all(&found?);
            records += 1;
            self.counters.options += 1;
            let state = self.domain(domain);
            state.exporter_start_ms = fields.exporter_start_ms().or(state.exporter_start_ms);
            if let Some(sampling) = &fields.sampling
                && state.samplers.learn(sampling)
            {
                learn_of_exporter(&mut self.exporters, domain, sampling);
            }
        }
        Ok(records)
    }

    fn take_flows(
        &mut self,
        domain: ExportDomain,
        header: &MessageHeader,
        template: &Template,
        set: &[u8],
        on_event: &mut impl FnMut(ExportEvent<'_>),
    ) -> Result<u32, TemplateError> {
        // Looked up once for all records.
        self.domain(domain);
        let Some(state) = self.domains.get(&domain) else {
            return Ok(0);
        };
        let exporter = (domain.exporter, domain.protocol);
        let exporter_rates = self.exporters.get_mut(&exporter);
        let rate_of = |sampling: &SamplingFields| {
            let rate = state.samplers.rate_of(sampling);
            rate.or_else(|| exporter_rates.as_ref()?.rate_of(sampling))
        };
        let usual_rate = rate_of(&SamplingFields::default());
        let mut cursor = Cursor::new(set);
        let mut records = 0;
        while let Some(found) = template.next_record(&mut cursor) {
            let found = found?;
            records += 1;
            let mut fields = RecordFields::new(ExportedFlow::new(domain, header.exported));
            fields.take_all(&found);
            self.counters.times_rejected += fields.finish(header, state.exporter_start_ms);
            let record = &mut fields.record;
            record.rate = fields.sampling.as_ref().map_or(usual_rate, rate_of);
            if let Some(totals) = record.totals.take() {
                let is_known = subtract_totals(&mut self.totals, record, totals);
                self.counters.totals_without_base += u64::from(!is_known);
            }
            self.counters.flows += 1;
            on_event(ExportEvent::Flow(record, Some(found)));
        }
        Ok(records)
    }

    pub(crate) fn domain(&mut self, domain: ExportDomain) -> &mut DomainState {
        if self.domains.get_mut(&domain).is_none()
            && let Some((_, evicted)) = self.domains.insert(domain, DomainState::default())
        {
            self.forget(&evicted);
        }
        self.domains
            .get_mut(&domain)
            .expect("a domain that was just inserted")
    }

    fn forget(&mut self, evicted: &DomainState) {
        self.template_bytes -= evicted.template_bytes();
        self.counters.domains_evicted += 1;
        self.counters.templates_evicted += evicted.templates.len() as u64;
    }
}

/// Takes a rate for records of the exporter's other domains.
fn learn_of_exporter(
    exporters: &mut ClockMap<(IpAddr, ExportProtocol), SamplerTable>,
    domain: ExportDomain,
    sampling: &SamplingFields,
) {
    let exporter = (domain.exporter, domain.protocol);
    match exporters.get_mut(&exporter) {
        Some(samplers) => {
            samplers.learn(sampling);
        }
        None => {
            let mut samplers = SamplerTable::default();
            samplers.learn(sampling);
            exporters.insert(exporter, samplers);
        }
    }
}

/// Sets packets and bytes to the difference to the flow's previous totals; returns whether there are any.
fn subtract_totals(
    known: &mut ClockMap<TotalsKey, FlowTotals>,
    record: &mut ExportedFlow<'_>,
    totals: FlowTotals,
) -> bool {
    let key = TotalsKey {
        domain: record.domain,
        source: record.source,
        destination: record.destination,
        ports: (record.source_port, record.destination_port),
        protocol: record.protocol,
        input: record.input,
    };
    let Some(before) = known.get_mut(&key) else {
        known.insert(key, totals);
        return false;
    };
    let difference = |now: Option<u64>, before: Option<u64>| now?.checked_sub(before?);
    record.packets = record
        .packets
        .or(difference(totals.packets, before.packets));
    record.bytes = record.bytes.or(difference(totals.bytes, before.bytes));
    *before = totals;
    true
}
