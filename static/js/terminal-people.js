// Who else has the terminal open, and who types.

import { fill, gettext, ngettext } from "./texts.js";

const MAX_NAMES = 3;
const open = document.getElementById("terminal-people");
const writes = document.getElementById("terminal-typing");

// `list`: [{name, you, typing}]; a person may be there with several pages.
export function showPeople(list) {
  const others = names(list.filter((one) => !one.you));
  const typing = names(list.filter((one) => one.typing && !one.you));
  const you = list.filter((one) => one.you);
  const here = others.length ? [...joined(others), ngettext(" has this open", " have this open", others.length)] : [];
  if (you.length) here.push(here.length ? gettext("; you have it open elsewhere too") : gettext("You have it open elsewhere too"));
  put(open, here);
  if (typing.length) put(writes, [...joined(typing), ngettext(" is typing", " are typing", typing.length)]);
  else put(writes, you.some((one) => one.typing) ? [gettext("You are typing elsewhere")] : []);
}

// Names in an element each, so that none can change how the words around it are read.
function put(element, parts) {
  if (element.textContent === parts.map((part) => part.textContent ?? part).join("")) return;
  element.replaceChildren(...parts);
}

function names(people) {
  return [...new Set(people.map((one) => one.name))];
}

function joined(all) {
  const shown = all.slice(0, MAX_NAMES).map((name) => {
    const element = document.createElement("bdi");
    element.textContent = name;
    return element;
  });
  if (all.length > MAX_NAMES) shown.push(fill(gettext("%(count)s more"), { count: all.length - MAX_NAMES }));
  return shown.flatMap((name, at) => (at === 0 ? [name] : [at === shown.length - 1 ? gettext(" and ") : ", ", name]));
}
