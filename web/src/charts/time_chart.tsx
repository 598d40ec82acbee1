// A measure of several groups over time, with 95 % bands. Open windows are hatched; missing values break the line.
import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import type { Column } from "../api/cells";
import { colourOf, dashOf } from "../common/colors";
import { clock, millis, number, numeric, visible } from "../common/format";
import type { Result, Win } from "../results/model";
import { useWidth } from "../common/components";

interface Props {
  result: Result;
  windows: Win[];
  keys: string[];
  measure: number;
  /** The window shown in the table. */
  at: string;
  onAt(start: string): void;
  /** Called when the user has dragged over a period. */
  onRange(from: string, to: string): void;
}

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The x position of a window: its middle, in seconds. */
const middle = ({ start, end }: Win) => (millis(start) + millis(end)) / 2000;

export default function Chart({ result, windows, keys, measure, at, onAt, onRange }: Props) {
  const [host, width] = useWidth<HTMLDivElement>();
  const plot = useRef<uPlot | null>(null);
  const column = result.columns[measure] as Column;
  const [low, high] = [column.low, column.high].map((name) => (name === undefined ? -1 : result.at(name)));
  const hasBand = low !== undefined && high !== undefined && low >= 0 && high >= 0;
  const latest = useRef({ windows, onAt, onRange, at });
  latest.current = { windows, onAt, onRange, at };

  // A missing window is a gap in the line.
  const length = windows.length > 0 ? millis((windows[0] as Win).end) - millis((windows[0] as Win).start) : 0;
  const xs: number[] = [];
  const rows: (Map<string, Win["rows"][number]> | null)[] = [];
  for (const window of windows) {
    const x = middle(window);
    const before = xs.at(-1);
    if (before !== undefined && length > 0 && x - before > (length / 1000) * 1.5) {
      xs.push(before + length / 1000);
      rows.push(null);
    }
    xs.push(x);
    rows.push(new Map(window.rows.map((row) => [result.key(row), row])));
  }
  const values = (key: string, of: number) => rows.map((map) => numeric(map?.get(key)?.[of] ?? null));
  const data = [xs, ...keys.map((key) => values(key, measure)), ...(hasBand ? keys.flatMap((key) => [values(key, low), values(key, high)]) : [])] as uPlot.AlignedData;

  const shape = `${keys.join("\u0000")}|${measure}|${width}|${hasBand}`;
  useEffect(() => {
    const element = host.current;
    if (!element || width === 0) return;
    const make = () => {
      plot.current?.destroy();
      const ink = css("--muted");
      const grid = { stroke: css("--line"), width: 1 };
      const axis = { stroke: ink, grid, ticks: grid, font: `12px ${css("--sans")}` };
      const series: uPlot.Series[] = [
        {},
        ...keys.map((key): uPlot.Series => ({ label: visible(key), stroke: colourOf(key), dash: dashOf(key), width: 2, points: { show: xs.length < 40, size: 5, fill: colourOf(key) } })),
        ...(hasBand ? keys.flatMap((): uPlot.Series[] => [{ stroke: "transparent", points: { show: false } }, { stroke: "transparent", points: { show: false } }]) : []),
      ];
      const bands = hasBand ? keys.map((key, i): uPlot.Band => ({ series: [keys.length + 2 + 2 * i, keys.length + 1 + 2 * i], fill: `${colourOf(key)}33` })) : [];
      plot.current = new uPlot(
        {
          width,
          height: Math.max(260, Math.min(420, Math.round(width * 0.42))),
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
          padding: [12, 30, 0, 0],
          legend: { show: false },
          cursor: { y: false, points: { size: 8 }, drag: { x: true, y: false, setScale: false } },
          scales: { x: { range: (_, min, max) => [min - length / 2000, max + length / 2000] }, y: { range: (_, min, max) => [Math.min(0, min ?? 0), (max ?? 1) <= 0 ? 1 : (max ?? 1) * 1.08] } },
          series,
          bands,
          axes: [{ ...axis, space: 90, values: (_, splits) => splits.map((x) => (x === Math.trunc(x) ? new Date(x * 1000).toISOString().slice(11, 19) : "")) }, { ...axis, size: 78, values: (_, splits) => splits.map((split) => number(column.unit, split)) }],
          hooks: {
            drawClear: [(u) => hatch(u)],
            ready: [
              (u) =>
                u.over.addEventListener("click", () => {
                  const window = latest.current.windows.find((window) => middle(window) === u.data[0][u.cursor.idx ?? -1]);
                  if (window) latest.current.onAt(window.start);
                }),
            ],
            setCursor: [(u) => tell(u)],
            setSelect: [
              (u) => {
                if (u.select.width < 4) return;
                const [a, b] = [u.select.left, u.select.left + u.select.width].map((x) => u.posToVal(x, "x"));
                const within = latest.current.windows.filter((window) => middle(window) >= (a ?? 0) && middle(window) <= (b ?? 0));
                u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
                if (within[0]) latest.current.onRange(within[0].start, (within.at(-1) as Win).end);
              },
            ],
          },
        },
        data,
        element,
      );
    };
    const hatch = (u: uPlot) => {
      const { ctx } = u;
      for (const window of latest.current.windows) {
        const isAt = window.start === latest.current.at;
        if (!window.open && !isAt) continue;
        const [a, b] = [millis(window.start) / 1000, millis(window.end) / 1000].map((x) => Math.round(u.valToPos(x, "x", true)));
        const { left, top, width: w, height: h } = u.bbox;
        const from = Math.max(a as number, left);
        const to = Math.min(b as number, left + w);
        if (to <= from) continue;
        ctx.save();
        ctx.beginPath();
        ctx.rect(from, top, to - from, h);
        ctx.clip();
        if (isAt) {
          ctx.fillStyle = css("--select");
          ctx.fillRect(from, top, to - from, h);
        }
        if (window.open) {
          ctx.strokeStyle = css("--line");
          ctx.lineWidth = 2;
          for (let x = from - h; x < to; x += 9) {
            ctx.beginPath();
            ctx.moveTo(x, top + h);
            ctx.lineTo(x + h, top);
            ctx.stroke();
          }
        }
        ctx.restore();
      }
    };
    const tell = (u: uPlot) => {
      const idx = u.cursor.idx;
      const out = element.parentElement?.querySelector("figcaption");
      if (!out) return;
      const x = idx === null || idx === undefined ? undefined : u.data[0][idx];
      const window = latest.current.windows.find((window) => middle(window) === x);
      const when = window ? `${clock(window.start)}–${clock(window.end)} UTC` : "";
      out.querySelector(".when")!.textContent = when;
      keys.forEach((_, i) => {
        const value = idx === null || idx === undefined ? null : (u.data[i + 1]?.[idx] ?? null);
        const cell = out.querySelectorAll(".legend .value")[i];
        if (cell) cell.textContent = value === null ? "" : number(column.unit, value);
      });
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
  });

  const move = (by: number) => {
    const i = windows.findIndex((window) => window.start === at);
    const next = windows[Math.min(windows.length - 1, Math.max(0, (i < 0 ? windows.length - 1 : i) + by))];
    if (next) onAt(next.start);
  };
  return (
    <figure class="chart">
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
      <figcaption>
        <span class="when" />
        <ul class="legend">
          {keys.map((key) => (
            <li><span class="dot" aria-hidden="true" style={{ background: colourOf(key) }} /> <bdi>{visible(key)}</bdi> <span class="value" /></li>
          ))}
        </ul>
      </figcaption>
    </figure>
  );
}
