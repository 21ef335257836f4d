// A code editor in place of each `textarea.code-field` of the edit page: line numbers, colours, hidden characters shown,
// and the changed part marked against the original. The textarea stays the form's field and holds the text; without
// this file it is what a person types into.
//
//   data-original   what the agent asked for, where the field holds something else already
//   data-language   shell or json

import { fill, gettext } from "./texts.js";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { shell } from "@codemirror/legacy-modes/mode/shell";
import { json } from "@codemirror/legacy-modes/mode/javascript";
import { unifiedMergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

const LANGUAGES = { shell, json };
// The characters that the pages show by their code (dashboard/text/visible_text.py); a tab and a line end are not hidden.
const HIDDEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?! )\p{Zs}|[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\u{1d159}\u{e0100}-\u{e01ef}]/gu;

function code(codePoint) {
  const mark = document.createElement("span");
  mark.className = "mark";
  mark.textContent = `U+${codePoint.toString(16).toUpperCase().padStart(4, "0")}`;
  mark.setAttribute("aria-label", fill(gettext("hidden character %(name)s"), { name: mark.textContent }));
  return mark;
}

function edit(field) {
  const label = document.querySelector(`label[for="${field.id}"]`);
  // What somebody typed while this file loaded is no part of the original, and its cursor stays where it is.
  const original = field.dataset.original ?? field.defaultValue;
  const typing = document.activeElement === field;
  const language = LANGUAGES[field.dataset.language];
  const describes = [field.getAttribute("aria-describedby")].filter(Boolean);
  const attributes = { "aria-multiline": "true", ...(describes.length && { "aria-describedby": describes.join(" ") }) };
  if (field.getAttribute("aria-invalid")) attributes["aria-invalid"] = "true";
  if (label) {
    label.id ||= `${field.id}_label`;
    label.removeAttribute("for");
    attributes["aria-labelledby"] = label.id;
  }
  const view = new EditorView({
    doc: field.value,
    selection: typing ? { anchor: field.selectionStart, head: field.selectionEnd } : undefined,
    extensions: [
      EditorView.cspNonce.of(document.querySelector("script[nonce]")?.nonce ?? ""),
      EditorState.lineSeparator.of("\n"),
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ ...attributes, spellcheck: "false", autocapitalize: "off", autocorrect: "off" }),
      EditorView.editorAttributes.of({ class: "code-editor" }),
      lineNumbers(),
      history(),
      // Without Tab: it leaves the editor, as it leaves every field.
      keymap.of([...defaultKeymap, ...historyKeymap]),
      highlightSpecialChars({ specialChars: HIDDEN, addSpecialChars: null, render: code }),
      syntaxHighlighting(classHighlighter),
      ...(language ? [StreamLanguage.define(language)] : []),
      unifiedMergeView({ original, mergeControls: false, allowInlineDiffs: true, syntaxHighlightDeletions: false, gutter: true }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) field.value = update.state.doc.toString();
      }),
    ],
  });
  field.before(view.dom);
  field.hidden = true;
  if (typing) view.focus();
  label?.addEventListener("click", () => view.focus());
}

for (const field of document.querySelectorAll("textarea.code-field")) edit(field);
