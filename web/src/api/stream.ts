// The live stream of jobs. It reconnects with the last event id, so that no event is missed or repeated. A hidden tab
// closes it, because browsers limit connections.
import { signal } from "@preact/signals";
import { refusal } from "./client";
import type { AccountEvent, AlertShown, ByeEvent, GapEvent, HelloEvent, JobEvent, SamplingEvent, SnapshotEvent, WindowEvent } from "./schema";

interface Events {
  hello: HelloEvent;
  snapshot: SnapshotEvent;
  window: WindowEvent;
  account: AccountEvent;
  sampling: SamplingEvent;
  job: JobEvent;
  alert: AlertShown;
  gap: GapEvent;
  bye: ByeEvent;
}

export type Event = { [Kind in keyof Events]: { kind: Kind; data: Events[Kind] } }[keyof Events];
export type StreamState =
  | { is: "connecting" }
  | { is: "live" }
  | { is: "waiting"; until: number; why: string }
  | { is: "over"; why: string };

const RETRY_MIN_MS = 1_000;
const RETRY_MAX_MS = 15_000;
/** Heartbeat interval of the server: ten seconds. */
const SILENCE_MS = 25_000;
/** Minimum interval between batches of events. */
const HAND_ON_MS = 250;

export class Stream {
  readonly state = signal<StreamState>({ is: "connecting" });
  private last = "";
  private wait = RETRY_MIN_MS;
  private abort: AbortController | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private waiting: Event[] = [];
  private closed = false;
  private readonly look = () => (document.hidden ? this.pause() : this.resume());

  /** Streams these jobs; `on` receives all events of a quarter second at once. */
  constructor(
    private readonly jobs: string[] | null,
    private readonly on: (events: Event[]) => void,
  ) {
    document.addEventListener("visibilitychange", this.look);
    void this.run();
  }

  close(): void {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.look);
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  /** Reconnects now. */
  now(): void {
    if (this.state.value.is !== "waiting") return;
    clearTimeout(this.timer);
    void this.run();
  }

  private pause(): void {
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  private resume(): void {
    if (!this.closed && this.state.value.is !== "over") void this.run();
  }

  private async run(): Promise<void> {
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    this.state.value = { is: "connecting" };
    let why = "the connection was lost";
    try {
      const query = this.jobs === null ? "" : `?jobs=${this.jobs.map(encodeURIComponent).join(",")}`;
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (this.last !== "") headers["Last-Event-ID"] = this.last;
      const response = await fetch(`/api/v1/stream${query}`, { headers, signal: abort.signal, credentials: "same-origin" });
      if (!response.ok || !response.body) {
        const refused = await refusal(response);
        if (refused.status >= 400 && refused.status < 500 && refused.status !== 429) {
          this.state.value = { is: "over", why: refused.message };
          return;
        }
        throw refused;
      }
      this.state.value = { is: "live" };
      this.wait = RETRY_MIN_MS;
      why = (await this.read(response.body, abort)) ?? why;
    } catch (error) {
      if (this.closed || abort !== this.abort) return;
      if ((error as Error).name === "AbortError") {
        if (document.hidden) return;
        why = "the server sent nothing for 25 s";
      } else {
        why = (error as Error).name === "Refused" ? (error as Error).message : "the server is not responding";
      }
    }
    if (this.closed || abort !== this.abort || document.hidden) return;
    this.state.value = { is: "waiting", until: Date.now() + this.wait, why };
    this.timer = setTimeout(() => void this.run(), this.wait);
    this.wait = Math.min(this.wait * 2, RETRY_MAX_MS);
  }

  /** Reads events until the stream ends; returns the server's reason, if any. */
  private async read(body: ReadableStream<Uint8Array>, abort: AbortController): Promise<string | undefined> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    let bye: string | undefined;
    for (;;) {
      const silent = setTimeout(() => abort.abort(), SILENCE_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(silent));
      if (done) return bye;
      text += decoder.decode(value, { stream: true });
      const events = text.split("\n\n");
      text = events.pop() ?? "";
      for (const event of events) {
        const field = (name: string) =>
          event.split("\n").filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).replace(/^ /, ""));
        const id = field("id")[0];
        if (id !== undefined) this.last = id;
        const data = field("data").join("\n");
        if (data === "") continue;
        const read = { kind: field("event")[0], data: JSON.parse(data) } as Event;
        if (read.kind === "bye") bye = read.data.reason;
        this.push(read);
      }
    }
  }

  private push(event: Event): void {
    this.waiting.push(event);
    if (this.waiting.length > 1) return;
    setTimeout(() => {
      const events = this.waiting;
      this.waiting = [];
      if (!this.closed) this.on(events);
    }, HAND_ON_MS);
  }
}
