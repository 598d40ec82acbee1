// Builds a query by clicks: parser, conditions with the fields' most frequent values, computation, groups, window.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { catalog } from "../api/client";
import type { Parser } from "../api/schema";
import { visible } from "../common/format";
import { Text, useAsked } from "../common/components";
import { parsersOf } from "../results/clauses";
import { KINDS, built, isKey, isMeasured, kindsOf, typed, usual, type Built } from "./built_query";
import { frequent } from "./value_completion";

const WINDOWS: [value: string, title: string][] = [["1s", "1 second"], ["10s", "10 seconds"], ["1m", "1 minute"], ["5m", "5 minutes"], ["", "none: one result at the end"]];
const OPERATORS = ["=", "!=", ">", ">=", "<", "<=", "like", "is null", "is not null"];
const VALUES_MAX = 12;
const GROUPS_MAX = 4;

interface Props {
  text: string;
  recording: string;
  /** Parsers whose tuples were seen, most frequent first. */
  seen: string[];
  write(query: string): void;
}

export default function Builder({ text, recording, seen, write }: Props) {
  const { answer } = useAsked(() => catalog(), []);
  const parsers = answer?.parsers ?? [];
  const state = useSignal<Built | null>(null);
  const named = parsersOf(text)[0];
  const first = parsers.find(({ name }) => name === named) ?? parsers.find(({ name }) => name === seen[0]) ?? parsers[0];
  if (!first) return <p class="muted" role="status">Loading…</p>;
  const now = state.value ?? usual(first);
  const parser = parsers.find(({ name }) => name === now.parser) ?? first;
  const kind = KINDS.find(({ name }) => name === now.show) ?? KINDS[0]!;
  const set = (change: Partial<Built>) => {
    state.value = { ...now, ...change };
    write(built(state.value));
  };
  const order = (a: Parser, b: Parser) => (seen.includes(b.name) ? 1 : 0) - (seen.includes(a.name) ? 1 : 0) || (a.name < b.name ? -1 : 1);
  const fields = [...parser.fields].sort((a, b) => (a.name < b.name ? -1 : 1));
  return (
    <section class="card builder" aria-label="Query builder">
      <div class="line-form">
        <label>Parser
          <select value={parser.name} onChange={(event) => { state.value = usual(parsers.find(({ name }) => name === event.currentTarget.value)!); write(built(state.value)); }}>
            {[...parsers].sort(order).map(({ name }) => <option value={name}>{name}{seen.includes(name) ? " ●" : ""}</option>)}
          </select>
        </label>
        <label>Show
          <select value={kind.name} onChange={(event) => set({ show: event.currentTarget.value })}>{kindsOf(parser).map(({ name, title }) => <option value={name}>{title}</option>)}</select>
        </label>
        {kind.hasValue && (
          <label>Of
            <select value={now.value} onChange={(event) => set({ value: event.currentTarget.value })}>
              <option value="">{parser.value ?? "default"}</option>
              {fields.filter(isMeasured).filter(({ name }) => name !== parser.value).map(({ name }) => <option value={name}>{name}</option>)}
            </select>
          </label>
        )}
        {kind.name !== "" && <label>Window <select value={now.window} onChange={(event) => set({ window: event.currentTarget.value })}>{WINDOWS.map(([value, title]) => <option value={value}>{title}</option>)}</select></label>}
      </div>
      <p class="muted small">{visible(parser.doc)}{seen.length > 0 ? " ● seen on the network" : ""}</p>
      {kind.hasGroups && (
        <div class="tools" role="group" aria-label="Groups">
          <span class="small">Group by</span>
          {now.groups.map((name) => <button type="button" class="chip" aria-label={`Remove group ${name}`} onClick={() => set({ groups: now.groups.filter((other) => other !== name) })}><code>{name}</code> ✕</button>)}
          {now.groups.length < GROUPS_MAX && (
            <select aria-label="Add a group" value="" onChange={(event) => set({ groups: [...now.groups, event.currentTarget.value] })}>
              <option value="">add…</option>
              {fields.filter((field) => isKey(field) && !now.groups.includes(field.name)).map(({ name }) => <option value={name}>{name}</option>)}
            </select>
          )}
        </div>
      )}
      <div class="tools" role="group" aria-label="Conditions">
        <span class="small">Where</span>
        {now.conditions.map((one, i) => <button type="button" class="chip" aria-label={visible(`Remove condition ${one.field} ${one.op} ${one.value}`)} onClick={() => set({ conditions: now.conditions.filter((_, other) => other !== i) })}><code><Text of={`${one.field} ${one.op} ${one.value}`} /></code> ✕</button>)}
        {now.conditions.length === 0 && <span class="muted small">all</span>}
      </div>
      <NewCondition key={parser.name} parser={parser} recording={recording} add={(one) => set({ conditions: [...now.conditions, one] })} />
    </section>
  );
}

