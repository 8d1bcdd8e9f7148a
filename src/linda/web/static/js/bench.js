// The view "Bench": results of `linda bench`, updated while a run adds cells.

import { byId, element, say, svg } from "./dom.js";
import { getJson, postJson } from "./server.js";

const POLL_MS = 3000;
const ROW = 30;

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

// A folder chosen here is read by the browser: the server sees what is in its cells, and opens no path.
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
    element("td", { class: method.gain?.is_clear ? "number best" : "number" }, method.gain ? signed(method.gain.mean) + plusMinus(method.gain.margin) : ""),
    element("td", { class: "number" }, method.seeds)));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

const plusMinus = (value) => (value === null || value === undefined ? "" : ` ± ${value.toFixed(1)}`);
const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)}`;

// Gains over vanilla in points, with their 95 % intervals. The table beside it has the same numbers.
function gainPlot(methods, name) {
  const compared = methods.filter(({ gain }) => gain);
  if (!compared.length) return element("p", { class: "help" }, "Gains need vanilla and another method.");
  const width = 440, left = 140, right = 16, height = ROW * compared.length + 44;
  const reach = 1.1 * Math.max(1, ...compared.map(({ gain }) => Math.abs(gain.mean) + (gain.margin ?? 0)));
  const x = (points) => left + (width - left - right) * (points + reach) / (2 * reach);
  const rows = compared.map(({ method, gain }, index) => {
    const y = ROW * index + ROW / 2;
    const kind = gain.is_clear ? (gain.mean > 0 ? "clear-up" : "clear-down") : "";
    return svg("g", { class: kind },
      svg("text", { x: left - 12, y: y + 4, "text-anchor": "end" }, method.length > 17 ? `${method.slice(0, 16)}…` : method),
      gain.margin === null ? null : svg("line", { class: "interval", x1: x(gain.mean - gain.margin), x2: x(gain.mean + gain.margin), y1: y, y2: y }),
      svg("circle", { class: "point", cx: x(gain.mean), cy: y, r: 4.5 }));
  });
  const base = ROW * compared.length;
  return svg("svg", { class: "gain", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Gain over vanilla in points, ${name}` },
    svg("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: base + 4 }),
    ...rows,
    svg("text", { x: x(0), y: base + 20, "text-anchor": "middle" }, "0"),
    svg("text", { x: x(-reach / 1.1), y: base + 20, "text-anchor": "middle" }, signed(-reach / 1.1)),
    svg("text", { x: x(reach / 1.1), y: base + 20, "text-anchor": "middle" }, signed(reach / 1.1)),
    svg("text", { x: (left + width - right) / 2, y: base + 38, "text-anchor": "middle" }, "points over vanilla, 95 % interval"));
}
