// A job's results in memory: per result the newest windows, from the history and the live stream. A closed window replaces its
// open version and does not change. Rows beyond the bounds are dropped and counted.
import { ask, lasting } from "../api/client";
import type { Cell, Column, Row } from "../api/cells";
import type { AccountEvent, RowsAnswer, SnapshotEvent, SnapshotWindow } from "../api/schema";
import { isNumber, numeric } from "../common/format";
import type { Event } from "../api/stream";

const WINDOWS_MAX = 720;
const ROWS_MAX = 50_000;
/** Maximum rows per response and window; larger windows are sorted and searched by the server. */
export const WINDOW_ROWS_MAX = 10_000;
const PAGE = WINDOW_ROWS_MAX;

/** Order of rows by a column. */
export interface Sort {
  by: string;
  down: boolean;
}

export interface Win {
  /** Nanoseconds since the epoch; empty: no window. */
  start: string;
  end: string;
  open: boolean;
  rows: Row[];
  /** Number of rows beyond these, if known. */
  left: number;
}

export class Result {
  readonly windows = new Map<string, Win>();
  /** Rows not held: older ones, and those beyond the bounds. */
  leftOut = 0;
  /** Live rows received while the history loads, by window. */
  added: Map<string, Row[]> | undefined = new Map();
  private held = 0;

  constructor(
    readonly place: number,
    readonly processor: string | null,
    readonly columns: Column[],
    readonly keys: number,
    public total: number,
  ) {}

  at(name: string): number {
    return this.columns.findIndex((column) => column.name === name);
  }

  /** Columns that identify a row. */
  get keyColumns(): number[] {
    const from = this.at("window_end") + 1;
    return Array.from({ length: this.keys }, (_, i) => from + i);
  }

  /** Columns that are searched, as by the server. */
  get searched(): number[] {
    const keys = this.keyColumns;
    return this.columns.flatMap(({ type, unit }, at) => (["text", "ip", "hashes"].includes(type) || unit === "id" || keys.includes(at) ? [at] : []));
  }

  /** Columns that can be drawn. */
  get measures(): number[] {
    if (this.processor === null) return [];
    const beside = new Set(["rank", "error_bound", "lost", "approximate", "window_start", "window_end", ...this.columns.flatMap((column) => [column.low ?? "", column.high ?? ""])]);
    const keys = new Set(this.keyColumns);
    return this.columns.flatMap((column, at) => (isNumber(column) && column.unit !== "epoch_ns" && !beside.has(column.name) && !keys.has(at) ? [at] : []));
  }

  /** The most informative measure: a high quantile, of the total time if there is one; else a time, else a number. */
  get measure(): number {
    const all = this.measures;
    const named = (test: RegExp) => all.find((at) => test.test(this.columns[at]?.name ?? ""));
    return named(/^p99_total_time/) ?? named(/^p99/) ?? named(/^p9/) ?? named(/^avg/) ?? all.find((at) => this.columns[at]?.unit === "ns") ?? all[0] ?? -1;
  }

  key(row: Row): string {
    return this.keyColumns.map((at) => (row[at] === null ? "–" : String(row[at]))).join(" · ") || (this.processor ?? "");
  }

  /** By time, newest last. */
  get inOrder(): Win[] {
    return [...this.windows.values()].sort((a, b) => a.start.length - b.start.length || (a.start < b.start ? -1 : 1));
  }

  get newestClosed(): Win | undefined {
    return this.inOrder.filter((window) => !window.open).at(-1);
  }

  put(window: Win, add = false): void {
    const before = this.windows.get(window.start);
    if (before && !before.open && window.open) return;
    if (add && before && !before.open) {
      before.rows.push(...window.rows);
      before.left += window.left;
      this.held += window.rows.length;
    } else {
      this.held += window.rows.length - (before?.rows.length ?? 0);
      this.windows.set(window.start, window);
    }
    const all = this.inOrder;
    while (all.length > 1 && (all.length > WINDOWS_MAX || this.held > ROWS_MAX)) {
      const oldest = all.shift() as Win;
      this.windows.delete(oldest.start);
      this.held -= oldest.rows.length;
      this.leftOut += oldest.rows.length + oldest.left;
    }
    // Without windows: tuples, of which the newest are held.
    const only = all[0];
    if (all.length === 1 && only && only.rows.length > ROWS_MAX) {
      only.left += only.rows.splice(0, only.rows.length - ROWS_MAX).length;
      this.held = ROWS_MAX;
    }
  }

  /** Rows with their windows, in order. */
  windowsOf(rows: Row[]): Win[] {
    const [start, end] = [this.at("window_start"), this.at("window_end")];
    const found = new Map<string, Win>();
    for (const row of rows) {
      const at = start < 0 ? "" : String(row[start]);
      const window = found.get(at) ?? { start: at, end: end < 0 ? "" : String(row[end]), open: false, rows: [], left: 0 };
      window.rows.push(row);
      found.set(at, window);
    }
    return [...found.values()];
  }

  /** Whether the bounds are reached. */
  get isFull(): boolean {
    return this.held >= ROWS_MAX || this.windows.size >= WINDOWS_MAX;
  }
}

export class Model {
  results: Result[] = [];
  state = "";
  reason: string | null = null;
  outcome: string | null = null;
  account: AccountEvent | null = null;
  /** Gap notices of the stream. */
  gaps: string[] = [];
  hasSnapshot = false;

