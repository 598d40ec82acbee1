// Rows of a scrolled table of which only the visible ones are drawn.
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import { useEffect, useReducer, useRef } from "preact/hooks";

/** Height of every row in px, as in the style of `.rows tr`. */
const ROW_PX = 34;
/** Rows drawn on each side of the visible ones. */
const AROUND = 12;

/** The positions of the drawn rows, and the heights in px of the others before and behind them. */
export function useVirtualRows(count: number) {
  const scroll = useRef<HTMLDivElement>(null);
  const [, draw] = useReducer((n: number) => n + 1, 0);
  const virtual = useRef<Virtualizer<HTMLDivElement, HTMLTableRowElement> | null>(null);
  const options = {
    count,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: AROUND,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    initialRect: { width: 800, height: 600 },
    onChange: () => draw(0),
  };
  virtual.current ??= new Virtualizer(options);
  virtual.current.setOptions(options);
  useEffect(() => virtual.current?._didMount(), []);
  useEffect(() => virtual.current?._willUpdate());
  const items = virtual.current.getVirtualItems();
  const [first, last] = [items[0], items.at(-1)];
  return { scroll, drawn: items.map(({ index }) => index), before: first?.start ?? 0, behind: virtual.current.getTotalSize() - (last?.end ?? 0) };
}
