// Formats numbers, times, and texts by the rules of docs/output-formats.md, as in terminal tables.
import type { Cell, Column } from "../api/cells";

/** Text from packets with control, invisible, and bidirectional characters made visible. */
export function visible(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/gu,
    (c) => {
      const code = c.codePointAt(0) ?? 0;
      if (c === "\n") return "\\n";
      if (c === "\r") return "\\r";
      if (c === "\t") return "\\t";
      return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
    },
  );
}

/** A non-negative number with a fixed number of decimals, rounded half to even as in the terminal; `toFixed` rounds half up. */
function fixed(v: number, decimals: number): string {
  // Exact ties are odd multiples of half the last decimal, and thus of this power of two.
  if ((v * 2 ** (decimals + 1)) % 2 !== 1) return v.toFixed(decimals);
  const below = Math.floor(v * 10 ** decimals);
  return ((below + (below % 2)) / 10 ** decimals).toFixed(decimals);
}

const significant = (v: number) => fixed(v, v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2);

function scaled(value: number, units: string[], digits: (v: number) => string): string {
  if (value === Math.trunc(value) && value < 1000) return `${value} ${units[0]}`;
  let at = 0;
  while (at + 1 < units.length && Number(digits(value)) >= 1000) {
    value /= 1000;
    at += 1;
  }
  return `${digits(value)} ${units[at]}`;
}

const signed = (value: number, text: (v: number) => string) => (value < 0 ? "-" : "") + text(Math.abs(value));
const two = (n: number) => String(n).padStart(2, "0");

/** A duration in nanoseconds. */
export function duration(ns: number): string {
  return signed(ns, (v) => {
    if (v < 999.5e6) return scaled(v, ["ns", "µs", "ms"], significant);
    const s = v / 1e9;
    const whole = Math.round(s);
    if (s < 59.95) return `${significant(s)} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)}m ${two(whole % 60)}s`;
    if (whole < 86400) return `${Math.floor(whole / 3600)}h ${two(Math.floor((whole % 3600) / 60))}m`;
    return `${Math.floor(whole / 86400)}d ${two(Math.floor((whole % 86400) / 3600))}h`;
  });
}

/** A size in bytes, with powers of 1000. */
export function bytes(value: number): string {
  return signed(value, (v) => scaled(v, ["B", "kB", "MB", "GB", "TB", "PB", "EB"], (n) => fixed(n, 1)));
}

/** A share of one as a percentage; never rounded to 0 % or 100 %. */
export function percentage(share: number): string {
  const percent = share * 100;
  if (percent === Math.trunc(percent)) return `${percent} %`;
  for (let decimals = 1; decimals < 9; decimals += 1) {
    const rounded = fixed(percent, decimals);
    if (Number(rounded) !== 0 && Number(rounded) !== 100) return `${rounded} %`;
  }
  return `${percent.toFixed(9)} %`;
}

/** A number without a unit. */
export function plain(value: number): string {
  return signed(value, (v) => {
    if (v === Math.trunc(v) || v >= 99.95) return fixed(v, 0);
    return v >= 0.01 ? significant(v) : v.toExponential(2);
  });
}

/** A large number in short form: 72.0M. */
export function many(value: number): string {
  if (value < 10_000) return String(Math.round(value));
  return scaled(value, ["", "k", "M", "G", "T"], significant).replace(" ", "\u202f");
}

/** A number with the unit of its column. */
export function number(unit: Column["unit"], value: number): string {
  switch (unit) {
    case "ns": return duration(value);
    case "bytes": return bytes(value);
    case "per_second": return `${plain(value)}/s`;
    case "bytes_per_second": return `${bytes(value)}/s`;
    case "fraction": return percentage(value);
    case "epoch_ns": return time(String(BigInt(Math.trunc(value))));
    default: return plain(value);
  }
}

/** Milliseconds since the epoch, from nanoseconds. */
export const millis = (ns: string) => Number(BigInt(ns) / 1_000_000n);

/** A UTC time, with milliseconds or microseconds if present: digits that align in a column. */
export function time(ns: string): string {
  const all = BigInt(ns);
  const whole = new Date(Number(all / 1_000_000n)).toISOString();
  const micros = Number((all / 1_000n) % 1_000_000n);
  const rest = micros === 0 ? "" : `.${String(micros).padStart(6, "0").replace(/000$/, "")}`;
  return `${whole.slice(0, 10)} ${whole.slice(11, 19)}${rest}`;
}

