// Requests to this server. A token, if required, is kept for this tab only and sent as a header.

const TOKEN = "linda-token";

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
};

let onTokenNeeded = () => {};
export const whenTokenIsNeeded = (callback) => { onTokenNeeded = callback; };

export async function request(path, options = {}) {
  const headers = { ...options.headers };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is `linda serve` still running?");
  }
  if (answer.ok) return answer;
  if (answer.status === 401) onTokenNeeded();
  const { error } = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
  throw Object.assign(new Error(error), { status: answer.status });
}

export const getJson = async (path) => (await request(path)).json();

export const send = (path, body, options = {}) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...options });

export const postJson = async (path, body) => (await send(path, body)).json();

// Server-sent events in the response to a POST (EventSource supports only GET): pairs of name and data.
export async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = Object.fromEntries(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
      yield [lines.event, JSON.parse(lines.data)];
    }
  }
}
