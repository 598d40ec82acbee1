//! Row selections and cell assignments of a batch. Ranges of rows and a common cell are represented without lists.

use std::ops::Range;

use arrow_buffer::NullBuffer;

/// Selected rows of a batch, in ascending order.
#[derive(Clone, Copy, Debug)]
pub enum RowSet<'a> {
    /// A range: first row and end (exclusive).
    Run(usize, usize),
    /// A list of rows.
    Some(&'a [u32]),
}

/// The cells of selected rows.
#[derive(Clone, Copy, Debug)]
pub enum CellSelection<'a> {
    /// The same cell for all rows.
    One(usize),
    /// One cell per selected row.
    Each(&'a [u32]),
}

impl<'a> RowSet<'a> {
    /// All `n` rows of a batch.
    #[must_use]
    pub fn all(n: usize) -> RowSet<'static> {
        RowSet::Run(0, n)
    }

    /// Number of rows.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            RowSet::Run(from, to) => to - from,
            RowSet::Some(list) => list.len(),
        }
    }

    /// Whether no rows are selected.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The row at an index.
    #[inline]
    #[must_use]
    pub fn at(self, place: usize) -> usize {
        match self {
            RowSet::Run(from, _) => from + place,
            RowSet::Some(list) => list[place] as usize,
        }
    }

    /// Iterates over the rows.
    pub fn iter(self) -> impl Iterator<Item = usize> + 'a {
        (0..self.len()).map(move |place| self.at(place))
    }

    /// Calls `f(index, row)` for each row.
    #[inline]
    pub fn each(self, mut f: impl FnMut(usize, usize)) {
        match self {
            RowSet::Run(from, to) => (from..to)
                .enumerate()
                .for_each(|(place, row)| f(place, row)),
            RowSet::Some(list) => list
                .iter()
                .enumerate()
                .for_each(|(place, row)| f(place, *row as usize)),
        }
    }

    /// The rows for which `keep` returns true; `list` is the buffer.
    #[must_use]
    pub fn filter<'b>(self, list: &'b mut Vec<u32>, keep: impl Fn(usize) -> bool) -> RowSet<'b>
    where
        'a: 'b,
    {
        list.clear();
        list.extend(self.iter().filter(|row| keep(*row)).map(|row| row as u32));
        if list.len() == self.len() {
            self
        } else {
            RowSet::Some(list)
        }
    }

    /// The rows in a range of indices.
    #[must_use]
    pub fn part(self, places: Range<usize>) -> RowSet<'a> {
        match self {
            RowSet::Run(from, _) => RowSet::Run(from + places.start, from + places.end),
            RowSet::Some(list) => RowSet::Some(&list[places]),
        }
    }

    /// Splits the selection into parts of at most `n` rows.
    pub fn chunks(self, n: usize) -> impl Iterator<Item = RowSet<'a>> {
        (0..self.len())
            .step_by(n)
            .map(move |from| self.part(from..self.len().min(from + n)))
    }
}

/// Calls `f(cell, row)` for every non-null row.
#[inline]
pub fn each_valid(
    cells: CellSelection<'_>,
    rows: RowSet<'_>,
    nulls: Option<&NullBuffer>,
    mut f: impl FnMut(usize, usize),
) {
    let Some(valid) = nulls else {
        return each(cells, rows, f);
    };
    each(cells, rows, |cell, row| {
        if valid.is_valid(row) {
            f(cell, row);
        }
    });
}

/// Calls `f(cell, row)` for every row.
#[inline]
pub fn each(cells: CellSelection<'_>, rows: RowSet<'_>, mut f: impl FnMut(usize, usize)) {
    match (cells, rows) {
        (CellSelection::One(cell), rows) => rows.each(|_, row| f(cell, row)),
        (CellSelection::Each(cells), RowSet::Run(from, to)) => {
            cells
                .iter()
                .zip(from..to)
                .for_each(|(cell, row)| f(*cell as usize, row));
        }
        (CellSelection::Each(cells), RowSet::Some(list)) => {
            cells
                .iter()
                .zip(list)
                .for_each(|(cell, row)| f(*cell as usize, *row as usize));
        }
    }
}
