//! Patterns of interface names, such as `br-*`.

/// Whether a name matches a pattern with `*`. Each part is matched at its first occurrence, so several `*` cost no more
/// than one.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let left = name
        .strip_prefix(start)
        .and_then(|left| left.strip_suffix(end));
    left.is_some_and(|of| {
        let behind = |from: usize, part| of[from..].find(part).map(|at| from + at + str::len(part));
        middle.split('*').try_fold(0, behind).is_some()
    })
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
            ("a*a", "a", false),
            ("*ab*ba*", "xaba", false),
            ("*ab*ba*", "xabba", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
        assert!(!matches(&("*".repeat(1000) + "x"), &"y".repeat(1000)));
    }
}
