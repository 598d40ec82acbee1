// Small components shared by all pages.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Refused, lasting } from "../api/client";
import { visible } from "./format";

/** Foreign text, displayed literally. */
export const Text = ({ of }: { of: string }) => <bdi>{visible(of)}</bdi>;

/** The error message in place of content that cannot be shown. */
export function Notice({ kind = "info", children }: { kind?: "info" | "bad" | "warn"; children: ComponentChildren }) {
  const word = { info: "Note", bad: "Error", warn: "Warning" }[kind];
  return (
    <div class={`notice ${kind}`} role={kind === "bad" ? "alert" : "status"}>
      <strong>{word}.</strong> <span>{children}</span>
    </div>
  );
}

export const said = (error: unknown) => (error instanceof Refused ? visible(error.message) : String((error as Error)?.message ?? error));

export const Empty = ({ title, children }: { title: string; children?: ComponentChildren }) => (
  <div class="empty">
    <p class="empty-title">{title}</p>
    {children}
  </div>
);

/** Loads data; retries while the server does not answer, and refreshes every `every` milliseconds while mounted. Responses for another `on` are ignored. */
export function useAsked<T>(load: (signal: AbortSignal) => Promise<T>, on: (string | boolean)[], every = 0) {
  const of = on.join("\u0000");
  const [told, setTold] = useState<{ of: string; answer?: T; error?: unknown }>({ of });
  const [times, setTimes] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const failed = (error: unknown) => {
      if (!abort.signal.aborted) setTold((before) => ({ ...(before.of === of ? before : { of }), error }));
    };
    const once = async () => {
      if (!document.hidden || every === 0) {
        const answer = await lasting(() => load(abort.signal), abort.signal, failed).catch(failed);
        if (answer !== undefined && !abort.signal.aborted) setTold({ of, answer });
      }
      if (every > 0 && !abort.signal.aborted) timer = setTimeout(() => void once(), every);
    };
    void once();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [of, times]);
  const { answer, error }: { answer?: T; error?: unknown } = told.of === of ? told : {};
  return { answer, error, again: () => setTimes((n) => n + 1) };
}

/** A state with a symbol in addition to its color. */
export function State({ of }: { of: string }) {
  const sign: Record<string, string> = {
    running: "●", connected: "●", ok: "●", up: "●", planned: "○", arming: "◐", draining: "◑", pending: "◐", ended: "■", disconnected: "✕", firing: "▲", failed: "✕",
    broken: "✕", failing: "✕", carrying_out: "◐", retrying: "◐", no_data: "○", missing_agents: "◌", resolved: "✓",
  };
  const kind = ["running", "connected", "ok", "up"].includes(of) ? "good" : ["disconnected", "firing", "failed", "failing", "broken"].includes(of) ? "bad" : "plain";
  return (
    <span class={`state ${kind}`}>
      <span aria-hidden="true">{sign[of] ?? "•"}</span> {of.replaceAll("_", " ")}
    </span>
  );
}

/** A native dialog, for correct keyboard and focus handling. */
export function Dialog({ title, close, kind = "", children }: { title: string; close: () => void; kind?: string; children: ComponentChildren }) {
  const at = useRef<HTMLDialogElement>(null);
  useEffect(() => at.current?.showModal(), []);
  return (
    <dialog ref={at} class={kind} aria-label={visible(title)} onClose={close}>
      <header class="dialog-head">
        <h2><Text of={title} /></h2>
        <button type="button" class="quiet" aria-label="Close" onClick={() => at.current?.close()}>✕</button>
      </header>
      {children}
    </dialog>
  );
}

/** Shows a short notice. */
export function Copy({ text, children }: { text: () => string; children: ComponentChildren }) {
  const [done, setDone] = useState(false);
  return (
    <button
      type="button"
      onClick={() => {
        void navigator.clipboard?.writeText(text()).then(() => {
          setDone(true);
          setTimeout(() => setDone(false), 1500);
        });
      }}
    >
      {done ? "Copied" : children}
    </button>
  );
}

/** The current width of an element. */
export function useWidth<E extends HTMLElement>() {
  const at = useRef<E>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = at.current;
    if (!element) return;
    const watch = new ResizeObserver((entries) => setWidth(Math.floor(entries[0]?.contentRect.width ?? 0)));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  return [at, width] as const;
}
