// Saves a result as one HTML file without scripts or external resources, and its charts as SVG or PNG. Each file states
// query, period, unit, quality, packet counters, and the link.
import type { Row } from "../api/cells";
import type { AccountEvent } from "../api/schema";
import { heading, isNumber, many, shown, time, visible } from "../common/format";
import type { Result } from "../results/model";
import { alone, laidOut, type Sheet, toCanvas, toSvg } from "./sheet";

/** Maximum rows in a file. */
const ROWS_MAX = 2000;

/** What a file states about its numbers. */
export interface About {
  title: string;
  query: string;
  /** The drawn measure, if one is. */
  measure: string;
  /** In ns since the epoch; null: the whole recording. */
  period: { since: string; until: string } | null;
  isOpen: boolean;
  /** The quality notes and their details. */
  worth: string[];
  foot: string;
  account: AccountEvent | null;
  link: string;
}

export interface Finding extends About {
  result: Result;
  rows: Row[];
}

const html = (text: string) => visible(text).replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
const seconds = (ns: string) => time(ns).slice(0, 23);

/** The counters that add up to the packets received. */
export function counted(account: AccountEvent): string {
  const parts: [string, number][] = [["parsed", account.parsed], ["filtered", account.filtered], ["sampled out", account.sampled_out], ["dropped", account.dropped], ["undecodable", account.undecodable]];
  const outcomes = parts.filter(([, n]) => n > 0).map(([what, n]) => `${many(n)} ${what}`).join(", ");
  return `${many(account.received)} packets received${outcomes === "" ? "" : `: ${outcomes}`}; ${many(account.lost_before_us)} lost before capture; ${many(account.tuples)} tuples`;
}

/** Name and value of each statement. */
export function facts({ measure, period, isOpen, worth, account, link }: About): [string, string][] {
  const all: [string, string][] = [
    ["Period", period ? `${seconds(period.since)} to ${seconds(period.until)} UTC${isOpen ? ", last window open" : ""}` : "whole recording"],
    ["Measure", measure],
    ["Quality", worth.join(" · ")],
    ["Packets", account ? counted(account) : ""],
    ["Link", link],
  ];
  return all.filter(([, text]) => text !== "");
}

/** The drawings of the page, with captions and legend. */
function sheetOf(about: About, body: Element, isAlone: boolean): Sheet {
  const drawings = [...body.querySelectorAll<SVGElement | HTMLCanvasElement>("svg, canvas")]
    .filter((one) => !one.closest("button, .legend, td, th") && one.clientWidth > 0)
    .map((one) => ({ drawn: one, caption: one.closest("figure")?.getAttribute("data-caption") ?? one.closest("figure")?.querySelector("figcaption")?.textContent ?? "" }));
  const legend = [...body.querySelectorAll("table.legend tr")].map((row) => {
    const dot = row.querySelector(".dot");
    return { color: dot ? getComputedStyle(dot).backgroundColor : null, cells: [...row.querySelectorAll("th, td")].map((cell) => (cell.textContent ?? "").trim()) };
  });
  return { title: isAlone ? about.title : "", lines: isAlone ? [about.query, ...facts(about).map(([name, text]) => `${name}: ${text}`)] : [], drawings, legend };
}

