import { element } from "./dom.js";

export const ORIGINS = [
  ["a", "first text"],
  ["b", "second text"],
  ["both", "both"],
  ["neither", "neither"],
];

// Nodes for pieces [text, origin]; words are marked by colour and by the style of their underline.
export function marked(pieces) {
  return pieces.map(([text, origin]) =>
    origin === null ? document.createTextNode(text) : element("span", { class: `from-${origin}` }, text));
}

export function legend(pieces) {
  return ORIGINS.map(([origin, name]) => {
    const count = pieces.filter(([, from]) => from === origin).length;
    return element("li", {}, element("span", { class: `from-${origin}` }, name), element("b", {}, count));
  });
}
