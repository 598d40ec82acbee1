// The query editor: highlighting, and the server's completions and errors. It is in a shadow root, so that its styles
// comply with the page's policy.
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, completionStatus, moveCompletionSelection, selectedCompletion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { history, historyKeymap, standardKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, drawSelection, type DecorationSet, highlightSpecialChars, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { ask, lasting } from "../api/client";
import type { CheckAnswer, Problem } from "../api/schema";
import { visible } from "../common/format";
import { offer } from "./value_completion";

const CLAUSES = /^(?:PARSE|SELECT|FROM|TO|WHERE|SAMPLE|LIMIT|ROWS|PROCESS|SINCE|UNTIL|BASELINE|HAVING|GROUP|ORDER|BY|WINDOW|SLIDE|LATENESS|JOIN|INNER|ON|USING|DISTINCT|FILTER|ASC|DESC|AS|AND|OR|NOT|LIKE|IN|IS|NULL|TRUE|FALSE|CASE|WHEN|THEN|ELSE|END|BETWEEN)\b/i;

const language = StreamLanguage.define<{ depth: number; head: boolean }>({
  startState: () => ({ depth: 0, head: false }),
  token(stream, state) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^(--.*|\/\*.*?(\*\/|$))/)) return "comment";
    if (stream.match(/^'(?:[^']|'')*'?/) || stream.match(/^"(?:[^"]|"")*"?/)) return "string";
    if (stream.match(/^\d+(?:\.\d+){3}(?:\/\d+)?/)) return "string";
    if (stream.match(/^\d[\d_.]*(?:ns|us|µs|ms|s|m|h|d|min|kB|MB|GB|B|%)?/)) return "number";
    const next = stream.peek();
    if (next === "(" || next === ")") {
      stream.next();
      state.depth += next === "(" ? 1 : -1;
      state.head = next === "(";
      return "bracket";
    }
    // `(diff-group: group=url, w=10s)`: processor and arguments.
    if (state.head && stream.match(/^[a-z][a-z0-9-]*(?=\s*[:)])/)) {
      state.head = false;
      return "className";
    }
    if (stream.match(/^[a-z_]+(?==[^=])/)) return "propertyName";
    if (stream.match(CLAUSES)) return "keyword";
    if (stream.match(/^[A-Za-z_][\w.]*/)) return "variableName";
    stream.next();
    return null;
  },
});

const colors = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" },
  { tag: tags.string, color: "var(--code-string)" },
  { tag: tags.number, color: "var(--code-number)" },
  { tag: tags.className, color: "var(--code-block)" },
  { tag: tags.propertyName, color: "var(--code-name)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
]);

const look = EditorView.theme({
  "&": { fontSize: "15px", backgroundColor: "transparent", color: "var(--ink)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", minHeight: "5.6rem" },
  ".cm-content": { padding: "14px 0", caretColor: "var(--ink)" },
  ".cm-line": { padding: "0 16px" },
  ".cm-cursor": { borderLeftColor: "var(--ink)", borderLeftWidth: "2px" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--select) !important" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-matchingBracket": { backgroundColor: "var(--select)", outline: "none" },
  ".wrong": { textDecoration: "underline wavy var(--bad) 1px", textUnderlineOffset: "4px" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "8px", boxShadow: "var(--shadow)", overflow: "hidden" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "13px", maxHeight: "15em" },
  ".cm-tooltip-autocomplete ul li": { padding: "3px 12px !important" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent) !important", color: "var(--on-accent) !important" },
  ".cm-completionIcon": { display: "none" },
  ".cm-completionMatchedText": { textDecoration: "none !important", fontWeight: "700" },
  ".cm-completionInfo": { padding: "8px 12px", maxWidth: "22rem", fontFamily: "var(--sans)", fontSize: "13px", lineHeight: "1.45" },
});

/** Underlines errors; the message is below the editor and in a tooltip. */
const setWrong = StateEffect.define<DecorationSet>();
const wrong = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (marks, change) => change.effects.reduce((now, effect) => (effect.is(setWrong) ? effect.value : now), marks.map(change.changes)),
  provide: (field) => EditorView.decorations.from(field),
});

export interface Editor {
  text(): string;
  set(text: string): void;
  replace(from: number, to: number, text: string): void;
  focus(): void;
  destroy(): void;
}

export interface Wishes {
  text: string;
  changed(text: string): void;
  checked(problems: Problem[], text: string): void;
  run(): void;
  /** The documentation of a word. */
  doc(word: string): string;
}