/** A field, its most frequent values to click, and a value to type. */
function NewCondition({ parser, recording, add }: { parser: Parser; recording: string; add(one: Built["conditions"][number]): void }) {
  const field = useSignal("");
  const op = useSignal("=");
  const value = useSignal("");
  const found = useSignal<{ field: string; labels: { label: string; detail: string }[] } | null>(null);
  const column = parser.fields.find(({ name }) => name === field.value);
  useEffect(() => {
    if (field.value === "") return;
    const name = field.value;
    void frequent(parser.name, name, recording).then((labels) => name === field.value && (found.value = { field: name, labels }));
  }, [field.value]);
  const choose = (name: string) => {
    const next = parser.fields.find((one) => one.name === name);
    field.value = name;
    op.value = next && isMeasured(next) ? ">" : "=";
    value.value = "";
  };
  const isUnary = op.value.startsWith("is");
  const put = (text: string) => {
    add({ field: field.value, op: op.value, value: isUnary ? "" : text });
    value.value = "";
  };
  const groups = [["Names", parser.fields.filter(isKey)], ["Numbers", parser.fields.filter((one) => !isKey(one) && ["u64", "i64", "f64"].includes(one.type))]] as const;
  return (
    <form class="line-form" onSubmit={(event) => { event.preventDefault(); if (field.value !== "" && (isUnary || value.value.trim() !== "")) put(typed(column, value.value)); }}>
      <label>Field
        <select value={field.value} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="">select…</option>
          {groups.map(([title, all]) => <optgroup label={title}>{[...all].sort((a, b) => (a.name < b.name ? -1 : 1)).map(({ name }) => <option value={name}>{name}</option>)}</optgroup>)}
        </select>
      </label>
      {column && (
        <>
          <label>is <select value={op.value} onChange={(event) => (op.value = event.currentTarget.value)}>{OPERATORS.map((one) => <option value={one}>{one}</option>)}</select></label>
          {!isUnary && <label>Value <input class="mono" value={value.value} placeholder={column.unit === "ns" ? "50ms" : column.unit === "bytes" ? "1000" : ""} onInput={(event) => (value.value = event.currentTarget.value)} /></label>}
          <button>Add condition</button>
          <div class="values">
            <p class="muted small">{visible(column.doc)}</p>
            {!isUnary && found.value?.field === field.value && found.value.labels.length > 0 && (
              <div class="tools" role="group" aria-label={`Most frequent values of ${field.value}`}>
                {found.value.labels.slice(0, VALUES_MAX).map(({ label, detail }) => <button type="button" title={detail} onClick={() => put(label)}><code><Text of={label.length > 40 ? `${label.slice(0, 39)}…` : label} /></code> <span class="muted small">{detail.replace("seen ", "")}</span></button>)}
              </div>
            )}
            {!isUnary && found.value?.field === field.value && found.value.labels.length === 0 && <p class="muted small">No values are known: no stored tuples of {parser.name}.</p>}
          </div>
        </>
      )}
    </form>
  );
}
