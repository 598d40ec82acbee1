// A table of rows that renders visible rows only.
import { useEffect } from "preact/hooks";
import type { Column, Row } from "../api/cells";
import { heading, isNumber, numeric, shown } from "../common/format";
import type { Result, Sort } from "../results/model";
import { useVirtualRows } from "./virtual_rows";

interface Props {
  result: Result;
  rows: Row[];
  sort: Sort | null;
  onSort(sort: Sort | null): void;
  picked: string[];
  onPick(key: string): void;
  color(key: string): string;
  /** Values of a row's measure in previous windows, newest last. */
  course: Map<string, (number | null)[]>;
  measure: number;
  isOpen: boolean;
  /** Whether rows of several windows are shown with their window. */
  showWindows?: boolean;
  /** Opens the details of a number. */
  onOpen?(row: Row, at: number): void;
  /** Requests rows that are not loaded yet. */
  need?: ((from: number, to: number) => void) | undefined;
  /** The ranks of the previous window, by key. */
  ranks?: Map<string, number> | null;
}

/** Visible columns: interval ends are shown with their value, empty columns are hidden. */
function columnsOf(result: Result, rows: Row[], showWindows: boolean): number[] {
  const ends = new Set(result.columns.flatMap((column) => [column.low ?? "", column.high ?? ""]));
  const isWindow = !showWindows && result.at("window_start") >= 0;
  const silent = (name: string, at: number) =>
    ["agents_missing", "lost", "error_bound"].includes(name) ? rows.every((row) => row[at] === null) : name === "approximate" && rows.every((row) => row[at] !== true);
  return result.columns.flatMap((column, at) => {
    if (showWindows && column.name === "window_end") return [];
    if (ends.has(column.name) || (isWindow && (column.name === "window_start" || column.name === "window_end"))) return [];
    if (column.type === "json" || column.type === "hashes" || silent(column.name, at)) return [];
    return [at];
  });
}

