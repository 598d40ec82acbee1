// Rows of a window that exceeds the page's bounds, sorted and searched by the server and loaded page by page.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, lasting } from "../api/client";
import type { Row } from "../api/cells";
import type { RowsAnswer } from "../api/schema";
import type { Result, Sort, Win } from "./model";

const PAGE = 1000;
/** Maximum pages in memory. */
const PAGES_MAX = 50;
/** Maximum position that the server sorts. */
const ROWS_MAX = 100_000;
/** Delay after the last key press before a search. */
const TYPING_MS = 200;

export interface Remote {
  /** As long as the result; holes where rows are not loaded yet. */
  rows: Row[];
  /** `undefined`: not known yet. */
  matches: number | undefined;
  error: unknown;
  /** Loads a range of rows. */
  need(from: number, to: number): void;
}

interface Held extends Remote {
  of: string;
}

/** `null` if the page holds all rows of the window, or the window is open. */
export function useRemote(job: string, result: Result | undefined, window: Win | undefined, sort: Sort | null, find: string): Remote | null {
  const [, draw] = useState(0);
  const held = useRef<Held | null>(null);
  const isOrdered = (sort !== null && (result?.at(sort.by) ?? -1) >= 0) || find !== "";
  // Of tuples, the page holds the newest.
  const isRemote = !!result && !!window && !window.open && window.left > 0 && (result.processor !== null || isOrdered);
  const within = window && window.start !== "" ? `&since=${window.start}&until=${BigInt(window.start) + 1n}` : "";
  const order = sort && isOrdered && (result?.at(sort.by) ?? -1) >= 0 ? `&sort=${encodeURIComponent(sort.by)}&order=${sort.down ? "desc" : "asc"}` : "";
  const of = isRemote ? `/api/v1/jobs/${encodeURIComponent(job)}/rows?result=${result.place}${within}${order}${find === "" ? "" : `&find=${encodeURIComponent(find)}`}` : "";
  useEffect(() => {
    if (of === "") return;
    const abort = new AbortController();
    const asked: number[] = [];
    const load = async (page: number) => {
      const mine = held.current as Held;
      const told = await lasting(() => ask<RowsAnswer>("GET", `${of}&offset=${page * PAGE}&limit=${PAGE}`, undefined, { signal: abort.signal }), abort.signal, (why) => show(why));
      mine.matches = Number(told.matches);
      mine.rows.length = Math.min(mine.matches, ROWS_MAX);
      told.rows.forEach((row, i) => (mine.rows[page * PAGE + i] = row));
      show(undefined);
    };
    const show = (why: unknown) => {
      (held.current as Held).error = why;
      draw((n) => n + 1);
    };
    const need = (from: number, to: number) => {
      for (let page = Math.floor(from / PAGE); page <= Math.floor(to / PAGE); page += 1) {
        if (asked.includes(page)) continue;
        asked.push(page);
        if (asked.length > PAGES_MAX) {
          const oldest = (asked.shift() as number) * PAGE;
          for (let i = oldest; i < oldest + PAGE; i += 1) delete held.current?.rows[i];
        }
        load(page).catch((why) => abort.signal.aborted || show(why));
      }
    };
    held.current = { of, rows: [], matches: undefined, error: undefined, need };
    draw((n) => n + 1);
    const timer = setTimeout(() => need(0, 0), find === "" ? 0 : TYPING_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [of]);
  if (!isRemote) return null;
  return held.current?.of === of ? held.current : { rows: [], matches: undefined, error: undefined, need: () => undefined };
}
