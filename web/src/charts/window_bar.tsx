// The windows as bars by number of rows: one is selected, open ones are hatched, incomplete and approximate ones marked. Dragging, or
// Shift and the arrow keys, selects a period.
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { clock, duration, many, millis, numeric } from "../common/format";
import type { Result, Win } from "../results/model";

interface Props {
  result: Result;
  windows: Win[];
  at: string;
  onAt(start: string): void;
  newest: boolean;
  onNewest(): void;
  /** The selected period, if any. */
  from: string;
  to: string;
  mark: string;
  onRange(from: string, to: string): void;
}

const SHOWN_MAX = 90;
/** Maximum width of a gap without windows, in bars. */
const GAP_MAX = 30;
/** Whether rows of a closed window are approximate: a capture began in it, or a sketch was used. */
export const isApproximate = (window: Win, at: number) => !window.open && at >= 0 && window.rows.some((row) => row[at] === true);
const before = (a: string, b: string) => a.length < b.length || (a.length === b.length && a < b);

export function Strip({ result, windows, at, onAt, newest, onNewest, from, to, mark, onRange }: Props) {
  const begun = useRef<Win | null>(null);
  /** The period while dragging; applied when the drag ends. */
  const dragged = useSignal<[from: string, to: string] | null>(null);
  const last = windows.slice(-SHOWN_MAX);
  const count = result.at("count");
  const size = (window: Win) => (count >= 0 ? window.rows.reduce((sum, row) => sum + (numeric(row[count]) ?? 0), 0) : window.rows.length);
  const sizes = last.map(size);
  const most = Math.max(...sizes, 1);
  const lost = result.at("lost");
  const missing = result.at("agents_missing");
  const approximate = result.at("approximate");
  const first = last[0];
  // Bars are positioned by time; missing windows leave space.
  const starts = last.map(({ start }) => millis(start));
  const steps = starts.slice(1).map((start, i) => start - (starts[i] as number));
  const step = Math.min(...steps.filter((ms) => ms > 0));
  const gap = (i: number) => (i === 0 ? 0 : Math.round((steps[i - 1] as number) / step) - 1);
  const range = (a: Win, b: Win): [string, string] => (before(b.start, a.start) ? [b.start, a.end] : [a.start, b.end]);
  const [within, until] = dragged.value ?? [from, to];
  const isWithin = (window: Win) => within !== "" && !before(window.start, within) && before(window.start, until);
  const end = () => {
    if (dragged.value) onRange(...dragged.value);
    dragged.value = begun.current = null;
  };
  return (
    <div class="strip">
      <span class="muted small">{first ? `${clock(first.start)} UTC` : ""}</span>
      <div class="bars" role="group" aria-label="Windows" onPointerUp={end} onPointerLeave={end}>
        {last.map((window, i) => {
          const isBad = !window.open && window.rows.some((row) => (numeric(row[lost]) ?? 0) > 0 || (missing >= 0 && row[missing] !== null));
          const isRough = isApproximate(window, approximate);
          const isMarked = mark !== "" && !before(mark, window.start) && before(mark, window.end);
          const missed = gap(i);
          return (
            <>
            {missed > 0 && <i title={`no windows for ${duration(missed * step * 1e6)}`} class={missed > GAP_MAX ? "cut" : ""} style={{ width: `${1.1 * Math.min(missed, GAP_MAX)}rem` }} />}
            <button
              type="button"
              tabIndex={window.start === at ? 0 : -1}
              aria-pressed={window.start === at}
              aria-label={`${clock(window.start)} to ${clock(window.end)}, ${window.open ? "open" : "closed"}, ${sizes[i]}${isBad ? ", incomplete" : ""}${isRough ? ", approximate" : ""}${isWithin(window) ? ", selected" : ""}`}
              title={`${clock(window.start)}–${clock(window.end)} UTC: ${many(sizes[i] ?? 0)}${window.open ? ", open" : ""}${isBad ? ", incomplete" : ""}${isRough ? ", approximate" : ""}`}
              class={`${window.open ? "open" : ""}${isBad ? " incomplete" : ""}${isRough ? " rough" : ""}${isWithin(window) ? " within" : ""}${isMarked ? " marked" : ""}`}
              onPointerDown={() => (begun.current = window)}
              onPointerEnter={(event) => {
                if (begun.current && event.buttons === 1) dragged.value = range(begun.current, window);
              }}
              onClick={() => onAt(window.start)}
              onKeyDown={(event) => {
                const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
                const next = last[i + by];
                if (by === 0 || !next) return;
                event.preventDefault();
                if (event.shiftKey) {
                  // The fixed end of the selected period.
                  const other = window.start === from ? last.find(({ end }) => end === to) : window.end === to ? last.find(({ start }) => start === from) : undefined;
                  onRange(...range(other ?? window, next));
                }
                onAt(next.start);
                const buttons = (event.currentTarget.parentElement as HTMLElement).querySelectorAll("button");
                buttons[i + by]?.focus();
              }}
            >
              <span style={{ height: `${Math.max(6, ((sizes[i] ?? 0) / most) * 100).toFixed(0)}%` }} />
            </button>
            </>
          );
        })}
      </div>
      <button type="button" disabled={newest} onClick={onNewest}>{newest ? "Newest" : "Go to newest"}</button>
    </div>
  );
}