export function Table(props: Props) {
  const { result, rows, sort } = props;
  const columns = columnsOf(result, rows, props.showWindows ?? false);
  const { scroll, drawn, before, behind } = useVirtualRows(rows.length);
  const [from, to] = [drawn[0] ?? 0, drawn.at(-1) ?? 0];
  useEffect(() => props.need?.(from, to), [props.need, from, to]);
  const approximate = result.at("approximate");
  const hasCourse = props.measure >= 0 && [...props.course.values()].some((values) => values.length > 1);
  const most = rows.slice(0, 2000).reduce((most, row) => Math.max(most, numeric(row[props.measure]) ?? 0), 0);
  const width = columns.length + (hasCourse ? 1 : 0);
  return (
    <div class={`table-scroll${props.isOpen ? " provisional" : ""}`} ref={scroll} tabIndex={0} role="region" aria-label="Rows">
      <table class="rows" aria-rowcount={rows.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((at) => {
              const column = result.columns[at] as Column;
              const is = sort?.by === column.name ? (sort.down ? "descending" : "ascending") : undefined;
              const first = isNumber(column) && column.name !== "rank";
              const next = is === undefined ? { by: column.name, down: first } : sort?.down === first ? { by: column.name, down: !first } : null;
              return (
                <th scope="col" class={isNumber(column) ? "n" : ""} aria-sort={is}>
                  <button type="button" title={column.doc} onClick={() => props.onSort(next)}>
                    {isNumber(column) && is && <span aria-hidden="true" class="arrow">{is === "descending" ? "↓" : "↑"}</span>}
                    {heading(column)}
                    {!isNumber(column) && is && <span aria-hidden="true" class="arrow">{is === "descending" ? "↓" : "↑"}</span>}
                  </button>
                </th>
              );
            })}
            {hasCourse && <th scope="col" class="beside">{heading(result.columns[props.measure] as Column)} trend</th>}
          </tr>
        </thead>
        <tbody>
          {before > 0 && <tr aria-hidden="true"><td colSpan={width} style={{ height: `${before}px`, padding: 0 }} /></tr>}
          {drawn.map((place) => {
            const row = rows[place];
            if (!row) return <tr key={place} aria-rowindex={place + 2}><td colSpan={width} class="muted">…</td></tr>;
            const key = result.key(row);
            const isPicked = props.picked.includes(key);
            const isRough = approximate >= 0 && row[approximate] === true;
            return (
              <tr key={place} aria-rowindex={place + 2} class={isPicked ? "picked" : ""}>
                {columns.map((at, i) => {
                  const column = result.columns[at] as Column;
                  const value = shown(column, row[at]);
                  const [low, high] = [column.low, column.high].map((name) => (name === undefined ? null : row[result.at(name)]));
                  const isKey = result.keyColumns.includes(at);
                  const isMeasure = at === props.measure;
                  const opens = props.onOpen && (result.processor === null ? isNumber(column) || column.unit === "epoch_ns" : isNumber(column) && !isKey && column.name !== "rank");
                  const text = `${isRough && isNumber(column) && !isKey ? "~" : ""}${value}`;
                  const share = isMeasure && most > 0 ? Math.max(0, (numeric(row[at]) ?? 0) / most) : 0;
                  return (
                    <td class={`${isNumber(column) ? "n" : "t"}${isKey ? " key" : ""}${isMeasure ? " measure" : ""}`}>
                      {isMeasure && share > 0 && <span class="bar" aria-hidden="true" style={{ width: `${(share * 100).toFixed(1)}%` }} />}
                      {isKey && i === columns.indexOf(result.keyColumns[0] ?? -1) ? (
                        <button type="button" class="pick" aria-pressed={isPicked} title={`${value}\n(show in charts)`} onClick={() => props.onPick(key)}>
                          <span class="dot" aria-hidden="true" style={{ background: props.color(key) }} />
                          <bdi>{value}</bdi>
                        </button>
                      ) : opens ? (
                        <button type="button" class="number" tabIndex={isMeasure || (props.measure < 0 && i === 0) ? 0 : -1} title="Show details" onClick={() => props.onOpen?.(row, at)}>{text}</button>
                      ) : (
                        <bdi class="value" title={value.length > 24 ? value : undefined}>{text}</bdi>
                      )}
                      {column.name === "rank" && props.ranks && <Moved from={props.ranks.get(key)} to={numeric(row[at])} />}
                      {(low ?? null) !== null || (high ?? null) !== null ? <span class="interval">{` ${low === null ? "?" : shown(column, low)} – ${high === null ? "?" : shown(column, high)}`}</span> : null}
                    </td>
                  );
                })}
                {hasCourse && <td class="course"><Course of={props.course.get(key) ?? []} color={props.color(key)} /></td>}
              </tr>
            );
          })}
          {behind > 0 && <tr aria-hidden="true"><td colSpan={width} style={{ height: `${behind}px`, padding: 0 }} /></tr>}
        </tbody>
      </table>
    </div>
  );
}

/** The change of a rank since the previous window. */
function Moved({ from, to }: { from: number | undefined; to: number | null }) {
  if (to === null || from === to) return <span class="moved" />;
  if (from === undefined) return <span class="moved new">new</span>;
  const by = Math.abs(from - to);
  return <span class={`moved ${to < from ? "up" : "down"}`}><span aria-hidden="true">{to < from ? "▲" : "▼"}</span><span class="hidden">{to < from ? "up" : "down"} </span>{by}</span>;
}

/** A sparkline; gaps where there is no value. */
function Course({ of, color }: { of: (number | null)[]; color: string }) {
  const [w, h] = [96, 20];
  const there = of.filter((v) => v !== null);
  if (there.length < 2) return null;
  const top = Math.max(...there, 1e-9);
  const x = (i: number) => (of.length < 2 ? w : (i / (of.length - 1)) * (w - 4) + 2);
  let path = "";
  let isBroken = true;
  of.forEach((v, i) => {
    if (v === null) isBroken = true;
    else {
      path += `${isBroken ? "M" : "L"}${x(i).toFixed(1)} ${(h - 2 - (Math.max(0, v) / top) * (h - 4)).toFixed(1)}`;
      isBroken = false;
    }
  });
  return <svg width={w} height={h} viewBox={`0 0 ${w} ${h}`} aria-hidden="true"><path d={path} fill="none" stroke={color} stroke-width="1.5" stroke-linejoin="round" /></svg>;
}
