import { startBench } from "./bench.js";
import { byId, say } from "./dom.js";
import * as fragment from "./fragment.js";
import { openPath, startPath, useServer } from "./path.js";
import { getJson, token, whenTokenIsNeeded } from "./server.js";
import { startTable } from "./table.js";

const VIEWS = ["path", "table", "bench"];

function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return;
  token.set(given);
  fragment.write("path", {}); // a copied link must not contain the token
}

function showView(moveFocus) {
  const { view, values } = fragment.read();
  const chosen = VIEWS.includes(view) ? view : "path";
  for (const name of VIEWS) byId(`view-${name}`).hidden = name !== chosen;
  for (const link of document.querySelectorAll("nav a[data-view]")) {
    if (link.dataset.view === chosen) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  if (chosen === "path") openPath(values);
  if (moveFocus) byId("main").focus();
}

// What needs information from the server. The rest starts at once, so that text typed meanwhile is not overwritten.
async function start() {
  const info = await getJson("/v1/info");
  byId("token-form").hidden = true;
  say(byId("about"), `LINDA ${info.version} · ${info.model ?? "embedded model"} · engine ${info.engine} · everything is computed on the machine that runs this server`);
  useServer(info.given);
  startTable(info);
  await startBench();
}

const tell = (error) => error.status === 401 || say(byId("path-status"), error.message, true);

byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token").value);
  start().then(() => showView(true)).catch(tell);
});
whenTokenIsNeeded(() => { byId("token-form").hidden = false; byId("token").focus(); });
takeTokenFromAddress();
startPath();
showView(false);
window.addEventListener("hashchange", () => showView(true));
start().catch(tell);
