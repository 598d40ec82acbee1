// A sheet with a title, lines of text, drawings, and their legend, as SVG or on a canvas.
import { visible } from "../common/format";

/** Style properties that are copied into SVG elements. */
const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "visibility", "display"];
/** In CSS pixels. */
const [MARGIN, LINE, WIDTH_MIN] = [20, 18, 640];
const SVG = "http://www.w3.org/2000/svg";

export interface Sheet {
  title: string;
  lines: string[];
  drawings: { drawn: SVGElement | HTMLCanvasElement; caption: string }[];
  /** Rows of the legend; the first cell has the color. */
  legend: { color: string | null; cells: string[] }[];
}

interface Words {
  text: string;
  x: number;
  y: number;
  weight: number;
  size: number;
  end?: boolean;
}

export interface Placed {
  width: number;
  height: number;
  words: Words[];
  dots: { x: number; y: number; color: string }[];
  drawings: { drawn: SVGElement | HTMLCanvasElement; y: number; width: number; height: number }[];
}

const paint = () => {
  const style = getComputedStyle(document.body);
  return { back: style.backgroundColor, ink: style.color, font: style.fontFamily };
};

/** A copy of an SVG with inline styles. */
export function alone(svg: SVGElement): SVGElement {
  const copy = svg.cloneNode(true) as SVGElement;
  const from = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  [copy, ...copy.querySelectorAll<SVGElement>("*")].forEach((element, i) => {
    const style = getComputedStyle(from[i] as Element);
    for (const name of DRAWN) element.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "style", "role"]) element.removeAttribute(name);
  });
  copy.setAttribute("xmlns", SVG);
  return copy;
}

/** Breaks a text into lines of at most `width`, at spaces where possible. */
function wrapped(text: string, width: number, measure: (text: string) => number): string[] {
  const found: string[] = [];
  let line = "";
  for (const word of visible(text).split(" ").flatMap((word) => (measure(word) <= width ? [word] : (word.match(/.{1,40}/gu) ?? [])))) {
    const next = line === "" ? word : `${line} ${word}`;
    if (line !== "" && measure(next) > width) {
      found.push(line);
      line = word;
    } else line = next;
  }
  return [...found, line];
}

export function laidOut({ title, lines, drawings, legend }: Sheet): Placed {
  const context = document.createElement("canvas").getContext("2d") as CanvasRenderingContext2D;
  const measure = (size: number, weight: number) => (text: string) => {
    context.font = `${weight} ${size}px ${paint().font}`;
    return context.measureText(text).width;
  };
  const small = measure(12, 400);
  const columns = Array.from({ length: Math.max(0, ...legend.map(({ cells }) => cells.length)) }, (_, i) => Math.max(...legend.map(({ cells }) => small(visible(cells[i] ?? "")))));
  const sizes = drawings.map(({ drawn }) => drawn.getBoundingClientRect());
  const width = Math.max(WIDTH_MIN, columns.reduce((sum, one) => sum + one + 24, 2 * MARGIN), ...sizes.map((size) => size.width + 2 * MARGIN));
  const placed: Placed = { width: Math.ceil(width), height: 0, words: [], dots: [], drawings: [] };
  let y = MARGIN;
  const write = (text: string, size: number, weight: number) => {
    for (const line of wrapped(text, width - 2 * MARGIN, measure(size, weight))) {
      y += size === 12 ? LINE : 24;
      placed.words.push({ text: line, x: MARGIN, y, size, weight });
    }
  };
  if (title !== "") write(title, 18, 650);
  for (const line of lines.flatMap((text) => text.split("\n"))) write(line, 12, 400);
  drawings.forEach(({ drawn, caption }, i) => {
    if (caption !== "") write(caption, 12, 600);
    y += 8;
    const size = sizes[i] as DOMRect;
    placed.drawings.push({ drawn, y, width: size.width, height: size.height });
    y += size.height;
  });
  y += 6;
  for (const { color, cells } of legend) {
    y += LINE;
    if (color) placed.dots.push({ x: MARGIN + 5, y: y - 4, color });
    let x = MARGIN + 16;
    cells.forEach((cell, column) => {
      const isFirst = column === 0;
      const end = x + (columns[column] ?? 0);
      placed.words.push({ text: visible(cell), x: isFirst ? x : end, y, size: 12, weight: color ? 400 : 600, end: !isFirst });
      x = end + 20;
    });
  }
  placed.height = Math.ceil(y + MARGIN);
  return placed;
}