/** Creates an editor in `host`. */
export function make(host: HTMLElement, wishes: Wishes): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  root.replaceChildren();
  const parent = document.createElement("div");
  root.append(parent);
  let revision = 0;
  let asked: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const check = async (view: EditorView) => {
    const text = view.state.doc.toString();
    const mine = ++revision;
    asked?.abort();
    const abort = (asked = new AbortController());
    if (text.trim() === "") {
      view.dispatch({ effects: setWrong.of(Decoration.none) });
      wishes.checked([], text);
      return;
    }
    try {
      const found = await lasting(() => ask<CheckAnswer>("POST", "/api/v1/check", { text }), abort.signal);
      if (mine !== revision) return;
      const length = view.state.doc.length;
      const marks = found.diagnostics.map((problem) => {
        const to = Math.min(Math.max(problem.place.end_utf16, problem.place.start_utf16 + 1), length);
        const title = [problem.message, problem.hint].filter(Boolean).join(": ");
        return { from: Math.min(problem.place.start_utf16, to - 1), to, title };
      });
      const drawn = marks.filter(({ from, to }) => from >= 0 && to > from).map(({ from, to, title }) => Decoration.mark({ class: "wrong", attributes: { title: visible(title) } }).range(from, to));
      view.dispatch({ effects: setWrong.of(Decoration.set(drawn, true)) });
      wishes.checked(found.diagnostics, text);
    } catch {
      // The page shows elsewhere that the server is unavailable; the text is kept.
    }
  };

  const complete = async (context: CompletionContext): Promise<CompletionResult | null> => {
    const before = context.state.sliceDoc(Math.max(0, context.pos - 1), context.pos);
    if (!context.explicit && !/[\w.\-(:=, ']/.test(before)) return null;
    try {
      const text = context.state.doc.toString();
      const values = await offer(text.slice(0, context.pos), text).catch(() => null);
      if (values) {
        // A quote that the editor closed automatically belongs to the value.
        const to = context.state.sliceDoc(context.pos, context.pos + 1) === "'" ? context.pos + 1 : context.pos;
        return { from: values.from, to, options: values.labels.map(({ label, detail }) => ({ label, displayLabel: visible(label), detail })), filter: false };
      }
      const found = await ask<CheckAnswer>("POST", "/api/v1/check", { text: context.state.doc.toString(), cursor: context.pos });
      if (!found.word || found.completions.length === 0) return null;
      const word = context.state.sliceDoc(found.word.start_utf16, context.pos);
      if (!context.explicit && word === "" && before !== "(" && before !== "=") return null;
      if (found.completions.length === 1 && found.completions[0] === word) return null;
      const options = found.completions.map((label) => {
        const info = wishes.doc(label);
        return info === "" ? { label } : { label, info };
      });
      return { from: found.word.start_utf16, to: found.word.end_utf16, options };
    } catch {
      return null;
    }
  };

  const take = (view: EditorView) => {
    // Completions are shown immediately, so that Tab does not move the focus meanwhile.
    if (completionStatus(view.state) === "pending") return true;
    if (completionStatus(view.state) !== "active") return false;
    if (selectedCompletion(view.state) === null) moveCompletionSelection(true)(view);
    return acceptCompletion(view);
  };
  // Typing over a selection: Chromium would copy the style of the replaced text into an attribute, which the policy forbids.
  const typeOver = (event: InputEvent, view: EditorView) => {
    if (event.inputType !== "insertText" || event.data === null || event.isComposing || view.state.selection.main.empty || view.state.selection.ranges.length > 1) return false;
    event.preventDefault();
    const { from, to } = view.state.selection.main;
    const insert = () => view.state.update({ changes: { from, to, insert: event.data! }, selection: { anchor: from + event.data!.length }, userEvent: "input.type", scrollIntoView: true });
    if (!view.state.facet(EditorView.inputHandler).some((handler) => handler(view, from, to, event.data!, insert))) view.dispatch(insert());
    return true;
  };
  const run = () => {
    wishes.run();
    return true;
  };
  const view = new EditorView({
    root,
    parent,
    state: EditorState.create({
      doc: wishes.text,
      extensions: [
        Prec.highest(keymap.of([
          { key: "Mod-Enter", run },
          // Tab accepts a completion; without one it moves the focus as usual.
          { key: "Tab", run: take },
        ])),
        history(),
        drawSelection(),
        wrong,
        // Bidirectional and invisible characters that CodeMirror does not mark.
        highlightSpecialChars({ addSpecialChars: /[\u200c\u200d\u202a-\u202c\u2060-\u2065\u2068]|[\u{e0000}-\u{e007f}]/u }),
        bracketMatching(),
        closeBrackets(),
        autocompletion({ override: [complete], selectOnOpen: false, interactionDelay: 0, icons: false, activateOnTypingDelay: 80 }),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...standardKeymap]),
        language,
        syntaxHighlighting(colors),
        look,
        EditorView.lineWrapping,
        EditorView.domEventHandlers({ beforeinput: typeOver }),
        EditorView.contentAttributes.of({ "aria-label": "Query", spellcheck: "false", autocapitalize: "off" }),
        placeholder("PARSE http PROCESS (diff-group: group=url_template, w=10s)"),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          wishes.changed(update.state.doc.toString());
          clearTimeout(timer);
          timer = setTimeout(() => void check(update.view), 200);
        }),
      ],
    }),
  });
  void check(view);
  return {
    text: () => view.state.doc.toString(),
    set: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: text.length } }),
    replace: (from, to, insert) => {
      view.dispatch({ changes: { from, to: Math.min(to, view.state.doc.length), insert }, selection: { anchor: from + insert.length } });
      view.focus();
    },
    focus: () => view.focus(),
    destroy: () => {
      clearTimeout(timer);
      view.destroy();
    },
  };
}
