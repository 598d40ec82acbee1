//! Parses the text of `ovs-ofctl`. An unknown condition becomes text of the match, an unknown action an unknown effect;
//! only a line that is not a rule is an error.

use std::net::{Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use super::action::{FlowAction, LOCAL};
use super::cookie::RuleCookie;
use super::fields::{FieldFormat, KINDS, NAMES};
use super::rule::{FlowMatch, FlowRule};
use crate::packets::field::TAGGED;
use crate::packets::packet::FLAGS;
use crate::packets::{MaskedBits, MatchField, PacketCube};

/// A line that is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a flow rule: {0:.200}")]
pub struct RuleReadError(pub String);

/// Parses the output of `ovs-ofctl dump-flows` with numeric ports.
///
/// # Errors
/// The first line that is not a rule.
pub fn read_dump(text: &str) -> Result<Vec<FlowRule>, RuleReadError> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.contains("_FLOW reply"))
        .map(read_rule)
        .collect()
}

/// Parses a rule; ignores statistics.
///
/// # Errors
/// `RuleReadError` if the line is not a rule.
pub fn read_rule(line: &str) -> Result<FlowRule, RuleReadError> {
    let wrong = || RuleReadError(line.to_owned());
    let at = line.find("actions=").ok_or_else(wrong)?;
    let head = &line[..at];
    let actions = &line[at + "actions=".len()..];
    if !is_balanced(head) || !is_balanced(actions) {
        return Err(wrong());
    }
    let mut rule = FlowRule {
        priority: 0x8000,
        ..FlowRule::default()
    };
    let mut terms = Vec::new();
    for term in split(head) {
        let Some((name, value)) = term.split_once('=') else {
            terms.push(term);
            continue;
        };
        let small = || value.parse().map_err(|_| wrong());
        match name {
            "cookie" => {
                rule.cookie = RuleCookie(
                    u64::try_from(number(value).ok_or_else(wrong)?).map_err(|_| wrong())?,
                )
            }
            "table" => rule.table = value.parse().map_err(|_| wrong())?,
            "priority" => rule.priority = small()?,
            "idle_timeout" => rule.idle_timeout = small()?,
            "hard_timeout" => rule.hard_timeout = small()?,
            "duration" | "n_packets" | "n_bytes" | "idle_age" | "hard_age" | "importance" => {}
            _ => terms.push(term),
        }
    }
    terms.retain(|term| {
        ![
            "send_flow_rem",
            "check_overlap",
            "reset_counts",
            "no_packet_counts",
            "no_byte_counts",
        ]
        .contains(term)
    });
    rule.matched = read_terms(&terms);
    rule.actions = read_actions(actions.trim());
    Ok(rule)
}

/// Parses a match.
#[must_use]
pub fn read_match(text: &str) -> FlowMatch {
    read_terms(&split(text))
}

fn read_terms(terms: &[&str]) -> FlowMatch {
    let mut matched = FlowMatch::default();
    for term in terms {
        let understood = match term.split_once('=') {
            None => KINDS
                .iter()
                .find(|(word, ..)| word == term)
                .and_then(|(_, kind, protocol)| {
                    let cube = PacketCube::ALL.with(MatchField::EthType, *kind);
                    matched.cube.and(
                        &protocol
                            .map_or(cube, |protocol| cube.with(MatchField::Protocol, protocol)),
                    )
                }),
            Some((name, value)) => condition(name, value).and_then(|(field, bits)| {
                matched.cube.and(&PacketCube::ALL.with_bits(field, bits))
            }),
        };
        // An IPv4 packet has no long address, so the match would be contradictory.
        match understood.and_then(|cube| cube.and(&cube.canonical())) {
            Some(cube) => matched.cube = cube,
            None => matched.other.push((*term).to_owned()),
        }
    }
    matched.cube = matched.cube.canonical();
    matched.other.sort();
    matched.other.dedup();
    matched
}

