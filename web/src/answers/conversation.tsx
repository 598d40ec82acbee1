// Packets of a flow of a capture: what its sides sent, with the tuples of each request, and a file for other programs.
import { useSignal } from "@preact/signals";
import { ask, askKept, refusal } from "../api/client";
import type { Conversation, ConversationTurn, FetchedPackets, PacketFetch } from "../api/schema";
import { Notice, Text, said, useAsked } from "../common/components";
import { bytes, duration, many, time, visible } from "../common/format";
import { hand } from "./saved_file";
import { begunIn, bytesOf, hexLines, isTextual, textLines } from "./turns";

/** A tuple of the flow as one line. */
export interface Decoded {
  ts: string;
  text: string;
}

interface Props {
  recording: string;
  flow: string;
  decoded: Decoded[];
}

const address = (what: string, { recording, flow }: Props) => `/api/v1/recordings/${encodeURIComponent(recording)}/${what}?flow=${encodeURIComponent(flow)}`;

/** Buttons for the conversation and the file. */
export function Packets(props: Props) {
  const isOpen = useSignal(false);
  const failed = useSignal("");
  const note = useSignal("");
  const save = async () => {
    failed.value = note.value = "";
    const response = await fetch(address("packets", props), { credentials: "same-origin" });
    if (!response.ok) throw await refusal(response);
    note.value = response.headers.get("netalytics-note") ?? "";
    hand(`flow-${props.flow}.pcapng`, "application/x-pcapng", await response.blob());
  };
  return (
    <>
      <div class="tools">
        <button type="button" aria-expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)}>Conversation</button>
        <button type="button" onClick={() => void save().catch((why) => (failed.value = said(why)))}>Download pcapng</button>
      </div>
      {note.value !== "" && <Notice>{visible(note.value)}</Notice>}
      {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
      {isOpen.value && <Turns {...props} />}
    </>
  );
}

/** Packets kept by agents: fetched on request into an upload. `ts`: a time within the flow. */
export function KeptPackets({ flow, ts, decoded }: { flow: PacketFetch; ts: string; decoded: Decoded[] }) {
  const found = useSignal<{ fetched: FetchedPackets; flow: string } | null>(null);
  const isBusy = useSignal(false);
  const failed = useSignal("");
  const load = async () => {
    failed.value = "";
    const fetched = await ask<FetchedPackets>("POST", "/api/v1/packets", flow);
    const { rows = [] } = (await askKept(`PARSE flow SELECT id, ts WHERE community_id = '${fetched.community_id}'`, fetched.recording.id)).results[0] ?? {};
    // The last flow between the endpoints that had begun; the first, if its beginning is no longer kept.
    const flows = rows.map(([id, at]) => ({ id: String(id), at: BigInt(String(at)) })).sort((a, b) => (a.at < b.at ? -1 : 1));
    const of = flows.filter(({ at }) => at <= BigInt(ts)).at(-1) ?? flows[0];
    if (!of) throw new Error("The agent's packets contain no flow.");
    found.value = { fetched, flow: of.id };
  };
  const run = () => {
    isBusy.value = true;
    void load().catch((why) => (failed.value = said(why))).finally(() => (isBusy.value = false));
  };
  if (!found.value) return (
    <>
      <div class="tools"><button type="button" disabled={isBusy.value} onClick={run}>{isBusy.value ? "Fetching packets…" : "Fetch packets from agents"}</button></div>
      {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
    </>
  );
  const { fetched } = found.value;
  return (
    <>
      <p class="small muted">Kept by agent <Text of={fetched.agent} />; stored in Recordings as <Text of={fetched.recording.name} />.</p>
      {fetched.notes.map((note) => <Notice kind="warn">{visible(note)}</Notice>)}
      <Packets recording={fetched.recording.id} flow={found.value.flow} decoded={decoded} />
    </>
  );
}

function Turns(props: Props) {
  const { answer, error } = useAsked((signal) => ask<Conversation>("GET", address("conversation", props), undefined, { signal }), [props.recording, props.flow]);
  const isHex = useSignal(false);
  if (error !== undefined) return <Notice kind="bad">{said(error)}</Notice>;
  if (!answer) return <p class="muted" role="status">Reading packets…</p>;
  const begun = begunIn(answer.turns, props.decoded);
  const ending: Record<string, string> = { fin: "closed by both sides", rst: "reset", idle: "idle", port_reused: "ports reused", evicted: "forgotten for want of memory", end_of_input: "open at the end of the capture" };
  return (
    <>
      <p class="small muted">
        Client <Text of={answer.client} />{answer.client_guessed ? " (guessed)" : ""}, server <Text of={answer.server} />: {many(answer.packets)} packets, {bytes(answer.packet_bytes)}, since {time(answer.first_ns)} UTC; {ending[answer.ending] ?? answer.ending}.
      </p>
      {answer.notes.map((note) => <Notice kind="warn">{visible(note)}</Notice>)}
      <label class="inline"><input type="checkbox" checked={isHex.value} onChange={(event) => (isHex.value = event.currentTarget.checked)} /> Hexadecimal</label>
      {answer.turns.length === 0 ? <p class="muted">No data was sent.</p> : (
        <ol class="turns" aria-label="Turns">
          {answer.turns.map((turn, at) => <Turn turn={turn} begun={begun[at] ?? []} start={answer.first_ns} isHex={isHex.value} />)}
        </ol>
      )}
      {answer.turns_left_out > 0 && <p class="muted small">{many(answer.turns_left_out)} later turns are not shown; the file has their packets.</p>}
    </>
  );
}

function Turn({ turn, begun, start, isHex }: { turn: ConversationTurn; begun: Decoded[]; start: string; isHex: boolean }) {
  const data = bytesOf(turn.data);
  const hidden = turn.bytes - data.length;
  const lines = isHex || !isTextual(data) ? hexLines(data) : textLines(data);
  return (
    <li class={turn.from}>
      <p class="small"><strong>{turn.from === "client" ? "→ client" : "← server"}</strong> <span class="muted">+{duration(Number(BigInt(turn.first_ns) - BigInt(start)))}, {bytes(turn.bytes)}{turn.missing > 0 ? `, ${bytes(turn.missing)} not captured` : ""}</span></p>
      {begun.map(({ text }) => <p class="small what">{text}</p>)}
      {lines.length > 0 && data.length > 0 && <pre tabIndex={0} aria-label={`Data of the ${turn.from}`}>{lines.join("\n")}</pre>}
      {hidden > 0 && <p class="muted small">{bytes(hidden)} more</p>}
    </li>
  );
}
