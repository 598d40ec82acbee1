// A measure of several groups over time, with 95 % bands, on a linear or logarithmic axis, and the same groups in an
// earlier period. Open windows are hatched; missing values break the line. The legend has the numbers.
import uPlot from "uplot";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Column, Row } from "../api/cells";
import { colorOf, dashOf } from "../common/colors";
import { axisTimes, heading, logTicks, millis, number, numeric, span, visible } from "../common/format";
import type { Result, Win } from "../results/model";
import { useWidth } from "../common/components";

/** The same groups in an earlier period. */
export interface Earlier {
  result: Result;
  windows: Win[];
  /** Time from it to the drawn period, in ns. */
  by: bigint;
}

interface Props {
  result: Result;
  windows: Win[];
  keys: string[];
  measure: number;
  isLogarithmic: boolean;
  earlier: Earlier | null;
  /** The window shown in the table. */
  at: string;
  onAt(start: string): void;
  /** Called when the user has dragged over a period. */
  onRange(from: string, to: string): void;
}

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const EARLIER_DASH = [2, 4];

/** A window with its rows by group, on the x axis (seconds). */
interface Placed {
  window: Win;
  from: number;
  to: number;
  rows: Map<string, Row>;
}

const placed = (result: Result, windows: Win[], by: bigint): Placed[] => {
  const ms = Number(by / 1_000_000n);
  return windows.map((window) => ({ window, from: (millis(window.start) + ms) / 1000, to: (millis(window.end) + ms) / 1000, rows: new Map(window.rows.map((row) => [result.key(row), row])) }));
};
const middle = ({ from, to }: Placed) => (from + to) / 2;
const under = (all: Placed[], x: number) => all.find(({ from, to }) => from <= x && x < to);

/** Points of one series: `undefined` where another series has the point, `null` where a window is missing. */
function points(all: Placed[], xs: number[], value: (row: Row) => number | null, key: string): (number | null | undefined)[] {
  const at = new Map(all.map((one) => [middle(one), one]));
  const length = all[0] ? all[0].to - all[0].from : 0;
  let before: number | undefined;
  return xs.map((x) => {
    const one = at.get(x);
    if (one) {
      before = x;
      const row = one.rows.get(key);
      return row ? value(row) : null;
    }
    return before !== undefined && length > 0 && x - before > length * 0.9 ? null : undefined;
  });
}

/** Positions of all windows, and one in each gap. */
function positions(...of: Placed[][]): number[] {
  const all = new Set<number>();
  for (const windows of of) {
    windows.forEach((one, i) => {
      const previous = windows[i - 1];
      const length = one.to - one.from;
      if (previous && length > 0 && one.from - previous.from > length * 1.5) all.add(middle(previous) + length);
      all.add(middle(one));
    });
  }
  return [...all].sort((a, b) => a - b);
}

/** The range of the x axis: all positions, and half a window on each side. A single window has its own length. */
function around(xs: ArrayLike<number>, [first]: Placed[]): [number, number] | null {
  const [from, to] = [xs[0], xs[xs.length - 1]];
  const half = first ? (first.to - first.from) / 2 : 0;
  return from === undefined || to === undefined || to + half <= from - half ? null : [from - half, to + half];
}

/** Lowest and highest value of a group in these windows. */
function extent(all: Placed[], key: string, measure: number): [number, number] | null {
  const values = all.flatMap(({ rows }) => numeric(rows.get(key)?.[measure]) ?? []);
  return values.length === 0 ? null : [Math.min(...values), Math.max(...values)];
}

