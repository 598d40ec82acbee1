// Recordings: kept tuples of jobs, uploaded captures, and captures and recordings of the server's folder.
import { useSignal } from "@preact/signals";
import { Refused, ask, may, me, type Job, type Recording } from "./api";
import { clauses, parsersOf } from "./clauses";
import { ago, bytes, duration, millis, time, visible } from "./format";
import { Empty, Notice, State, Text, said, useAsked } from "./parts";
import { link } from "./route";
import { SendFile } from "./sending";

export interface Shelf {
  recordings: Recording[];
  upload_bytes_max: number;
  upload_seconds: number;
}

const KINDS = { upload: "sent", capture: "capture", data_set: "recording" };

export default function Recordings() {
  const { answer, error, again } = useAsked(async (signal) => {
    const [shelf, jobs] = await Promise.all([
      may("run") ? ask<Shelf>("GET", "/api/v1/recordings", undefined, { signal }) : { recordings: [], upload_bytes_max: 0, upload_seconds: 0 },
      ask<{ jobs: Job[] }>("GET", "/api/v1/jobs?limit=1000", undefined, { signal }),
    ]);
    return { shelf, kept: jobs.jobs.filter((job) => job.keep === "tuples") };
  }, [], 10_000);
  const failed = useSignal("");
  const asked = useSignal("");
  const remove = (one: Recording) => void ask("DELETE", `/api/v1/recordings/${encodeURIComponent(one.id)}`).then(() => { asked.value = ""; again(); }, (why) => (failed.value = said(why)));
  const when = (one: Recording) => (one.first_ns === null ? "–" : `${time(one.first_ns).slice(0, 19)}${one.last_ns === null ? "" : `, ${duration(millis(one.last_ns) * 1e6 - millis(one.first_ns) * 1e6)}`}`);
  return (
    <div class="page">
      <header class="head"><h1>Recordings</h1><p class="muted">What can be asked beside what comes live.</p></header>
      {error !== undefined && <Notice kind="bad">{said(error)} {answer && "What is shown is older."}</Notice>}
      {failed.value !== "" && <Notice kind="bad">{failed.value}</Notice>}
      {answer && (
        <>
          {may("run") && (
            <div class="tools">
              <SendFile max={answer.shelf.upload_bytes_max} done={again} />
              <span class="muted small">pcap or pcapng, also compressed; at most {bytes(answer.shelf.upload_bytes_max)}; it goes after {duration(answer.shelf.upload_seconds * 1e9)}, and only you and admins see it</span>
            </div>
          )}
          <section>
            <h2>Captures and recordings</h2>
            {answer.shelf.recordings.length === 0 ? <Empty title="None"><p class="muted">Send a capture, or start the server with <code>--recordings DIR</code>.</p></Empty> : (
              <div class="scroll" tabIndex={0} role="region" aria-label="Captures and recordings">
                <table class="plain wide">
                  <thead><tr><th scope="col">name</th><th scope="col">kind</th><th scope="col" class="n">size</th><th scope="col">begins (UTC), lasts</th><th scope="col">holds</th><th scope="col">goes</th><th scope="col"><span class="hidden">act</span></th></tr></thead>
                  <tbody>
                    {answer.shelf.recordings.map((one) => (
                      <tr key={one.id}>
                        <th scope="row" class="file"><Text of={one.name} />{one.problem && <span class="muted small why">cannot be read: <Text of={one.problem} /></span>}</th>
                        <td>{KINDS[one.kind]}{one.owner && <span class="muted small"> by <Text of={one.owner} /></span>}</td>
                        <td class="n nowrap">{bytes(one.bytes)}</td>
                        <td class="nowrap">{when(one)}</td>
                        <td>{one.kind === "data_set" ? one.parsers.map((name) => <span class="tag"><Text of={name} /></span>) : "packets"}</td>
                        <td class="muted nowrap">{one.expires_ns === null ? "–" : `in ${duration(Math.max(0, millis(one.expires_ns) - Date.now()) * 1e6)}`}</td>
                        <td class="nowrap">
                          <a class="button" href={link("ask", "", { in: one.id, ...(one.parsers[0] ? { q: `PARSE ${one.parsers[0]} PROCESS (group-count: group=server_ip)` } : {}) })} aria-label={visible(`Ask ${one.name}`)}>Ask</a>{" "}
                          {(may("admin") || one.owner === me.value?.name) && (asked.value === one.id
                            ? <button type="button" class="danger" onClick={() => remove(one)}>Delete it for good</button>
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
            <h2>Tuples that jobs keep</h2>
            {answer.kept.length === 0 ? <Empty title="No job keeps tuples"><p class="muted">With <code>netalytics jobs start 'PARSE http' --standing --keep-tuples</code> any question can be asked of them later.</p></Empty> : (
              <div class="scroll" tabIndex={0} role="region" aria-label="Tuples that jobs keep">
                <table class="plain wide">
                  <thead><tr><th scope="col">job</th><th scope="col">holds</th><th scope="col">state</th><th scope="col">since</th><th scope="col"><span class="hidden">act</span></th></tr></thead>
                  <tbody>
                    {answer.kept.map((job) => (
                      <tr key={job.id}>
                        <th scope="row"><a href={link("job", job.id)}><Text of={job.name || `job ${job.id}`} /></a></th>
                        <td>{parsersOf(job.query).map((name) => <span class="tag"><Text of={name} /></span>)}{clauses(job.query).slice(1).map(({ word, body }) => <code class="small"><Text of={`${word} ${body} `} /></code>)}</td>
                        <td><State of={job.state} /></td>
                        <td class="muted">{ago(job.created_ns)}</td>
                        <td><a class="button" href={link("ask", "", { q: `${job.query} SINCE 10m PROCESS (group-count: group=server_ip)` })} aria-label={visible(`Ask what ${job.name || job.id} keeps`)}>Ask</a></td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </section>
        </>
      )}
      {error instanceof Refused && error.code === "not_found" && <p class="muted">This server holds no recordings.</p>}
    </div>
  );
}
