// Distributions: histogram of a group, CDFs of all groups. Bucket bounds are equal in all windows.
import type { Cell, Column, Row } from "../api/cells";
import { colorOf, dashOf } from "../common/colors";
import { heading, number, visible } from "../common/format";
import type { Result, Win } from "../results/model";
import { useWidth } from "../common/components";

export type Bucket = [number, number];

/** The column with histograms or cumulative shares. */
export const spreadColumn = (result: Result) => result.columns.findIndex((column) => column.type === "json" && /^(hist|cdf)/.test(column.name));

export function buckets(column: Column, cell: Cell | undefined): Bucket[] {
  if (!Array.isArray(cell)) return [];
  const all = cell.map(([bound, n]): Bucket => [Number(bound), Number(n)]);
  // Differences of cumulative shares give the bucket counts.
  return column.name.startsWith("cdf") ? all.map(([bound, share], i) => [bound, share - (all[i - 1]?.[1] ?? 0)]) : all;
}

/** Groups by their number of values in these windows, largest first. */
export function fullest(result: Result, windows: Win[]): string[] {
  const at = spreadColumn(result);
  const sums = new Map<string, number>();
  for (const { rows } of windows) {
    for (const row of rows) {
      const key = result.key(row);
      sums.set(key, (sums.get(key) ?? 0) + buckets(result.columns[at] as Column, row[at]).reduce((sum, [, n]) => sum + n, 0));
    }
  }
  return [...sums].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).map(([key]) => key);
}

/** Buckets per power of two in a histogram; the height of one. */
const FINE = 6;
const BAND = 56;

/** A position on a logarithmic axis; values up to zero have a separate one. */
export const log = (v: number) => (v <= 0 ? -1 : Math.log2(1 + v));

function ticks(from: number, to: number, most: number): number[] {
  const all: number[] = [];
  for (let p = Math.ceil(Math.log10(Math.max(1, 2 ** from - 1))); p <= Math.log10(Math.max(1, 2 ** to - 1)); p += 1) all.push(10 ** p);
  const step = Math.max(1, Math.ceil(all.length / most));
  return all.filter((_, i) => i % step === 0);
}