export default function Chart({ result, windows, keys, measure, isLogarithmic, earlier, at, onAt, onRange }: Props) {
  const [host, width] = useWidth<HTMLDivElement>();
  const plot = useRef<uPlot | null>(null);
  /** The position of the pointer; null: outside. */
  const [pointed, setPointed] = useState<number | null>(null);
  const column = result.columns[measure] as Column;
  const [low, high] = [column.low, column.high].map((name) => (name === undefined ? -1 : result.at(name)));
  const hasBand = low !== undefined && high !== undefined && low >= 0 && high >= 0;
  const own = placed(result, windows, 0n);
  const old = earlier ? placed(earlier.result, earlier.windows, earlier.by) : [];
  const oldMeasure = earlier?.result.at(column.name) ?? -1;
  const xs = positions(own, old);
  const drawable = (of: number) => (row: Row) => {
    const value = numeric(row[of]);
    return value !== null && isLogarithmic && value <= 0 ? null : value;
  };
  const data = [
    xs,
    ...keys.map((key) => points(own, xs, drawable(measure), key)),
    ...(earlier ? keys.map((key) => points(old, xs, drawable(oldMeasure), key)) : []),
    ...(hasBand ? keys.flatMap((key) => [points(own, xs, drawable(low), key), points(own, xs, drawable(high), key)]) : []),
  ] as uPlot.AlignedData;
  const hidden = isLogarithmic ? keys.some((key) => own.some(({ rows }) => (numeric(rows.get(key)?.[measure]) ?? 1) <= 0)) : false;
  const latest = useRef({ own, data, onAt, onRange, at });
  latest.current = { own, data, onAt, onRange, at };

  const shape = `${keys.join("\u0000")}|${measure}|${width}|${hasBand}|${isLogarithmic}|${earlier !== null}`;
  useEffect(() => {
    const element = host.current;
    if (!element || width === 0) return;
    const make = () => {
      plot.current?.destroy();
      const grid = { stroke: css("--line"), width: 1 };
      const axis = { stroke: css("--muted"), grid, ticks: grid, font: `12px ${css("--sans")}` };
      const bandsFrom = 1 + keys.length * (earlier ? 2 : 1);
      const silent: uPlot.Series = { stroke: "transparent", points: { show: false } };
      const y: uPlot.Scale = isLogarithmic
        ? { distr: 3, log: 10, range: (_, min, max) => (min === null || max === null ? [1, 10] : [min / 1.3, max * 1.3]) }
        : { range: (_, min, max) => [Math.min(0, min ?? 0), (max ?? 1) <= 0 ? 1 : (max ?? 1) * 1.08] };
      plot.current = new uPlot(
        {
          width,
          height: Math.max(260, Math.min(innerWidth < 1920 ? 420 : 560, Math.round(width * 0.42))),
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
          padding: [12, 30, 0, 0],
          legend: { show: false },
          cursor: { y: false, points: { size: 8 }, drag: { x: true, y: false, setScale: false } },
          scales: { x: { range: (u, min, max) => around(u.data[0], latest.current.own) ?? [min, max] }, y },
          series: [
            {},
            ...keys.map((key): uPlot.Series => ({ label: visible(key), stroke: colorOf(key), dash: dashOf(key), width: 2, points: { show: own.length < 40, size: 5, fill: colorOf(key) } })),
            ...(earlier ? keys.map((key): uPlot.Series => ({ label: `${visible(key)}, earlier`, stroke: colorOf(key), dash: EARLIER_DASH, width: 1.5, points: { show: false } })) : []),
            ...(hasBand ? keys.flatMap((): uPlot.Series[] => [silent, silent]) : []),
          ],
          bands: hasBand ? keys.map((key, i): uPlot.Band => ({ series: [bandsFrom + 1 + 2 * i, bandsFrom + 2 * i], fill: `${colorOf(key)}33` })) : [],
          axes: [
            { ...axis, space: 90, values: (_, splits) => axisTimes(splits) },
            { ...axis, size: 78, values: (_, splits) => splits.map((split) => number(column.unit, split)), ...(isLogarithmic ? { splits: (_: uPlot, __: number, min: number, max: number) => logTicks(min, max), filter: (_: uPlot, splits: number[]) => splits } : {}) },
          ],
          hooks: {
            drawClear: [(u) => shade(u, latest.current.own, latest.current.at)],
            ready: [
              (u) =>
                u.over.addEventListener("click", () => {
                  const one = under(latest.current.own, u.posToVal(u.cursor.left ?? -1, "x"));
                  if (one) latest.current.onAt(one.window.start);
                }),
            ],
            setCursor: [(u) => setPointed((u.cursor.left ?? -1) < 0 ? null : u.posToVal(u.cursor.left ?? 0, "x"))],
            setSelect: [
              (u) => {
                if (u.select.width < 4) return;
                const [a, b] = [u.select.left, u.select.left + u.select.width].map((x) => u.posToVal(x, "x"));
                const within = latest.current.own.filter((one) => middle(one) >= (a ?? 0) && middle(one) <= (b ?? 0));
                u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
                if (within[0]) latest.current.onRange(within[0].window.start, (within.at(-1) as Placed).window.end);
              },
            ],
          },
        },
        latest.current.data,
        element,
      );
    };
    make();
    addEventListener("themechange", make);
    return () => {
      removeEventListener("themechange", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => {
    plot.current?.setData(data);
  }, [windows, earlier?.windows, shape, windows.at(-1)?.rows]);
  useEffect(() => plot.current?.redraw(false), [at]);

  const move = (by: number) => {
    const i = windows.findIndex((window) => window.start === at);
    const next = windows[Math.min(windows.length - 1, Math.max(0, (i < 0 ? windows.length - 1 : i) + by))];
    if (next) onAt(next.start);
  };
  const told = (pointed === null ? undefined : under(own, pointed)) ?? own.find(({ window }) => window.start === at) ?? own.at(-1);
  const toldOld = told && under(old, middle(told));
  const said = (value: number | null | undefined) => (value === null || value === undefined ? "–" : number(column.unit, value));
  return (
    <figure class="chart" data-caption={`${heading(column)} per window${isLogarithmic ? ", logarithmic axis" : ""}${hasBand ? ", band: 95 % interval" : ""}${earlier ? ", dotted: earlier period" : ""}`}>
      <div
        ref={host}
        class="plot"
        tabIndex={0}
        role="img"
        aria-label={`${column.name} of ${keys.length} groups over ${windows.length} windows; arrow keys select a window, the table shows its values`}
        onKeyDown={(event) => {
          if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
          event.preventDefault();
          move(event.key === "ArrowLeft" ? -1 : 1);
        }}
      />
      {hidden && <p class="muted small">Values of zero or less are not drawn on a logarithmic axis.</p>}
      <div class="scroll" tabIndex={0} role="region" aria-label="Legend">
        <table class="plain legend">
          <caption class="hidden">{heading(column)} of the drawn groups</caption>
          <thead>
            <tr>
              <th scope="col">{heading(column)}</th>
              <th scope="col" class="n when">{told ? span(told.window.start, told.window.end) : ""}</th>
              {earlier && <th scope="col" class="n">{toldOld ? `earlier, ${span(toldOld.window.start, toldOld.window.end)}` : "earlier"}</th>}
              <th scope="col" class="n">lowest</th><th scope="col" class="n">highest</th>
              {earlier && <th scope="col" class="n">earlier lowest</th>}{earlier && <th scope="col" class="n">earlier highest</th>}
            </tr>
          </thead>
          <tbody>
            {keys.map((key) => {
              const [now, before] = [extent(own, key, measure), earlier ? extent(old, key, oldMeasure) : null];
              return (
                <tr>
                  <th scope="row"><span class="dot" aria-hidden="true" style={{ background: colorOf(key) }} /> <bdi>{visible(key)}</bdi></th>
                  <td class="n value">{said(numeric(told?.rows.get(key)?.[measure]))}</td>
                  {earlier && <td class="n">{said(numeric(toldOld?.rows.get(key)?.[oldMeasure]))}</td>}
                  <td class="n">{said(now?.[0])}</td><td class="n">{said(now?.[1])}</td>
                  {earlier && <td class="n">{said(before?.[0])}</td>}{earlier && <td class="n">{said(before?.[1])}</td>}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

/** Shades the selected window and hatches open ones. */
function shade(u: uPlot, own: Placed[], at: string): void {
  const { ctx } = u;
  for (const { window, from, to } of own) {
    const isAt = window.start === at;
    if (!window.open && !isAt) continue;
    const [a, b] = [from, to].map((x) => Math.round(u.valToPos(x, "x", true)));
    const { left, top, width, height } = u.bbox;
    const [x1, x2] = [Math.max(a as number, left), Math.min(b as number, left + width)];
    if (x2 <= x1) continue;
    ctx.save();
    ctx.beginPath();
    ctx.rect(x1, top, x2 - x1, height);
    ctx.clip();
    if (isAt) {
      ctx.fillStyle = css("--select");
      ctx.fillRect(x1, top, x2 - x1, height);
    }
    if (window.open) {
      ctx.strokeStyle = css("--line");
      ctx.lineWidth = 2;
      for (let x = x1 - height; x < x2; x += 9) {
        ctx.beginPath();
        ctx.moveTo(x, top + height);
        ctx.lineTo(x + height, top);
        ctx.stroke();
      }
    }
    ctx.restore();
  }
}
