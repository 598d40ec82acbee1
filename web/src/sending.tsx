// Upload of a capture.
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { refusal, type Recording } from "./api";
import { bytes, visible } from "./format";
import { Notice, said } from "./parts";

export function SendFile({ max, done }: { max: number; done(recording: Recording): void }) {
  const busy = useSignal("");
  const failed = useSignal("");
  const input = useRef<HTMLInputElement>(null);
  const send = async (file: File) => {
    failed.value = "";
    if (file.size > max) {
      failed.value = `${file.name} has ${bytes(file.size)}; at most ${bytes(max)} are taken.`;
      return;
    }
    busy.value = `Sending ${file.name}, ${bytes(file.size)}…`;
    try {
      const response = await fetch(`/api/v1/recordings?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" }, credentials: "same-origin" });
      if (!response.ok) throw await refusal(response);
      done((await response.json()) as Recording);
    } catch (why) {
      failed.value = (why as Error).name === "TypeError" ? "The file could not be sent: the server does not answer, or does not take it." : said(why);
    } finally {
      busy.value = "";
      if (input.current) input.current.value = "";
    }
  };
  return (
    <>
      <label class="inline send">
        <span class="button">{busy.value !== "" ? visible(busy.value) : "Send a capture…"}</span>
        <input ref={input} class="hidden" type="file" accept=".pcap,.pcapng,.cap,.gz,.zst,.xz,.lz4" disabled={busy.value !== ""} aria-label="A capture file to send" onChange={(event) => { const file = event.currentTarget.files?.[0]; if (file) void send(file); }} />
      </label>
      {failed.value !== "" && <Notice kind="bad">{visible(failed.value)}</Notice>}
    </>
  );
}
