// What the page shows, as a command and as Python.

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
const python = (text) => JSON.stringify(text).replace(/[\u2028\u2029]/g, (character) => `\\u${character.charCodeAt(0).toString(16)}`);

const changed = ({ n, beams, sample, seed, temperature }) => {
  const values = {};
  if (n !== 1) values.n = n;
  if (!sample && beams !== 4) values.beams = beams;
  if (sample) Object.assign(values, { sample: true, seed, ...(temperature === 1 ? {} : { temperature }) });
  return values;
};

export function asCommand(asked, server) {
  const options = [`--ladder ${asked.steps}`];
  if (asked.raw) options.push("--raw");
  for (const [name, value] of Object.entries(changed(asked))) options.push(value === true ? `--${name}` : `--${name} ${value}`);
  for (const [name, value] of Object.entries(server)) if (value) options.push(`--${name} ${quoted(value)}`);
  const texts = [asked.a, asked.b].map(quoted);
  const apart = [asked.a, asked.b].some((text) => text.startsWith("-")) ? ["--"] : [];
  return ["linda interpolate", ...options, ...apart, ...texts].join(" ");
}

export function asPython(asked, server) {
  const settings = Object.entries({ ...(asked.raw ? { raw: true } : {}), ...changed(asked) })
    .map(([name, value]) => `, ${name}=${value === true ? "True" : value}`).join("");
  const given = [server.model ? python(server.model) : "", server.engine ? `engine=${python(server.engine)}` : ""].filter(Boolean).join(", ");
  return `from linda import Interpolator

linda = Interpolator.from_pretrained(${given})
alpha = [step / ${asked.steps - 1} for step in range(${asked.steps})]
a, b = ${python(asked.a)}, ${python(asked.b)}
print(*linda.mix([a] * ${asked.steps}, [b] * ${asked.steps}, alpha${settings}), sep="\\n")
`;
}