export function Spread({ result, rows, keys }: { result: Result; rows: Row[]; keys: string[] }) {
  const [host, width] = useWidth<HTMLDivElement>();
  const at = spreadColumn(result);
  const column = result.columns[at] as Column;
  const of = keys.flatMap((key) => {
    const row = rows.find((row) => result.key(row) === key);
    const all = buckets(column, row?.[at]);
    return all.length > 0 ? [{ key, all, sum: all.reduce((sum, [, n]) => sum + n, 0) }] : [];
  });
  const bounds = of.flatMap(({ all }) => all.map(([bound]) => log(bound)));
  const [from, to] = [Math.min(...bounds, 0), Math.max(...bounds, 1)];
  const least = bounds.length > 0 ? Math.max(-1, Math.min(...bounds) - 0.5) : from;
  const [left, right, height] = [56, 16, 240];
  const x = (v: number) => left + ((log(v) - least) / Math.max(0.001, to + 0.1 - least)) * (width - left - right);
  const axis = ticks(Math.max(0, least), to, Math.max(2, Math.floor(width / 110)));
  const bins = of.map(({ key, all, sum }) => {
    const merged = new Map<number, number>();
    for (const [bound, n] of all) {
      const bin = Math.ceil(log(bound) * FINE) / FINE;
      merged.set(bin, (merged.get(bin) ?? 0) + n / Math.max(sum, 1e-12));
    }
    return { key, merged, peak: Math.max(...merged.values(), 1e-12) };
  });
  const place = (bin: number) => left + ((bin - least) / Math.max(0.001, to + 0.1 - least)) * (width - left - right);
  const grid = axis.map((v) => (
    <g>
      <line x1={x(v)} x2={x(v)} y1={10} y2={height - 28} class="grid" />
      <text x={x(v)} y={height - 10} text-anchor="middle">{number(column.unit, v)}</text>
    </g>
  ));
  return (
    <div class="spread" ref={host}>
      {of.length === 0 && <p class="muted">The drawn groups have no values in this window.</p>}
      {width > 0 && of.length > 0 && (
        <>
          <figure>
            <svg width={width} height={of.length * BAND + 34} role="img" aria-label={`Histograms of ${column.name} for ${of.length} groups; the table below lists their quantiles`}>
              {axis.map((v) => (
                <g>
                  <line x1={x(v)} x2={x(v)} y1={6} y2={of.length * BAND + 6} class="grid" />
                  <text x={x(v)} y={of.length * BAND + 26} text-anchor="middle">{number(column.unit, v)}</text>
                </g>
              ))}
              {bins.map(({ key, merged, peak }, i) => (
                <g>
                  <line x1={left} x2={width - right} y1={(i + 1) * BAND} y2={(i + 1) * BAND} class="grid" />
                  {[...merged].map(([bin, share]) => {
                    const w = Math.max(3, place(bin) - place(bin - 1 / FINE) - 1);
                    const h = Math.max(1.5, (share / peak) * (BAND - 24));
                    return <rect x={place(bin) - w} y={(i + 1) * BAND - h} width={w} height={h} fill={colorOf(key)} />;
                  })}
                  <text x={left} y={i * BAND + 16} class="band">{visible(key).slice(0, Math.floor(width / 9))}</text>
                </g>
              ))}
            </svg>
            <figcaption>Histogram per group, scaled to its highest bar</figcaption>
          </figure>
          <figure>
            <svg width={width} height={height} role="img" aria-label={`Cumulative distribution of ${of.length} groups`}>
              {grid}
              {[0, 0.5, 0.9, 1].map((share) => (
                <g>
                  <line x1={left} x2={width - right} y1={10 + (1 - share) * (height - 38)} y2={10 + (1 - share) * (height - 38)} class="grid" />
                  <text x={left - 8} y={14 + (1 - share) * (height - 38)} text-anchor="end">{share * 100} %</text>
                </g>
              ))}
              {of.map(({ key, all, sum }) => {
                let share = 0;
                let path = "";
                for (const [bound, n] of all) {
                  path += `${path === "" ? "M" : "L"}${x(bound).toFixed(1)} ${(10 + (1 - share / sum) * (height - 38)).toFixed(1)}`;
                  share += n;
                  path += `L${x(bound).toFixed(1)} ${(10 + (1 - share / sum) * (height - 38)).toFixed(1)}`;
                }
                return <path d={path} fill="none" stroke={colorOf(key)} stroke-width="2" stroke-dasharray={dashOf(key).join(" ")} />;
              })}
            </svg>
            <figcaption>Cumulative distribution</figcaption>
          </figure>
          <table class="plain legend">
            <caption class="hidden">Quantiles of the drawn groups</caption>
            <thead><tr><th scope="col">{heading(column)}</th>{QUANTILES.map((q) => <th scope="col" class="n">{q * 100} %</th>)}</tr></thead>
            <tbody>{of.map(({ key, all, sum }) => <tr><th scope="row"><span class="dot" aria-hidden="true" style={{ background: colorOf(key) }} /> <bdi>{visible(key)}</bdi></th>{QUANTILES.map((q) => <td class="n">≤ {number(column.unit, quantile(all, sum, q))}</td>)}</tr>)}</tbody>
          </table>
        </>
      )}
    </div>
  );
}

const QUANTILES = [0.5, 0.9, 0.99];

function quantile(all: Bucket[], sum: number, q: number): number {
  let n = 0;
  for (const [bound, more] of all) {
    n += more;
    if (n >= sum * q - 1e-9) return bound;
  }
  return all.at(-1)?.[0] ?? 0;
}
