// The view "Bench": results of `linda bench`, updated while a run adds cells.

import { byId, element, say, svg } from "./dom.js";
import { signedGain } from "./numbers.js";
import { getJson, postJson } from "./server.js";

const POLL_MS = 3000;
const HEAD = 38, ROW = 41; // heights of rows, as in the style sheet
const PLOT = { names: 34, centre: 66, half: 28 }; // in per cent of the width

let watched = 0;

export async function startBench() {
  byId("bench-folder").addEventListener("change", openFolder);
  byId("bench-files").addEventListener("change", openFiles);
  const { folders } = await getJson("/v1/bench");
  byId("bench-folders").hidden = !folders.length;
  byId("bench-folder").replaceChildren(...folders.map((name, number) => element("option", { value: number }, name)));
  if (folders.length) openFolder();
  else say(byId("bench-status"), "Start with `linda serve --bench FOLDER` to follow a running benchmark, or open a folder that `linda bench` wrote.");
}

async function openFolder() {
  const mine = watched += 1;
  while (mine === watched) {
    if (!document.hidden && !byId("view-bench").hidden) await shown(() => getJson(`/v1/bench/${byId("bench-folder").value}`), "updated as cells are added");
    await new Promise((resolve) => setTimeout(resolve, byId("view-bench").hidden ? 300 : POLL_MS));
  }
}

// The browser reads a folder chosen here and sends the contents of its cells: the server opens no path.
async function openFiles() {
  watched += 1;
  const files = [...byId("bench-files").files].filter((file) => /(^|\/)cells\/[^/]+\.json$/.test(file.webkitRelativePath));
  await shown(async () => {
    if (!files.length) throw new Error("There are no results in this folder; open one that has a folder `cells`.");
    return postJson("/v1/bench", { cells: await Promise.all(files.map(async (file) => JSON.parse(await file.text()))) });
  }, "as it was when opened");
}

async function shown(read, how) {
  try {
    const results = await read();
    say(byId("bench-status"), `${results.cells} cells, ${how}.`);
    byId("bench-result").hidden = false;
    byId("advice").replaceChildren(...results.advice.map((line) => element("li", {}, line)));
    byId("bench-columns").replaceChildren(...results.columns.map(column));
  } catch (error) {
    say(byId("bench-status"), error.message, true);
  }
}

function column({ task, protocol, test, methods }) {
  const name = `${task} ${protocol}${test === "test" ? "" : `, ${test}`}`;
  return element("section", {},
    element("h2", {}, name),
    element("div", { class: "bench-column" },
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Accuracy, ${name}` }, resultTable(methods)),
      gainPlot(methods, name)));
}

function resultTable(methods) {
  const head = ["method", "accuracy", "gain", "seeds"].map((name, index) => element("th", { scope: "col", class: index ? "number" : null }, name));
  const rows = methods.map((method) => element("tr", {},
    element("th", { scope: "row" }, method.method),
    element("td", { class: method.is_best ? "number best" : "number" }, method.mean.toFixed(1) + plusMinus(method.std)),
    element("td", { class: method.gain?.is_clear ? "number best" : "number" }, method.gain ? signedGain(method.gain.mean) + plusMinus(method.gain.margin) : ""),
    element("td", { class: "number" }, method.seeds)));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

const plusMinus = (value) => (value === null || value === undefined ? "" : ` ± ${value.toFixed(1)}`);

// Gains over vanilla in points, with their 95 % intervals, in the rows of the table beside it, which has the same numbers.
function gainPlot(methods, name) {
  const compared = methods.filter(({ gain }) => gain);
  if (!compared.length) return element("p", { class: "help" }, "Gains need vanilla and another method.");
  const reach = Math.max(1, ...compared.map(({ gain }) => Math.abs(gain.mean) + (gain.margin ?? 0)));
  const x = (points) => `${PLOT.centre + PLOT.half * points / reach}%`;
  const bottom = HEAD + ROW * methods.length;
  const rows = methods.map(({ method, gain }, index) => {
    const y = HEAD + ROW * index + ROW / 2;
    const kind = gain?.is_clear ? (gain.mean > 0 ? "clear-up" : "clear-down") : "";
    return svg("g", { class: kind },
      svg("text", { x: `${PLOT.names}%`, y: y + 4, "text-anchor": "end" }, method.length > 17 ? `${method.slice(0, 16)}…` : method),
      gain && gain.margin !== null ? svg("line", { class: "interval", x1: x(gain.mean - gain.margin), x2: x(gain.mean + gain.margin), y1: y, y2: y }) : null,
      svg("circle", { class: gain ? "point" : "reference", cx: x(gain?.mean ?? 0), cy: y, r: 4.5 }));
  });
  const tick = (points) => svg("text", { x: x(points), y: bottom + 18, "text-anchor": "middle" }, signedGain(points).replace(/^0\.0$/, "0"));
  return svg("svg", { class: "gain", height: bottom + 44, role: "img", "aria-label": `Gain over vanilla in points, ${name}` },
    svg("line", { class: "zero", x1: x(0), x2: x(0), y1: HEAD, y2: bottom + 4 }),
    ...rows, tick(-reach), tick(0), tick(reach),
    svg("text", { x: x(0), y: bottom + 38, "text-anchor": "middle" }, "points over vanilla, 95 % interval"));
}
