// What lies under the slider: the measured share of the first text along the path, and the decoder's score.

import { svg } from "./dom.js";

const INSET = 12; // half of the slider's thumb, so that points stand below it
const SHARE = { top: 26, height: 84 };
const SCORE = { top: 146, height: 34 };

export function drawStrip(node, results, now, onChoose) {
  const width = node.clientWidth;
  const isWide = width > 480;
  const last = results.length - 1;
  const x = (index) => INSET + (width - 2 * INSET) * (last ? index / last : 0);
  const y = (share) => SHARE.top + SHARE.height * (1 - share);
  const done = results.map((result, index) => ({ result, index })).filter(({ result }) => result);
  const scores = done.map(({ result }) => result.scores[0]).filter((score) => score !== null);
  const lowest = Math.min(...scores, -0.01);
  const points = done.map(({ result, index }) => `${x(index)},${y(result.shares[0])}`).join(" ");
  node.replaceChildren(
    svg("text", { x: INSET, y: 12 }, "Measured share of the first text"),
    isWide ? svg("text", { x: width - INSET, y: 12, "text-anchor": "end" }, "dotted: the share asked for") : "",
    svg("line", { class: "frame", x1: INSET, x2: width - INSET, y1: y(0), y2: y(0) }),
    svg("line", { class: "frame", x1: INSET, x2: width - INSET, y1: y(1), y2: y(1) }),
    svg("line", { class: "asked", x1: x(0), y1: y(1), x2: x(last), y2: y(0) }),
    svg("polyline", { class: "share", points }),
    ...done.map(({ result, index }) => svg("circle", {
      class: index === now ? "dot now" : "dot", cx: x(index), cy: y(result.shares[0]), r: index === now ? 6 : 4.5, click: () => onChoose(index),
    })),
    svg("text", { x: INSET, y: SCORE.top - 8 }, "Decoder’s score"),
    svg("text", { x: width - INSET, y: SCORE.top - 8, "text-anchor": "end" }, "longer: surer"),
    ...done.filter(({ result }) => result.scores[0] !== null).map(({ result, index }) => {
      const height = Math.max(2, SCORE.height * (1 - result.scores[0] / (1.15 * lowest)));
      return svg("rect", {
        class: index === now ? "score now" : "score", x: x(index) - 7, width: 14, y: SCORE.top + SCORE.height - height, height, rx: 2, click: () => onChoose(index),
      });
    }),
  );
}
