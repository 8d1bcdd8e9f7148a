// The view "Path": two texts, a slider, and the texts between.

import { asCommand, asPython } from "./commands.js";
import { byId, copy, element, say } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import * as fragment from "./fragment.js";
import { percent, signedScore } from "./numbers.js";
import { events, send } from "./server.js";
import { drawStrip } from "./strip.js";
import { legend, marked } from "./words.js";

const NUMBERS = { steps: 11, n: 1, beams: 4, seed: 0, temperature: 1 };

let server = { model: null, engine: null }; // as the server was started
let shown = null; // the last request, with its results from the first text to the second
let written = null; // the result in large type: screen readers announce it, so it is replaced only if it changes
let running = null; // an AbortController
const known = new Map(); // results of earlier requests, so that switching back is instant

export const useServer = (given) => { server = given; };

export function startPath() {
  for (const [index, { name }] of EXAMPLES.entries()) byId("example").append(element("option", { value: index }, name));
  byId("example").addEventListener("change", useExample);
  byId("path-form").addEventListener("submit", (event) => { event.preventDefault(); run(); });
  byId("alpha").addEventListener("input", () => choose(Number(byId("alpha").value)));
  byId("sample").addEventListener("change", enableSettings);
  for (const radio of document.getElementsByName("ratio")) radio.addEventListener("change", () => shown && run());
  byId("copy-command").addEventListener("click", () => copyAs(asCommand(shown.asked, server), "The command"));
  byId("copy-python").addEventListener("click", () => copyAs(asPython(shown.asked, server), "The Python code"));
  byId("copy-link").addEventListener("click", () => copyAs(location.href, "The link"));
  new ResizeObserver(() => shown && draw()).observe(byId("strip"));
  enableSettings();
}

// Restores the state in a link, as if it had been typed.
export function openPath(values) {
  if (!values.get("a") || !values.get("b")) {
    if (!byId("text-a").value) fill(EXAMPLES[0]);
    return;
  }
  fill({ a: values.get("a"), b: values.get("b") });
  for (const name of Object.keys(NUMBERS)) if (values.has(name)) byId(name).value = values.get(name);
  byId("sample").checked = values.get("sample") === "1";
  document.querySelector(`input[name="ratio"][value="${values.get("raw") === "1" ? "raw" : "calibrated"}"]`).checked = true;
  enableSettings();
  run(Number(values.get("at") ?? NaN));
}

function fill({ a, b, note = "" }) {
  byId("text-a").value = a;
  byId("text-b").value = b;
  say(byId("example-note"), note);
  byId("example-note").hidden = !note;
}

function useExample() {
  const example = EXAMPLES[byId("example").value];
  if (example) { fill(example); run(); }
}

function enableSettings() {
  const sample = byId("sample").checked;
  byId("beams").disabled = sample;
  byId("seed").disabled = byId("temperature").disabled = !sample;
}

function asked() {
  const number = (name) => Number(byId(name).value);
  const sample = byId("sample").checked;
  return {
    a: byId("text-a").value,
    b: byId("text-b").value,
    steps: number("steps"),
    n: number("n"),
    raw: document.querySelector('input[name="ratio"]:checked').value === "raw",
    beams: sample ? NUMBERS.beams : number("beams"),
    sample,
    seed: sample ? number("seed") : NUMBERS.seed,
    temperature: sample ? number("temperature") : NUMBERS.temperature,
  };
}

async function run(at = NaN) {
  running?.abort();
  const controller = running = new AbortController();
  const question = asked();
  const key = JSON.stringify(question);
  const { steps, ...settings } = question;
  const place = Number.isNaN(at) ? (shown?.asked.steps === steps ? shown.now : Math.floor(steps / 2)) : Math.min(at, steps - 1);
  try {
    if (!known.has(key)) {
      say(byId("path-status"), "Writing…");
      setRunning(true);
      const results = Array(steps).fill(null);
      // From the second text (α = 0) to the first, as `linda interpolate --ladder` does: the same draws.
      const alpha = Array.from({ length: steps }, (_, step) => step / (steps - 1));
      const answer = await send("/v1/interpolate", { ...settings, alpha, stream: true, origins: true, scores: true }, { signal: controller.signal });
      for await (const [name, data] of events(answer)) {
        if (name === "error") throw new Error(data.error);
        if (name !== "result") continue;
        results[steps - 1 - data.index] = data;
        show(question, results, place);
      }
      if (known.size >= 20) known.delete(known.keys().next().value);
      known.set(key, results);
    }
    show(question, known.get(key), place);
    say(byId("path-status"), "");
  } catch (error) {
    if (error.name === "AbortError") return;
    say(byId("path-status"), error.message, true);
  } finally {
    if (running === controller) setRunning(false);
  }
}

function setRunning(isRunning) {
  byId("path-run").disabled = isRunning;
  say(byId("path-run"), isRunning ? "Writing…" : "Write the path");
}

function show(question, results, place) {
  shown = { asked: question, results, now: place };
  byId("path-result").hidden = false;
  byId("alpha").max = question.steps - 1;
  byId("path-list").replaceChildren(...results.map(pathRow));
  choose(place);
}

function pathRow(result, index) {
  if (!result) return element("li", {}, element("button", { type: "button", disabled: true }, "…"));
  const [score] = result.scores;
  const numbers = `${percent(result.shares[0])} first${score === null ? "" : ` · score ${signedScore(score)}`}`;
  return element("li", {}, element("button", { type: "button", click: () => choose(index) },
    element("span", { class: "alpha" }, ratio(result.alpha)),
    element("span", {}, ...marked(result.words[0])),
    element("span", { class: "numbers" }, numbers)));
}

const ratio = (alpha) => String(Math.round(alpha * 100) / 100);

function choose(index) {
  shown.now = index;
  const slider = byId("alpha");
  slider.value = index;
  const alpha = 1 - index / (shown.asked.steps - 1);
  slider.setAttribute("aria-valuetext", `${percent(alpha)} first text`);
  say(byId("ratio-shown"), `α = ${ratio(alpha)}`);
  const result = shown.results[index];
  if (result && result !== written) {
    written = result;
    byId("output").replaceChildren(element("span", {}, ...marked(result.words[0])));
    byId("legend").replaceChildren(...legend(result.words[0]));
    byId("candidates").hidden = result.texts.length < 2;
    byId("candidates").replaceChildren(...result.words.slice(1).map((pieces) => element("li", {}, ...marked(pieces))));
  }
  for (const [number, row] of [...byId("path-list").children].entries()) {
    row.firstChild.setAttribute("aria-current", String(number === index));
  }
  draw();
  remember();
}

const draw = () => drawStrip(byId("strip"), shown.results, shown.now, choose);

function remember() {
  if (fragment.read().view !== "path" && fragment.read().view !== "") return;
  const { a, b, raw, sample, ...numbers } = shown.asked;
  const changed = Object.entries(numbers).filter(([name, value]) => value !== NUMBERS[name]);
  fragment.write("path", { a, b, ...Object.fromEntries(changed), ...(raw ? { raw: 1 } : {}), ...(sample ? { sample: 1 } : {}), at: shown.now });
}

async function copyAs(text, what) {
  await copy(text);
  say(byId("copied"), `${what} is copied.`);
}
