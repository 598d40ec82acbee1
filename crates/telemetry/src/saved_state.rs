//! Templates and sampling rates across a restart of the collector, as JSON: exporters repeat them every few minutes
//! only.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::element_id::ElementId;
use crate::sampling::SamplerTable;
use crate::template::{FieldSpecifier, Template};
use crate::{ExportDecoder, ExportDomain, ExportProtocol};

/// Format of the saved state.
const FORMAT_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct SavedTemplates {
    version: u32,
    domains: Vec<SavedDomain>,
}

#[derive(Serialize, Deserialize)]
struct SavedDomain {
    exporter: IpAddr,
    port: u16,
    protocol: String,
    id: u32,
    exporter_start_ms: Option<u64>,
    rate: Option<f64>,
    /// Rates by sampler.
    rates: BTreeMap<u64, f64>,
    templates: BTreeMap<u16, SavedTemplate>,
}

#[derive(Serialize, Deserialize)]
struct SavedTemplate {
    /// Number of scope fields of an options template.
    scope: Option<usize>,
    /// Enterprise number, element, and length.
    fields: Vec<(u32, u16, u16)>,
}

impl ExportDecoder {
    /// The templates and sampling rates of all domains as JSON, for [`ExportDecoder::restore`].
    #[must_use]
    pub fn save(&self) -> String {
        let domains = self.domains.iter().map(|(domain, state)| SavedDomain {
            exporter: domain.exporter,
            port: domain.port,
            protocol: domain.protocol.name().to_owned(),
            id: domain.id,
            exporter_start_ms: state.exporter_start_ms,
            rate: state.samplers.default_rate(),
            rates: state.samplers.rates().collect(),
            templates: state
                .templates
                .iter()
                .map(|(id, template)| (*id, SavedTemplate::new(template)))
                .collect(),
        });
        let state = SavedTemplates {
            version: FORMAT_VERSION,
            domains: domains.collect(),
        };
        serde_json::to_string(&state).expect("every map of a state has numeric keys")
    }

    /// Adds the templates and sampling rates of a [saved state](ExportDecoder::save), within the decoder's limits.
    /// Returns the number of templates.
    ///
    /// # Errors
    /// A message if the text is not a saved state of this version; nothing is added.
    pub fn restore(&mut self, saved: &str) -> Result<usize, String> {
        let state: SavedTemplates =
            serde_json::from_str(saved).map_err(|error| error.to_string())?;
        if state.version != FORMAT_VERSION {
            return Err(format!(
                "version {} of saved templates is not {FORMAT_VERSION}",
                state.version
            ));
        }
        let mut restored = 0;
        for saved in state.domains {
            let Some(protocol) = ExportProtocol::from_name(&saved.protocol) else {
                return Err(format!("unknown export protocol {}", saved.protocol));
            };
            let domain = ExportDomain {
                exporter: saved.exporter,
                port: saved.port,
                protocol,
                id: saved.id,
            };
            for (id, template) in saved.templates {
                if let Some(template) = template.restore() {
                    restored += usize::from(self.add_template(domain, id, Arc::new(template)));
                }
            }
            let state = self.domain(domain);
            state.exporter_start_ms = saved.exporter_start_ms;
            state.samplers = SamplerTable::new(saved.rate, saved.rates);
        }
        Ok(restored)
    }
}

impl SavedTemplate {
    fn new(template: &Template) -> SavedTemplate {
        let fields = template
            .fields()
            .iter()
            .map(|field| (field.element.enterprise, field.element.id, field.len));
        SavedTemplate {
            scope: template.scope(),
            fields: fields.collect(),
        }
    }

    fn restore(self) -> Option<Template> {
        let fields = self
            .fields
            .into_iter()
            .map(|(enterprise, id, len)| FieldSpecifier {
                element: ElementId { enterprise, id },
                len,
            });
        Template::new(fields.collect(), self.scope).ok()
    }
}
