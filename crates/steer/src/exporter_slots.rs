//! Exporters of a bridge in the database of an Open vSwitch: reads them, creates one in an empty place, and renews,
//! changes, and removes exactly that one, which its mark identifies. It is also removed at any end of this process.

use std::fs;

use mirror::exporter::{
    self, BridgeExporters, ExporterMark, ExporterSettings, ExporterSlot, ObservedExporter,
};
use serde_json::{Value, json};

use crate::backend::SwitchError;
use crate::ovs::{OpenVSwitch, PATIENCE, members, now, references};
use crate::rpc;

impl OpenVSwitch {
    /// Name of the bridge.
    #[must_use]
    pub fn bridge(&self) -> &str {
        &self.bridge
    }

    /// Process of the switch, if its file is readable.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        let text = fs::read_to_string(self.run.join("ovs-vswitchd.pid"));
        text.ok()?.trim().parse().ok()
    }

    /// Exporters of the bridge whose processes may still run.
    ///
    /// # Errors
    /// See [`SwitchError`].
    pub fn running_exporters(&self) -> Result<BridgeExporters, SwitchError> {
        let mut seen = self.exporters()?;
        seen.exporters.retain(|exporter| !exporter.is_stale(now()));
        Ok(seen)
    }

    /// Exporters of the bridge.
    ///
    /// # Errors
    /// See [`SwitchError`].
    pub fn exporters(&self) -> Result<BridgeExporters, SwitchError> {
        let places = ExporterSlot::ALL.map(ExporterSlot::column);
        let columns = ["_uuid", places[0], places[1], places[2]];
        let sampled = ["_uuid", "targets", "external_ids", "sampling"];
        let selects: [rpc::Select<'_>; 5] = [
            ("Bridge", &columns, Some(&self.bridge)),
            (ExporterSlot::Sflow.table(), &sampled, None),
            (ExporterSlot::Ipfix.table(), &sampled, None),
            (ExporterSlot::Netflow.table(), &sampled[..3], None),
            ("Flow_Sample_Collector_Set", &["id", "bridge"], None),
        ];
        let tables = rpc::select(&self.run, &selects, PATIENCE)?;
        let bridge = tables[0].first().ok_or_else(|| SwitchError::Refused {
            program: "ovsdb-server".to_owned(),
            said: format!("no bridge {}", self.bridge),
        })?;
        let id = references(&bridge[0]);
        let mut seen = BridgeExporters::default();
        for (nth, slot) in ExporterSlot::ALL.into_iter().enumerate() {
            let place = references(&bridge[nth + 1]);
            let here = tables[nth + 1]
                .iter()
                .find(|row| !place.is_empty() && references(&row[0]) == place);
            seen.exporters.extend(here.map(|row| observed(slot, row)));
        }
        let sets = tables[4].iter().filter(|row| references(&row[1]) == id);
        seen.collector_sets = sets
            .filter_map(|row| row[0].as_u64()?.try_into().ok())
            .collect();
        seen.collector_sets.sort_unstable();
        Ok(seen)
    }

    /// Creates an exporter in an empty place.
    ///
    /// # Errors
    /// [`SwitchError::Refused`] if the place has an exporter; it is unchanged then.
    pub(crate) fn add_exporter(
        &mut self,
        settings: &ExporterSettings,
        mark: ExporterMark,
    ) -> Result<(), SwitchError> {
        let slot = settings.slot();
        let occupied = |other: &ObservedExporter| SwitchError::Refused {
            program: "ovsdb-server".to_owned(),
            said: format!("bridge {}: {other}; it was not changed", self.bridge),
        };
        if let Some(other) = self.exporters()?.at(slot) {
            return Err(occupied(other));
        }
        let name = kept(slot, mark);
        let bridge = self.bridge.clone();
        // Registered before the exporter is created, so that any end of this process removes it.
        self.keep(&name, None, exporter::remove(slot, &bridge, mark))?;
        let made = self.make(&name, settings.create(&bridge, mark, now()));
        made.map(drop).inspect_err(|_| {
            // The original error is returned. A failed tool may have done its work.
            let _ = self.remove_exporter(slot, mark);
        })
    }

    /// Removes the exporter with this mark, if the bridge has it.
    ///
    /// # Errors
    /// See [`SwitchError`]; the removal is then tried again at the end of this process.
    pub(crate) fn remove_exporter(
        &mut self,
        slot: ExporterSlot,
        mark: ExporterMark,
    ) -> Result<(), SwitchError> {
        if self.has_exporter(slot, mark)? {
            self.vsctl(exporter::remove(slot, &self.bridge, mark))?;
        }
        self.forgo(&kept(slot, mark));
        Ok(())
    }

    fn has_exporter(&self, slot: ExporterSlot, mark: ExporterMark) -> Result<bool, SwitchError> {
        let seen = self.exporters()?;
        Ok(seen.at(slot).is_some_and(|seen| seen.mark == Some(mark)))
    }

    /// Renews the exporter with this mark, and sets its sampling rate if given; returns whether it exists.
    ///
    /// # Errors
    /// See [`SwitchError`].
    pub(crate) fn renew_exporter(
        &self,
        slot: ExporterSlot,
        mark: ExporterMark,
        sampling: Option<u32>,
    ) -> Result<bool, SwitchError> {
        let marked = json!([[
            "external_ids",
            "includes",
            ["map", [[exporter::MARK, mark.to_string()]]]
        ]]);
        let time = json!(["map", [[exporter::RENEWED, now().to_string()]]]);
        let renewal = json!({
            "op": "mutate", "table": slot.table(), "where": marked,
            "mutations": [
                ["external_ids", "delete", ["set", [exporter::RENEWED]]],
                ["external_ids", "insert", time],
            ],
        });
        let change = sampling.map(|sampling| {
            json!({
                "op": "update", "table": slot.table(), "where": marked,
                "row": { "sampling": sampling },
            })
        });
        let operations = std::iter::once(renewal).chain(change).collect();
        let results = rpc::transact(&self.run, operations, PATIENCE)?;
        Ok(results.iter().all(|result| result["count"] == 1))
    }

    /// Removes exporters of processes that no longer run; returns their places.
    pub(crate) fn repair_exporters(&mut self) -> Result<Vec<ExporterSlot>, SwitchError> {
        let stale: Vec<_> = self.exporters()?.stale(now()).collect();
        for (slot, mark) in &stale {
            self.remove_exporter(*slot, *mark)?;
        }
        Ok(stale.into_iter().map(|(slot, _)| slot).collect())
    }
}

/// Name of the registered removal.
fn kept(slot: ExporterSlot, mark: ExporterMark) -> String {
    format!("{slot} exporter {mark}")
}

/// An exporter's row: identifier, targets, external identifiers, and sampling rate if the table has one.
fn observed(slot: ExporterSlot, row: &[Value]) -> ObservedExporter {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let ids = row[2].as_array().and_then(|map| map.get(1)?.as_array());
    let id = |key: &str| {
        let pairs = ids.into_iter().flatten().filter_map(Value::as_array);
        let mut pairs = pairs.filter(|pair| pair.first().and_then(Value::as_str) == Some(key));
        pairs.next()?.get(1)?.as_str()
    };
    ObservedExporter {
        slot,
        targets: text(&row[1])
            .into_iter()
            .chain(members(&row[1]).filter_map(text))
            .collect(),
        sampling: row.get(3).and_then(|value| value.as_u64()?.try_into().ok()),
        mark: id(exporter::MARK).and_then(ExporterMark::parse),
        renewed: id(exporter::RENEWED)
            .and_then(|time| time.parse().ok())
            .unwrap_or(0),
    }
}
