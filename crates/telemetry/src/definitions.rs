//! Names and types of information elements, read from text: the specifiers of RFC 7013, one a line,
//! `name(ENTERPRISE/NUMBER)<type>[length]`, as in the files of python-ipfix, ripfix, and QoF.

use std::collections::HashMap;
use std::fmt;

use crate::element_id::ElementId;
use crate::element_type::ElementType;

/// Information elements by name.
#[derive(Clone, Debug, Default)]
pub struct ElementDefinitions {
    /// By name in lowercase, with `_` for `-`.
    by_name: HashMap<String, ElementDefinition>,
}

/// An element that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementDefinition {
    /// The element.
    pub element: ElementId,
    /// Type of its values.
    pub data_type: ElementType,
}

/// A line that is not a specifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Reason.
    pub reason: String,
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for DefinitionError {}

impl ElementDefinitions {
    /// Reads specifiers. Empty lines and text after `#` are skipped.
    ///
    /// # Errors
    /// The first line that is not a specifier, or that defines a name again.
    pub fn parse(text: &str) -> Result<ElementDefinitions, DefinitionError> {
        let mut definitions = ElementDefinitions::default();
        for (n, line) in text.lines().enumerate() {
            let specifier = line.split('#').next().unwrap_or(line).trim();
            if !specifier.is_empty() {
                definitions
                    .add(specifier)
                    .map_err(|reason| DefinitionError {
                        line: n + 1,
                        reason,
                    })?;
            }
        }
        Ok(definitions)
    }

    /// The element with a name; case does not matter, and `_` stands for `-`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ElementDefinition> {
        self.by_name.get(&key(name)).copied()
    }

    fn add(&mut self, specifier: &str) -> Result<(), String> {
        let (name, number, data_type) = parts(specifier).ok_or_else(|| {
            format!("{specifier:?} is not NAME(ENTERPRISE/NUMBER)<TYPE>, as in flowScore(9999/1)<unsigned32>")
        })?;
        if !is_name(name) {
            return Err(format!(
                "{name:?} is not a name: a letter, then letters, digits, - and _"
            ));
        }
        let element = element(number).ok_or_else(|| {
            format!("{number:?} is not ENTERPRISE/NUMBER, up to 4294967294 and 32767, or a registered NUMBER up to 65535")
        })?;
        let data_type = ElementType::from_name(data_type)
            .ok_or_else(|| format!("{data_type:?} is not a data type of IPFIX (RFC 7012)"))?;
        let definition = ElementDefinition { element, data_type };
        match self.by_name.insert(key(name), definition) {
            Some(_) => Err(format!("{name} is defined twice")),
            None => Ok(()),
        }
    }
}

fn key(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// Name, number, and type of a specifier. Templates define lengths: that of the specifier is not used.
fn parts(specifier: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = specifier.split_once('(')?;
    let (number, rest) = rest.split_once(")<")?;
    let (data_type, length) = rest.split_once('>')?;
    let is_length = |text: &str| text == "v" || text.parse::<u16>().is_ok();
    let bracketed = || length.strip_prefix('[')?.strip_suffix(']');
    (length.is_empty() || bracketed().is_some_and(is_length)).then_some((name, number, data_type))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// `ENTERPRISE/NUMBER`, or `NUMBER` of IANA's registry or NetFlow v9, which has no enterprises.
fn element(number: &str) -> Option<ElementId> {
    let Some((enterprise, id)) = number.split_once('/') else {
        return Some(ElementId {
            enterprise: 0,
            id: number.parse().ok()?,
        });
    };
    // The top bit of the number announces the enterprise (RFC 7011 section 3.2); the largest enterprise is reserved.
    Some(ElementId {
        enterprise: enterprise.parse().ok().filter(|n| *n < u32::MAX)?,
        id: id.parse().ok().filter(|id| *id < 0x8000)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_elements() {
        let text = "# QoE probe\n\nflow-Score(9999/1)<unsigned32>[4]  # 0 to 100\r\n\
                    ingressVRFID(234)<unsigned32>\n userName(9999/2)<string>[v]\nfwExtEvent(33002)<unsigned16>\n";
        let definitions = ElementDefinitions::parse(text).expect("definitions");
        for (name, enterprise, id, data_type) in [
            ("flow_score", 9999, 1, ElementType::Unsigned),
            ("FlowScore", 0, 0, ElementType::Octets),
            ("ingressvrfid", 0, 234, ElementType::Unsigned),
            ("username", 9999, 2, ElementType::String),
            ("fwExtEvent", 0, 33002, ElementType::Unsigned),
        ] {
            let element = ElementId { enterprise, id };
            let expected = (id > 0).then_some(ElementDefinition { element, data_type });
            assert_eq!(definitions.find(name), expected, "{name}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        for (wrong, reason) in [
            ("flowScore", "is not NAME(ENTERPRISE/NUMBER)<TYPE>"),
            ("a(9/1)<string>[x]", "is not NAME(ENTERPRISE/NUMBER)<TYPE>"),
            (
                "a(9/1)<string>[v] b",
                "is not NAME(ENTERPRISE/NUMBER)<TYPE>",
            ),
            ("9_1(9/1)<string>", "is not a name"),
            ("größe(9/1)<string>", "is not a name"),
            ("a(9/32768)<string>", "is not ENTERPRISE/NUMBER"),
            ("a(4294967295/1)<string>", "is not ENTERPRISE/NUMBER"),
            ("a(70000)<string>", "is not ENTERPRISE/NUMBER"),
            ("a(9/1)<text>", "is not a data type"),
            ("FIRST(9/2)<string>", "FIRST is defined twice"),
        ] {
            let error = ElementDefinitions::parse(&format!("first(9/1)<string>\n# two\n{wrong}"))
                .expect_err(wrong);
            assert_eq!(error.line, 3, "{error}");
            assert!(error.reason.contains(reason), "{error}");
        }
    }
}
