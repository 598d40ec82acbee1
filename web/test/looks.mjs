// What a page looks like: accessibility by axe, and faults of its layout.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const axe = readFileSync(join(dirname(dirname(fileURLToPath(import.meta.url))), "node_modules/axe-core/axe.min.js"), "utf8");

const ALL = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];

/** Violations that axe finds, by rules (`only`) or by all groups of rules. */
export const violations = (page, only = ALL) =>
  // Through the debugger: the page's policy allows its own scripts only.
  page.evaluate(`(async () => { if (!globalThis.axe) { ${axe} } const found = await axe.run(document, { resultTypes: ["violations"], runOnly: ${JSON.stringify(only)} }); return found.violations.map((one) => one.id + ": " + one.help + ": " + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + " " + (node.any[0]?.message ?? "")).join(" | ")); })()`);

/**
 * Faults of the layout: a document wider than the screen, elements outside it, texts that overlap, and controls that are
 * smaller than their text. Regions that scroll may hide a part of their contents, but are themselves on the screen.
 */
export const layoutFaults = (page) =>
  page.evaluate(() => {
    /** Overlap in px of texts that touch: the rounding of positions, and line boxes that are higher than their letters. */
    const OVERLAP_PX = 3;
    /** Lines of a text, and their width in px, beyond which it is squeezed. */
    const [LINES_MAX, NARROW_PX] = [6, 70];
    const FAULTS_MAX = 12;
    const found = new Set();
    const width = document.documentElement.clientWidth;
    const over = document.documentElement.scrollWidth - innerWidth;
    if (over > 0) found.add(`the document is ${over} px wider than the screen`);
    // Behind a modal dialog nothing can be used.
    const root = document.querySelector("dialog[open]") ?? document.body;
    const style = (element) => getComputedStyle(element);
    const named = (element) => `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") ?? ""}"> ${(element.textContent ?? "").trim().slice(0, 60)}`;
    const isShown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !element.closest(".hidden, .skip, option");
    /** The part of a rectangle of a node that the regions around it show; null: nothing. */
    const shownPart = (node, { left, right, top, bottom }) => {
      for (let at = node.parentElement; at && at !== document.body; at = at.parentElement) {
        if (style(at).overflowX === "visible") continue;
        const of = at.getBoundingClientRect();
        [left, right, top, bottom] = [Math.max(left, of.left), Math.min(right, of.right), Math.max(top, of.top), Math.min(bottom, of.bottom)];
      }
      return right - left > 1 && bottom - top > 1 ? { left, right, top, bottom } : null;
    };
    for (const element of root.querySelectorAll("*")) {
      if (!isShown(element)) continue;
      const part = shownPart(element, element.getBoundingClientRect());
      if (part && (part.right > width + 1 || part.left < -1)) found.add(`outside the screen (${Math.round(part.left)} to ${Math.round(part.right)} of ${width} px): ${named(element)}`);
    }
    /** The fixed element around an element: other contents scroll beneath it. */
    const fixedAround = (element) => {
      for (let at = element; at; at = at.parentElement) if (style(at).position === "fixed") return at;
      return null;
    };
    /** Rectangles of all texts and fields. */
    const texts = () => {
      const all = [];
      const add = (node, of, rect) => {
        const part = shownPart(node, rect);
        if (part) all.push({ of, fixed: fixedAround(of), ...part });
      };
      for (const field of root.querySelectorAll("select, input:not([type=checkbox], [type=file])")) if (isShown(field)) add(field, field, field.getBoundingClientRect());
      const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
      for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        const of = node.parentElement;
        // Labels of a drawing may touch; headings of a table stay while its rows scroll.
        if (node.textContent.trim() === "" || of.closest("svg, select, thead") || !isShown(of)) continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        const control = of.closest("button, a.button, nav a");
        const around = style(of).position !== "absolute" && control && style(control).overflowX === "visible" ? control.getBoundingClientRect() : null;
        const lines = [...range.getClientRects()];
        if (lines.length > LINES_MAX && lines.every((line) => line.width < NARROW_PX)) found.add(`squeezed into ${lines.length} lines: ${named(of)}`);
        for (const rect of lines) {
          if (around && (rect.right > around.right + 1 || rect.left < around.left - 1)) found.add(`smaller than its text: ${named(control)}`);
          add(node, of, rect);
        }
      }
      return all.sort((a, b) => a.top - b.top);
    };
    const overlaps = (isFault) => {
      const all = texts();
      all.forEach((one, i) => {
        for (let j = i + 1; j < all.length && all[j].top < one.bottom - OVERLAP_PX; j += 1) {
          const other = all[j];
          if (one.of === other.of || !isFault(one, other)) continue;
          const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
          const down = Math.min(one.bottom, other.bottom) - other.top;
          if (across > OVERLAP_PX && down > OVERLAP_PX) found.add(`overlap of ${Math.round(across)} × ${Math.round(down)} px: ${named(one.of)} and ${named(other.of)}`);
        }
      });
    };
    overlaps((one, other) => one.fixed === other.fixed);
    // At the end of the page nothing can be scrolled away from beneath a fixed bar.
    const at = scrollY;
    scrollTo(0, document.documentElement.scrollHeight);
    overlaps((one, other) => one.fixed !== other.fixed);
    scrollTo(0, at);
    return [...found].slice(0, FAULTS_MAX);
  });
