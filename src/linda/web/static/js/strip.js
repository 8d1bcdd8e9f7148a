// The plot under the slider: the measured share of the first text along the path, and the decoder's score.

import { svg } from "./dom.js";
import { percent, signedScore } from "./numbers.js";

const INSET = 12; // half of the slider's thumb, so that points stand below it
const SHARE = { top: 28, height: 84 };
const SCORE = { top: 156, height: 40 };
const LEAST_RANGE = 0.5; // of scores: smaller differences are drawn small

export function drawStrip(node, results, now, onChoose) {
  const width = node.clientWidth;
  const last = results.length - 1;
  const x = (index) => INSET + (width - 2 * INSET) * (last ? index / last : 0);
  const done = results.map((result, index) => ({ result, index })).filter(({ result }) => result);
  const scored = done.filter(({ result }) => result.scores[0] !== null);
  const scores = scored.map(({ result }) => result.scores[0]);
  const middle = (Math.min(...scores) + Math.max(...scores)) / 2;
  const range = Math.max(LEAST_RANGE, Math.max(...scores) - Math.min(...scores));
  const yOfShare = (share) => SHARE.top + SHARE.height * (1 - share);
  const yOfScore = (score) => SCORE.top + SCORE.height * (0.5 - (score - middle) / range);
  const points = (list, y) => list.map((entry) => `${x(entry.index)},${y(entry)}`).join(" ");
  const marks = (list, draw) => list.map((entry) => draw(entry, { class: entry.index === now ? "now" : "", click: () => onChoose(entry.index) }));
  const shown = results[now];
  const note = (y, text) => (width > 480 ? svg("text", { x: width - INSET, y, "text-anchor": "end" }, text) : "");
  node.replaceChildren(
    svg("text", { x: INSET, y: 14 }, `Measured share of the first text${shown ? `: ${percent(shown.shares[0])}` : ""}`),
    note(14, "dotted: the share asked for"),
    svg("line", { class: "frame", x1: INSET, x2: width - INSET, y1: yOfShare(0), y2: yOfShare(0) }),
    svg("line", { class: "frame", x1: INSET, x2: width - INSET, y1: yOfShare(1), y2: yOfShare(1) }),
    svg("line", { class: "asked", x1: x(0), y1: yOfShare(1), x2: x(last), y2: yOfShare(0) }),
    svg("g", { class: "share" },
      svg("polyline", { points: points(done, ({ result }) => yOfShare(result.shares[0])) }),
      ...marks(done, ({ result, index }, common) =>
        svg("circle", { ...common, cx: x(index), cy: yOfShare(result.shares[0]), r: index === now ? 6 : 4.5 }))),
    svg("text", { x: INSET, y: SCORE.top - 16 }, `Decoder’s score${scores.length && shown ? `: ${signedScore(shown.scores[0])}` : ""}`),
    note(SCORE.top - 16, "higher: reads better"),
    svg("g", { class: "score" },
      svg("polyline", { points: points(scored, ({ result }) => yOfScore(result.scores[0])) }),
      ...marks(scored, ({ result, index }, common) => {
        const size = index === now ? 10 : 7;
        return svg("rect", { ...common, x: x(index) - size / 2, y: yOfScore(result.scores[0]) - size / 2, width: size, height: size, rx: 1.5 });
      })),
  );
}