/** The rows as a table: numbers aligned, intervals with their values, columns without values omitted. */
function tableOf(result: Result, rows: Row[]): string {
  const ends = new Set(result.columns.flatMap(({ low, high }) => [low ?? "", high ?? ""]));
  const says = (at: number) => rows.some((row) => row[at] !== null && row[at] !== undefined && row[at] !== false);
  const columns = result.columns.map((column, at) => ({ column, at })).filter(({ column, at }) => !["hashes", "json"].includes(column.type) && !ends.has(column.name) && !/^window_(start|end)$/.test(column.name) && says(at));
  const keys = new Set(result.keyColumns);
  const interval = (row: Row, low: string | undefined, high: string | undefined, at: number) => {
    const [a, b] = [low, high].map((name) => (name === undefined ? null : (row[result.at(name)] ?? null)));
    const one = (cell: Row[number] | undefined) => (cell === null || cell === undefined ? "?" : shown(result.columns[at]!, cell));
    return (a ?? null) === null && (b ?? null) === null ? "" : ` <small>${html(`${one(a)} – ${one(b)}`)}</small>`;
  };
  const cell = (row: Row, { column, at }: (typeof columns)[number]) => {
    const text = `${html(shown(column, row[at]))}${interval(row, column.low, column.high, at)}`;
    const kind = isNumber(column) ? ' class="n"' : "";
    return at === columns.find((one) => keys.has(one.at))?.at ? `<th scope="row"${kind}>${text}</th>` : `<td${kind}>${text}</td>`;
  };
  const head = columns.map(({ column }) => `<th scope="col"${isNumber(column) ? ' class="n"' : ""} title="${html(column.doc)}">${html(heading(column))}</th>`);
  return `<table><caption>${rows.length > ROWS_MAX ? `${ROWS_MAX} of ${rows.length} rows` : `${rows.length} rows`}</caption><thead><tr>${head.join("")}</tr></thead>
<tbody>
${rows.slice(0, ROWS_MAX).map((row) => `<tr>${columns.map((one) => cell(row, one)).join("")}</tr>`).join("\n")}
</tbody></table>`;
}

const STYLE = "pre{white-space:pre-wrap;overflow-wrap:anywhere;border-left:3px solid;padding-left:1rem}dl{display:grid;grid-template-columns:auto 1fr;gap:.2rem 1rem}dd{margin:0;overflow-wrap:anywhere}figure{margin:1rem 0;overflow-x:auto}figcaption{font-size:.9em}img,svg{max-width:100%;height:auto}div{overflow-x:auto}table{border-collapse:collapse;font-size:.9em}caption{text-align:left;padding:.3rem 0}td,th{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid;vertical-align:top;max-width:40rem;overflow-wrap:break-word}tbody th{font-weight:600}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}small{opacity:.75}";

/** The HTML text; `body` is the element with the charts. */
export function finding(of: Finding, body: Element): string {
  const { title, query, result, rows, foot } = of;
  const style = getComputedStyle(document.body);
  const { drawings, legend } = sheetOf(of, body, false);
  const pictures = drawings.map(({ drawn, caption }) => `<figure>${drawn instanceof HTMLCanvasElement ? `<img alt="${html(caption)}" width="${drawn.clientWidth}" src="${drawn.toDataURL("image/png")}">` : new XMLSerializer().serializeToString(alone(drawn))}<figcaption>${html(caption)}</figcaption></figure>`);
  const lines = legend.map(({ color, cells }) => `<tr>${cells.map((text, i) => (i === 0 ? `<th scope="row">${color ? `<span style="color:${color}">&#9632;</span> ` : ""}${html(text)}</th>` : `<td class="n">${html(text)}</td>`)).join("")}</tr>`);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"><meta name="viewport" content="width=device-width">
<title>${html(title)}</title>
<style>body{background:${style.backgroundColor};color:${style.color};font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}${STYLE}</style></head>
<body><h1>${html(title)}</h1>
<pre>${html(query)}</pre>
<dl>${facts(of).map(([name, text]) => `<dt>${html(name)}</dt><dd>${html(text)}</dd>`).join("")}</dl>
<div>${tableOf(result, rows)}</div>
<p>${html(foot)}${rows.length > ROWS_MAX ? ` ${rows.length - ROWS_MAX} more rows omitted.` : ""}</p>
${pictures.join("\n")}
${lines.length > 0 ? `<div><table>${lines.join("")}</table></div>` : ""}
<p>Saved by netalytics, ${new Date().toISOString().slice(0, 19)} UTC.</p>
</body></html>
`;
}

/** Downloads a file. */
export function hand(name: string, type: string, text: string | Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(typeof text === "string" ? new Blob([text], { type }) : text);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Downloads the drawings of the page; those on a canvas only as PNG. */
export function picture(name: string, about: About, body: Element, format: "svg" | "png"): void {
  const sheet = sheetOf(about, body, true);
  if (sheet.drawings.length === 0) return;
  const placed = laidOut(sheet);
  if (format === "svg") hand(`${name}.svg`, "image/svg+xml", toSvg(placed));
  else toCanvas(placed).toBlob((blob) => blob && hand(`${name}.png`, "image/png", blob), "image/png");
}
