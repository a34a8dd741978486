// The page: what the server says goes into the model, and from there to the screen.

import { Breaking, mayBreak, setUpHelp, takeKey } from "./dialogs.js";
import { $, el, set } from "./dom.js";
import { Details } from "./details.js";
import { Grid } from "./grid.js";
import { setUpKeys } from "./keys.js";
import { drawLegend } from "./lane.js";
import { Model } from "./model.js";
import { Shared } from "./shared.js";
import { Shards } from "./shards.js";
import { clock, count, ends, span, visible, who } from "./text.js";

const TICK = 500;
const NEWS = 8_000;
const AGAIN = 4_000; // after a request without an answer

const model = new Model();
const grid = new Grid($("grid"), $("rows"), $("axis"), model);

const ui = {
  grid,
  details: null,

  select(at) {
    grid.move(at);
    if (this.details.open && grid.selected) this.details.show(grid.selected);
  },
  openDetails(focus) {
    if (!grid.current()) return;
    this.details.show(grid.selected);
    $("split").classList.add("open");
    grid.move(grid.at);
    if (focus) this.details.focus();
  },
  closeDetails() {
    const had = $("details").contains(document.activeElement);
    this.details.close();
    $("split").classList.remove("open");
    if (had) grid.grid.focus();
    grid.draw();
  },
  clearFilter() {
    if ($("filter").value === "") return;
    $("filter").value = "";
    refresh();
  },
  break(token) {
    if (!grid.current()) return;
    const why = breaking.confirm(this.details.open ? this.details.id : grid.selected, token);
    if (why) notify(why);
  },
  // pause keeps the picture as it is; going on brings what was missed.
  pause() {
    const pausing = !model.frozen;
    model.frozen = pausing ? model.now() : 0;
    $("pause").setAttribute("aria-pressed", pausing);
    set($("pause"), pausing ? "Go on" : "Pause");
    if (pausing) {
      stream.stop();
      link("paused");
    } else {
      link("connecting");
      stream.start();
    }
    refresh();
  },
};

ui.details = new Details($("details"), model, { close: () => ui.closeDetails(), break: (token) => ui.break(token) });
const breaking = new Breaking(model, notify);

const stream = new Shared({
  link: (state) => model.frozen || link(state),
  state: (s) => {
    const old = model.info.boot;
    model.state(s);
    scope();
    refresh();
    if (old !== s.boot) allow();
    if (old && old !== s.boot) notify("The server was restarted: the timeline begins again.");
  },
  change: (c) => {
    for (const h of model.change(c)) {
      if (h.end !== "released") notify(`${visible(h.name)}: ${ends(h).text}, from ${who(h)}, token ${h.token}`);
    }
    refresh();
  },
  failure: (t) => {
    model.fail(t);
    refresh();
  },
  schedules: (s) => {
    model.plan(s);
    refresh();
  },
  ping: (now) => model.hear(now),
});

// allow finds out whether this tab may break.
async function allow() {
  const { boot, breakable } = model.info;
  const may = breakable && (await mayBreak());
  if (boot !== model.info.boot) return;
  if (may === null) setTimeout(allow, AGAIN);
  model.may = may === true;
  scope();
  refresh();
}

// refresh draws what is new, once a frame at most.
let due = false;
function refresh() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    draw();
  });
}

function draw() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const kind = document.querySelector("#kinds input:checked").value;
  const rows = model.rows({ words, kind, sort: $("sort").value });
  grid.show(rows);
  if (ui.details.open) ui.details.draw();
  const all = model.ids().size;
  set($("count"), rows.length === all ? count(all, "name", "names") : `${rows.length.toLocaleString("en")} of ${count(all, "name", "names")}`);
  empty(rows.length, all);
  tally();
  failure();
}

// failure says that what is shown may be old, and for how long that has been so.
function failure() {
  $("failure").hidden = model.failure === "";
  set($("failure-why"), model.failure && `What is shown may be old: ${visible(model.failure)}`);
  set($("failure-for"), model.failure && `, for ${span(Math.max(1000, model.now() - model.failureSince))} now`);
  link($("link").dataset.link);
}

function empty(shown, all) {
  $("empty").hidden = shown > 0;
  if (shown > 0) return;
  if (all > 0) set($("empty"), "Nothing here fits. Esc clears the filter, 1 shows all.");
  else set($("empty"), model.info.boot ? "Nobody holds a lock here. Try: pawl lock backup -- sleep 30" : "");
}

function tally() {
  const t = model.tally();
  const words = [count(t.locks, "lock", "locks"), count(t.elections, "election", "elections"), t.waiting.toLocaleString("en") + " waiting", t.lost.toLocaleString("en") + " lost"];
  if (model.ignored) words.push(count(model.ignored, "foreign key", "foreign keys") + " not shown");
  while ($("tally").children.length < words.length) $("tally").append(el("li"));
  while ($("tally").children.length > words.length) $("tally").lastChild.remove();
  words.forEach((w, i) => set($("tally").children[i], w));
  $("tally").children[3].classList.toggle("some", t.lost > 0);
}

function scope() {
  const { cluster, namespace, prefix, since } = model.info;
  const facts = [["cluster", cluster], ["namespace", namespace], ["prefix", prefix], ["watched since", clock(since)]];
  $("scope").replaceChildren(...facts.filter(([, v]) => v).map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, el("bdi", {}, visible(v))))));
  $("mode").hidden = false;
  $("mode").classList.toggle("breakable", model.may);
  set($("mode"), model.may ? "break allowed" : "read-only");
  document.title = (namespace || prefix ? visible(namespace + prefix) + " – " : "") + "pawl";
}

// link says how the connection is, and that it brings nothing new while the cluster does not answer.
function link(state) {
  $("link").dataset.link = state;
  if (state === "live" && model.failure) state = "stale";
  if ($("link").dataset.state === state) return;
  $("link").dataset.state = state;
  set($("link-text"), state);
}

// notify shows something that passes.
let showing = 0;
function notify(what) {
  $("news").textContent = what;
  clearTimeout(showing);
  showing = setTimeout(() => ($("news").textContent = ""), NEWS);
}

function setUp() {
  takeKey();
  setUpHelp();
  setUpKeys(ui);
  drawLegend($("legend"));
  $("filter").addEventListener("input", refresh);
  $("kinds").addEventListener("change", refresh);
  $("sort").addEventListener("change", refresh);
  $("window").addEventListener("change", () => {
    grid.window = Number($("window").value) * 1000;
    refresh();
  });
  $("pause").addEventListener("click", () => ui.pause());
  $("rows").addEventListener("click", (e) => {
    const id = e.target.closest("[data-id]")?.dataset.id;
    const at = grid.rows.findIndex((r) => r.id === id);
    if (at < 0) return;
    grid.grid.focus();
    ui.select(at);
    ui.openDetails(false);
  });
  setInterval(() => {
    if (model.frozen || document.hidden) return;
    grid.draw();
    failure();
    if (ui.details.open) ui.details.tick();
  }, TICK);
  stream.start();
  new Shards($("shards"), $("shards-names"), model).start();
  grid.grid.focus();
}

setUp();
