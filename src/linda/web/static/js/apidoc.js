// The OpenAPI description as a page.

import { byId, element, say } from "./dom.js";
import { getJson, token, whenTokenIsNeeded } from "./server.js";

const kind = (schema) => {
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.anyOf) return schema.anyOf.map(kind).join(" | ");
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.type === "array") return `list of ${kind(schema.items ?? {})}`;
  return schema.type ?? "any";
};

// With spaces, so that a long object can wrap.
const shownDefault = (value) => JSON.stringify(value).replaceAll(",", ", ").replaceAll('":', '": ');

function parameters(properties, required = []) {
  const rows = Object.entries(properties).map(([name, schema]) => element("tr", {},
    element("th", { scope: "row" }, element("code", {}, name)),
    element("td", {}, kind(schema), element("p", {}, schema.description ?? "")),
    element("td", { class: "default" }, required.includes(name) ? "required" : schema.default === undefined ? "" : element("code", {}, shownDefault(schema.default)))));
  const head = ["name", "value", "default"].map((name) => element("th", { scope: "col" }, name));
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Parameters" },
    element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
}

function route(path, method, about, schemas) {
  const reference = about.requestBody?.content["application/json"]?.schema.$ref;
  const body = reference && schemas[reference.split("/").pop()];
  return element("section", { class: "route" },
    element("h2", {}, element("code", {}, `${method.toUpperCase()} ${path}`)),
    element("p", {}, about.summary),
    body ? parameters(body.properties, body.required) : null);
}

async function show() {
  try {
    const api = await getJson("/v1/openapi.json");
    byId("token-form").hidden = true;
    say(byId("api-status"), "");
    byId("routes").replaceChildren(...Object.entries(api.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, about]) => route(path, method, about, api.components.schemas))));
    if (token.get()) linkToCopy(api);
  } catch (error) {
    say(byId("api-status"), error.message, true);
  }
}

// A link cannot send a token, so it points to a copy in this page.
function linkToCopy(api) {
  const copy = new Blob([JSON.stringify(api, null, 1)], { type: "application/json" });
  Object.assign(byId("openapi"), { href: URL.createObjectURL(copy), download: "openapi.json" });
}

whenTokenIsNeeded(() => { byId("token-form").hidden = false; byId("token").focus(); });
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token").value);
  show();
});
show();
