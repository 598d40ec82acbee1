// A query's text taken apart and put together again: what a number on the page is of, as the same question of that number alone. The
// server checks what comes of it; here only places of words are looked for, outside of texts, comments and brackets.
import type { Cell, Column, Row } from "./api";
import { raw } from "./format";
import type { Result } from "./model";

const WORDS = ["PARSE", "SELECT", "FROM", "TO", "WHERE", "SINCE", "UNTIL", "BASELINE", "ORDER BY", "LIMIT", "SAMPLE", "TAPS", "BUDGET", "PROCESS"];

export interface Clause {
  word: string;
  body: string;
}

/** Its clauses, in their order. What belongs to a processor or to BASELINE stays with it. */
export function clauses(query: string): Clause[] {
  const found: Clause[] = [];
  const token = /'(?:[^']|'')*'?|"(?:[^"]|"")*"?|(?<![^\s])--[^\n]*|[A-Za-z_][\w.]*|[()]|[^]/g;
  let depth = 0;
  let match: RegExpExecArray | null;
  while ((match = token.exec(query)) !== null) {
    const text = match[0];
    if (text.startsWith("--")) continue;
    if (text === "(") depth += 1;
    else if (text === ")") depth -= 1;
    const upper = text.toUpperCase();
    let word = depth === 0 ? WORDS.find((one) => one === upper) : undefined;
    if (depth === 0 && upper === "ORDER" && /^\s+by\b/i.test(query.slice(token.lastIndex))) word = "ORDER BY";
    const last = found.at(-1);
    if (last?.word === "PROCESS" && (word === "ORDER BY" || word === "LIMIT")) word = undefined;
    if (last?.word === "BASELINE" && (word === "SINCE" || word === "UNTIL")) word = undefined;
    if (word !== undefined) {
      found.push({ word, body: "" });
      if (word === "ORDER BY") token.lastIndex += /^\s+by\b/i.exec(query.slice(token.lastIndex))?.[0].length ?? 0;
    } else if (last) last.body += text;
  }
  return found.map(({ word, body }) => ({ word, body: body.replace(/;\s*$/, "").trim() }));
}

export const written = (all: Clause[]) => all.map(({ word, body }) => `${word} ${body}`).join(" ");

/** The same query with other clauses instead of those of that name; each stands before PROCESS. */
function with_(query: string, left: string[], more: Clause[]): string {
  const kept = clauses(query).filter(({ word }) => !left.includes(word));
  const process = kept.findIndex(({ word }) => word === "PROCESS");
  kept.splice(process < 0 ? kept.length : process, 0, ...more);
  return written(kept);
}

/** The parsers that are named. */
export const parsersOf = (query: string) => (clauses(query)[0]?.body ?? "").split(/[\s,()]+/).filter(Boolean);

/** Commas that stand in no brackets and no text part these. */
function parts(text: string, between: RegExp): string[] {
  const found = [""];
  let depth = 0;
  for (const piece of text.match(/'(?:[^']|'')*'?|"(?:[^"]|"")*"?|[A-Za-z_][\w.-]*=?(?!=)|[^]/g) ?? []) {
    if (piece === "(") depth += 1;
    if (piece === ")") depth -= 1;
    if (depth === 0 && between.test(piece)) found.push("");
    else found[found.length - 1] += piece;
  }
  return found.map((part) => part.trim());
}

/** What stands in the brackets of the processor in that place: `group=url, w=10s`. */
function processor(query: string, place: number): string {
  const body = clauses(query).find(({ word }) => word === "PROCESS")?.body ?? "";
  const all: string[] = [];
  let depth = 0;
  for (const piece of body.match(/'(?:[^']|'')*'?|"(?:[^"]|"")*"?|[^]/g) ?? []) {
    if (piece === "(" && depth++ === 0) all.push("");
    else if (piece === ")" && --depth === 0) continue;
    else if (depth > 0) all[all.length - 1] += piece;
  }
  return all[place] ?? "";
}

