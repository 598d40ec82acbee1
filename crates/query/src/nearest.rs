//! Suggestions for misspelled names.

/// Maximum length of a word.
const WORD_BYTES_MAX: usize = 64;
/// Maximum number of candidates.
const CANDIDATES_MAX: usize = 10_000;
/// Minimum similarity (Jaro-Winkler) for a suggestion, unless the edit distance suffices.
const SIMILARITY_MIN: f64 = 0.88;

/// The candidate most similar to `word`, case-insensitive, if any is sufficiently similar.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.is_empty() || word.len() > WORD_BYTES_MAX {
        return None;
    }
    let word = word.to_lowercase();
    let ranked = candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        .filter_map(|c| Some((score(&word, c)?, c)));
    ranked
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, candidate)| candidate)
}

/// A hint with the candidate most similar to `word`.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(word, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// `a, b or c`, shortened if there are many.
pub(crate) fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN_MAX: usize = 16;
    let names: Vec<&str> = names.into_iter().take(SHOWN_MAX + 1).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] if names.len() <= SHOWN_MAX => format!("{} or {last}", first.join(", ")),
        many => format!("{} …", many[..SHOWN_MAX].join(", ")),
    }
}

/// The similarity; `None` if it is too low for a suggestion.
fn score(word: &str, candidate: &str) -> Option<f64> {
    if candidate.len() > WORD_BYTES_MAX {
        return None;
    }
    let candidate = candidate.to_lowercase();
    let longest = word.chars().count().max(candidate.chars().count());
    let close = strsim::damerau_levenshtein(word, &candidate) <= longest / 3;
    let similarity = strsim::jaro_winkler(word, &candidate);
    (close || similarity >= SIMILARITY_MIN).then_some(similarity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_is_chosen() {
        let names = [
            "http",
            "http_get",
            "mysql_query",
            "memcached",
            "tcp_conn_time",
            "FROM",
            "TO",
        ];
        for (word, expected) in [
            ("htp_get", Some("http_get")),
            ("HTTP", Some("http")),
            ("mysql", Some("mysql_query")),
            ("tcp_con_tiem", Some("tcp_conn_time")),
            ("form", Some("FROM")),
            ("t2", None),
            ("x", None),
            ("", None),
            ("kafka", None),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(one_of(["a"]), "a");
        assert_eq!(one_of(["a", "b", "c"]), "a, b or c");
        assert!(one_of(["a"; 100]).ends_with("a …"));
    }
}
