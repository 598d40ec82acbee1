// Columns and cells of results, as in responses and in live events.
import type { BoundedColumn, Cell as Value } from "./schema";

export type Column = BoundedColumn;
/** A cell; integers that JavaScript would round are strings. */
export type Cell = Value | null;
export type Row = Cell[];