/// Field and bits of a condition.
fn condition(name: &str, value: &str) -> Option<(MatchField, MaskedBits)> {
    if name == "dl_vlan" || name == "vlan_vid" {
        let tag = MatchField::Vlan.full();
        let bits = match number(value)? {
            0xffff => MaskedBits::new(0, tag),
            vid if name == "dl_vlan" && vid <= 0xfff => MaskedBits::new(vid | TAGGED, tag),
            _ => return None,
        };
        return Some((MatchField::Vlan, bits));
    }
    let (_, field, form) = NAMES.iter().find(|(known, ..)| *known == name)?;
    let bits = match form {
        FieldFormat::Flags => read_flags(value)?,
        FieldFormat::Port if value == "LOCAL" => MaskedBits::new(LOCAL.into(), field.full()),
        _ => {
            let (value, mask) = value
                .split_once('/')
                .map_or((value, None), |(value, mask)| (value, Some(mask)));
            let one = |text: &str| match form {
                FieldFormat::Mac => mac(text),
                FieldFormat::V4 => text
                    .parse::<Ipv4Addr>()
                    .ok()
                    .map(|ip| u128::from(u32::from(ip))),
                FieldFormat::V6 => text.parse::<Ipv6Addr>().ok().map(u128::from),
                FieldFormat::Number | FieldFormat::Port | FieldFormat::Flags => number(text),
            };
            let width = if *form == FieldFormat::V4 {
                32
            } else {
                field.width()
            };
            let full = u128::MAX >> (128 - width);
            let mask = match mask {
                None => full,
                Some(mask)
                    if matches!(form, FieldFormat::V4 | FieldFormat::V6)
                        && mask.len() <= 3
                        && !mask.contains(':') =>
                {
                    let length: u32 = mask.parse().ok().filter(|length| *length <= width)?;
                    full & !full.checked_shr(length).unwrap_or(0)
                }
                Some(mask) => one(mask)?,
            };
            let value = one(value)?;
            // Bits outside the field have another meaning, such as the priority in a VLAN tag.
            if mask & !full != 0 && mask & !full & 0xffff != 0 && *field == MatchField::Vlan {
                return None;
            }
            (value & !full == 0).then(|| MaskedBits::new(value, mask & full))?
        }
    };
    Some((*field, bits))
}

fn read_flags(text: &str) -> Option<MaskedBits> {
    let bit = |name: &str| {
        FLAGS
            .iter()
            .position(|flag| *flag == name)
            .map(|i| 1u128 << i)
    };
    if text.starts_with(['+', '-']) {
        let mut bits = MaskedBits::default();
        let mut rest = text;
        while let Some(sign) = rest.chars().next() {
            let name = rest.get(1..)?;
            let end = name.find(['+', '-']).unwrap_or(name.len());
            let flag = bit(&name[..end])?;
            bits.mask |= flag;
            bits.value |= if sign == '+' { flag } else { 0 };
            rest = &name[end..];
        }
        return Some(MaskedBits::new(bits.value, bits.mask));
    }
    let full = MatchField::TcpFlags.full();
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let (value, mask) = text
            .split_once('/')
            .map_or((text, None), |(value, mask)| (value, Some(mask)));
        return Some(MaskedBits::new(
            number(value)?,
            mask.map_or(Some(full), number)? & full,
        ));
    }
    let value = text
        .split('|')
        .map(bit)
        .try_fold(0, |all, bit| Some(all | bit?))?;
    Some(MaskedBits::new(value, full))
}

/// Parses actions, separated by commas.
#[must_use]
pub fn read_actions(text: &str) -> Vec<FlowAction> {
    split(text)
        .into_iter()
        .filter(|text| *text != "drop")
        .map(action)
        .collect()
}

fn action(text: &str) -> FlowAction {
    let other = || FlowAction::Unknown(text.to_owned());
    let (name, value) = match text.find([':', '(', '=']) {
        Some(at) => (&text[..at], &text[at..]),
        None => (text, ""),
    };
    let after = value.strip_prefix(':').unwrap_or("");
    let inside = value
        .strip_prefix('(')
        .and_then(|value| value.strip_suffix(')'));
    match name.to_ascii_lowercase().as_str() {
        "normal" => FlowAction::Normal,
        "flood" => FlowAction::Flood,
        "all" => FlowAction::All,
        "in_port" => FlowAction::InPort,
        "local" => FlowAction::output(LOCAL),
        "controller" => FlowAction::Controller(text.to_owned()),
        "output" => output(after, inside).unwrap_or_else(other),
        "goto_table" => after.parse().map_or_else(|_| other(), FlowAction::Goto),
        "resubmit" => resubmit(after, inside).unwrap_or_else(other),
        "mod_vlan_vid" => match number(after) {
            Some(vid @ 0..=0xfff) => set(MatchField::Vlan, vid | TAGGED, text),
            _ => other(),
        },
        "strip_vlan" | "pop_vlan" => set(MatchField::Vlan, 0, text),
        "mod_dl_src" => mac(after).map_or_else(other, |mac| set(MatchField::MacSource, mac, text)),
        "mod_dl_dst" => {
            mac(after).map_or_else(other, |mac| set(MatchField::MacDestination, mac, text))
        }
        "push_vlan" if after == "0x8100" => set(MatchField::Vlan, TAGGED, text),
        "set_field" => set_field(after, text).unwrap_or_else(other),
        "load"
            if after.contains("NXM_NX_REG")
                || after.contains("METADATA")
                || after.contains("XXREG") =>
        {
            FlowAction::Change(text.to_owned())
        }
        // Drops by a meter precede all other actions; see `compose`.
        "meter" if number(after).is_some() => FlowAction::Change(text.to_owned()),
        "dec_ttl" | "set_queue" | "pop_queue" | "note" | "mod_nw_tos" | "mod_nw_ecn"
        | "mod_nw_ttl" | "set_tunnel" | "mod_vlan_pcp" => FlowAction::Change(text.to_owned()),
        _ => text.parse().map_or_else(|_| other(), FlowAction::output),
    }
}

