// Recordings: stored tuples of jobs, uploaded captures, and captures and recordings of the server's folder.
import { useSignal } from "@preact/signals";
import { Refused, ask, may, me } from "../api/client";
import type { Jobs, Recording, Recordings as RecordingList } from "../api/schema";
import { clauses, parsersOf } from "../results/clauses";
import { ago, bytes, duration, millis, time, visible } from "../common/format";
import { Empty, Notice, State, Text, said, useAsked } from "../common/components";
import { link } from "../common/route";
import { SendFile } from "./upload";

const KINDS = { upload: "upload", capture: "capture", data_set: "recording" };

export default function Recordings() {
  const { answer, error, again } = useAsked(async (signal) => {
    const [shelf, jobs] = await Promise.all([
      may("run") ? ask<RecordingList>("GET", "/api/v1/recordings", undefined, { signal }) : ({ recordings: [], upload_bytes_max: 0, upload_seconds: 0 } satisfies RecordingList),
      ask<Jobs>("GET", "/api/v1/jobs?limit=1000", undefined, { signal }),
    ]);
    return { shelf, kept: jobs.jobs.filter((job) => job.keep === "tuples") };
  }, [], 10_000);
  const failed = useSignal("");
  const asked = useSignal("");
  const remove = (one: Recording) => void ask("DELETE", `/api/v1/recordings/${encodeURIComponent(one.id)}`).then(() => { asked.value = ""; again(); }, (why) => (failed.value = said(why)));
  const when = (one: Recording) => (one.first_ns === null ? "–" : `${time(one.first_ns).slice(0, 19)}${one.last_ns === null ? "" : `, ${duration(millis(one.last_ns) * 1e6 - millis(one.first_ns) * 1e6)}`}`);
  return (
    <div class="page">
      <header class="head"><h1>Recordings</h1><p class="muted">Data for queries besides live traffic.</p></header>
      {error !== undefined && <Notice kind="bad">{said(error)} {answer && "The data shown is outdated."}</Notice>}
      {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
      {answer && (
        <>
          {may("run") && (
            <div class="tools">
              <SendFile max={answer.shelf.upload_bytes_max} done={again} />
              <span class="muted small">pcap or pcapng, also compressed; at most {bytes(answer.shelf.upload_bytes_max)}; deleted after {duration(answer.shelf.upload_seconds * 1e9)}; visible to you and to admins</span>
            </div>
          )}
          <section>
            <h2>Captures and recordings</h2>
            {answer.shelf.recordings.length === 0 ? <Empty title="No captures"><p class="muted">Upload a capture, or start the server with <code>--recordings DIR</code>.</p></Empty> : (
              <div class="scroll" tabIndex={0} role="region" aria-label="Captures and recordings">
                <table class="plain wide">
                  <thead><tr><th scope="col">name</th><th scope="col">kind</th><th scope="col" class="n">size</th><th scope="col">start (UTC), length</th><th scope="col">content</th><th scope="col">expires</th><th scope="col"><span class="hidden">actions</span></th></tr></thead>
                  <tbody>
                    {answer.shelf.recordings.map((one) => (
                      <tr key={one.id}>
                        <th scope="row" class="file"><Text of={one.name} />{one.problem && <span class="muted small why">unreadable: <Text of={one.problem} /></span>}</th>
                        <td>{KINDS[one.kind]}{one.owner && <span class="muted small"> by <Text of={one.owner} /></span>}</td>
                        <td class="n nowrap">{bytes(one.bytes)}</td>
                        <td class="nowrap">{when(one)}</td>
                        <td>{one.kind === "data_set" ? one.parsers.map((name) => <span class="tag"><Text of={name} /></span>) : "packets"}</td>
                        <td class="muted nowrap">{one.expires_ns === null ? "–" : `in ${duration(Math.max(0, millis(one.expires_ns) - Date.now()) * 1e6)}`}</td>
                        <td class="nowrap">
                          <a class="button" href={link("ask", "", { in: one.id, ...(one.parsers[0] ? { q: `PARSE ${one.parsers[0]} PROCESS (group-count: group=server_ip)` } : {}) })} aria-label={visible(`Query ${one.name}`)}>Query</a>{" "}
                          {(may("admin") || one.owner === me.value?.name) && (asked.value === one.id
                            ? <button type="button" class="danger" onClick={() => remove(one)}>Delete permanently</button>
                            : <button type="button" aria-label={visible(`Delete ${one.name}`)} onClick={() => (asked.value = one.id)}>Delete</button>)}
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </section>
          <section>
            <h2>Stored tuples of jobs</h2>
            {answer.kept.length === 0 ? <Empty title="No job stores tuples"><p class="muted">Start one for later queries: <code>netalytics jobs start 'PARSE http' --standing --keep-tuples</code></p></Empty> : (
              <div class="scroll" tabIndex={0} role="region" aria-label="Stored tuples of jobs">
                <table class="plain wide">
                  <thead><tr><th scope="col">job</th><th scope="col">content</th><th scope="col">state</th><th scope="col">since</th><th scope="col"><span class="hidden">actions</span></th></tr></thead>
                  <tbody>
                    {answer.kept.map((job) => (
                      <tr key={job.id}>
                        <th scope="row"><a href={link("job", job.id)}><Text of={job.name || `job ${job.id}`} /></a></th>
                        <td>{parsersOf(job.query).map((name) => <span class="tag"><Text of={name} /></span>)}{clauses(job.query).slice(1).map(({ word, body }) => <code class="small"><Text of={`${word} ${body} `} /></code>)}</td>
                        <td><State of={job.state} /></td>
                        <td class="muted">{ago(job.created_ns)}</td>
                        <td><a class="button" href={link("ask", "", { q: `${job.query} SINCE 10m PROCESS (group-count: group=server_ip)` })} aria-label={visible(`Query tuples of ${job.name || job.id}`)}>Query</a></td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </section>
        </>
      )}
      {error instanceof Refused && error.code === "not_found" && <p class="muted">This server has no recordings.</p>}
    </div>
  );
}
