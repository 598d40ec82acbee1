//! Silences suppress notifications for a time. Matchers apply to labels, as in Alertmanager.

use std::collections::BTreeMap;

use regex::Regex;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Maximum matchers of a silence.
const MATCHERS_MAX: usize = 32;
/// Maximum bytes of a matcher or a comment.
const TEXT_BYTES_MAX: usize = 1000;
/// Maximum memory of one compiled regular expression.
const REGEX_BYTES_MAX: usize = 64 << 10;

/// Alerts to which a silence applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Reach)]
#[serde(rename_all = "snake_case")]
pub enum SilenceScope {
    /// Alerts of its author's rules.
    Own,
    /// All alerts.
    All,
}

/// A silence as stored and shown.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Silence)]
pub struct AlertSilence {
    /// Identifier.
    #[serde(default)]
    pub id: i64,
    /// `label=value`, `label!=value`, `label=~expression`, `label!~expression`; all must match.
    pub matchers: Vec<String>,
    /// Start, in nanoseconds since the epoch.
    #[serde(
        serialize_with = "crate::job::columns::text",
        deserialize_with = "number"
    )]
    #[schema(value_type = String)]
    pub starts_ns: i64,
    /// End, in nanoseconds since the epoch.
    #[serde(
        serialize_with = "crate::job::columns::text",
        deserialize_with = "number"
    )]
    #[schema(value_type = String)]
    pub ends_ns: i64,
    /// Reason.
    pub comment: String,
    /// Token name of the author.
    pub author: String,
    /// Alerts to which it applies.
    pub reach: SilenceScope,
}

fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(serde::de::Error::custom)
}

/// A silence with compiled matchers.
pub struct CompiledSilence {
    /// The silence.
    pub silence: AlertSilence,
    matchers: Vec<LabelMatcher>,
}

struct LabelMatcher {
    label: String,
    test: LabelTest,
    /// Required result of the test.
    wanted: bool,
}

enum LabelTest {
    Equal(String),
    Regex(Regex),
}

impl CompiledSilence {
    /// Compiles the matchers.
    ///
    /// # Errors
    /// A message for the user.
    pub fn new(silence: AlertSilence) -> Result<CompiledSilence, String> {
        if silence.matchers.is_empty() || silence.matchers.len() > MATCHERS_MAX {
            return Err(format!(
                "a silence has between 1 and {MATCHERS_MAX} matchers"
            ));
        }
        if silence.comment.len() > TEXT_BYTES_MAX
            || silence.matchers.iter().any(|m| m.len() > TEXT_BYTES_MAX)
        {
            return Err(format!(
                "matchers and comments have at most {TEXT_BYTES_MAX} bytes"
            ));
        }
        if silence.ends_ns <= silence.starts_ns {
            return Err("the end of a silence must be after its start".into());
        }
        let matchers = silence
            .matchers
            .iter()
            .map(|text| LabelMatcher::read(text))
            .collect::<Result<Vec<_>, _>>()?;
        if matchers.iter().all(LabelMatcher::matches_missing_label) {
            return Err("these matchers match every alert: name a label that an alert has".into());
        }
        Ok(CompiledSilence { silence, matchers })
    }

    /// Whether the silence applies to an alert with these labels, of a rule of this owner, at that time.
    pub fn is_about(&self, labels: &BTreeMap<String, String>, owner: &str, now_ns: i64) -> bool {
        let AlertSilence {
            starts_ns,
            ends_ns,
            author,
            reach,
            ..
        } = &self.silence;
        (*starts_ns..*ends_ns).contains(&now_ns)
            && (*reach == SilenceScope::All || author == owner)
            && self
                .matchers
                .iter()
                .all(|matcher| matcher.holds(labels.get(&matcher.label).map_or("", String::as_str)))
    }
}

impl LabelMatcher {
    fn read(text: &str) -> Result<LabelMatcher, String> {
        let wrong = || {
            format!(
                "`{text}` is not a matcher, such as label=value, label!=value, label=~expression, or label!~expression"
            )
        };
        let at = text.find(['=', '!']).ok_or_else(wrong)?;
        let label = text[..at].trim();
        let rest = &text[at..];
        let kinds = [
            ("=~", true, true),
            ("!~", true, false),
            ("!=", false, false),
            ("=", false, true),
        ];
        let found = kinds.iter().find_map(|(sign, is_regex, wanted)| {
            Some((rest.strip_prefix(sign)?, is_regex, wanted))
        });
        let (value, is_regex, wanted) = found.filter(|_| !label.is_empty()).ok_or_else(wrong)?;
        let value = value.trim().trim_matches('"');
        let test = if *is_regex {
            let whole = regex::RegexBuilder::new(&format!("^(?:{value})$"))
                .size_limit(REGEX_BYTES_MAX)
                .build();
            LabelTest::Regex(
                whole.map_err(|error| format!("`{value}` is not a regular expression: {error}"))?,
            )
        } else {
            LabelTest::Equal(value.to_owned())
        };
        Ok(LabelMatcher {
            label: label.to_owned(),
            test,
            wanted: *wanted,
        })
    }

    fn holds(&self, value: &str) -> bool {
        let is = match &self.test {
            LabelTest::Equal(wanted) => wanted == value,
            LabelTest::Regex(regex) => regex.is_match(value),
        };
        is == self.wanted
    }

    /// Whether it matches alerts without the label.
    fn matches_missing_label(&self) -> bool {
        self.holds("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silence(matchers: &[&str]) -> AlertSilence {
        AlertSilence {
            id: 1,
            matchers: matchers.iter().map(|text| (*text).to_owned()).collect(),
            starts_ns: 10,
            ends_ns: 20,
            comment: String::new(),
            author: "me".into(),
            reach: SilenceScope::Own,
        }
    }

    #[test]
    fn matchers_are_those_of_alertmanager() {
        let labels = [("alertname", "slow"), ("path", "/cart")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        for (matchers, now, owner, is) in [
            (&["alertname=slow"][..], 10, "me", true),
            (&["alertname = \"slow\""], 10, "me", true),
            (&["alertname=slow"], 20, "me", false),
            (&["alertname=slow"], 9, "me", false),
            (&["alertname=slow"], 10, "you", false),
            (&["alertname=slo"], 10, "me", false),
            (&["alertname=~slo"], 10, "me", false),
            (&["alertname=~slo.", "path!=/"], 10, "me", true),
            (&["path!~/c.*", "alertname=slow"], 10, "me", false),
            (&["alertname=slow", "host!=web"], 10, "me", true),
            (&["alertname=slow", "host=web"], 10, "me", false),
        ] {
            let matching = CompiledSilence::new(silence(matchers)).expect("they are matchers");
            assert_eq!(
                matching.is_about(&labels, owner, now),
                is,
                "{matchers:?} {now} {owner}"
            );
        }
    }

    #[test]
    fn silences_of_everything_or_nothing_are_rejected() {
        for matchers in [
            &[][..],
            &["a"],
            &["=b"],
            &["a=~("],
            &["a=~.*"],
            &["a!=b"],
            &["a=~\\w{999}{999}"],
        ] {
            assert!(
                CompiledSilence::new(silence(matchers)).is_err(),
                "{matchers:?}"
            );
        }
        let over = AlertSilence {
            ends_ns: 10,
            ..silence(&["a=b"])
        };
        assert!(CompiledSilence::new(over).is_err());
    }
}
