// Splits a query into clauses and composes derived queries, such as the query for one value. Finds positions of words
// outside of strings, comments, and parentheses; the server checks the result.
import type { Cell, Column, Row } from "../api/cells";
import { raw } from "../common/format";
import type { Result } from "./model";

const WORDS = ["PARSE", "SELECT", "FROM", "TO", "WHERE", "SINCE", "UNTIL", "BASELINE", "ORDER", "LIMIT", "SAMPLE", "TAPS", "BUDGET", "PROCESS"];

/** Tokens of a text (strings, words, signs) with their bracket depth; comments are omitted. */
function pieces(text: string): { text: string; depth: number }[] {
  let depth = 0;
  return (text.match(/'(?:[^']|'')*'?|"(?:[^"]|"")*"?|--[^\n]*|[\p{L}\p{N}_.+%-]+|\s+|[^]/gu) ?? []).filter((one) => !one.startsWith("--")).map((one) => {
    if (one === ")") depth -= 1;
    return { text: one, depth: one === "(" ? depth++ : depth };
  });
}

export interface Clause {
  word: string;
  body: string;
}

/** The clauses in order. Clauses of a processor or of BASELINE stay with it. */
export function clauses(query: string): Clause[] {
  const found: Clause[] = [];
  for (const { text, depth } of pieces(query)) {
    const word = depth === 0 ? WORDS.find((one) => one === text.toUpperCase()) : undefined;
    const last = found.at(-1);
    const isOwn = (last?.word === "PROCESS" && (word === "ORDER" || word === "LIMIT")) || (last?.word === "BASELINE" && ((word === "SINCE" && last.body.trim() === "") || (word === "UNTIL" && /^\s*SINCE/i.test(last.body))));
    if (word !== undefined && !isOwn) found.push({ word, body: "" });
    else if (last) last.body += text;
  }
  return found.map(({ word, body }) => ({ word, body: body.replace(/;\s*$/, "").trim() }));
}

export const written = (all: Clause[]) => all.map(({ word, body }) => `${word} ${body}`).join(" ");

/** The query with other clauses of this name, placed before PROCESS. */
function with_(query: string, left: string[], more: Clause[]): string {
  const kept = clauses(query).filter(({ word }) => !left.includes(word));
  const process = kept.findIndex(({ word }) => word === "PROCESS");
  kept.splice(process < 0 ? kept.length : process, 0, ...more);
  return written(kept);
}

/** The parsers in PARSE. */
export const parsersOf = (query: string) => (clauses(query)[0]?.body ?? "").split(/[\s,()]+/).filter(Boolean);

/** Whether a query reads stored data. */
export const isPast = (query: string) => clauses(query).some(({ word }) => word === "SINCE");

/** The processors, each with the clauses for its rows. */
export function processors(query: string): string[] {
  const body = clauses(query).find(({ word }) => word === "PROCESS")?.body ?? "";
  const found: string[] = [];
  let at = 0;
  for (const { text, depth } of pieces(body)) {
    const before = body.slice(0, at).trimEnd();
    // A processor in parentheses begins with its name; one without is the first, or follows a comma that does not separate
    // keys.
    const isBracketed = text === "(" && /^\(\s*[\w-]+\s*[:)]/.test(body.slice(at)) && !/\w$/.test(body.slice(0, at));
    const isBare = /^[\w-]+$/.test(text) && (before === "" || (before.endsWith(",") && !/\sORDER\s/i.test(found.at(-1) ?? "")));
    if (depth === 0 && (isBracketed || isBare)) found.push("");
    if (found.length > 0) found[found.length - 1] += text;
    at += text.length;
  }
  return found.map((one) => one.replace(/[\s,]+$/, ""));
}

const processing = (query: string, all: string[]) => written(clauses(query).map((clause) => (clause.word === "PROCESS" ? { word: "PROCESS", body: all.join(", ") } : clause)));

/** The processor at this position only, without a baseline of another. */
export const alone = (query: string, place: number) => processing(query, processors(query).filter((_, at, all) => at === place || all[place] === undefined));

interface Argument {
  name: string;
  text: string;
}

/** Splits at commas outside of parentheses. */
function parts(text: string): string[] {
  const found = [""];
  for (const piece of pieces(text)) {
    if (piece.depth === 0 && piece.text === ",") found.push("");
    else found[found.length - 1] += piece.text;
  }
  return found.map((part) => part.trim()).filter(Boolean);
}