fn port(text: &str) -> Option<u32> {
    if text == "LOCAL" {
        Some(LOCAL)
    } else {
        text.parse().ok()
    }
}

fn output(after: &str, inside: Option<&str>) -> Option<FlowAction> {
    let Some(inside) = inside else {
        return port(after).map(FlowAction::output);
    };
    let mut out = None;
    let mut max_len = None;
    for part in inside.split(',') {
        match part.split_once('=')? {
            ("port", number) => out = Some(port(number)?),
            ("max_len", bytes) => max_len = Some(bytes.parse().ok()?),
            _ => return None,
        }
    }
    Some(FlowAction::Output {
        port: out?,
        max_len: Some(max_len?),
    })
}

fn resubmit(after: &str, inside: Option<&str>) -> Option<FlowAction> {
    let Some(inside) = inside else {
        return Some(FlowAction::Resubmit {
            port: Some(port(after)?),
            table: None,
        });
    };
    let (to, table) = inside.split_once(',')?;
    let to = if to.is_empty() { None } else { Some(port(to)?) };
    let table = if table.is_empty() {
        None
    } else {
        Some(table.parse().ok()?)
    };
    Some(FlowAction::Resubmit { port: to, table })
}

fn set(field: MatchField, value: u128, text: &str) -> FlowAction {
    FlowAction::Set {
        field,
        value,
        text: text.to_owned(),
    }
}

fn set_field(after: &str, text: &str) -> Option<FlowAction> {
    let (value, name) = after.rsplit_once("->")?;
    if name == "vlan_vid" {
        let vid = number(value).filter(|vid| *vid <= 0x1fff)?;
        return Some(set(MatchField::Vlan, vid | TAGGED, text));
    }
    let is_modeled = NAMES.iter().any(|(known, ..)| *known == name);
    let Some((field, bits)) = condition(name, value) else {
        let is_free = name.starts_with("reg")
            || [
                "metadata",
                "tun_id",
                "tunnel_id",
                "nw_tos",
                "ip_dscp",
                "nw_ttl",
            ]
            .contains(&name);
        return (is_free && !is_modeled).then(|| FlowAction::Change(text.to_owned()));
    };
    let width = if NAMES
        .iter()
        .any(|(known, _, form)| *known == name && *form == FieldFormat::V4)
    {
        32
    } else {
        field.width()
    };
    (bits.mask == u128::MAX >> (128 - width)).then(|| set(field, bits.value, text))
}

fn mac(text: &str) -> Option<u128> {
    let mut parts = text.split(':');
    let number = parts.by_ref().take(6).try_fold(0u128, |all, part| {
        let byte = u8::from_str_radix(part, 16).ok()?;
        Some(all << 8 | u128::from(byte))
    })?;
    (text.split(':').count() == 6).then_some(number)
}

/// Decimal, or hexadecimal after 0x.
fn number(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether parentheses are balanced.
fn is_balanced(text: &str) -> bool {
    let depth = text.chars().try_fold(0usize, |depth, c| match c {
        '(' => Some(depth + 1),
        ')' => depth.checked_sub(1),
        _ => Some(depth),
    });
    depth == Some(0)
}

/// Splits at commas and spaces outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0i64;
    let is_border = |c: char| {
        depth += i64::from(c == '(') - i64::from(c == ')');
        depth <= 0 && (c == ',' || c == ' ')
    };
    text.split(is_border)
        .map(str::trim)
        .filter(|term| !term.is_empty())
        .collect()
}
