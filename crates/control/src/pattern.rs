//! Names of interfaces, as owners and askers mean several at once: `br-*`.

/// Whether a name fits a pattern with `*`.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|left| {
            left.char_indices().map(|(at, _)| &left[at..]).chain([""]).any(|tail| matches(rest, tail))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name, fits) in [
            ("*", "eth0", true),
            ("*", "", true),
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("br-*-x", "br-1-x", true),
            ("br-*-x", "br--x", true),
            ("br-*-x", "br-1-y", false),
            ("*a*b", "xaxbxb", true),
            ("*a*b", "xbxa", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
