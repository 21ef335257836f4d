// The texts of scripts. English stands in the code; for another language the page loads /texts.js before its modules,
// which defines gettext and ngettext (Django's JavaScript catalogue).

export const gettext = globalThis.gettext ?? ((text) => text);
export const ngettext = globalThis.ngettext ?? ((one, many, count) => (count === 1 ? one : many));

/** Fill the places %(name)s of a text. */
export function fill(text, values) {
  return text.replace(/%\((\w+)\)s/g, (place, name) => values[name] ?? place);
}
