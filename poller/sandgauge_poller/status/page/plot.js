// Plots of an hour, one point a minute, the newest at the right; a minute without a reading is a gap.

import { draw, make, mark, say, tableOf } from "./dom.js";
import { EVIDENCE, SCOPE, time } from "./words.js";

const MINUTES = 60;
const [WIDE, HIGH] = [590, 100];

export const highest = (points) => points.reduce((most, point) => Math.max(most, point ?? 0), 0);
const heightOf = (gauge) => Math.max(gauge.most ?? 0, gauge.most ? 0 : 1.1 * highest(gauge.points)) || 1;

function* runsOf(points) {
  let run = [];
  for (const [index, value] of [...points, null].entries()) {
    if (value !== null) run.push([MINUTES - points.length + index, value]);
    else if (run.length) {
      yield run;
      run = [];
    }
  }
}

export function pathsOf(points, most, width, height) {
  const x = (minute) => ((minute * width) / (MINUTES - 1)).toFixed(1);
  const y = (value) => (height - (Math.min(value, most) / most) * height).toFixed(1);
  const paths = { line: "", area: "" };
  for (const run of runsOf(points)) {
    const drawn = run.map(([minute, value]) => `${x(minute)} ${y(value)}`).join("L");
    paths.line += `M${drawn}${run.length === 1 ? "h0.01" : ""}`;
    paths.area += `M${x(run[0][0])} ${height}L${drawn}L${x(run.at(-1)[0])} ${height}Z`;
  }
  return paths;
}

export class Sparkline {
  constructor() {
    this.area = draw("path", { class: "area" });
    this.line = draw("path", { class: "stroke" });
    this.newest = draw("path", { class: "newest" });
    const base = draw("path", { class: "grid", d: "M0 26H84" });
    this.node = draw("svg", { class: "spark", viewBox: "-1 -2 88 29", "aria-hidden": "true" }, base, this.area, this.line, this.newest);
  }

  show(gauge) {
    const most = heightOf(gauge);
    const { line, area } = pathsOf(gauge.points, most, 84, 26);
    mark(this.line, "d", line);
    mark(this.area, "d", area);
    const last = gauge.points.at(-1);
    mark(this.newest, "d", last === undefined || last === null ? "" : pathsOf([last], most, 84, 26).line);
  }
}

const gridlines = () => [0, 25, 50, 75, 100].map((y) => draw("path", { class: "grid", d: `M0 ${y}H${WIDE}` }));

function canvas(label, ...parts) {
  return draw("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, ...gridlines(), ...parts);
}

function framed(svg, most) {
  const scale = make("div", { className: "scale", ariaHidden: "true" }, make("span", {}, most), make("span", {}, "0"));
  const marks = ["−60 min", "−45 min", "−30 min", "−15 min", "now"].map((text) => make("span", {}, text));
  return make("div", { className: "chart" }, svg, scale, make("div", { className: "times", ariaHidden: "true" }, ...marks));
}

export function chartOf(series, most, label, text) {
  const drawn = series.map(([name, points]) => {
    const { line, area } = pathsOf(points, most, WIDE, HIGH);
    return draw("g", { class: name }, draw("path", { class: "area", d: area }), draw("path", { class: "stroke", d: line }));
  });
  return framed(canvas(label, ...drawn), text(most));
}

export function figureOf(gauge, end) {
  const { points } = gauge;
  const most = heightOf(gauge);
  const { line, area } = pathsOf(points, most, WIDE, HIGH);
  const known = points.filter((point) => point !== null);
  const label = `${gauge.kind} over the last hour, the highest of each minute: from ${gauge.text(Math.min(...known))} to ${gauge.text(Math.max(...known))}`;
  const cross = draw("path", { class: "cross" });
  const limit = gauge.limit ? [draw("path", { class: "limit", d: `M0 ${HIGH * (1 - gauge.limit / most)}H${WIDE}` })] : [];
  const svg = canvas(label, draw("path", { class: "area", d: area }), draw("path", { class: "stroke", d: line }), ...limit, cross);
  const pointed = make("output");
  const timeOf = (index) => time(end - 60 * (points.length - 1 - index));
  const textOf = (value) => (value === null ? "no reading" : gauge.text(value));
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const minute = Math.round(((event.clientX - box.left) / box.width) * (MINUTES - 1));
    const index = minute - (MINUTES - points.length);
    const isThere = points[index] !== undefined;
    mark(cross, "d", isThere ? `M${(minute * WIDE) / (MINUTES - 1)} 0V${HIGH}` : "");
    say(pointed, isThere ? `${timeOf(index)} · ${textOf(points[index])}` : "");
  });
  svg.addEventListener("pointerleave", () => {
    mark(cross, "d", "");
    say(pointed, "");
  });
  const minutes = points.map((value, index) => [timeOf(index), textOf(value)]).reverse();
  const table = make("div", { className: "points", tabIndex: 0, role: "region", ariaLabel: `${gauge.kind}, minute by minute` }, tableOf(["Minute", "Highest"], minutes));
  const why = EVIDENCE[gauge.evidence];
  return make(
    "figure",
    { className: `card ${gauge.scope}` },
    make("figcaption", {}, make("strong", {}, gauge.kind), `${gauge.text(gauge.value)} ${gauge.beside}`, make("span", { className: "scope" }, SCOPE[gauge.scope]), pointed),
    framed(svg, gauge.text(most)),
    make("p", { className: "muted" }, `From ${gauge.source}.${why ? ` Scope: ${why}.` : ""}`),
    make("details", {}, make("summary", {}, "As a table"), table),
  );
}
