//! A report as one self-contained HTML file: the query, the input, the rows, and pictures of them. It has no scripts
//! and makes no requests; the page of `netalytics serve` saves files of the same kind (`web/src/finding.ts`).

mod account;
mod again;
mod bars;
mod fitting;
mod graph;
mod heat;
mod html;
mod lines;
pub mod page;
pub mod rows;
mod spread;
mod svg;
mod table;
