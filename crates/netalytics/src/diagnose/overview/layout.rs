//! Lists in columns: titles and cells; the first cell of each row is shortened to fit the line, so that no two look
//! alike.

use std::collections::HashSet;

use sinks::table::{TextShortener, cut, escape, pad};

/// Spaces between columns.
const GAP: usize = 2;

/// A list with a title.
pub struct OverviewList {
    /// Column titles; the first is the title of the list.
    pub titles: Vec<&'static str>,
    /// Rows; the first column is text, shortened in the middle if necessary; the others are numbers.
    pub rows: Vec<Vec<String>>,
    /// Number of rows that are not shown; the title states it.
    pub more: usize,
}

impl OverviewList {
    /// A list of the chosen elements of `all`.
    pub fn of<T>(
        titles: Vec<&'static str>,
        all: &[T],
        shown: &[&T],
        row: impl Fn(&T) -> Vec<String>,
    ) -> OverviewList {
        OverviewList {
            titles,
            rows: shown.iter().map(|one| row(one)).collect(),
            more: all.len() - shown.len(),
        }
    }

    /// Lines of at most `width` characters; none for a list without rows.
    #[must_use]
    pub fn lines(&self, width: usize) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let mut rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| escape(cell)).collect())
            .collect();
        let mut titles: Vec<String> = self.titles.iter().map(|&title| title.to_owned()).collect();
        if self.more > 0 {
            titles[0] += &format!(", {} more", self.more);
        }
        let widest = |titles: &Vec<String>, rows: &[Vec<String>], column: usize| {
            let cells = rows
                .iter()
                .chain([titles])
                .filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let numbers: usize = (1..titles.len())
            .map(|column| widest(&titles, &rows, column) + GAP)
            .sum();
        let room = width.saturating_sub(numbers).max(8);
        let mut texts = TextShortener::default();
        rows.iter_mut()
            .for_each(|row| row[0] = shorten(&row[0], room, &mut texts));
        titles[0] = cut(&titles[0], room, "…");
        let widths: Vec<usize> = (0..titles.len())
            .map(|column| widest(&titles, &rows, column))
            .collect();
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column > 0 {
                    line.push_str(&" ".repeat(GAP));
                }
                pad(&mut line, cell, *width, column > 0);
            }
            cut(line.trim_end(), self::width_of(width), "…")
        };
        [&titles].into_iter().chain(&rows).map(line).collect()
    }
}

fn width_of(width: usize) -> usize {
    width.max(GAP)
}

/// Shortens a text to `room` in the middle of what follows its first word, an address, unless that takes half of the
/// room.
fn shorten(text: &str, room: usize, texts: &mut TextShortener) -> String {
    match text.split_once(' ') {
        Some((word, rest)) if word.chars().count() < room / 2 => {
            let left = room - word.chars().count() - 1;
            format!("{word} {}", texts.show(rest, left))
        }
        _ => texts.show(text, room),
    }
}

/// At most `n` elements in their order: first the first of each class of the first kind, then of the others, then any.
/// All of the first kind are chosen even if there are more than `n`.
pub fn choose<'a, T>(all: &'a [T], n: usize, classes: &[&dyn Fn(&T) -> String]) -> Vec<&'a T> {
    let mut known: Vec<HashSet<String>> = vec![HashSet::new(); classes.len()];
    let mut ranked: Vec<(usize, usize)> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let mut rank = classes.len();
        for (kind, (class, known)) in classes.iter().zip(&mut known).enumerate() {
            if known.insert(class(one)) {
                rank = rank.min(kind);
            }
        }
        ranked.push((rank, at));
    }
    ranked.sort_unstable();
    let least = known.first().map_or(0, HashSet::len);
    ranked.truncate(n.max(least));
    let mut chosen: Vec<usize> = ranked.into_iter().map(|(_, at)| at).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|at| &all[at]).collect()
}

/// Shortens a text to at most `width` characters by removing its middle.
#[must_use]
pub fn middle(text: &str, width: usize) -> String {
    let n = text.chars().count();
    if n <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let front = kept.div_ceil(2);
    let back = kept / 2;
    text.chars()
        .take(front)
        .chain(['…'])
        .chain(text.chars().skip(n - back))
        .collect()
}

/// Two blocks of lines side by side.
#[must_use]
pub fn beside(left: &[String], right: &[String], width: usize) -> Vec<String> {
    let empty = String::new();
    let n = left.len().max(right.len());
    let line = |i: usize| {
        let mut line = String::new();
        pad(&mut line, left.get(i).unwrap_or(&empty), width, false);
        line.push_str("    ");
        line.push_str(right.get(i).unwrap_or(&empty));
        line.trim_end().to_owned()
    };
    (0..n).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_keep_both_ends() {
        for (text, width, expected) in [
            ("abc", 3, "abc"),
            ("abcdefgh", 5, "ab…gh"),
            ("abcdefgh", 4, "ab…h"),
            ("äöüß", 3, "ä…ß"),
        ] {
            assert_eq!(middle(text, width), expected);
        }
    }

    #[test]
    fn rows_are_chosen_by_class() {
        let all = ["a1", "a1", "a2", "b1", "a3", "c1"];
        let first = |one: &&str| one[..1].to_owned();
        let whole = |one: &&str| (*one).to_owned();
        for (n, expected) in [
            (1, &["a1", "b1", "c1"][..]),
            (4, &["a1", "a2", "b1", "c1"]),
            (5, &["a1", "a2", "b1", "a3", "c1"]),
            (9, &all),
        ] {
            let chosen: Vec<&str> = choose(&all, n, &[&first, &whole])
                .into_iter()
                .copied()
                .collect();
            assert_eq!(chosen, expected, "{n}");
        }
        assert_eq!(choose(&all, 2, &[]), [&"a1", &"a1"]);
    }

    #[test]
    fn a_list_fits_its_width() {
        let rows = vec![
            vec!["a long text of a request".into(), "12".into()],
            vec!["b".into(), "1234".into()],
        ];
        let list = OverviewList {
            titles: vec!["SLOW", "n"],
            rows,
            more: 3,
        };
        assert_eq!(
            list.lines(80),
            [
                "SLOW, 3 more                 n",
                "a long text of a request    12",
                "b                         1234"
            ]
        );
        assert_eq!(
            list.lines(16),
            ["SLOW, …ore     n", "a long te…    12", "b           1234"]
        );
        assert!(
            OverviewList {
                titles: vec!["SLOW"],
                rows: Vec::new(),
                more: 0,
            }
            .lines(80)
            .is_empty()
        );
    }
}
