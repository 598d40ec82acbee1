// The query that the builder writes.
import type { ColumnHead, Parser } from "../api/schema";
import { literal } from "../results/clauses";

export interface Condition {
  field: string;
  op: string;
  /** As in the query; empty for IS NULL. */
  value: string;
}

export interface Built {
  parser: string;
  conditions: Condition[];
  show: string;
  groups: string[];
  /** The aggregated field; empty: the parser's own. */
  value: string;
  /** Empty: none. */
  window: string;
}

interface Kind {
  name: string;
  title: string;
  /** Whether it has groups, a measured field, and windows. */
  hasGroups: boolean;
  hasValue: boolean;
  more: string[];
}

/** What a query can show; the name is that of its processor. */
export const KINDS: Kind[] = [
  { name: "diff-group", title: "statistics by group", hasGroups: true, hasValue: true, more: [] },
  { name: "group-count", title: "number by group", hasGroups: true, hasValue: false, more: [] },
  { name: "group-count-top-k", title: "most frequent groups", hasGroups: true, hasValue: false, more: ["k=10"] },
  { name: "group-avg-top-k", title: "groups with the highest average", hasGroups: true, hasValue: true, more: ["k=10"] },
  { name: "group-count-quantile", title: "number, median, and p99 by group", hasGroups: true, hasValue: true, more: ["q=0.5, 0.99"] },
  { name: "group-hist", title: "distribution by group", hasGroups: true, hasValue: true, more: [] },
  { name: "service-map", title: "clients and their services", hasGroups: false, hasValue: false, more: [] },
  { name: "", title: "every tuple", hasGroups: false, hasValue: false, more: [] },
];

const isText = ({ type }: ColumnHead) => ["text", "ip", "bool"].includes(type);
/** Fields that name something, by which rows are grouped and selected. */
export const isKey = (field: ColumnHead) => isText(field) || /port|status|code|type|version/.test(field.name);
/** Fields that are measured. */
export const isMeasured = (field: ColumnHead) => ["u64", "i64", "f64"].includes(field.type) && !["id", "epoch_ns"].includes(field.unit) && !isKey(field);

/** A typed value in the syntax of the query: texts are quoted, times and sizes are not. */
export function typed(field: ColumnHead | undefined, text: string): string {
  if (!field || field.type !== "text" || /^'.*'$/s.test(text)) return text.trim();
  return literal(field, text);
}

/** Whether tuples have a duration, which `diff` measures. */
export const isTimed = (parser: Parser) => parser.fields.some(({ name, unit }) => name === parser.value && unit === "ns");

/** The kinds that a parser allows. */
export const kindsOf = (parser: Parser) => KINDS.filter(({ name, hasValue }) => (!hasValue || parser.value !== null) && (name !== "diff-group" || isTimed(parser)) && (name !== "service-map" || ["client_ip", "server_ip"].every((end) => parser.fields.some((field) => field.name === end))));

export function usual(parser: Parser): Built {
  const group = parser.key ?? ["server_ip", "dst_ip"].find((name) => parser.fields.some((field) => field.name === name)) ?? parser.fields.find(isKey)?.name;
  return { parser: parser.name, conditions: [], show: isTimed(parser) ? "diff-group" : "group-count", groups: group === undefined ? [] : [group], value: "", window: "10s" };
}

export function built({ parser, conditions, show, groups, value, window }: Built): string {
  const kind = KINDS.find(({ name }) => name === show) ?? KINDS[0]!;
  const where = conditions.map(({ field, op, value }) => `${field} ${op}${value === "" ? "" : ` ${value}`}`).join(" and ");
  const args = [
    ...(kind.hasGroups && groups.length > 0 ? [`group=${groups.join(", ")}`] : []),
    ...(kind.hasValue && value !== "" ? [`value=${value}`] : []),
    ...kind.more,
    ...(window === "" ? [] : [`w=${window}`]),
  ];
  const process = kind.name === "" ? "" : ` PROCESS (${kind.name}${args.length > 0 ? `: ${args.join(", ")}` : ""})`;
  return `PARSE ${parser}${where === "" ? "" : ` WHERE ${where}`}${process}`;
}
