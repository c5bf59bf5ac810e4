"use strict";
// Asks /status once a second and puts what it says in its places. Text is only ever set as text.
const EVERY_MS = 1000, PATIENCE_MS = 5000, LAG_IS_HIGH_S = 60;
const byId = (id) => document.getElementById(id);
const places = new Map();
for (const place of document.querySelectorAll("[data-bind]")) {
  const name = place.dataset.bind;
  places.set(name, [...(places.get(name) ?? []), place]);
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
function number(n) { return n > 0 && n < 10 ? String(Math.round(n * 10) / 10) : whole.format(n); }
function three(n) { return n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2); }
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  for (; n >= 1023.5 && unit < units.length - 1; unit++) n /= 1024;
  return [unit ? three(n) : String(n), units[unit]];
}
function duration(s) {
  if (s === 0) return ["0", "s"];
  if (s < 1) return [three(s * 1000), "ms"];
  const n = Math.round(s);
  if (n < 60) return [three(s), "s"];
  if (n < 3600) return [`${Math.floor(n / 60)} min ${n % 60}`, "s"];
  if (n < 86400) return [`${Math.floor(n / 3600)} h ${Math.floor(n % 3600 / 60)}`, "min"];
  return [`${whole.format(Math.floor(n / 86400))} d ${Math.floor(n % 86400 / 3600)}`, "h"];
}
const age = (s) => (s < 60 ? `${Math.floor(s)} s` : text(duration(s)));
const ago = (s) => (s < 1 ? "just now" : `${age(s)} ago`);
const text = (parts) => parts.join(" ");

function element(tag, content, className) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...[content ?? []].flat());
  return made;
}
function put(name, value) {
  for (const place of places.get(name)) if (place.textContent !== value) place.textContent = value;
}
function putFigure(name, [value, unit]) {
  for (const place of places.get(name)) place.replaceChildren(value, ...(unit ? [element("small", unit)] : []));
}

function tiles(now) {
  putFigure("lag", now.lag_s === null ? ["not known"] : duration(now.lag_s));
  put("lagBytes", now.lag_bytes === null ? "" : `${text(bytes(now.lag_bytes))} not confirmed`);
  putFigure("rate", [number(now.records_per_s), "records/s"]);
  put("transactions", `${number(now.transactions_per_s)} transactions/s`);
  putFigure("p50", now.latency_p50_s === null ? ["–"] : duration(now.latency_p50_s));
  put("p99", now.latency_p99_s === null ? "no transaction just now" : `99 % within ${text(duration(now.latency_p99_s))}`);
  putFigure("inflight", [whole.format(now.inflight_records), now.inflight_records === 1 ? "record" : "records"]);
  putFigure("retained", now.retained_wal_bytes === null ? ["–"] : bytes(now.retained_wal_bytes));
  put("budget", now.safe_wal_bytes !== null ? `${text(bytes(now.safe_wal_bytes))} of budget left`
    : now.wal_limited === null ? "budget not known" : "no limit");
}

function flow(now) {
  for (const stage of now.stages) {
    put(`${stage.name}.lsn`, stage.lsn ?? "not known yet");
    const behind = stage.behind_bytes === null ? "–" : text(bytes(stage.behind_bytes));
    if (stage.name === "confirmed") put("confirmed.note", stage.behind_bytes === null ? "" : stage.behind_bytes ? `${behind} to confirm` : "all that Kafka has");
    else if (stage.name !== "server") put(`${stage.name}.behind`, behind);
    for (const line of document.querySelectorAll(`[data-flow=${stage.name}]`)) {
      line.classList.toggle("moving", now.records_per_s > 0 && stage.name !== "confirmed");
      line.classList.toggle("behind", now.lag_s > LAG_IS_HIGH_S && stage.behind_bytes > 0);
    }
  }
}

