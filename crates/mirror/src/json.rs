//! A rule in JSON: match and actions as OpenFlow text; the cookie as a string because JSON numbers may lose bits of 64.

use serde_json::{Map, Value, json};

use crate::openflow::{FlowRule, RuleCookie, read_actions, read_match, read_rule};

/// Encodes as accepted by the controller's interface.
#[must_use]
pub fn rule_to_json(rule: &FlowRule) -> Value {
    json!({
        "table": rule.table,
        "priority": rule.priority,
        "cookie": rule.cookie.to_string(),
        "match": rule.matched.to_string(),
        "actions": rule.actions_text(),
    })
}

/// Decodes the controller's format; ignores other members.
///
/// # Errors
/// The missing or invalid member.
pub fn rule_from_json(value: &Value) -> Result<FlowRule, String> {
    let object = value.as_object().ok_or("a rule must be an object")?;
    let text = |name: &str| text(object, name);
    let cookie = text("cookie")?;
    let digits = cookie
        .strip_prefix("0x")
        .ok_or_else(|| format!("cookie is {cookie:.40?}, which does not start with 0x"))?;
    let cookie = u64::from_str_radix(digits, 16).map_err(|e| format!("cookie: {e}"))?;
    let rule = FlowRule {
        table: number(object, "table", 0)?,
        priority: number(object, "priority", 0x8000)?,
        cookie: RuleCookie(cookie),
        matched: read_match(text("match")?),
        actions: read_actions(text("actions")?),
        idle_timeout: number(object, "idle_timeout", 0)?,
        hard_timeout: number(object, "hard_timeout", 0)?,
    };
    // Rejects a match with other content, which would not round-trip.
    let is_rule = read_rule(&rule.to_string()).as_ref() == Ok(&rule);
    is_rule
        .then_some(rule)
        .ok_or_else(|| "match or actions are missing".to_owned())
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    object
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("{name} is missing or not a string"))
}

fn number<T: TryFrom<u64>>(
    object: &Map<String, Value>,
    name: &str,
    default: u64,
) -> Result<T, String> {
    let value = match object.get(name) {
        None => Some(default),
        Some(value) => value.as_u64(),
    };
    value
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| format!("{name} is not a valid number"))
}