/** What each key column of a result is computed of; columns that the processor chose itself are their own names. */
export function keys(query: string, result: Result): string[] {
  const named = result.keyColumns.map((at) => result.columns[at]?.name ?? "");
  const args = /:([^]*)$/.exec(processor(query, result.place))?.[1] ?? "";
  // `group=` reaches to the next argument.
  let name = "";
  const wanted: string[] = [];
  for (const part of parts(args, /^,$/)) {
    const begins = /^([a-z_]+)\s*=(?!=)\s*([^]*)$/i.exec(part);
    if (begins) name = begins[1]!.toLowerCase();
    if (name === "group" || name === "key") wanted.push((begins ? begins[2]! : part).replace(/^\((.*)\)$/, "$1").replace(/\s+AS\s+\w+$/i, "").trim());
  }
  return wanted.length === named.length ? wanted : named;
}

const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;

/** A value as the language writes it. */
export function literal(column: Column, cell: Cell): string {
  return column.type === "text" ? quoted(raw(cell)) : raw(cell);
}

/** What is true of all tuples of a row, as WHERE has it; empty where the row is of all. */
export function condition(query: string, result: Result, row: Row): string {
  const exprs = keys(query, result);
  return result.keyColumns
    .map((at, i) => {
      const cell = row[at] ?? null;
      const expr = exprs[i] ?? "";
      return cell === null ? `${expr} IS NULL` : `${expr} = ${literal(result.columns[at] as Column, cell)}`;
    })
    .join(" and ");
}

/** Only what a condition keeps. */
export const only = (query: string, where: string) => (where === "" ? query : with_(query, [], [{ word: "WHERE", body: where }]));
export const butNot = (query: string, where: string) => with_(query, [], [{ word: "WHERE", body: `not (${where})` }]);

/** A moment, exact. */
export function moment(ns: string): string {
  const all = BigInt(ns);
  return `'${new Date(Number(all / 1_000_000n)).toISOString().slice(0, 19)}.${String(all % 1_000_000_000n).padStart(9, "0")}Z'`;
}

export interface Period {
  since: string;
  until: string;
}

const period = ({ since, until }: Period): Clause[] => [{ word: "SINCE", body: moment(since) }, { word: "UNTIL", body: moment(until) }];
const TIMES = ["SINCE", "UNTIL", "BASELINE"];

/** The tuples themselves: those of a time that a condition keeps, the first by an order. */
export function tuples(query: string, where: string, of: Period | null, order: string, rows: number): string {
  return with_(query, [...TIMES, "SELECT", "ORDER BY", "LIMIT", "PROCESS", "SAMPLE", "TAPS", "BUDGET"], [
    ...(where === "" ? [] : [{ word: "WHERE", body: where }]),
    ...(of ? period(of) : []),
    ...(order === "" ? [] : [{ word: "ORDER BY", body: order }]),
    { word: "LIMIT", body: `${rows} ROWS` },
  ]);
}

/** Another computation over the same tuples. */
export function counted(query: string, where: string, of: Period | null, process: string): string {
  return with_(query, [...TIMES, "SELECT", "ORDER BY", "LIMIT", "PROCESS", "SAMPLE", "TAPS", "BUDGET"], [
    ...(where === "" ? [] : [{ word: "WHERE", body: where }]),
    ...(of ? period(of) : []),
    { word: "PROCESS", body: process },
  ]);
}

const windowless = (query: string) => query.replace(/,?\s*\b(?:w|window|slide|lateness)\s*=\s*[\w.]+/g, "").replace(/:\s*,/g, ":").replace(/:\s*\)/g, ")");

/** The same question of a time as a whole. */
export const whole = (query: string, of: Period) => with_(windowless(query), [...TIMES, "LIMIT"], period(of));

/** The same question of one time against another: windows have no place in it. */
export function against(query: string, own: Period, baseline: Period): string {
  return with_(windowless(query), [...TIMES, "LIMIT", "SAMPLE"], [...period(own), { word: "BASELINE", body: written(period(baseline)) }]);
}