const SVG = "http://www.w3.org/2000/svg";
function shape(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
class Chart {
  constructor(place, least, format) {
    this.place = place; this.least = least; this.format = format; this.values = []; this.read = null;
    const svg = shape("svg", { viewBox: "0 0 600 100", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.area = shape("path", { class: "area" });
    this.curve = shape("path", { class: "curve" });
    this.at = shape("path", { class: "at" });
    svg.append(...[0, 50, 100].map((y) => shape("path", { class: "grid", d: `M0 ${y}H600` })), this.area, this.curve, this.at);
    [this.top, this.from, this.to, this.value] = ["top", "from", "to", "value"].map((name) => element("span", "", name));
    place.append(svg, this.top, this.from, this.to, this.value);
    this.to.textContent = "now";
    place.addEventListener("pointermove", (event) => { this.read = event.offsetX / place.clientWidth; this.point(); });
    place.addEventListener("pointerleave", () => { this.read = null; this.point(); });
  }
  show(values) {
    this.values = values;
    const most = Math.max(this.least, ...values), step = 600 / Math.max(59, values.length - 1);
    this.x = (i) => 600 - (values.length - 1 - i) * step;
    const runs = [];  // what is not known leaves a gap between them
    values.forEach((value, i) => {
      if (value === null) return;
      if (!i || values[i - 1] === null) runs.push([]);
      runs.at(-1).push([this.x(i).toFixed(1), (100 - 100 * value / most).toFixed(2)]);
    });
    const lines = runs.map((run) => run.map((corner) => corner.join(" ")).join("L"));
    this.curve.setAttribute("d", lines.map((line) => `M${line}`).join(""));
    this.area.setAttribute("d", lines.map((line, i) => `M${runs[i][0][0]} 100L${line}L${runs[i].at(-1)[0]} 100Z`).join(""));
    this.top.textContent = text(this.format(most));
    this.from.textContent = ago(Math.round(600 / step));
    this.point();
  }
  point() {
    const last = this.values.length - 1, i = this.read === null || last < 0 ? -1 : last - Math.round((1 - this.read) * 600 / ((600 - this.x(0)) / last || 10));
    this.place.classList.toggle("read", i >= 0);
    if (i < 0) { this.value.textContent = ""; return; }
    const at = Math.min(last, i);
    this.at.setAttribute("d", `M${this.x(at)} 0V100`);
    const value = this.values[at];
    this.value.textContent = `${value === null ? "not known" : text(this.format(value))}, ${ago(last - at)}`;
  }
}
const rate = (n) => [number(n), "records/s"];
const charts = {
  lag_s: new Chart(document.querySelector("[data-chart=lag_s]"), 0.01, duration),
  records_per_s: new Chart(document.querySelector("[data-chart=records_per_s]"), 10, rate),
};
function history(chart) {
  for (const [name, place] of Object.entries(charts)) place.show(chart[name]);
  const known = chart.lag_s.filter((lag) => lag !== null);
  put("lagWorst", `at worst ${known.length ? text(duration(Math.max(...known))) : "not known"}`);
  put("rateMost", `at most ${number(Math.max(0, ...chart.records_per_s))}`);
}

function rows(id, cells, empty) {
  const body = byId(id).tBodies[0];
  const made = cells.map((row) => element("tr", row.map((cell) => element("td", cell))));
  if (!made.length) {
    const cell = element("td", empty, "empty");
    cell.colSpan = 3;
    made.push(element("tr", cell));
  }
  body.replaceChildren(...made);
}
function tables(now) {
  const fastest = Math.max(1, ...now.tables.map((table) => table.per_s));
  rows("tables", now.tables.map((table) => {
    const name = element("span", table.name), bar = element("span", "", "bar");
    name.title = table.name;
    bar.style.width = `${100 * table.per_s / fastest}%`;
    bar.hidden = table.per_s === 0;
    return [[name, bar], number(table.per_s), whole.format(table.records)];
  }), "No record yet since the start.");
  const more = now.tables_total - now.tables.length;
  put("tablesNote", more > 0 ? `and ${whole.format(more)} more` : "");
}
function meter(id, share) {
  byId(id).style.width = `${Math.min(100, 100 * share)}%`;
  byId(id).classList.toggle("high", share > 0.8);
}
function open(now) {
  const inMemory = now.open.reduce((sum, one) => sum + one.memory_bytes, 0);
  put("memory", `${text(bytes(inMemory))} of ${text(bytes(now.memory_limit_bytes))}`);
  meter("memory", inMemory / now.memory_limit_bytes);
  const free = now.spool_free_bytes;
  put("spool", text(bytes(now.spooled_bytes)) + (free === null ? "" : `, ${text(bytes(free))} free`));
  meter("spool", free === null ? 0 : now.spooled_bytes / Math.max(1, now.spooled_bytes + free));
  rows("open", now.open.map((one) => [String(one.xid), text(bytes(one.memory_bytes)), text(bytes(one.disk_bytes))]),
    "None: every transaction came whole.");
  const more = now.open_total - now.open.length;
  put("openNote", more > 0 ? `and ${whole.format(more)} more` : "");
}

function troubles(now) {
  const list = now.troubles.map((trouble) => {
    const times = trouble.count > 1 ? `${whole.format(trouble.count)} times, ` : "";
    const when = element("span", times + ago(now.now_s - trouble.last_s), "when");
    when.title = new Date(trouble.last_s * 1000).toISOString();
    return element("li", [when, element("p", trouble.what), element("p", [element("b", "Cure"), ` ${trouble.cure}`], "cure")]);
  });
  byId("troubles").replaceChildren(...(list.length ? list : [element("li", "None since the start.", "empty")]));
  put("troublesNote", now.troubles.length ? "the latest first" : "");
}

function shown(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return value.length ? value.map((one) => (typeof one === "object" ? JSON.stringify(one) : String(one))).join(", ") : "[]";
  return String(value);
}
function* entries(section, path = "") {
  for (const [key, value] of Object.entries(section)) {
    if (value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length) yield* entries(value, `${path}${key}.`);
    else yield [path + key, typeof value === "object" && value !== null && !Array.isArray(value) ? "{}" : shown(value)];
  }
}
let configured = "";
function configuration(config) {
  const given = JSON.stringify(config);
  if (given === configured) return;
  configured = given;
  byId("config").replaceChildren(...Object.entries(config).map(([name, section]) =>
    element("section", [element("h3", name), element("dl", [...entries(section)].flatMap(([key, value]) => [element("dt", key), element("dd", value)]))])));
}

function state(name, label, notice) {
  document.body.dataset.state = name;
  put("state", label);
  byId("notice").hidden = !notice;
  if (byId("notice").textContent !== notice) byId("notice").textContent = notice;
}
function show(now) {
  const labels = { streaming: "Streaming", waiting: "Waiting", stuck: "Stuck" };
  state(now.state, labels[now.state], now.state === "streaming" ? "" : `${labels[now.state]}: ${now.reason}`);
  put("slot", now.slot);
  put("version", now.version);
  put("uptime", `up ${age(now.now_s - now.started_s)}`);
  document.title = `${now.slot}: ${labels[now.state].toLowerCase()}`;
  tiles(now); flow(now); history(now.chart); tables(now); open(now); troubles(now); configuration(now.config);
}

byId("configuration").open = window.innerWidth > 640;
let seen = Date.now();
async function ask() {
  try {
    const answer = await fetch("status", { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
    seen = Date.now();
  } catch (error) {
    state("lost", "No answer", `pgrelay does not answer. What stands below was true ${ago((Date.now() - seen) / 1000)}.`);
    console.debug(error);
  }
  setTimeout(ask, EVERY_MS);
}
ask();