/** A processor's name, its arguments, and the text after its bracket; without a bracket there are none. */
function apart(processor: string): { name: string; args: Argument[]; behind: string } {
  const all = pieces(processor);
  const end = processor.startsWith("(") ? all.findIndex(({ text, depth }) => text === ")" && depth === 0) : -1;
  const joined = (from: number, to?: number) => all.slice(from, to).map(({ text }) => text).join("");
  if (end < 0) return { name: processor, args: [], behind: "" };
  const [, own = "", written = ""] = /^\s*([\w-]*)\s*:?([^]*)$/.exec(joined(1, end)) ?? [];
  // An argument's value extends to the name of the next one.
  let name = "";
  const args = parts(written).map((text) => {
    name = /^(\w+)\s*=(?!=)/.exec(text)?.[1]?.toLowerCase() ?? name;
    return { name, text };
  });
  return { name: own, args, behind: joined(end + 1) };
}

const together = (name: string, args: string[], behind: string) => `(${name}${args.length === 0 ? "" : `: ${args.join(", ")}`})${behind}`;
const but = (args: Argument[], left: string[]) => args.filter(({ name }) => !left.includes(name)).map(({ text }) => text);

/** The expression of each key column; columns selected by the processor itself are their own names. */
export function keys(query: string, result: Result): string[] {
  const named = result.keyColumns.map((at) => result.columns[at]?.name ?? "");
  const wanted = apart(processors(query)[result.place] ?? "").args
    .filter(({ name }) => name === "group" || name === "key")
    .flatMap(({ text }) => parts(text.replace(/^\w+\s*=(?!=)\s*/, "").replace(/^\(([^()]*)\)$/, "$1")))
    .map((expr) => expr.replace(/\s+AS\s+\w+$/i, ""));
  return wanted.length === named.length ? wanted : named;
}

const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;

/** A value in the syntax of the query language. */
export function literal(column: Column, cell: Cell): string {
  return column.type === "text" ? quoted(raw(cell)) : raw(cell);
}

/** The condition that all tuples of a row meet, as in WHERE; empty for a row of all tuples. */
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

/** The query restricted by a condition. */
export const only = (query: string, where: string) => (where === "" ? query : with_(query, [], [{ word: "WHERE", body: where }]));
export const butNot = (query: string, where: string) => with_(query, [], [{ word: "WHERE", body: `not (${where})` }]);

/** A time, without rounding. */
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

/** The query for tuples of a period that meet a condition, ordered. */
export function tuples(query: string, where: string, of: Period | null, order: string, rows: number): string {
  return with_(query, [...TIMES, "SELECT", "ORDER", "LIMIT", "PROCESS", "SAMPLE", "TAPS", "BUDGET"], [
    ...(where === "" ? [] : [{ word: "WHERE", body: where }]),
    ...(of ? period(of) : []),
    ...(order === "" ? [] : [{ word: "ORDER", body: `BY ${order}` }]),
    { word: "LIMIT", body: `${rows} ROWS` },
  ]);
}

/** Another processor over the same tuples. */
export function counted(query: string, where: string, of: Period | null, process: string): string {
  return with_(query, [...TIMES, "SELECT", "ORDER", "LIMIT", "PROCESS", "SAMPLE", "TAPS", "BUDGET"], [
    ...(where === "" ? [] : [{ word: "WHERE", body: where }]),
    ...(of ? period(of) : []),
    { word: "PROCESS", body: process },
  ]);
}

function windowless(query: string): string {
  return processing(query, processors(query).map((one) => {
    const { name, args, behind } = apart(one);
    return args.length === 0 ? one : together(name, but(args, ["w", "slide", "lateness"]), behind);
  }));
}

/** The same query with a histogram; every group processor has one. */
export function withHist(query: string, place: number): string {
  const { args, behind } = apart(processors(query)[place] ?? "");
  return processing(query, [together("group-hist", args.length === 0 ? ["w=10s"] : but(args, ["q", "k"]), behind)]);
}

/** The same query over the whole period, without windows. */
export const whole = (query: string, of: Period) => with_(windowless(query), [...TIMES, "LIMIT"], period(of));

/** The same query over a period, with its windows. */
export const within = (query: string, of: Period) => with_(query, [...TIMES, "LIMIT", "SAMPLE"], period(of));

/** The same query of live traffic, without an end. */
export const live = (query: string) => with_(query, [...TIMES, "LIMIT"], []);

/** The same query with the times that an answer has covered. */
export const dated = (query: string, own: Period, baseline: Period | null) =>
  with_(query, TIMES, [...period(own), ...(baseline ? [{ word: "BASELINE", body: written(period(baseline)) }] : [])]);

/** The length of the windows of the processor at `place`, as written; empty: none. */
export const windowOf = (query: string, place: number) => apart(processors(query)[place] ?? "").args.find(({ name }) => name === "w")?.text.replace(/^w\s*=\s*/i, "") ?? "";

/** The same query with a BASELINE, without windows. */
export function against(query: string, own: Period, baseline: Period): string {
  return with_(windowless(query), [...TIMES, "LIMIT", "SAMPLE"], [...period(own), { word: "BASELINE", body: written(period(baseline)) }]);
}
