// Rows of a window that is larger than what the page holds, as the server sorts and searches them: those that are looked at, page by page.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, lasting, type Row } from "./api";
import type { Result, Win } from "./model";
import type { Sort } from "./table";

const PAGE = 1000;
/** Pages that are held. */
const PAGES_MAX = 50;
/** The server sorts no farther. */
const ROWS_MAX = 100_000;
/** A text is searched when nobody has typed for so long. */
const TYPING_MS = 200;

export interface Remote {
  /** As long as there are rows; with holes where none has come yet. */
  rows: Row[];
  /** `undefined`: that is not known yet. */
  matches: number | undefined;
  error: unknown;
  /** Asks for the rows from one place to another. */
  need(from: number, to: number): void;
}

interface Held extends Remote {
  of: string;
}

/** `null` where the page holds all rows of the window, or it is still open. */
export function useRemote(job: string, result: Result | undefined, window: Win | undefined, sort: Sort | null, find: string): Remote | null {
  const [, draw] = useState(0);
  const held = useRef<Held | null>(null);
  const isOrdered = (sort !== null && (result?.at(sort.by) ?? -1) >= 0) || find !== "";
  // Of tuples the newest are here, as they come.
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
      const told = await lasting(() => ask<{ rows: Row[]; matches: string }>("GET", `${of}&offset=${page * PAGE}&limit=${PAGE}`, undefined, { signal: abort.signal }), abort.signal, (why) => show(why));
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
