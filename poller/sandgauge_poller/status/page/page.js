// The live page: asks the poller's JSON every few seconds, and shows it.

import { announce, at, make, mark, say } from "./dom.js";
import { showOverview } from "./overview.js";
import { showSheet } from "./sheet.js";
import { makeSortable, showRows, showSorting } from "./table.js";
import { numberOf, duration } from "./words.js";

const REFRESH_MS = 5000;
const TYPING_MS = 150;
const ROWS = 100;
const PLAIN = { q: "", show: "all", deployment: "", sort: "age", order: "desc", page: "0" };

// What is asked for stands in the address, so that it can be kept and sent to others.
const wanted = { ...PLAIN, ...Object.fromEntries(new URLSearchParams(location.search)) };
const addressOf = (sandbox) => `#/${encodeURIComponent(sandbox.sandbox_id)}`;

function chosenId() {
  if (!location.hash.startsWith("#/")) return "";
  const written = location.hash.slice(2);
  try {
    return decodeURIComponent(written);
  } catch {
    return written; // by hand, with a % that stands for itself
  }
}

function keepInAddress() {
  const changed = Object.entries(wanted).filter(([key, value]) => value !== PLAIN[key]);
  const search = new URLSearchParams(changed).toString();
  history.replaceState(null, "", `${search ? `?${search}` : location.pathname}${location.hash}`);
}

function query() {
  const { page, ...rest } = wanted;
  const said = Object.entries(rest).filter(([key, value]) => key in PLAIN && value);
  return new URLSearchParams([...said, ["offset", ROWS * Number(page) || 0], ["limit", ROWS]]);
}

async function ask(path, signal) {
  const answer = await fetch(path, { signal });
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

let timer;
let asking = new AbortController();
let answeredAt = Date.now();
let isPaused = false;

async function askAll(id, signal) {
  const [overview, list, sandbox] = await Promise.all([
    ask("api/v1/overview", signal),
    ask(`api/v1/sandboxes?${query()}`, signal),
    id ? ask(`api/v1/sandboxes/${encodeURIComponent(id)}`, signal) : undefined,
  ]);
  return { id, overview, list, sandbox };
}

async function refresh({ announces = false } = {}) {
  clearTimeout(timer);
  asking.abort();
  asking = new AbortController();
  let answers;
  try {
    answers = await askAll(chosenId(), asking.signal);
  } catch (error) {
    if (error.name === "AbortError") return;
  }
  if (!isPaused && !document.hidden) timer = setTimeout(refresh, REFRESH_MS);
  if (answers) answeredAt = Date.now();
  showConnection(Boolean(answers));
  if (answers) show(answers, announces);
}

function show({ id, overview, list, sandbox }, announces) {
  const { matched, offset } = list;
  if (matched && matched <= offset) {
    want({ page: `${Math.ceil(matched / ROWS) - 1}` }); // the fleet became smaller
    return;
  }
  showOverview(overview, addressOf);
  showDeployments(overview.deployments.map((deployment) => deployment.name));
  showRows(list, overview.sandboxes.total, (chosen) => {
    location.hash = addressOf(chosen);
  });
  showSheet(id, sandbox);
  if (announces) announce(`Found ${numberOf(matched, "sandbox", "sandboxes")}.`);
  if (!performance.getEntriesByName("rows-shown").length) requestAnimationFrame(() => performance.mark("rows-shown"));
}

function showConnection(isAnswering) {
  const connection = at("connection");
  const wasLost = connection.dataset.tone === "bad";
  if (!isAnswering && !wasLost) announce("The poller gives no answer.");
  if (isAnswering && wasLost) announce("The poller answers again.");
  mark(connection, "data-tone", isAnswering ? (isPaused ? "warn" : "good") : "bad");
  const silence = `No answer for ${duration((Date.now() - answeredAt) / 1000)}; this is how it was then`;
  say(at("connection-text"), isAnswering ? (isPaused ? "Paused" : "Live") : silence);
}

function showDeployments(names) {
  const select = at("deployment");
  const options = [...new Set([...names, wanted.deployment])].filter(Boolean);
  if (options.length !== select.options.length - 1) {
    select.replaceChildren(...["", ...options].map((name) => make("option", { value: name }, name || "All deployments")));
    select.value = wanted.deployment;
  }
  select.hidden = options.length < 2;
}

function want(changes) {
  Object.assign(wanted, { page: PLAIN.page }, changes);
  keepInAddress();
  showSorting(wanted.sort, wanted.order);
  refresh({ announces: true });
}

makeSortable((sort, first) => want({ sort, order: wanted.sort === sort ? { asc: "desc", desc: "asc" }[wanted.order] : first }));
showSorting(wanted.sort, wanted.order);

let typing;
at("text").value = wanted.q;
at("text").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => want({ q: event.target.value.trim() }), TYPING_MS);
});
at("show").value = wanted.show;
for (const key of ["show", "deployment"]) at(key).addEventListener("change", (event) => want({ [key]: event.target.value }));
at("leaks-all").addEventListener("click", () => {
  at("show").value = "leaked";
  want({ show: "leaked" });
});
at("previous").addEventListener("click", () => want({ page: `${Number(wanted.page) - 1}` }));
at("next").addEventListener("click", () => want({ page: `${Number(wanted.page) + 1}` }));

at("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  mark(at("pause"), "aria-pressed", `${isPaused}`);
  refresh();
});
document.addEventListener("visibilitychange", () => (document.hidden || isPaused ? clearTimeout(timer) : refresh()));

addEventListener("hashchange", () => refresh());
at("close").addEventListener("click", () => at("sheet").close());
at("sheet").addEventListener("click", (event) => event.target === at("sheet") && at("sheet").close());
at("sheet").addEventListener("close", () => {
  if (chosenId()) history.replaceState(null, "", location.pathname + location.search);
});

refresh();
