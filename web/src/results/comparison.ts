// Results of a comparison: values of each group for both periods, strongest evidence first.
import type { Column, Row } from "../api/cells";
import type { PastAnswer } from "../api/schema";
import type { Period } from "./clauses";
import { number, numeric, percentage } from "../common/format";
import { Result } from "./model";

export interface Change {
  column: Column;
  now: number | null;
  before: number | null;
  ratio: number | null;
  /** Whether the difference is significant; null: unknown. */
  differs: boolean | null;
}

export type Kind = "new" | "gone" | "worse" | "better" | "changed" | "same";

export interface Compared {
  key: string;
  row: Row;
  changes: Change[];
  kind: Kind;
  /** The most significant change, in words. */
  word: string;
  evidence: number;
}

/** The direction that is worse: longer times, more failures, less success. Other numbers have none. */
export function worse(column: Column, ratio: number): boolean | null {
  if (column.name === "success") return ratio < 1;
  if (column.unit === "ns" && column.name !== "time_ns" && !column.name.startsWith("sum")) return ratio > 1;
  return null;
}

const weight = ({ ratio, differs }: Change) => (differs ? 1 : 0) * 10 + Math.min(5, ratio === null || ratio <= 0 ? 0 : Math.abs(Math.log(ratio)));

function said(change: Change): string {
  const { column, now, before, ratio } = change;
  const bad = ratio === null ? null : worse(column, ratio);
  const name = column.name.replace(/_(ns|bytes)$/, "");
  if (column.unit === "fraction") return `${name} ${percentage(before ?? 0)} → ${percentage(now ?? 0)}`;
  const times = ratio === null ? "" : ` ×${ratio >= 10 ? ratio.toFixed(0) : ratio.toFixed(2)}`;
  return `${bad === null ? name : bad ? `slower: ${name}` : `faster: ${name}`}${times}`;
}

/** Columns of a comparison. */
export function readCompared(told: PastAnswer["results"][number]): { result: Result; measures: Column[]; rows: Compared[] } {
  const result = new Result(0, told.processor, told.columns, told.keys, told.rows.length);
  const at = (name: string) => result.at(name);
  const measures = told.columns.filter((column) => at(`baseline_${column.name}`) >= 0);
  const bare = (name: string) => name.replace(/_(ns|bytes)$/, "");
  const beside = (word: string, name: string) => (at(`${word}_${name}`) >= 0 ? at(`${word}_${name}`) : at(`${word}_${bare(name)}`));
  const rows = told.rows.map((row): Compared => {
    const changes = measures.map((column): Change => {
      const differs = row[beside("differs", column.name)];
      return {
        column,
        now: numeric(row[at(column.name)]),
        before: numeric(row[at(`baseline_${column.name}`)]),
        ratio: numeric(row[beside("ratio", column.name)]),
        differs: typeof differs === "boolean" ? differs : null,
      };
    });
    const count = changes.find(({ column }) => column.name === "count") ?? changes[0];
    // If significance is unknown, for example without stored data for one period, nothing is marked as new.
    const isNew = !!count && count.differs !== null && !count.before && !!count.now;
    const isGone = !!count && count.differs !== null && !count.now && !!count.before;
    const most = [...changes].sort((a, b) => weight(b) - weight(a))[0];
    const telling = changes.filter(({ differs }) => differs);
    const verdicts = telling.map((change) => (change.ratio === null ? null : worse(change.column, change.ratio)));
    const kind: Kind = isNew ? "new" : isGone ? "gone" : verdicts.includes(true) ? "worse" : verdicts.includes(false) ? "better" : telling.length > 0 ? "changed" : "same";
    // Changes for the worse rank before mere increases.
    const bad = telling.filter((change) => change.ratio !== null && worse(change.column, change.ratio)).sort((a, b) => weight(b) - weight(a))[0];
    const word = isNew ? "new" : isGone ? "gone" : kind === "same" ? (changes.every(({ differs }) => differs === null) ? "difference unknown" : "no significant difference") : said(bad ?? most!);
    const evidence = (isNew || isGone ? (count?.differs ? 14 : 2) : 0) + Math.max(0, ...changes.map(weight)) + (kind === "worse" ? 20 : 0);
    return { key: result.key(row), row, changes, kind, word, evidence };
  });
  return { result, measures, rows: rows.sort((a, b) => b.evidence - a.evidence) };
}

export const shownIn = (column: Column, value: number | null) => (value === null ? "–" : number(column.unit, value));

/** The period to compare with. */
export const EARLIER: [string, string][] = [
  ["", "none"],
  ["before", "previous period"],
  ["1h", "1 hour earlier"],
  ["24h", "1 day earlier"],
  ["7d", "1 week earlier"],
  ["mark", "before the mark"],
  ["range", "custom period"],
];
const HOUR = 3_600_000_000_000n;

/** Both periods of the address; null if incomplete. */
export function periodsOf(param: (name: string) => string): { own: Period; baseline: Period } | null {
  const vs = param("vs");
  const ns = (name: string) => (/^\d{1,19}$/.test(param(name)) ? BigInt(param(name)) : null);
  const [from, to, mark] = [ns("from"), ns("to"), ns("mark")];
  if (vs === "" || from === null || to === null || from >= to) return null;
  const as = (since: bigint, until: bigint): Period => ({ since: String(since), until: String(until) });
  if (vs === "mark") {
    if (mark === null || mark >= to) return null;
    return { own: as(mark, to), baseline: as(mark - (to - mark), mark) };
  }
  const by = { before: to - from, "1h": HOUR, "24h": 24n * HOUR, "7d": 168n * HOUR }[vs];
  if (by !== undefined) return { own: as(from, to), baseline: as(from - by, to - by) };
  const [since, until] = [ns("bfrom"), ns("bto")];
  return since !== null && until !== null && since < until ? { own: as(from, to), baseline: as(since, until) } : null;
}