/** The UTC time of day, with milliseconds if present. */
export const clock = (ns: string) => new Date(millis(ns)).toISOString().slice(11, 23).replace(".000", "");

/** The UTC date. */
const day = (ns: string) => new Date(millis(ns)).toISOString().slice(0, 10);

/** A period in UTC; dates are omitted if both ends are today. */
export function span(since: string, until: string): string {
  const today = new Date().toISOString().slice(0, 10);
  const [from, to] = [day(since), day(until)];
  if (from === to) return `${from === today ? "" : `${from} `}${clock(since)}–${clock(until)}`;
  return `${from} ${clock(since)} – ${to} ${clock(until)}`;
}

/** Positions on a logarithmic axis: powers of ten, on short axes also twice and five times them. */
export function logTicks(min: number, max: number): number[] {
  const [from, to] = [Math.floor(Math.log10(min)), Math.ceil(Math.log10(max))];
  const steps = to - from > 3 ? [1] : [1, 2, 5];
  return Array.from({ length: to - from + 1 }, (_, i) => from + i).flatMap((power) => steps.map((step) => Number(`${step}e${power}`))).filter((tick) => tick >= min && tick <= max);
}

/** Labels of a time axis (seconds since the epoch): dates if the axis has several days, milliseconds below a second. */
export function axisTimes(seconds: number[]): string[] {
  const all = seconds.map((s) => new Date(Math.round(s * 1000)).toISOString());
  const step = seconds.length > 1 ? (seconds[1] as number) - (seconds[0] as number) : 1;
  const hasDays = all[0]?.slice(0, 10) !== all.at(-1)?.slice(0, 10);
  if (step >= 86_400) return all.map((text) => text.slice(0, 10));
  if (hasDays) return all.map((text) => `${text.slice(5, 10)} ${text.slice(11, 16)}`);
  return all.map((text) => (step < 1 ? text.slice(11, 23) : all.every((other) => other.slice(17, 19) === "00") ? text.slice(11, 16) : text.slice(11, 19)));
}

/** Time since, in words. */
export function ago(ns: string): string {
  const seconds = Math.max(0, Math.round((Date.now() - millis(ns)) / 1000));
  return seconds < 5 ? "just now" : seconds < 60 ? `${seconds} s ago` : `${duration(seconds * 1e9)} ago`;
}

/** The number in a cell, or null. */
export function numeric(cell: Cell | undefined): number | null {
  if (typeof cell === "number") return cell;
  if (typeof cell === "string" && cell !== "") {
    const n = Number(cell);
    return Number.isFinite(n) ? n : null;
  }
  return null;
}

export const isNumber = (column: Column) => (column.type === "u64" || column.type === "i64" || column.type === "f64") && column.unit !== "id";

/** A heading without the unit that the values include. */
export const heading = (column: Column) => (column.unit === "ns" ? column.name.replace(/_ns$/, "") : column.unit === "bytes" ? column.name.replace(/_bytes$/, "") : column.name).replaceAll("_", " ");

/** A cell as displayed. */
export function shown(column: Column, cell: Cell | undefined): string {
  if (cell === null || cell === undefined) return "–";
  if (typeof cell === "boolean") return cell ? "true" : "false";
  if (Array.isArray(cell) || typeof cell === "object") return JSON.stringify(cell);
  if (column.unit === "epoch_ns") return time(String(cell));
  if (isNumber(column)) {
    const n = numeric(cell);
    if (n !== null) return number(column.unit, n);
  }
  return visible(String(cell));
}

/** A cell without rounding, for programs. */
export function raw(cell: Cell | undefined): string {
  if (cell === null || cell === undefined) return "";
  return typeof cell === "object" ? JSON.stringify(cell) : String(cell);
}

/** Rows as CSV (RFC 4180). */
export function csv(columns: Column[], rows: Cell[][]): string {
  const quoted = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [columns.map((column) => column.name), ...rows.map((row) => row.map(raw))];
  return lines.map((line) => `${line.map(quoted).join(",")}\r\n`).join("");
}
