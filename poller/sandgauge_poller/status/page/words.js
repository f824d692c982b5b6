// What the JSON says, in words for people. What is not known is a dash, never zero.

export const NONE = "–";

const counted = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dated = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

const digits = (value, most) => counted.format(Number(value.toPrecision(most)));

export const count = (value) => counted.format(Math.round(value));
export const numberOf = (value, one, many) => `${count(value)} ${Math.round(value) === 1 ? one : many}`;
export const time = (seconds) => clock.format(new Date(seconds * 1000));
export const moment = (seconds) => (seconds === undefined ? undefined : dated.format(new Date(seconds * 1000)));
export const words = (text) => text.replaceAll("_", " ");
export const cpus = (value) => (value < 0.005 ? "0" : digits(value, 2));
export const percent = (value) => `${value < 9.95 ? value.toFixed(1) : Math.round(value)} %`;
export const mebibytes = (value) => (value >= 1024 ? `${digits(value / 1024, 3)} GiB` : `${digits(value, 3)} MiB`);
export const gibibytes = (value) => `${digits(value, 3)} GiB`;

export function bytes(value) {
  if (value < 1024) return `${value} B`;
  return value < 2 ** 20 ? `${digits(value / 1024, 3)} KiB` : mebibytes(value / 2 ** 20);
}

export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export const SCOPE = { node: "node", sandbox: "sandbox", unknown: "scope unknown" };
export const EVIDENCE = {
  source: "the source itself sees this sandbox alone",
  total_exceeds_limit: "the memory total is above the sandbox's limit",
  shared_total: "sandboxes with other limits on this host show the same memory total",
  total_matches_limit: "the memory total is the sandbox's limit",
  constant_zero: "the daemon cannot see CPU: it always says 0",
  no_limit: "there is no limit to compare with",
  undecided: "nothing decides it yet",
};

const TONES = { active: "good", paused: "warn", unmatched: "warn" };

export const stateOf = (sandbox) => (sandbox.leaked ? "leaked" : words(sandbox.state));
export const toneOf = (sandbox) => (sandbox.leaked ? "bad" : TONES[sandbox.state]);
export const endOf = (sandbox) => (sandbox.oom_killed ? "killed for memory" : (sandbox.end_reason ?? ""));
export const ageOf = (sandbox, now) =>
  sandbox.started_at === undefined ? NONE : duration((sandbox.ended_at ?? now) - sandbox.started_at);
export const isLate = (sandbox) => sandbox.lateness_s > sandbox.interval_s;

// A reading takes up to two seconds by itself.
export function lateness(sandbox) {
  if (sandbox.lateness_s === undefined) return NONE;
  return sandbox.lateness_s < 2.5 ? "on time" : duration(sandbox.lateness_s);
}

export function limitsOf(sandbox) {
  const { components = [], main_component: main } = sandbox.allocation ?? {};
  return components.find((component) => component.name === main)?.limits ?? {};
}

export function shape(amounts) {
  const said = [];
  if (amounts.cpu !== undefined) said.push(`${cpus(amounts.cpu)} CPU`);
  if (amounts.memory_mib !== undefined) said.push(mebibytes(amounts.memory_mib));
  if (amounts.gpu) said.push(`${amounts.gpu} ${amounts.gpu_type ?? "GPU"}`);
  return said.join(" · ");
}

// What it used: as the source says that sees the sandbox itself where there is one, then as its daemon says.
// `most` is the full height of a plot, `limit` what may be set against the numbers: a node's never are.
export function gaugesOf(sandbox) {
  const { reading = {}, usage = {}, plot = {} } = sandbox;
  const { cpu, memory_mib: memory } = limitsOf(sandbox);
  const own = reading.memory_scope === "sandbox" ? memory : undefined;
  const asLimit = (text) => (text === undefined ? "" : `of ${text}`);
  const known = (value, text) => (value === undefined ? undefined : text(value));
  const all = [
    {
      kind: "CPU", key: "cpu_used_cores", source: usage.source, scope: "sandbox", evidence: "source",
      text: (value) => `${cpus(value)} ${cpus(value) === "1" ? "core" : "cores"}`, most: cpu, limit: cpu, beside: asLimit(known(cpu, cpus)),
    },
    {
      kind: "CPU", key: "cpu_used_percentage", source: reading.source, scope: reading.cpu_scope, evidence: reading.cpu_scope_evidence,
      text: percent, most: 100, beside: asLimit(known(reading.cpu_count, (value) => `${cpus(value)} CPU`)),
    },
    {
      kind: "Memory", key: "memory_working_set_mib", source: usage.source, scope: "sandbox", evidence: "source",
      text: mebibytes, most: memory, limit: memory, beside: asLimit(known(memory, mebibytes)),
    },
    {
      kind: "Memory", key: "memory_used_mib", source: reading.source, scope: reading.memory_scope, evidence: reading.memory_scope_evidence,
      text: mebibytes, most: own ?? reading.memory_total_mib, limit: own, beside: asLimit(known(reading.memory_total_mib, mebibytes)),
    },
  ];
  return all
    .map((gauge) => ({ ...gauge, scope: gauge.scope ?? "unknown", value: usage[gauge.key] ?? reading[gauge.key], points: plot[gauge.key] ?? [] }))
    .filter((gauge) => gauge.value !== undefined);
}
