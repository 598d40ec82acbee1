// The windows that are here, as bars of how many rows they have: one is chosen, the open one is hatched, what was lost is marked. Several are
// chosen by dragging over them, or with Shift and the arrow keys: a time that is compared with another, or asked for as a whole.
import { useRef } from "preact/hooks";
import { clock, many, numeric } from "./format";
import type { Result, Win } from "./model";

interface Props {
  result: Result;
  windows: Win[];
  at: string;
  onAt(start: string): void;
  newest: boolean;
  onNewest(): void;
  /** The time that is chosen, if one is. */
  from: string;
  to: string;
  mark: string;
  onRange(from: string, to: string): void;
}

const SHOWN_MAX = 90;
const before = (a: string, b: string) => a.length < b.length || (a.length === b.length && a < b);

export function Strip({ result, windows, at, onAt, newest, onNewest, from, to, mark, onRange }: Props) {
  const begun = useRef<{ i: number; moved: boolean } | null>(null);
  const last = windows.slice(-SHOWN_MAX);
  const count = result.at("count");
  const size = (window: Win) => (count >= 0 ? window.rows.reduce((sum, row) => sum + (numeric(row[count]) ?? 0), 0) : window.rows.length);
  const sizes = last.map(size);
  const most = Math.max(...sizes, 1);
  const lost = result.at("lost");
  const missing = result.at("agents_missing");
  const first = last[0];
  const choose = (a: number, b: number) => {
    const [low, high] = [last[Math.min(a, b)], last[Math.max(a, b)]];
    if (low && high) onRange(low.start, high.end);
  };
  const isWithin = (window: Win) => from !== "" && !before(window.start, from) && before(window.start, to);
  return (
    <div class="strip">
      <span class="muted small">{first ? `${clock(first.start)} UTC` : ""}</span>
      <div class="bars" role="group" aria-label="Windows" onPointerUp={() => (begun.current = null)} onPointerLeave={() => (begun.current = null)}>
        {last.map((window, i) => {
          const isBad = !window.open && window.rows.some((row) => (numeric(row[lost]) ?? 0) > 0 || (missing >= 0 && row[missing] !== null));
          const isMarked = mark !== "" && !before(mark, window.start) && before(mark, window.end);
          return (
            <button
              type="button"
              tabIndex={window.start === at ? 0 : -1}
              aria-pressed={window.start === at}
              aria-label={`${clock(window.start)} to ${clock(window.end)}, ${window.open ? "open" : "closed"}, ${sizes[i]}${isBad ? ", incomplete" : ""}${isWithin(window) ? ", chosen" : ""}`}
              title={`${clock(window.start)}–${clock(window.end)} UTC: ${many(sizes[i] ?? 0)}${window.open ? ", still open" : ""}${isBad ? ", incomplete" : ""}`}
              class={`${window.open ? "open" : ""}${isBad ? " incomplete" : ""}${isWithin(window) ? " within" : ""}${isMarked ? " marked" : ""}`}
              onPointerDown={() => (begun.current = { i, moved: false })}
              onPointerEnter={(event) => {
                if (!begun.current || event.buttons !== 1) return;
                begun.current.moved = true;
                choose(begun.current.i, i);
              }}
              onClick={() => onAt(window.start)}
              onKeyDown={(event) => {
                const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
                const next = last[i + by];
                if (by === 0 || !next) return;
                event.preventDefault();
                if (event.shiftKey) {
                  // From where the time that is chosen ends on the other side.
                  const ends = [last.findIndex(({ start }) => start === from), last.findIndex(({ end }) => end === to)];
                  const other = ends[0] === i ? ends[1] : ends[1] === i ? ends[0] : i;
                  choose(other === undefined || other < 0 ? i : other, i + by);
                }
                onAt(next.start);
                const buttons = (event.currentTarget.parentElement as HTMLElement).children;
                (buttons[i + by] as HTMLElement).focus();
              }}
            >
              <span style={{ height: `${Math.max(6, ((sizes[i] ?? 0) / most) * 100).toFixed(0)}%` }} />
            </button>
          );
        })}
      </div>
      <button type="button" disabled={newest} onClick={onNewest}>{newest ? "newest" : "to the newest"}</button>
    </div>
  );
}
