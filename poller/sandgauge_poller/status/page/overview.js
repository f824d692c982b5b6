// All but the rows: concerns, figures, leaks, and how the poller itself is.

import { at, fill, make, mark, say, tableOf } from "./dom.js";
import { chartOf, highest } from "./plot.js";
import { ageOf, bytes, count, numberOf, duration, limitsOf, shape, words } from "./words.js";

const LEAKS = 5;

export function showOverview(overview, addressOf) {
  const { concerns, sandboxes, started_at: began, now, version } = overview;
  say(at("version"), `${version} · up ${duration(now - began)}`);
  document.title = sandboxes.leaked ? `Sandgauge · ${count(sandboxes.leaked)} leaked` : "Sandgauge";
  at("concerns").hidden = concerns.length === 0;
  fill(at("concerns"), concerns.map(({ severity, text, cure }) => make("li", { className: severity }, make("strong", {}, text), make("span", { className: "muted" }, cure))));
  fill(at("tiles"), tiles(overview));
  showLeaks(overview, addressOf);
  fill(at("poller"), cards(overview));
}

function tiles({ sandboxes, outbox, readings = {} }) {
  const tile = (name, figure, note, tone = "") => {
    const value = make("dd", { className: "figure" }, figure);
    mark(value, "data-tone", tone);
    return make("div", {}, make("dt", {}, name), value, make("dd", { className: "note" }, note));
  };
  const others = Object.entries(sandboxes.by_state).filter(([state, number]) => number && state !== "active");
  const signals = Object.values(outbox);
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
  const lost = sum(signals.map(({ items }) => (items.dropped ?? 0) + (items.rejected ?? 0)));
  const oldest = Math.max(0, ...signals.map((signal) => signal.age_s));
  const [answered, failed] = [readings.answered?.at(-2) ?? 0, readings.failed?.at(-2) ?? 0];
  return [
    tile("Sandboxes", count(sandboxes.total), others.map(([state, number]) => `${count(number)} ${words(state)}`).join(" · ") || (sandboxes.total ? "all active" : "none yet")),
    tile("Leaked", count(sandboxes.leaked), "outlive rollout or stop", sandboxes.leaked ? "bad" : ""),
    tile("Failing", count(sandboxes.failing), "gave nothing when last read", sandboxes.failing ? "warn" : ""),
    tile("Late", count(sandboxes.late), "by more than an interval", sandboxes.late ? "warn" : ""),
    tile("Readings a minute", count(answered + failed), failed ? `${count(failed)} gave nothing` : "in the last full minute"),
    tile("To be sent", bytes(sum(signals.map((signal) => signal.bytes))), lost ? `${count(lost)} lost so far` : `oldest ${duration(oldest)}`, lost ? "warn" : ""),
  ];
}

function showLeaks({ leaks, sandboxes, now }, addressOf) {
  at("leaks").hidden = sandboxes.leaked === 0;
  say(at("leaks-title"), numberOf(sandboxes.leaked, "leaked sandbox", "leaked sandboxes"));
  at("leaks-all").hidden = sandboxes.leaked <= LEAKS;
  const lines = leaks.slice(0, LEAKS).map((sandbox) => {
    const link = make("a", { className: "id", href: addressOf(sandbox) }, sandbox.sandbox_id);
    const rollout = sandbox.rollout_id === undefined ? undefined : `rollout ${sandbox.rollout_id}`;
    const said = [`${ageOf(sandbox, now)} old`, shape(limitsOf(sandbox)), rollout, sandbox.run_id, sandbox.deployment].filter(Boolean);
    return make("li", {}, link, make("span", {}, said.join(" · ")));
  });
  fill(at("leaks-list"), lines);
}

function cards({ deployments, outbox, readings = {} }) {
  const planes = deployments.map(({ name, sandboxes, effective_interval_s: every, control_plane: plane }) => {
    const ago = plane.seconds_ago === undefined ? "" : `, ${duration(plane.seconds_ago)} ago`;
    return [name, count(sandboxes.total), every ? duration(every) : "not read", `${words(plane.last_answer)}${ago}`];
  });
  const signals = Object.entries(outbox).map(([signal, { bytes: size, age_s: age, items }]) => {
    const [delivered, rejected, dropped] = ["delivered", "rejected", "dropped"].map((outcome) => count(items[outcome] ?? 0));
    return [signal, `${bytes(size)}, ${duration(age)}`, delivered, rejected, dropped];
  });
  const { answered = [], failed = [] } = readings;
  const most = Math.max(highest(answered), highest(failed)) || 1;
  const nothing = failed.reduce((total, point) => total + (point ?? 0), 0);
  const label = `Readings a minute over the last hour: at most ${count(most)}; ${count(nothing)} in all gave nothing`;
  const card = (title, content) => make("div", { className: "card" }, make("h3", {}, title), content);
  return [
    card("Deployments", tableOf(["Deployment", "Sandboxes", "Read every", "Control plane"], planes)),
    card("Records for the Collector", tableOf(["Signal", "Waiting", "Delivered", "Rejected", "Dropped"], signals)),
    card("Readings a minute", chartOf([["answered", answered], ["failed", failed]], most, label, count)),
  ];
}
