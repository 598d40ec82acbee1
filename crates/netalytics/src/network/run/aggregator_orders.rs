//! Input of an aggregator on its standard input: the monitors to start with their command prefixes, and their orders.
//! Each block has a length of four bytes, little endian, and that many bytes: the first is JSON, followed by one order
//! per monitor.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use super::processes::ProcessStart;
use crate::process::failure::wrong_flags;
use crate::process::order_input::block;

/// Maximum monitors of an aggregator.
const MEMBERS_MAX: usize = 1024;

/// A monitor to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatorMember {
    /// Name of the monitor's host.
    pub host: String,
    /// Command prefix.
    pub via: Vec<String>,
    /// Capture interfaces.
    pub interfaces: Vec<String>,
    /// Encoded [`plan::message::JobOrder`].
    pub order: Vec<u8>,
}

/// See the module documentation.
#[derive(Debug, PartialEq, Eq)]
pub struct AggregatorOrders {
    /// Path of the program on monitors' hosts.
    pub program: PathBuf,
    /// The monitors.
    pub members: Vec<AggregatorMember>,
}

impl AggregatorMember {
    /// First input of the aggregator.
    pub fn input(&self) -> Vec<u8> {
        let mut input = Vec::new();
        put(&mut input, &self.order);
        input
    }

    /// Start parameters of the aggregator.
    pub fn starting<'s>(&'s self, program: &'s Path, input: &'s [u8]) -> ProcessStart<'s> {
        let AggregatorMember {
            host,
            via,
            interfaces,
            ..
        } = self;
        ProcessStart {
            what: "monitor",
            host,
            via,
            program,
            interfaces,
            input,
        }
    }
}

impl AggregatorOrders {
    /// Encodes as described in the module documentation.
    pub fn encode(&self) -> Vec<u8> {
        let member = |of: &AggregatorMember| json!({ "host": of.host, "via": of.via, "interfaces": of.interfaces });
        let members: Vec<Value> = self.members.iter().map(member).collect();
        let head = json!({ "program": self.program.to_string_lossy(), "monitors": members });
        let mut out = Vec::new();
        put(&mut out, head.to_string().as_bytes());
        self.members
            .iter()
            .for_each(|member| put(&mut out, &member.order));
        out
    }

    /// Decodes the output of [`AggregatorOrders::encode`].
    pub fn read(from: &mut dyn Read) -> anyhow::Result<AggregatorOrders> {
        let head: Value = serde_json::from_slice(&block(from)?)
            .context("the order names no program")
            .map_err(|why| wrong_flags(format!("{why:#}")))?;
        let lacks = |what: &str| wrong_flags(format!("the order on standard input has no {what}"));
        let program = head["program"]
            .as_str()
            .ok_or_else(|| lacks("program"))?
            .into();
        let monitors = head["monitors"]
            .as_array()
            .filter(|all| (1..=MEMBERS_MAX).contains(&all.len()));
        let mut members = Vec::new();
        for monitor in monitors.ok_or_else(|| lacks("monitors"))? {
            members.push(AggregatorMember {
                host: monitor["host"]
                    .as_str()
                    .ok_or_else(|| lacks("host"))?
                    .to_owned(),
                via: texts(&monitor["via"]).ok_or_else(|| lacks("via"))?,
                interfaces: texts(&monitor["interfaces"]).ok_or_else(|| lacks("interfaces"))?,
                order: block(from)?,
            });
        }
        Ok(AggregatorOrders { program, members })
    }
}

fn texts(list: &Value) -> Option<Vec<String>> {
    list.as_array()?
        .iter()
        .map(|text| text.as_str().map(str::to_owned))
        .collect()
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    // A plan that does not fit is rejected before.
    out.extend(collect::encode_block(bytes).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_round_trip() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        let member = |host: &str, via: &[&str], order: &[u8]| AggregatorMember {
            host: host.to_owned(),
            via: texts(via),
            interfaces: texts(&["eth0"]),
            order: order.to_owned(),
        };
        let members = vec![
            member("leaf1", &["ssh", "leaf1"], &[1, 2]),
            member("leaf2", &[], &[]),
        ];
        let told = AggregatorOrders {
            program: "/usr/bin/netalytics".into(),
            members,
        };
        let bytes = told.encode();
        assert_eq!(
            AggregatorOrders::read(&mut &bytes[..]).expect("it was written so"),
            told
        );
        for cut in 0..bytes.len() {
            assert!(
                AggregatorOrders::read(&mut &bytes[..cut]).is_err(),
                "{cut} bytes"
            );
        }
    }

    #[test]
    fn malformed_orders_are_rejected() {
        for (head, why) in [
            ("x", "the order names no program"),
            ("{}", "has no program"),
            (r#"{"program": "n"}"#, "has no monitors"),
            (r#"{"program": "n", "monitors": []}"#, "has no monitors"),
            (
                r#"{"program": "n", "monitors": [{"via": []}]}"#,
                "has no host",
            ),
            (
                r#"{"program": "n", "monitors": [{"host": "h", "via": [1]}]}"#,
                "has no via",
            ),
            (
                r#"{"program": "n", "monitors": [{"host": "h", "via": []}]}"#,
                "has no interfaces",
            ),
        ] {
            let mut bytes = Vec::new();
            put(&mut bytes, head.as_bytes());
            let refused = AggregatorOrders::read(&mut &bytes[..])
                .expect_err(head)
                .to_string();
            assert!(refused.contains(why), "{head}: {refused}");
        }
    }
}
