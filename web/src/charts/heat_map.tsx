// Heat maps over time, one for each group, with common bounds and one color scale.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Column } from "../api/cells";
import { heat } from "../common/colors";
import { axisTimes, heading, millis, number, span, visible } from "../common/format";
import { useWidth } from "../common/components";
import type { Result, Win } from "../results/model";
import { buckets, log, spreadColumn } from "./distribution";

/** Rows of cells per power of two. */
const FINE = 4;
const [LEFT, BOTTOM, CELL_MAX, SCALE_STEPS] = [72, 26, 28, 48];

interface Cells {
  window: Win;
  merged: Map<number, number>;
}

/** The numbers of a group by window and bin. */
function cellsOf(result: Result, windows: Win[], group: string): Cells[] {
  const at = spreadColumn(result);
  return windows.map((window) => {
    const row = window.rows.find((row) => result.key(row) === group);
    const merged = new Map<number, number>();
    for (const [bound, n] of buckets(result.columns[at] as Column, row?.[at])) {
      const bin = Math.floor(log(bound) * FINE);
      merged.set(bin, (merged.get(bin) ?? 0) + n);
    }
    return { window, merged };
  });
}

const lower = (bin: number) => Math.max(0, 2 ** (bin / FINE) - 1);
const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A canvas of this size in CSS pixels, cleared. */
function ready(canvas: HTMLCanvasElement | null, width: number, height: number): CanvasRenderingContext2D | null {
  const context = canvas?.getContext("2d");
  if (!canvas || !context || width <= 0) return null;
  const scale = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [width * scale, height * scale];
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.font = `12px ${css("--sans")}`;
  context.fillStyle = css("--muted");
  return context;
}

interface Scale {
  least: number;
  most: number;
  /** The largest number of a cell. */
  peak: number;
}

/** Heat maps of these groups. */
export function Heat({ result, windows, groups }: { result: Result; windows: Win[]; groups: string[] }) {
  const column = result.columns[spreadColumn(result)] as Column;
  const all = groups.map((group) => ({ group, cells: cellsOf(result, windows, group) }));
  const merged = all.flatMap(({ cells }) => cells.map((one) => one.merged));
  const scale: Scale = { least: Infinity, most: -Infinity, peak: 1e-9 };
  for (const map of merged) {
    for (const [bin, n] of map) {
      scale.least = Math.min(scale.least, bin);
      scale.most = Math.max(scale.most, bin);
      scale.peak = Math.max(scale.peak, n);
    }
  }
  if (scale.least > scale.most) return <p class="muted">These groups have no values in the loaded windows.</p>;
  const isShare = column.name.startsWith("cdf");
  const said = (n: number) => number(isShare ? "fraction" : "", n);
  return (
    <div class="heat">
      <ScaleBar peak={scale.peak} title={isShare ? "share per cell" : "values per cell"} said={said} />
      {all.map(({ group, cells }) => <One key={group} group={group} cells={cells} column={column} scale={scale} height={all.length === 1 ? 320 : all.length < 4 ? 220 : 150} said={said} />)}
    </div>
  );
}

/** Colors and the numbers that they stand for. */
function ScaleBar({ peak, title, said }: { peak: number; title: string; said(n: number): string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, height] = [320, 34];
  useEffect(() => {
    const context = ready(canvas.current, width, height);
    if (!context) return;
    for (let i = 0; i < SCALE_STEPS; i += 1) {
      context.fillStyle = heat(i / (SCALE_STEPS - 1));
      context.fillRect((i * width) / SCALE_STEPS, 0, width / SCALE_STEPS + 1, 14);
    }
    context.fillStyle = css("--muted");
    for (const [share, align] of [[0, "left"], [1 / 3, "center"], [2 / 3, "center"], [1, "right"]] as const) {
      context.textAlign = align;
      // The inverse of the color of a number.
      const n = Math.expm1(share * Math.log1p(peak));
      context.fillText(said(peak > 10 ? Math.round(n) : Number(n.toPrecision(2))), share * width, 29);
    }
  });
  return <figure class="scale" data-caption={title}><canvas ref={canvas} style={{ width: `${width}px`, height: `${height}px` }} role="img" aria-label={`Color scale: ${title}, from dark for 0 to bright for ${said(peak)}`} /><figcaption>{title}, logarithmic</figcaption></figure>;
}

function One({ group, cells, column, scale: { least, most, peak }, height, said }: { group: string; cells: Cells[]; column: Column; scale: Scale; height: number; said(n: number): string }) {
  const [host, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, setPointed] = useState("");
  const rows = most - least + 1;
  const w = Math.max(1, Math.min(CELL_MAX, (width - LEFT) / Math.max(1, cells.length)));
  const h = (height - BOTTOM) / rows;
  const newest = cells.at(-1);
  const drawn = `${width} ${cells.length} ${newest?.window.start} ${newest?.window.rows.length} ${newest?.window.open} ${peak} ${least} ${most}`;
  const draw = () => {
    const context = ready(canvas.current, width, height);
    if (!context) return;
    cells.forEach(({ window, merged }, i) => {
      for (const [bin, n] of merged) {
        context.fillStyle = heat(Math.log1p(n) / Math.log1p(peak));
        context.fillRect(LEFT + i * w, (most - bin) * h, Math.max(1, w - 1), Math.max(1, h - 1));
      }
      if (!window.open) return;
      context.strokeStyle = css("--muted");
      context.setLineDash([3, 3]);
      context.strokeRect(LEFT + i * w + 0.5, 0.5, w - 1, height - BOTTOM - 1);
      context.setLineDash([]);
    });
    context.fillStyle = css("--muted");
    context.textAlign = "right";
    const apart = Math.max(1, Math.ceil((rows * 26) / (height - BOTTOM)));
    for (let bin = least; bin <= most; bin += apart) context.fillText(number(column.unit, Number(lower(bin + 1).toPrecision(2))), LEFT - 8, (most - bin) * h + 10);
    context.textAlign = "left";
    const step = Math.max(1, Math.ceil(100 / w));
    const marked = cells.filter((_, i) => i % step === 0);
    axisTimes(marked.map(({ window }) => millis(window.start) / 1000)).forEach((text, i) => context.fillText(text, LEFT + i * step * w, height - 8));
  };
  useEffect(draw, [drawn]);
  useEffect(() => {
    addEventListener("themechange", draw);
    return () => removeEventListener("themechange", draw);
  });
  return (
    <figure data-caption={`${visible(group)}: ${heading(column)} per window`}>
      <div ref={host}>
        <canvas
          ref={canvas}
          style={{ width: `${width}px`, height: `${height}px` }}
          role="img"
          aria-label={`Heat map of ${column.name} of ${visible(group)} over ${cells.length} windows`}
          onMouseLeave={() => setPointed("")}
          onMouseMove={(event) => {
            const cell = cells[Math.floor((event.offsetX - LEFT) / w)];
            const bin = most - Math.floor(event.offsetY / h);
            const n = cell?.merged.get(bin);
            setPointed(cell && n !== undefined ? `${span(cell.window.start, cell.window.end)} UTC · ${number(column.unit, lower(bin))} to ${number(column.unit, lower(bin + 1))} · ${said(n)}` : "");
          }}
        />
      </div>
      <figcaption><bdi>{visible(group)}</bdi> {pointed !== "" && <span>· {pointed}</span>}</figcaption>
    </figure>
  );
}