  constructor(
    private readonly job: string,
    /** Called when data has arrived by another way than `apply`. */
    private readonly changed: () => void,
    /** Aborted when the view closes. */
    private readonly gone: AbortSignal,
  ) {}

  apply(events: Event[]): void {
    for (const { kind, data } of events) {
      if ("job" in data && data.job !== this.job) continue;
      switch (kind) {
        case "snapshot":
          this.snapshot(data);
          break;
        case "window": {
          const result = this.results[data.result];
          if (!result) break;
          const isOpen = data.state === "open";
          if (!isOpen) result.total += data.rows.length + data.rows_left_out;
          const left = data.rows_left_out;
          result.put({ start: data.start ?? "", end: data.end ?? "", open: isOpen, rows: data.rows, left }, !isOpen);
          if (!isOpen) result.added?.set(data.start ?? "", [...(result.added.get(data.start ?? "") ?? []), ...data.rows]);
          if (left > 0 && !isOpen && result.processor !== null) void this.window(result, data.start);
          break;
        }
        case "account":
          this.account = data;
          break;
        case "sampling":
          if (this.account) this.account.sample_rate = data.rate;
          break;
        case "job":
          [this.state, this.reason, this.outcome] = [data.state, data.reason, data.outcome];
          break;
        case "gap":
          this.gaps = [...this.gaps.slice(-4), `Events were missed (${data.reason}); the rows were reloaded.`];
          break;
      }
    }
  }

  private snapshot(data: SnapshotEvent): void {
    this.hasSnapshot = true;
    [this.state, this.reason, this.outcome] = [data.state, data.reason, data.outcome];
    this.account = data.account ?? this.account;
    const before = this.results;
    this.results = data.results.map((told, place) => {
      const total = Number(told.total);
      const old = before[place];
      const result = new Result(place, told.processor, told.columns, told.keys, total);
      if (old && old.columns.length === result.columns.length) old.windows.forEach((window) => window.open || result.put(window));
      const windows: [SnapshotWindow, boolean][] = [[told.closed, false], [told.open, true]];
      for (const [window, open] of windows) {
        if (window.rows.length > 0) result.put({ start: window.start ?? "", end: window.end ?? "", open, rows: window.rows, left: open ? 0 : Math.min(PAGE, total - window.rows.length) });
      }
      if (total > told.closed.rows.length) {
        void this.history(result, total);
      } else result.added = undefined;
      return result;
    });
  }

  /** Loads rows of a window that were left out of its event. */
  private async window(result: Result, start: string | null): Promise<void> {
    const within = start === null ? "" : `&since=${start}&until=${BigInt(start) + 1n}`;
    const page = await this.rows(result, `offset=0&limit=${PAGE}${within}`);
    for (const window of result.windowsOf(page?.rows ?? [])) result.put({ ...window, left: Math.max(0, Number(page?.matches ?? 0) - window.rows.length) });
    this.changed();
  }

  /** Loads the history page by page, newest first, up to the bounds. */
  private async history(result: Result, total: number): Promise<void> {
    const put = (window: Win) => {
      const known = result.windows.get(window.start);
      const isWhole = known && !known.open && known.left === 0 && known.rows.length >= window.rows.length;
      if (!isWhole) result.put({ ...window, rows: [...window.rows, ...(result.added?.get(window.start) ?? [])] });
    };
    let cut: Row[] = [];
    for (let from = total; from > 0 && !result.isFull && cut.length < ROWS_MAX; ) {
      const to = from;
      from = Math.max(0, to - PAGE);
      const page = await this.rows(result, `limit=${to - from}${from > 0 ? `&after=${from - 1}` : ""}`);
      if (!page || !this.results.includes(result)) return;
      const found = result.windowsOf([...page.rows, ...cut]);
      // Rows of the first window may continue on the previous page.
      const first = from > 0 ? found.shift() : undefined;
      found.forEach(put);
      if (first) put({ ...first, left: from });
      cut = first?.rows ?? [];
      result.leftOut = first?.start === "" ? 0 : from;
      this.changed();
    }
    result.added = undefined;
  }

  private async rows(result: Result, query: string): Promise<RowsAnswer | undefined> {
    const path = `/api/v1/jobs/${this.job}/rows?result=${result.place}&${query}`;
    return lasting(() => ask<RowsAnswer>("GET", path), this.gone).catch((error) => {
      if (!this.gone.aborted) this.gaps = [...this.gaps.slice(-4), `Earlier rows could not be loaded: ${(error as Error).message}`];
      this.changed();
      return undefined;
    });
  }
}

/** Rows in another order; rows without a value last, equal ones stable. */
export function sorted(rows: Row[], at: number, down: boolean): Row[] {
  const value = (cell: Cell | undefined) => numeric(cell) ?? (cell === null || cell === undefined ? null : String(cell));
  return rows
    .map((row, i) => ({ row, i, v: value(row[at]) }))
    .sort((a, b) => {
      if (a.v === null || b.v === null) return (a.v === null ? 1 : 0) - (b.v === null ? 1 : 0) || a.i - b.i;
      const order = typeof a.v === "number" && typeof b.v === "number" ? a.v - b.v : String(a.v) < String(b.v) ? -1 : a.v === b.v ? 0 : 1;
      return (down ? -order : order) || a.i - b.i;
    })
    .map(({ row }) => row);
}
