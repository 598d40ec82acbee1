//! One switch behind a controller with an HTTP interface (docs/sdn.md), which accepts whole sets of rules, one per
//! server number. A controller cannot stop flooding to a port, or create ports or mirrors: the owner of the switch must
//! configure the monitors' ports without flooding and declare them.

use std::time::{Duration, SystemTime};

use connect::HttpSettings;
use mirror::diff::ours;
use mirror::json::{rule_from_json, rule_to_json};
use mirror::model::{FloodSetting, PortVlans};
use mirror::openflow::action::LOCAL;
use mirror::openflow::{CookieOwner, FlowRule, RuleCookie};
use mirror::ovsdb::PortMirror;
use mirror::{ModelPacket, RuleOperation};
use serde_json::{Value, json};
use ureq::{Agent, RequestBuilder};

use crate::backend::{ObservedSwitch, Out, SwitchBackend, SwitchCapabilities, SwitchError};

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum bytes of a response.
const ANSWER_MAX: u64 = 64 << 20;
/// First reserved OpenFlow port number; LOCAL is among these.
const PORT_MAX: u32 = 0xffff_ff00;

/// See the module documentation.
#[derive(Debug)]
pub struct SwitchController {
    agent: Agent,
    base: String,
    /// Authorization header; none: without a token.
    authorization: Option<String>,
    quiet: Vec<String>,
    generation: u64,
}

impl SwitchController {
    /// The switch with this datapath id (16 hexadecimal digits) of the controller at `http://HOST:PORT`. `quiet`: names
    /// of ports to which the switch does not flood.
    #[must_use]
    pub fn new(url: &str, datapath: &str, token: Option<&str>, quiet: &[&str]) -> SwitchController {
        let settings = HttpSettings {
            whole_max: Some(PATIENCE),
            ..HttpSettings::default()
        };
        SwitchController {
            agent: settings.agent(),
            base: format!("{}/v1/switches/{datapath}", url.trim_end_matches('/')),
            authorization: token.map(|token| format!("Bearer {token}")),
            quiet: quiet.iter().map(|name| (*name).to_owned()).collect(),
            generation: 0,
        }
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, SwitchError> {
        let uri = format!("{}{path}", self.base);
        let refused = |said: String| SwitchError::Refused {
            program: format!("the controller at {uri}"),
            said,
        };
        let failed = |e: ureq::Error| match e {
            ureq::Error::Timeout(_) => SwitchError::Silent {
                program: format!("the controller at {uri}"),
                seconds: PATIENCE.as_secs(),
            },
            e => refused(e.to_string()),
        };
        let sent = match (method, body) {
            ("GET", _) => self.signed(self.agent.get(&uri)).call(),
            ("DELETE", _) => self.signed(self.agent.delete(&uri)).call(),
            ("POST", Some(body)) => self.signed(self.agent.post(&uri)).send(body.to_string()),
            (_, body) => {
                let body = body.unwrap_or(&Value::Null).to_string();
                self.signed(self.agent.put(&uri)).send(body)
            }
        };
        let mut answer = sent.map_err(failed)?;
        let text = answer
            .body_mut()
            .with_config()
            .limit(ANSWER_MAX)
            .read_to_string()
            .map_err(failed)?;
        let value: Value = serde_json::from_str(&text).map_err(|_| {
            SwitchError::NotUnderstood(format!("{uri} does not answer with JSON: {text:.200}"))
        })?;
        if answer.status().is_success() {
            return Ok(value);
        }
        let why = value
            .get("error")
            .and_then(Value::as_str)
            .unwrap_or("no reason given");
        if answer.status() == 401 {
            return Err(refused(format!(
                "{why} (401); controller_token in the network file, or --controller-token, names that file"
            )));
        }
        Err(refused(format!("{} ({})", why, answer.status().as_u16())))
    }

    fn signed<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.authorization {
            Some(value) => request.header("Authorization", value),
            None => request,
        }
    }

    fn rules(&self) -> Result<Vec<FlowRule>, SwitchError> {
        let listed = self.ask("GET", "/rules", None)?;
        let listed = listed.as_array().cloned().unwrap_or_default();
        let rules = listed.iter().map(rule_from_json).collect::<Result<_, _>>();
        rules.map_err(|why| {
            SwitchError::NotUnderstood(format!("{}: cannot parse a rule: {why}", self.base))
        })
    }

    /// Cookie and mask of a server's rules.
    fn set(server: u16) -> (RuleCookie, RuleCookie) {
        let own = CookieOwner {
            server,
            job: 0,
            generation: 0,
            actions: 0,
        };
        (RuleCookie::of(own), RuleCookie(RuleCookie::SERVER_MASK))
    }
}

