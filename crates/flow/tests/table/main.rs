//! Tests of the flow table through its public API: conversations and their events, real captures, and any order of the
//! same segments.

mod corpus;
mod dialogues;
mod observe;
mod order;
mod properties;
