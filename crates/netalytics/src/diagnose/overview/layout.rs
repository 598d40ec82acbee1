//! Lists in columns: titles and cells; the first cell of each row is shortened to fit the line.

use sinks::table::{cut, escape, pad};

/// Spaces between columns.
const GAP: usize = 2;

/// A list with a title.
pub struct OverviewList {
    /// Column titles; the first is the title of the list.
    pub titles: Vec<&'static str>,
    /// Rows; the first column is text, shortened in the middle if necessary; the others are numbers.
    pub rows: Vec<Vec<String>>,
}

impl OverviewList {
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
        let titles: Vec<String> = self.titles.iter().map(|&title| title.to_owned()).collect();
        let widest = |rows: &[Vec<String>], column: usize| {
            let cells = rows
                .iter()
                .chain([&titles])
                .filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let numbers: usize = (1..titles.len())
            .map(|column| widest(&rows, column) + GAP)
            .sum();
        let room = width.saturating_sub(numbers).max(8);
        rows.iter_mut()
            .for_each(|row| row[0] = middle(&row[0], room));
        let widths: Vec<usize> = (0..titles.len())
            .map(|column| widest(&rows, column))
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
    fn a_list_fits_its_width() {
        let rows = vec![
            vec!["a long text of a request".into(), "12".into()],
            vec!["b".into(), "1234".into()],
        ];
        let list = OverviewList {
            titles: vec!["SLOW", "n"],
            rows,
        };
        assert_eq!(
            list.lines(80),
            [
                "SLOW                         n",
                "a long text of a request    12",
                "b                         1234"
            ]
        );
        assert_eq!(
            list.lines(16),
            ["SLOW           n", "a lon…uest    12", "b           1234"]
        );
        assert!(
            OverviewList {
                titles: vec!["SLOW"],
                rows: Vec::new()
            }
            .lines(80)
            .is_empty()
        );
    }
}
