//! Reassembles the tuples of one run from linked tables. A tuple is present if each table that is read contains its
//! number; numbers ascend in all tables. Row groups may therefore be skipped in any table, and a damaged file loses
//! only its own tuples. One batch per table is in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::{Array, ArrayRef, Int64Array, UInt64Array};
use tuple::{Batch, Schema};

use crate::data_set::{ReadProblem, TableFile};
use crate::linked_tables::{LinkedTable, RowSource, SUM};
use crate::reader::ColumnBound;
use crate::table_chain::{ReplayCounters, TableChain};

/// Maximum blocks with checksums assembled at once.
const BLOCKS_MAX: u64 = 1 << 18;

/// Reassembled tuples of one run.
pub struct JoinedTables {
    schema: Arc<Schema>,
    /// Tables with a row per tuple; the first contains the watermarks.
    links: Vec<TableChain>,
    /// The table of blocks.
    blocks: Option<TableChain>,
    /// Assembled rows not yet taken, with the watermark of each row.
    ready: Option<(Batch, Int64Array)>,
}

impl JoinedTables {
    /// Reads the tuples of `schema` in these tables.
    pub fn new(
        schema: Arc<Schema>,
        tables: Vec<(LinkedTable, VecDeque<Arc<TableFile>>)>,
        bounds: &[ColumnBound],
    ) -> JoinedTables {
        let link = |(layout, files): (LinkedTable, _)| {
            let here = |bound: &ColumnBound| {
                Some(ColumnBound {
                    field: layout.place(bound.field)?,
                    ..*bound
                })
            };
            let bounds = bounds.iter().filter_map(here).collect();
            TableChain::new(layout, bounds, files)
        };
        let (links, blocks): (Vec<TableChain>, Vec<TableChain>) = tables
            .into_iter()
            .map(link)
            .partition(|link| link.layout.is_row_by_row());
        JoinedTables {
            schema,
            links,
            blocks: blocks.into_iter().next(),
            ready: None,
        }
    }

    /// A lower bound of the next watermark; `None` at the end.
    pub fn begin(&self) -> Option<i64> {
        match &self.ready {
            Some((_, watermarks)) => Some(watermarks.value(0)),
            None if self.links.iter().any(TableChain::is_over) => None,
            None => self.links[0].begin(),
        }
    }

    /// Whether rows can be taken.
    pub fn is_ready(&self) -> bool {
        self.ready.is_some()
    }

    /// Reads the next batch of one table.
    pub fn read(&mut self, counters: &mut ReplayCounters) -> Result<(), ReadProblem> {
        let first = self
            .links
            .iter()
            .filter_map(|link| link.ids().first())
            .max()
            .copied()
            .unwrap_or(0);
        // The last table first, because the first table skips nothing by itself.
        if let Some(link) = self
            .links
            .iter_mut()
            .rev()
            .find(|link| link.ready().is_none())
        {
            link.skip_below(first, counters);
            link.read(counters)?;
            if link.is_over() {
                // The remaining rows of other tables belong to no tuple.
                self.links[0].skip_below(u64::MAX, counters);
            }
            return Ok(());
        }
        if let [link] = &mut self.links[..]
            && matches!(link.layout.source, RowSource::Whole)
        {
            let Some((batch, watermarks)) = link.ready() else {
                return Ok(());
            };
            let n = batch.rows();
            counters.rows += n as u64;
            let watermarks = watermarks.clone();
            self.ready = link.take(n).map(|batch| (batch, watermarks));
            return Ok(());
        }
        self.links
            .iter_mut()
            .for_each(|link| link.skip_below(first, counters));
        let n = self.alike();
        if n > 0 {
            self.join(n, counters)
        } else {
            Ok(())
        }
    }

    /// Number of leading rows that belong to the same tuples in all tables.
    fn alike(&self) -> usize {
        let ids = self.links[0].ids();
        let alike = |link: &TableChain| {
            link.ids()
                .iter()
                .zip(ids)
                .take_while(|(a, b)| a == b)
                .count()
        };
        self.links.iter().map(alike).min().unwrap_or(0)
    }

