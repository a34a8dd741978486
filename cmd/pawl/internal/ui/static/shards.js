// Who works on the shards of each name: read again and again, and drawn where it is another.

import { ask } from "./ask.js";
import { el } from "./dom.js";
import { count, visible } from "./text.js";

const EVERY = 5_000;

export class Shards {
  constructor(section, body, model) {
    Object.assign(this, { section, body, model, drawn: "", open: new Set() });
  }

  // start reads again and again, from now on.
  async start() {
    if (!this.model.frozen && !document.hidden) {
      try {
        const answer = await ask("api/shards");
        if (answer.ok) this.show(await answer.text());
      } catch {
        // what is shown stays: the stream says that it may be old
      }
    }
    setTimeout(() => this.start(), EVERY);
  }

  show(answer) {
    if (answer === this.drawn) return;
    this.drawn = answer;
    const { names, more } = JSON.parse(answer);
    for (const d of this.body.querySelectorAll("details")) this.open[d.open ? "add" : "delete"](d.dataset.name);
    this.section.hidden = names.length === 0;
    this.body.replaceChildren(...names.map((n) => this.name(n)), ...(more > 0 ? [el("p", { class: "dim" }, `and ${count(more, "name", "names")} more: pawl ls shows all`)] : []));
  }

  name(n) {
    const facts = [count(n.shards, "shard", "shards"), count(n.workers, "worker", "workers")];
    if (n.moving) facts.push(`${n.moving} moving`);
    const wrong = [];
    if (n.unowned) wrong.push(`${n.unowned} without an owner`);
    if (n.unplanned) wrong.push("a change waits for a plan");
    const more = n.workers - n.first.length;
    const loads = n.first.some((w) => w.load); // some workers measure them
    return el("details", { "data-name": n.name, open: this.open.has(n.name) },
      el("summary", {}, el("bdi", {}, visible(n.name)), el("span", { class: "dim" }, " " + facts.join(", ")), wrong.length ? el("span", { class: "some" }, ", " + wrong.join(", ")) : null),
      el("table", {}, el("caption", { class: "unseen-label" }, "Workers of " + visible(n.name)),
        el("thead", {}, el("tr", {}, ["Worker", "Lease", "Weight", "Has", ...(loads ? ["Load"] : []), "Shards", "State"].map((t) => el("th", { scope: "col" }, t)))),
        el("tbody", {}, n.first.map((w) => el("tr", {},
          el("td", {}, w.value ? el("bdi", {}, visible(w.value)) : "–"), el("td", {}, w.lease),
          el("td", { class: "number" }, String(w.weight)), el("td", { class: "number" }, String(w.held)),
          ...(loads ? [el("td", { class: "number" }, w.load)] : []),
          el("td", { class: "ranges" }, w.shards || "–"), el("td", {}, w.state || "–"))))),
      more > 0 ? el("p", { class: "dim" }, `and ${more} more: pawl shards shows all`) : null);
  }
}
