// The state of the page in the address after "#", which browsers do not send: #path?a=…&b=…

export function read() {
  const [view, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  return { view, values: new URLSearchParams(query) };
}

export function write(view, values) {
  const query = new URLSearchParams(values).toString();
  history.replaceState(null, "", `#${view}${query ? `?${query}` : ""}`);
}
