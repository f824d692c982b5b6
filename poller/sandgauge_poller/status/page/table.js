// The table of sandboxes: a row is made once for each, and changed where its sandbox did.

import { at, fill, make, mark, say } from "./dom.js";
import { Sparkline } from "./plot.js";
import { NONE, SCOPE, ageOf, count, numberOf, duration, endOf, gaugesOf, isLate, lateness, limitsOf, shape, stateOf, toneOf, words } from "./words.js";

class GaugeCell {
  constructor() {
    this.spark = new Sparkline();
    this.value = make("span");
    this.scope = make("span", { className: "scope" });
    this.beside = make("span", { className: "sub" });
    this.gauge = make("div", {}, this.spark.node, make("div", {}, this.value, " ", this.scope, this.beside));
    this.node = make("td", {}, this.gauge);
  }

  show(gauge) {
    mark(this.gauge, "class", gauge ? `gauge ${gauge.scope}` : "gauge none");
    say(this.value, gauge ? gauge.text(gauge.value) : NONE);
    say(this.scope, gauge ? SCOPE[gauge.scope] : "");
    say(this.beside, gauge ? gauge.beside : "");
    if (gauge) this.spark.show(gauge);
  }
}

class Row {
  constructor(choose) {
    this.id = make("button", { type: "button", className: "link id" });
    this.id.addEventListener("click", () => choose(this.sandbox));
    this.where = make("span", { className: "sub place" });
    this.inline = make("span", { className: "sub inline" });
    this.stated = make("span");
    this.rollout = make("span", { className: "id" });
    this.run = make("span", { className: "sub" });
    this.state = make("span");
    this.toned = make("span", { className: "toned" }, make("span", { className: "dot", ariaHidden: "true" }), this.state);
    this.end = make("span", { className: "sub" });
    this.age = make("td", { className: "age number" });
    this.limits = make("span");
    this.others = make("span", { className: "sub" });
    this.cpu = new GaugeCell();
    this.memory = new GaugeCell();
    this.read = make("span");
    this.failure = make("span");
    this.late = make("td");
    this.node = make(
      "tr",
      {},
      make("th", { scope: "row" }, this.id, this.where, this.inline, this.stated),
      make("td", { className: "rollout" }, this.rollout, this.run),
      make("td", { className: "state" }, this.toned, this.end),
      this.age,
      make("td", { className: "limits number" }, this.limits, this.others),
      this.cpu.node,
      this.memory.node,
      make("td", { className: "read" }, this.read, this.failure),
      this.late,
    );
  }

  show(sandbox, now) {
    this.sandbox = sandbox;
    say(this.id, sandbox.sandbox_id);
    say(this.where, sandbox.deployment ?? sandbox.provider ?? "");
    say(this.inline, sandbox.rollout_id === undefined ? "" : `rollout ${sandbox.rollout_id}`);
    say(this.stated, `${stateOf(sandbox)}, ${ageOf(sandbox, now)}${isLate(sandbox) ? `, ${lateness(sandbox)} late` : ""}`);
    mark(this.stated, "class", sandbox.leaked || isLate(sandbox) ? "sub stated bad" : "sub stated");
    say(this.rollout, sandbox.rollout_id ?? NONE);
    say(this.run, sandbox.run_id ?? "");
    mark(this.toned, "data-tone", toneOf(sandbox));
    say(this.state, stateOf(sandbox));
    say(this.end, endOf(sandbox));
    say(this.age, ageOf(sandbox, now));
    this.showLimits(sandbox);
    const gauges = gaugesOf(sandbox);
    this.cpu.show(gauges.find((gauge) => gauge.kind === "CPU"));
    this.memory.show(gauges.find((gauge) => gauge.kind === "Memory"));
    this.showReading(sandbox, now);
  }

  showLimits(sandbox) {
    const { components = [], main_component: main, error_type: error } = sandbox.allocation ?? {};
    const others = components.length > 1 ? `${main ? "+ " : ""}${numberOf(components.length - (main ? 1 : 0), "container", "containers")}` : "";
    say(this.limits, shape(limitsOf(sandbox)) || NONE);
    say(this.others, error ? words(error) : others);
  }

  showReading(sandbox, now) {
    const reading = sandbox.reading ?? sandbox.usage;
    const failure = reading?.error_type ?? (reading?.failed_in_a_row ? "no answer" : "");
    say(this.read, reading?.at === undefined ? NONE : `${duration(now - reading.at)} ago`);
    say(this.failure, words(failure));
    mark(this.failure, "class", sandbox.state === "active" ? "sub bad" : "sub");
    say(this.late, lateness(sandbox));
    mark(this.late, "class", isLate(sandbox) ? "late number bad" : "late number");
  }
}

const rows = new Map();

// Show one page of sandboxes, each as a row that calls `choose` with its sandbox.
export function showRows({ now, matched, offset, sandboxes }, total, choose) {
  const shown = new Map(sandboxes.map((sandbox) => [`${sandbox.deployment ?? sandbox.provider} ${sandbox.sandbox_id}`, sandbox]));
  for (const key of rows.keys()) if (!shown.has(key)) rows.delete(key);
  const nodes = [...shown].map(([key, sandbox]) => {
    if (!rows.has(key)) rows.set(key, new Row(choose));
    rows.get(key).show(sandbox, now);
    return rows.get(key).node;
  });
  const body = at("rows");
  nodes.forEach((node, index) => {
    if (body.children[index] !== node) body.insertBefore(node, body.children[index] ?? null);
  });
  while (body.children.length > nodes.length) body.lastChild.remove();
  fill(at("sandboxes-title"), ["Sandboxes", make("span", { className: "count" }, matched === total ? count(total) : `${count(matched)} of ${count(total)}`)]);
  at("empty").hidden = nodes.length > 0;
  say(at("empty"), total ? "No sandbox matches." : "No sandbox yet. One appears as soon as its start span reaches the poller.");
  say(at("range"), nodes.length ? `${count(offset + 1)}–${count(offset + nodes.length)} of ${count(matched)}` : "");
  at("previous").disabled = offset === 0;
  at("next").disabled = offset + nodes.length >= matched;
}

// Make a button of each head that sorts, which calls `sorted` with the column and its first direction.
export function makeSortable(sorted) {
  for (const head of document.querySelectorAll("th[data-sort]")) {
    const button = make("button", { type: "button" }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => sorted(head.dataset.sort, head.dataset.first ?? "asc"));
  }
}

export function showSorting(sort, order) {
  for (const head of document.querySelectorAll("th[data-sort]")) {
    mark(head, "aria-sort", head.dataset.sort === sort ? { asc: "ascending", desc: "descending" }[order] : "");
  }
}
