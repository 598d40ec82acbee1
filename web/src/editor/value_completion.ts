// Completion of values and hosts from recently stored tuples, most frequent first. Loaded rarely, with few results; empty
// without stored tuples.
import { askKept, catalog, may } from "../api/client";
import { literal, parsersOf } from "../results/clauses";

const VALUES_MAX = 30;
const FIELDS_MAX = 50;
const FRESH_MS = 60_000;
const PERIOD = "15m";

export interface Offer {
  /** Start of the word to replace. */
  from: number;
  labels: { label: string; detail: string }[];
}

const seen = new Map<string, { at: number; labels: Promise<Offer["labels"]> }>();

async function look(parsers: string, field: string, recording: string): Promise<Offer["labels"]> {
  const since = recording === "" ? ` SINCE ${PERIOD}` : "";
  const { results } = await askKept(`PARSE ${parsers}${since} PROCESS (group-count-top-k: group=${field}, k=${VALUES_MAX})`, recording);
  const told = results[0];
  const key = told?.columns.findIndex(({ name }) => name === field) ?? -1;
  const count = told?.columns.findIndex(({ name }) => name === "count") ?? -1;
  if (!told || key < 0) return [];
  return told.rows.flatMap((row) => (row[key] === null || row[key] === undefined ? [] : [{ label: literal(told.columns[key]!, row[key]!), detail: `seen ${String(row[count] ?? "")}×` }]));
}

/** The most frequent values of a field, of recent stored tuples or of a recording. */
export function frequent(parsers: string, field: string, recording = ""): Promise<Offer["labels"]> {
  const name = `${parsers} ${field} ${recording}`;
  const known = seen.get(name);
  if (known && Date.now() - known.at < FRESH_MS) return known.labels;
  if (seen.size >= FIELDS_MAX) seen.delete(seen.keys().next().value as string);
  const labels = look(parsers, field, recording).catch(() => []);
  seen.set(name, { at: Date.now(), labels });
  return labels;
}

/** Completions at the end of `before` if a value is expected there; null otherwise. */
export async function offer(before: string, text: string): Promise<Offer | null> {
  if (!may("run")) return null;
  const isSql = /^\s*SELECT\b/i.test(text);
  const compared = /([A-Za-z_][\w.]*)\s*(?:==?|!=|<>|\b(?:not\s+)?in\s*\((?:[^()]*,)?)\s*('(?:[^']|'')*|[\w.:/-]*)$/i.exec(before);
  const end = isSql ? null : /\b(FROM|TO)\s+(?:[^\s,]+\s*,\s*)*([\w.:/[\]-]*)$/i.exec(before);
  const known = (await catalog()).parsers;
  const named = isSql ? (/\bFROM\s+([^]*)$/i.exec(text)?.[1] ?? "").split(/[\s,();]+/) : parsersOf(text);
  const parsers = named.filter((name) => known.some((parser) => parser.name === name));
  if ((!compared && !end) || parsers.length === 0) return null;
  const fields = known.filter(({ name }) => parsers.includes(name)).flatMap((parser) => parser.fields);
  const wanted = compared ? compared[1]!.replace(/^.*\./, "").replace(/^(client|server)$/i, (side) => `${side.toLowerCase()}_ip`) : end![1]!.toUpperCase() === "FROM" ? "client_ip" : "server_ip";
  const field = fields.find(({ name, type, unit }) => name === wanted && ["text", "ip", "u64", "bool"].includes(type) && unit === "");
  if (!field) return null;
  const word = compared ? compared[2]! : end![2]!;
  const labels = (await frequent(parsers.join(", "), field.name)).filter(({ label }) => label !== word && label.toLowerCase().startsWith(word.toLowerCase()));
  return labels.length > 0 ? { from: before.length - word.length, labels } : null;
}
