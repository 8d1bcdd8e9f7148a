// A form of settings from the server's own description: name, default, one line of help, choices.

import { element } from "./dom.js";

const NUMBERS = new Set(["per_row", "total", "temperature", "weight", "retries", "seed"]);

const titleOf = (name) => name.replaceAll("_", " ").replace(/^./, (letter) => letter.toUpperCase());

export function settingField({ name, default: standard, help, choices, title = name }) {
  const id = `set-${name}`;
  const describedBy = `${id}-help`;
  const shown = standard === null || standard === "" || typeof standard === "boolean" ? "" : ` Default:\u00a0${standard}.`;
  const note = element("p", { class: "help", id: describedBy }, `${help}${shown}`);
  const common = { id, name, "aria-describedby": describedBy };
  if (typeof standard === "boolean") {
    const box = element("input", { ...common, type: "checkbox", checked: standard });
    return element("div", { class: "field" }, element("label", { class: "check" }, box, ` ${titleOf(title)}`), note);
  }
  const input = choices
    ? element("select", common, ...choices.map((choice) => element("option", { value: choice, selected: choice === standard }, choice || "none")))
    : element("input", { ...common, type: NUMBERS.has(name) ? "number" : "text", step: NUMBERS.has(name) ? "any" : null, value: standard ?? "" });
  return element("div", { class: "field" }, element("label", { for: id }, titleOf(title)), input, note);
}

// Only the values that differ from the default.
export function settingValues(descriptions, form) {
  const values = {};
  for (const { name, default: standard } of descriptions) {
    const input = form.elements[name];
    if (!input) continue;
    const value = input.type === "checkbox" ? input.checked : input.type === "number" ? (input.value === "" ? null : Number(input.value)) : input.value;
    if (value !== standard && value !== "" && value !== null) values[name] = value;
  }
  return values;
}
