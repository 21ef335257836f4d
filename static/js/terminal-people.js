// Who else has the terminal open, and who types.

const MAX_NAMES = 3;
const open = document.getElementById("terminal-people");
const writes = document.getElementById("terminal-typing");

// `list`: [{name, you, typing}]; a person may be there with several pages.
export function showPeople(list) {
  const others = names(list.filter((one) => !one.you));
  const typing = names(list.filter((one) => one.typing && !one.you));
  const you = list.filter((one) => one.you);
  const here = others.length ? [...joined(others), ` ${others.length === 1 ? "has" : "have"} this open`] : [];
  if (you.length) here.push(here.length ? "; you have it open elsewhere too" : "You have it open elsewhere too");
  put(open, here);
  if (typing.length) put(writes, [...joined(typing), ` ${typing.length === 1 ? "is" : "are"} typing`]);
  else put(writes, you.some((one) => one.typing) ? ["You are typing elsewhere"] : []);
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
  if (all.length > MAX_NAMES) shown.push(`${all.length - MAX_NAMES} more`);
  return shown.flatMap((name, at) => (at === 0 ? [name] : [at === shown.length - 1 ? " and " : ", ", name]));
}