/// Datapath ids of the switches known to a controller at `http://HOST:PORT`.
///
/// # Errors
/// See [`SwitchError`].
pub fn datapaths(url: &str, token: Option<&str>) -> Result<Vec<String>, SwitchError> {
    let mut controller = SwitchController::new(url, "", token, &[]);
    controller.base.truncate(controller.base.len() - 1);
    let listed = controller.ask("GET", "", None)?;
    let strange = || {
        SwitchError::NotUnderstood(format!(
            "{}: the response has no list of switches",
            controller.base
        ))
    };
    let listed = listed.as_array().ok_or_else(strange)?;
    let number = |switch: &Value| {
        switch
            .get("datapath")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    Ok(listed.iter().filter_map(number).collect())
}

/// Rules after these operations.
pub(crate) fn changed(mut rules: Vec<FlowRule>, operations: &[RuleOperation]) -> Vec<FlowRule> {
    for operation in operations {
        match operation {
            RuleOperation::Add(rule) => {
                rules.retain(|old| old.key() != rule.key());
                rules.push(rule.clone());
            }
            RuleOperation::Delete(rule) => {
                rules.retain(|old| (old.key(), old.cookie) != (rule.key(), rule.cookie));
            }
            RuleOperation::Renew(..) => {}
        }
    }
    rules
}

impl SwitchBackend for SwitchController {
    fn capabilities(&self) -> SwitchCapabilities {
        SwitchCapabilities {
            leases: true,
            truncates: true,
            mirrors: false,
        }
    }

    fn list(&mut self) -> Result<ObservedSwitch, SwitchError> {
        let switch = self.ask("GET", "", None)?;
        let strange = || {
            SwitchError::NotUnderstood(format!("{}: the response has no list of ports", self.base))
        };
        let listed = switch
            .get("ports")
            .and_then(Value::as_array)
            .ok_or_else(strange)?;
        let port = |port: &Value| {
            let number = u32::try_from(port.get("number")?.as_u64()?).ok()?;
            let name = port.get("name")?.as_str()?.to_owned();
            let flooded = if self.quiet.contains(&name) {
                FloodSetting::No
            } else {
                FloodSetting::Yes
            };
            (number < PORT_MAX || number == LOCAL).then_some((
                number,
                name,
                flooded,
                PortVlans::All,
            ))
        };
        let ports = listed.iter().filter_map(port).collect();
        Ok(ObservedSwitch {
            rules: self.rules()?,
            ports,
            mirrors: Vec::new(),
            bonds: Vec::new(),
            records: Vec::new(),
        })
    }

    fn apply(&mut self, operations: &[RuleOperation]) -> Result<(), SwitchError> {
        let cookie = operations.first().map(|operation| match operation {
            RuleOperation::Add(rule) | RuleOperation::Delete(rule) => rule.cookie,
            RuleOperation::Renew(cookie, _) => *cookie,
        });
        let Some(server) = cookie.and_then(RuleCookie::owner).map(|owner| owner.server) else {
            return Ok(());
        };
        let (cookie, mask) = SwitchController::set(server);
        let own = json!({"cookie": cookie.to_string(), "mask": mask.to_string()});
        if operations
            .iter()
            .all(|operation| matches!(operation, RuleOperation::Renew(..)))
        {
            return self.ask("POST", "/renew", Some(&own)).map(drop);
        }
        let rules = changed(ours(&self.rules()?, server), operations);
        if rules.is_empty() {
            return self
                .ask(
                    "DELETE",
                    &format!("/rules?cookie={cookie}&mask={mask}"),
                    None,
                )
                .map(drop);
        }
        // Also increases after a restart of this process.
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        self.generation =
            (self.generation + 1).max(u64::try_from(now.as_millis()).unwrap_or(u64::MAX) >> 1);
        let lease = rules
            .iter()
            .map(|rule| rule.hard_timeout)
            .max()
            .unwrap_or(0);
        let rules: Vec<Value> = rules.iter().map(rule_to_json).collect();
        let set = json!({
            "cookie": cookie.to_string(), "mask": mask.to_string(), "generation": self.generation, "lease": lease, "rules": rules,
        });
        self.ask("PUT", "/rules", Some(&set)).map(drop)
    }

    fn trace(&mut self, _: &ModelPacket) -> Result<Option<Vec<Out>>, SwitchError> {
        Ok(None)
    }

    fn keep_floods_from(&mut self, port: u32) -> Result<(), SwitchError> {
        let listed = self.list()?.ports;
        let name = listed
            .iter()
            .find(|known| known.0 == port)
            .map_or("of no name", |known| &known.1);
        if self.quiet.iter().any(|quiet| quiet == name) {
            return Ok(());
        }
        Err(SwitchError::Cannot(format!(
            "the setting no-flood of port {port} ({name}), which the switch's owner must set"
        )))
    }

    fn add_mirror(&mut self, _: &PortMirror) -> Result<(), SwitchError> {
        Err(SwitchError::Cannot("mirrors of ports".to_owned()))
    }

    /// Not supported.
    fn remove_mirror(&mut self, _: &str) -> Result<(), SwitchError> {
        Ok(())
    }
}
