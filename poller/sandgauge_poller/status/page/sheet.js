// The sheet of one sandbox: what it was asked for, was sent, got and used.

import { at, make, say, tableOf } from "./dom.js";
import { figureOf } from "./plot.js";
import { NONE, ageOf, count, duration, endOf, gaugesOf, gibibytes, lateness, moment, shape, stateOf, words } from "./words.js";

function factsOf(sandbox, now) {
  const { readings, reading, usage, allocation } = sandbox;
  const failure = reading?.error_type ?? usage?.error_type;
  const said = {
    State: [stateOf(sandbox), endOf(sandbox)].filter(Boolean).join(", "),
    Rollout: sandbox.rollout_id,
    Run: sandbox.run_id,
    Request: sandbox.request_id,
    Trace: sandbox.trace_id,
    Deployment: sandbox.deployment ?? sandbox.scope,
    Started: moment(sandbox.started_at),
    Ended: moment(sandbox.ended_at),
    Age: ageOf(sandbox, now),
    Expires: moment(sandbox.expires_at),
    Readings: `${count(readings.count)}, missed ${count(readings.missed)}`,
    Interval: sandbox.interval_s === undefined ? undefined : duration(sandbox.interval_s),
    "Late by": sandbox.lateness_s === undefined ? undefined : lateness(sandbox),
    "Last failure": failure === undefined ? undefined : words(failure),
    "Restarts seen": sandbox.resets ? count(sandbox.resets) : undefined,
    "Runs as": allocation?.designator?.id,
    "Runs on": allocation?.host?.id,
  };
  const known = Object.entries(said).filter(([, value]) => value !== undefined);
  const entries = known.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
  return make("div", { className: "card" }, make("dl", { className: "facts" }, ...entries));
}

function quantitiesOf(sandbox) {
  const { requested, submitted = {}, allocation = {} } = sandbox;
  const lines = [];
  const add = (name, amounts = {}, without = "unknown") =>
    lines.push([name, shape(amounts) || without, amounts.disk_gib === undefined ? NONE : gibibytes(amounts.disk_gib)]);
  add("Requested", requested);
  if (submitted.requests) add("Submitted, requests", submitted.requests);
  add("Submitted, limits", submitted.limits, submitted.sdk_default ? "left to the SDK's default" : "unknown");
  const components = allocation.components ?? [];
  for (const { name, requests, limits } of components) {
    const whose = components.length > 1 ? ` to ${name}` : "";
    if (shape(requests)) add(`Allocated${whose}, requests`, requests);
    add(`Allocated${whose}, limits`, limits);
  }
  if (!components.length) add("Allocated", {}, allocation.error_type ? `unavailable: ${words(allocation.error_type)}` : "unknown");
  const notes = (allocation.notes ?? []).map(words).join(", ");
  return make(
    "div",
    { className: "card" },
    make("h3", {}, "What it was asked for, was sent and got"),
    tableOf(["Quantity", "CPU and memory", "Disk"], lines),
    notes ? make("p", { className: "muted" }, `Noted: ${notes}.`) : null,
  );
}

function contents(answer) {
  if (!answer) return [make("p", { className: "card" }, "No sandbox of that id is followed: it is over, or its start span has not come.")];
  return answer.sandboxes.flatMap((sandbox) => [
    factsOf(sandbox, answer.now),
    ...gaugesOf(sandbox).filter((gauge) => gauge.points.length).map((gauge) => figureOf(gauge, sandbox.plot.end)),
    quantitiesOf(sandbox),
  ]);
}

// Show what was answered about a sandbox: undefined closes the sheet, null is one that is not followed.
export function showSheet(id, answer) {
  const [sheet, body] = [at("sheet"), at("sheet-body")];
  if (answer === undefined) {
    if (sheet.open) sheet.close();
    return;
  }
  say(at("sheet-title"), id);
  // Nothing is taken from under somebody's finger.
  const isHeld = sheet.open && (body.contains(document.activeElement) || body.matches(":hover") && body.querySelector("output:not(:empty)"));
  if (!isHeld) {
    const opened = [...body.querySelectorAll("details")].map((details) => details.open);
    body.replaceChildren(...contents(answer));
    body.querySelectorAll("details").forEach((details, index) => {
      details.open = opened[index] ?? false;
    });
  }
  if (!sheet.open) sheet.showModal();
}
