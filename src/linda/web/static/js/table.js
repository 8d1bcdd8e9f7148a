// The view "Table": a file in, a preview, a run with a progress bar, a file out.

import { byId, copy, element, say } from "./dom.js";
import { getJson, postJson, request } from "./server.js";
import { settingField, settingValues } from "./settings.js";
import { marked } from "./words.js";

const KEPT = "linda-table"; // the key of this tab's table and run, which survive a reload
const COLUMNS = ["text", "label", "pair"];
const MAIN = ["method", "per_row", "partners", "labels"];
const POLL_MS = 400;

let info = null;
let table = null;
let watched = 0; // number of the latest watcher; earlier ones show nothing

export function startTable(serverInfo) {
  info = serverInfo;
  const uploadChosen = () => byId("file").files[0] && upload(byId("file").files[0].name, byId("file").files[0]);
  byId("file").addEventListener("change", uploadChosen);
  const zone = byId("dropzone");
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (file) upload(file.name, file);
  });
  byId("paste-form").addEventListener("submit", (event) => { event.preventDefault(); upload("pasted.csv", byId("pasted").value); });
  byId("other-file").addEventListener("click", forget);
  byId("table-form").addEventListener("submit", (event) => { event.preventDefault(); begin(true); });
  byId("run-all").addEventListener("click", () => begin(false));
  byId("copy-augment").addEventListener("click", copyCommand);
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  if (kept) { openTable(kept.table, kept.values); if (kept.job) watch(kept.job); }
  else uploadChosen(); // before this script ran
}

const keep = (job) => sessionStorage.setItem(KEPT, JSON.stringify({ table, values: asked(), job }));

async function upload(name, body) {
  say(byId("table-status"), `Reading ${name}…`);
  try {
    const answer = await request(`/v1/tables?name=${encodeURIComponent(name)}`, { method: "POST", body });
    openTable(await answer.json(), {});
    keep(null);
    say(byId("table-status"), "");
    byId("set-text").focus();
  } catch (error) {
    say(byId("table-status"), error.message, true);
  }
  byId("file").value = "";
}

function forget() {
  watched += 1;
  sessionStorage.removeItem(KEPT);
  table = null;
  byId("upload").hidden = false;
  byId("table-work").hidden = true;
  say(byId("table-status"), "");
  byId("file").focus();
}

function openTable(opened, values) {
  table = opened;
  byId("upload").hidden = true;
  byId("table-work").hidden = false;
  for (const part of ["run", "command-box", "preview-result"]) byId(part).hidden = true;
  say(byId("table-name"), `${table.name} · ${table.rows.toLocaleString("en")} rows`);
  byId("first-rows").replaceChildren(
    element("thead", {}, element("tr", {}, ...table.columns.map((column) => element("th", { scope: "col" }, column)))),
    element("tbody", {}, ...table.first_rows.map((row) => element("tr", {}, ...table.columns.map((column) => element("td", {}, shownValue(row[column])))))),
  );
  const described = info.augment_settings.map(withColumns);
  const isMain = ({ name }) => [...COLUMNS, ...MAIN].includes(name);
  const inOrder = [...COLUMNS, ...MAIN].map((name) => described.find((setting) => setting.name === name));
  byId("main-settings").replaceChildren(...inOrder.map(settingField));
  const formats = { name: "output_format", default: table.format, help: "Format of the output file.", choices: ["csv", "tsv", "jsonl", "parquet"] };
  const others = described.filter((setting) => !isMain(setting) && setting.name !== "gates");
  const isSwitch = (setting) => typeof setting.default === "boolean";
  byId("more-settings").replaceChildren(...[...others.filter((setting) => !isSwitch(setting)), formats].map(settingField));
  byId("switches").replaceChildren(...others.filter(isSwitch).map(settingField));
  byId("gates").replaceChildren(...info.gates.map((gate) => settingField({ ...gate, name: `gate_${gate.name}`, title: gate.name })));
  for (const [name, value] of Object.entries(flat(values))) {
    const input = byId("table-form").elements[name];
    if (input?.type === "checkbox") input.checked = value; else if (input) input.value = value;
  }
}

const flat = ({ gates = {}, ...values }) => ({ ...values, ...Object.fromEntries(Object.entries(gates).map(([name, value]) => [`gate_${name}`, value])) });

const shownValue = (value) => (value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));

// Settings that name a column offer the columns of the table.
function withColumns(setting) {
  if (!COLUMNS.includes(setting.name)) return setting;
  if (setting.name === "pair") return { ...setting, choices: ["", ...table.columns], default: "" };
  return { ...setting, choices: table.columns, default: guess(setting.name) };
}

// The column of that name; else the one with the longest values for the text, with the shortest for the label.
function guess(role) {
  if (table.columns.includes(role)) return role;
  const values = (column) => table.first_rows.map((row) => shownValue(row[column]));
  const length = (column) => values(column).join("").length;
  const byLength = [...table.columns].sort((one, other) => length(other) - length(one));
  return role === "text" ? byLength[0] : byLength[byLength.length - 1];
}

