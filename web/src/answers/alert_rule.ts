// Conditions of alert rules: proposed limits, and the alerts that past windows would have caused.
import type { Column } from "../api/cells";
import { numeric } from "../common/format";
import type { Result, Win } from "../results/model";
import type { Period } from "../results/clauses";

/** A limit that the value does not exceed, with one or two significant digits: 1, 1.5, 2, 3, 5, or 7 times a power of ten. */
export function threshold(value: number, isAbove: boolean): number {
  if (value <= 0) return 0;
  const power = 10 ** Math.floor(Math.log10(value));
  const steps = [1, 1.5, 2, 3, 5, 7, 10];
  const near = steps.map((step) => Number((step * power).toPrecision(2)));
  return isAbove ? (near.find((one) => one >= value) ?? 10 * power) : (near.filter((one) => one <= value).at(-1) ?? power);
}

/** The name of the same statistic of the other time: of the response time for the total time, and vice versa. */
export function besideTime(name: string, columns: Column[]): string | undefined {
  const [, statistic, of] = /^(\w+?)(_total_time|_response_time)?_ns$/.exec(name) ?? [];
  const others = of === "_total_time" ? [`${statistic}_ns`, `${statistic}_response_time_ns`] : [`${statistic}_total_time_ns`];
  return others.find((other) => columns.some((column) => column.name === other));
}

const UNITS_NS: [unit: string, ns: number][] = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]];

/** A number of a column in the syntax of the query language. */
export function writtenNumber(column: Column, value: number): string {
  if (column.unit !== "ns") return String(value);
  const [unit, size] = UNITS_NS.find(([, ns]) => value >= ns && Number.isInteger(Number((value / ns).toPrecision(6)))) ?? ["ns", 1];
  return `${Number((value / size).toPrecision(6))}${unit}`;
}

const SIZES: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, m: 6e10, min: 6e10, h: 3.6e12, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, "%": 0.01 };

/** The number that a limit stands for, in the unit of its column; null: not a number. */
export function limitOf(text: string): number | null {
  const [, digits, unit = ""] = /^(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([a-zµ%]*)$/i.exec(text.trim()) ?? [];
  const size = unit === "" ? 1 : SIZES[unit];
  return digits === undefined || size === undefined ? null : Number(digits) * size;
}

export interface Condition {
  column: number;
  isAbove: boolean;
  limit: number;
  /** Minimum of the column count. */
  least: number;
  /** The key of the only group; null: all. */
  group: string | null;
  /** Time for which it must hold, in ns. */
  held: number;
}

export interface Fired extends Period {
  key: string;
}

export interface Past {
  /** Starts of windows in which a group met the condition, and in which an alert would have been firing. */
  met: Set<string>;
  firing: Set<string>;
  alerts: Fired[];
}

/** The alerts that these closed windows would have caused: a group fires once consecutive windows have met the condition. */
export function firedIn(result: Result, windows: Win[], { column, isAbove, limit, least, group, held }: Condition): Past {
  const count = result.at("count");
  const [met, firing] = [new Set<string>(), new Set<string>()];
  const alerts: Fired[] = [];
  const since = new Map<string, { began: string; fired: Fired | null }>();
  for (const window of windows) {
    const now = new Set<string>();
    for (const row of window.rows) {
      const value = numeric(row[column]);
      const key = result.key(row);
      if (value === null || (group !== null && key !== group) || (least > 0 && (numeric(row[count]) ?? 0) < least)) continue;
      if (isAbove ? value > limit : value < limit) now.add(key);
    }
    // A group without a row does not meet the condition if the window has other rows.
    for (const key of since.keys()) if (!now.has(key)) since.delete(key);
    for (const key of now) {
      met.add(window.start);
      const one = since.get(key) ?? { began: window.start, fired: null };
      since.set(key, one);
      if (Number(BigInt(window.end) - BigInt(one.began)) < held) continue;
      if (!one.fired) alerts.push((one.fired = { key, since: one.began, until: window.end }));
      one.fired.until = window.end;
      firing.add(window.start);
    }
  }
  return { met, firing, alerts };
}