/** Its text as an SVG file. */
export function toSvg({ width, height, words, dots, drawings }: Placed): string {
  const { back, ink, font } = paint();
  const make = (name: string, attributes: Record<string, string | number>, text = "") => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    element.textContent = text;
    return element;
  };
  const root = make("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` });
  root.append(make("rect", { width, height, fill: back }));
  for (const { drawn, y, width: w, height: h } of drawings) {
    if (drawn instanceof HTMLCanvasElement) {
      root.append(make("image", { href: drawn.toDataURL("image/png"), x: MARGIN, y, width: w, height: h }));
      continue;
    }
    const copy = alone(drawn);
    for (const [name, value] of Object.entries({ x: MARGIN, y, width: w, height: h })) copy.setAttribute(name, String(value));
    root.append(copy);
  }
  for (const { x, y, color } of dots) root.append(make("rect", { x: x - 5, y: y - 5, width: 10, height: 10, rx: 5, fill: color }));
  for (const { text, x, y, size, weight, end } of words) root.append(make("text", { x, y, fill: ink, "font-family": font, "font-size": size, "font-weight": weight, "text-anchor": end ? "end" : "start" }, text));
  return new XMLSerializer().serializeToString(root);
}

/** Draws an SVG, shape by shape: the page's policy allows no images made from text. */
function draw(context: CanvasRenderingContext2D, svg: SVGElement, x: number, y: number): void {
  const opacity = (element: Element): number => Number(getComputedStyle(element).opacity) * (element === svg || !element.parentElement ? 1 : opacity(element.parentElement));
  for (const shape of svg.querySelectorAll<SVGGraphicsElement>("path, rect, line, text")) {
    const style = getComputedStyle(shape);
    const matrix = shape.getCTM();
    if (!matrix || shape.closest("defs") || style.display === "none" || style.visibility === "hidden") continue;
    const number = (name: string) => Number(shape.getAttribute(name) ?? 0);
    const [left, top, width, height] = ["x", "y", "width", "height"].map(number) as [number, number, number, number];
    context.save();
    context.translate(x, y);
    context.transform(matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f);
    [context.fillStyle, context.strokeStyle, context.lineWidth] = [style.fill, style.stroke, parseFloat(style.strokeWidth)];
    context.setLineDash(style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(",").map(parseFloat));
    const alpha = opacity(shape);
    if (shape instanceof SVGTextElement) {
      context.globalAlpha = alpha;
      context.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
      context.textAlign = style.textAnchor === "end" ? "right" : style.textAnchor === "middle" ? "center" : "left";
      // A title within a text is not drawn.
      const text = [...shape.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.textContent).join("");
      if (style.stroke !== "none") context.strokeText(text, left, top);
      context.fillText(text, left, top);
    } else {
      const outline = new Path2D(shape.getAttribute("d") ?? "");
      if (shape instanceof SVGRectElement) outline.roundRect(left, top, width, height, number("rx"));
      else if (shape instanceof SVGLineElement) {
        outline.moveTo(number("x1"), number("y1"));
        outline.lineTo(number("x2"), number("y2"));
      }
      context.globalAlpha = alpha * Number(style.fillOpacity);
      if (style.fill !== "none") context.fill(outline);
      context.globalAlpha = alpha * Number(style.strokeOpacity);
      if (style.stroke !== "none") context.stroke(outline);
      if (shape instanceof SVGPathElement && style.markerEnd !== "none") drawTip(context, shape);
    }
    context.restore();
  }
}

/** The arrowhead at the end of a path, in the color of its line. */
function drawTip(context: CanvasRenderingContext2D, path: SVGPathElement): void {
  const length = path.getTotalLength();
  const [before, end] = [path.getPointAtLength(length - 1), path.getPointAtLength(length)];
  context.translate(end.x, end.y);
  context.rotate(Math.atan2(end.y - before.y, end.x - before.x));
  context.fillStyle = context.strokeStyle;
  context.fill(new Path2D("M-6 -3.5L1 0L-6 3.5z"));
}

/** Its drawings and text in one canvas. */
export function toCanvas({ width, height, words, dots, drawings }: Placed): HTMLCanvasElement {
  const { back, ink, font } = paint();
  const scale = devicePixelRatio || 1;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width * scale, height * scale];
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.scale(scale, scale);
  context.fillStyle = back;
  context.fillRect(0, 0, width, height);
  for (const { drawn, y, width: w, height: h } of drawings) if (drawn instanceof HTMLCanvasElement) context.drawImage(drawn, MARGIN, y, w, h);
    else draw(context, drawn, MARGIN, y);
  for (const { x, y, color } of dots) {
    context.fillStyle = color;
    context.beginPath();
    context.arc(x, y, 5, 0, 2 * Math.PI);
    context.fill();
  }
  context.fillStyle = ink;
  for (const { text, x, y, size, weight, end } of words) {
    context.font = `${weight} ${size}px ${font}`;
    context.textAlign = end ? "right" : "left";
    context.fillText(text, x, y);
  }
  return canvas;
}
