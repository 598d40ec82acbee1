// Saves a result as one HTML file without scripts or external resources: query, charts, rows, quality. Pictures are SVG,
// or PNG for views drawn on a canvas.
import type { Row } from "../api/cells";
import { heading, shown, visible } from "../common/format";
import type { Result, Win } from "../results/model";

/** Maximum rows in a file. */
const ROWS_MAX = 2000;
/** Style properties that are copied into SVG elements. */
const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "visibility", "display"];

export interface Finding {
  title: string;
  query: string;
  result: Result;
  window: Win;
  rows: Row[];
  /** The quality notes and their details. */
  worth: string[];
  foot: string;
}

const html = (text: string) => visible(text).replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
const paint = () => {
  const style = getComputedStyle(document.body);
  return { back: style.backgroundColor, ink: style.color };
};

/** A copy of an SVG with inline styles. */
function alone(svg: SVGElement): SVGElement {
  const copy = svg.cloneNode(true) as SVGElement;
  const from = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  [copy, ...copy.querySelectorAll<SVGElement>("*")].forEach((element, i) => {
    const style = getComputedStyle(from[i] as Element);
    for (const name of DRAWN) element.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "style"]) element.removeAttribute(name);
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return copy;
}

/** The SVG rendered to pixels on the page's background. */
function pixels(canvas: HTMLCanvasElement): HTMLCanvasElement {
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const context = copy.getContext("2d") as CanvasRenderingContext2D;
  context.fillStyle = paint().back;
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(canvas, 0, 0);
  return copy;
}

function pictures(body: Element): string {
  const drawn = [...body.querySelectorAll<SVGElement | HTMLCanvasElement>("svg, canvas")].map((one) =>
    one instanceof HTMLCanvasElement
      ? `<img alt="" width="${one.clientWidth}" src="${pixels(one).toDataURL("image/png")}">`
      : new XMLSerializer().serializeToString(alone(one)),
  );
  const legend = [...body.querySelectorAll(".legend li")].map((item) => {
    const dot = item.querySelector(".dot");
    return `<li><span style="color:${dot ? getComputedStyle(dot).backgroundColor : "inherit"}">&#9632;</span> ${html(item.querySelector("bdi")?.textContent ?? "")}</li>`;
  });
  return drawn.map((one) => `<figure>${one}</figure>`).join("\n") + (legend.length > 0 ? `<ul>${legend.join("")}</ul>` : "");
}

/** The HTML text; `body` is the element with the charts. */
export function finding({ title, query, result, window, rows, worth, foot }: Finding, body: Element): string {
  const { back, ink } = paint();
  const when = window.start === "" ? "" : `<p>${html(`${new Date(Number(BigInt(window.start) / 1_000_000n)).toISOString()} to ${new Date(Number(BigInt(window.end) / 1_000_000n)).toISOString()}${window.open ? ", open" : ""}`)}</p>`;
  // The time is in the heading; columns without values are omitted.
  const says = (at: number) => rows.some((row) => row[at] !== null && row[at] !== false);
  const columns = result.columns.map((column, at) => ({ column, at })).filter(({ column, at }) => column.type !== "hashes" && !/^window_(start|end)$/.test(column.name) && says(at));
  const table = rows.slice(0, ROWS_MAX).map((row) => `<tr>${columns.map(({ column, at }) => `<td>${html(shown(column, row[at]))}</td>`).join("")}</tr>`);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"><meta name="viewport" content="width=device-width">
<title>${html(title)}</title>
<style>body{background:${back};color:${ink};font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}pre{white-space:pre-wrap;overflow-wrap:anywhere;border-left:3px solid;padding-left:1rem}figure{margin:1rem 0;overflow-x:auto}img,svg{max-width:100%;height:auto}div{overflow-x:auto}table{border-collapse:collapse;font-size:.9em}td,th{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid;vertical-align:top;max-width:40rem;overflow-wrap:break-word}ul{list-style:none;padding:0}</style></head>
<body><h1>${html(title)}</h1>
<pre>${html(query)}</pre>
${when}
<p>${worth.map(html).join(" · ")}</p>
${pictures(body)}
<div><table><thead><tr>${columns.map(({ column }) => `<th scope="col" title="${html(column.doc)}">${html(heading(column))}</th>`).join("")}</tr></thead>
<tbody>
${table.join("\n")}
</tbody></table></div>
<p>${html(foot)}${rows.length > ROWS_MAX ? ` ${rows.length - ROWS_MAX} more rows omitted.` : ""}</p>
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

/** Downloads the first picture of the page. */
export function picture(name: string, body: Element): void {
  const drawn = body.querySelector<SVGElement | HTMLCanvasElement>("svg, canvas");
  if (drawn instanceof HTMLCanvasElement) {
    pixels(drawn).toBlob((blob) => blob && hand(`${name}.png`, "image/png", blob), "image/png");
  } else if (drawn) {
    const copy = alone(drawn);
    const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    Object.entries({ width: "100%", height: "100%", fill: paint().back }).forEach(([name, value]) => ground.setAttribute(name, value));
    copy.prepend(ground);
    hand(`${name}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(copy));
  }
}