    fn join(&mut self, n: usize, counters: &mut ReplayCounters) -> Result<(), ReadProblem> {
        let ids: Vec<u64> = self.links[0].ids()[..n].to_vec();
        let lists = self.blocks.as_mut().map(|blocks| {
            let lengths = self.links.iter().find_map(TableChain::lengths);
            lists_of(blocks, &ids, lengths, counters)
        });
        let lists = lists.transpose()?;
        let n = lists.as_ref().map_or(n, |(_, lists)| lists.len());
        counters.rows += n as u64;
        let watermarks = self.links[0]
            .ready()
            .map(|(_, watermarks)| watermarks.slice(0, n));
        let mut columns: Vec<Option<ArrayRef>> = vec![None; self.schema.fields.len()];
        for link in &mut self.links {
            let Some(batch) = link.take(n) else { continue };
            for field in self.schema.ids() {
                if let Some(place) = link.layout.place(field) {
                    columns[usize::from(field.0)] = batch.column(place).cloned();
                }
            }
        }
        if let Some((field, lists)) = lists {
            columns[usize::from(field.0)] = Some(lists);
        }
        self.ready =
            watermarks.map(|watermarks| (Batch::new(self.schema.clone(), n, columns), watermarks));
        Ok(())
    }

    /// The first rows with the same watermark, and the watermark.
    pub fn take(&mut self) -> Option<(Batch, i64)> {
        let (batch, watermarks) = self.ready.take()?;
        let first = watermarks.value(0);
        let together = watermarks
            .values()
            .iter()
            .take_while(|ns| **ns == first)
            .count();
        if together == batch.rows() {
            return Some((batch, first));
        }
        let rest = batch.rows() - together;
        self.ready = Some((
            batch.slice(together, rest),
            watermarks.slice(together, rest),
        ));
        Some((batch.slice(0, together), first))
    }
}

/// The lists of the leading tuples with at most [`BLOCKS_MAX`] blocks in total, and their field. An incomplete list
/// is null.
fn lists_of(
    blocks: &mut TableChain,
    ids: &[u64],
    lengths: Option<UInt64Array>,
    counters: &mut ReplayCounters,
) -> Result<(tuple::FieldId, ArrayRef), ReadProblem> {
    let RowSource::Blocks { list, .. } = blocks.layout.source else {
        unreachable!("a table of blocks")
    };
    let mut lists = BinaryBuilder::new();
    let mut sums = Vec::new();
    let mut all = 0;
    for (row, id) in ids.iter().enumerate() {
        let length = lengths
            .as_ref()
            .filter(|lengths| lengths.is_valid(row))
            .map(|lengths| lengths.value(row));
        sums.clear();
        let is_whole = match length {
            None | Some(BLOCKS_MAX..) => false,
            Some(0) => true,
            Some(length) => add_sums(blocks, *id, &mut sums, counters)? == length,
        };
        lists.append_option(is_whole.then_some(&sums));
        all += length.unwrap_or(0).min(BLOCKS_MAX);
        if all >= BLOCKS_MAX {
            break;
        }
    }
    Ok((list, Arc::new(lists.finish())))
}

/// Appends the checksums of a tuple's blocks; returns their number.
fn add_sums(
    blocks: &mut TableChain,
    id: u64,
    list: &mut Vec<u8>,
    counters: &mut ReplayCounters,
) -> Result<u64, ReadProblem> {
    let mut found = 0;
    loop {
        blocks.skip_below(id, counters);
        let Some((batch, _)) = blocks.ready() else {
            if blocks.is_over() {
                return Ok(found);
            }
            blocks.read(counters)?;
            continue;
        };
        let n = blocks
            .ids()
            .iter()
            .take_while(|number| **number == id)
            .count();
        if n == 0 {
            return Ok(found);
        }
        let sums = batch.u64(SUM);
        let sums = sums
            .iter()
            .take(n.min(BLOCKS_MAX.saturating_sub(found) as usize));
        list.extend(sums.flat_map(|sum| sum.unwrap_or_default().to_le_bytes()));
        found += n as u64;
        blocks.take(n);
    }
}