function asked() {
  const form = byId("table-form");
  const values = settingValues(info.augment_settings, form);
  values.text = form.elements.text.value;
  values.label = form.elements.label.value;
  const gates = Object.fromEntries(info.gates.map(({ name }) => [name, form.elements[`gate_${name}`].checked]).filter(([, isOn]) => !isOn));
  if (Object.keys(gates).length) values.gates = gates;
  if (form.elements.output_format.value !== table.format) values.output_format = form.elements.output_format.value;
  return values;
}

async function begin(preview) {
  try {
    const job = await postJson(`/v1/tables/${table.id}/jobs`, { ...asked(), preview });
    keep(job.id);
    await watch(job.id);
  } catch (error) {
    say(byId("table-status"), error.message, true);
    if (error.status === 404) forget();
  }
}

async function watch(id) {
  const mine = watched += 1;
  say(byId("table-status"), "");
  byId("stop").onclick = () => request(`/v1/jobs/${id}`, { method: "DELETE" });
  for (;;) {
    let job;
    try {
      job = await getJson(`/v1/jobs/${id}`);
    } catch (error) {
      if (mine === watched) say(byId("table-status"), error.message, true);
      return;
    }
    if (mine !== watched) return;
    showJob(job);
    if (!["waiting", "running"].includes(job.state)) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function showJob(job) {
  const isOver = !["waiting", "running"].includes(job.state);
  byId("command-box").hidden = false;
  say(byId("command"), job.command);
  byId("run").hidden = job.preview && isOver;
  say(byId("run-label"), job.preview ? "Writing the preview" : job.state === "done" ? "All rows are made" : "Making all rows");
  const bar = byId("run-progress");
  bar.max = job.total ?? 1;
  bar.value = Math.min(job.done, bar.max);
  byId("stop").hidden = isOver;
  byId("preview").disabled = byId("run-all").disabled = !isOver;
  say(byId("run-status"), statusOf(job), job.state === "failed");
  if (job.preview && job.state === "failed") say(byId("table-status"), job.error, true);
  byId("download").hidden = !job.file;
  byId("download").onclick = () => download(job);
  if (job.preview && job.state === "done") showPreview(job.result);
}

function statusOf(job) {
  if (job.state === "failed") return job.error;
  if (job.state === "stopped") return "Stopped.";
  if (job.state === "done") return job.preview ? "" : `${count(job.result.made, "new row")} of ${job.result.planned.toLocaleString("en")} planned.`;
  if (job.total === null) return "Starting…";
  const left = job.done ? Math.ceil(job.seconds / job.done * (job.total - job.done)) : null;
  return `${Math.min(job.done, job.total).toLocaleString("en")} of ${job.total.toLocaleString("en")}${left === null ? "" : `, about ${left} s left`}`;
}

const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

async function copyCommand() {
  await copy(byId("command").textContent);
  say(byId("copy-augment"), "Copied");
  setTimeout(() => say(byId("copy-augment"), "Copy"), 2000);
}

async function download(job) {
  const answer = await request(`/v1/jobs/${job.id}/file`);
  const address = URL.createObjectURL(await answer.blob());
  element("a", { href: address, download: job.file }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

function showPreview(result) {
  byId("preview-result").hidden = false;
  const dropped = Object.entries(result.gates).filter(([, { stopped }]) => stopped)
    .map(([gate, { stopped, left_out: out }]) => `${gate}: ${stopped} rejected, ${stopped - out} written again, ${out} left out`);
  say(byId("preview-summary"), `${count(result.made, "row")} of the first ${result.planned} planned; ${result.planned_in_all.toLocaleString("en")} in all. ` +
    (dropped.length ? `Gates: ${dropped.join("; ")}.` : "The gates rejected nothing."));
  byId("preview-rows").replaceChildren(...result.rows.map((row) => card(row, result.label_names)));
}

function card(row, names) {
  const parents = row.parents.map((parent, number) => element("li", {},
    element("b", { class: number ? "from-b" : "from-a" }, `row ${parent.row}`), `${parent.texts.join(" / ")} (${shownValue(parent.label)})`));
  return element("li", { class: "card" },
    element("div", {},
      ...row.words.map((pieces) => element("p", { class: "new" }, ...marked(pieces))),
      element("ul", { class: "parents", "aria-label": "Parents" }, ...parents)),
    element("div", { class: "bars" },
      row.alpha === null ? null : shareBar("share of the first parent", row.alpha),
      ...topLabels(names, row.label_probs).map(([name, share]) => shareBar(`label ${name}`, share))));
}

const topLabels = (names, shares) => names.map((name, index) => [name, shares[index]]).sort((one, other) => other[1] - one[1]).slice(0, 3).filter(([, share], index) => !index || share > 0);

function shareBar(name, share) {
  const bar = element("i", { "aria-hidden": "true" });
  bar.style.setProperty("--share", `${100 * share}%`);
  return element("div", { class: "bar-row" }, element("span", { title: name }, name), element("span", {}, share.toFixed(2)), bar);
}
