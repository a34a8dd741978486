// All that is known of one queue: its holder, its queue, its history.

import { ask } from "./ask.js";
import { el, icon, set } from "./dom.js";
import { besides, bound, clock, ends, mode, span, visible, who } from "./text.js";

const LEASES = 3_000; // how often they are read
const PAST = 50; // holds shown

export class Details {
  // on has close() and break().
  constructor(aside, model, on) {
    Object.assign(this, { aside, model, on, id: "", leases: {} });
  }

  get open() {
    return this.id !== "";
  }

  show(id) {
    if (id !== this.id) {
      this.id = id;
      this.leases = {};
      this.drawn = null;
      this.aside.scrollTop = 0;
      this.refresh();
    }
    this.aside.hidden = false;
    this.draw();
  }

  close() {
    this.id = "";
    this.aside.hidden = true;
    this.aside.replaceChildren();
    clearTimeout(this.timer);
  }

  // refresh reads what the leases have left, again and again.
  async refresh() {
    clearTimeout(this.timer);
    const id = this.id;
    if (!id) return;
    if (this.model.queues.has(id) && !this.model.frozen) {
      try {
        const answer = await ask("api/leases?queue=" + encodeURIComponent(id));
        if (answer.ok && id === this.id) this.leases = (await answer.json()).leases;
      } catch {
        this.leases = {}; // nothing is known: the stream says why
      }
      if (id === this.id) this.tick();
    }
    if (id === this.id) this.timer = setTimeout(() => this.refresh(), LEASES);
  }

  // draw makes the panel again where something is different, and keeps the focus.
  draw() {
    const r = this.model.row(this.id);
    if (!r) return this.on.close();
    const last = this.model.holdsOf(this.id).at(-1);
    const drawn = [r.queue, last, this.model.holds.get(this.id)?.size, this.model.info, this.model.may, this.model.schedules];
    if (!this.drawn || drawn.some((x, i) => x !== this.drawn[i])) {
      this.drawn = drawn;
      const focused = this.aside.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
      const scroll = this.aside.scrollTop;
      this.aside.replaceChildren(this.head(r), r.holders.length > 1 ? this.holders(r) : this.holder(r), ...this.schedule(r), this.queue(r), this.history(r));
      this.aside.scrollTop = scroll;
      if (focused) this.focus(focused);
    }
    this.tick();
  }

  focus(what = "name") {
    (this.aside.querySelector(`[data-focus="${what}"]`) ?? this.aside.querySelector('[data-focus="name"]'))?.focus();
  }

  head(r) {
    const close = el("button", { type: "button", class: "quiet", "aria-label": "Close the details", "data-focus": "close" }, icon("close"));
    close.addEventListener("click", () => this.on.close());
    return el("header", {}, el("h2", { id: "details-name", tabindex: "-1", "data-focus": "name" }, el("bdi", {}, visible(r.name))), close,
      el("p", { class: "what" }, icon(r.kind), r.kind + (r.layout === "etcd" ? ", etcd's layout" : "") + (r.queue?.sum ? ": " + r.queue.sum : r.holder ? "" : ", free")));
  }

  holder(r) {
    const p = r.holder;
    if (!p) return el("section", {}, el("h3", {}, "Holder"), el("p", { class: "dim" }, r.queue ? "Nobody holds it." : "Nobody holds it or waits for it."));
    const facts = [
      ["Owner", p.owner ? visible(p.owner) : "not said"],
      ["Host", p.host ? visible(p.host) + (p.pid ? ", pid " + p.pid : "") : null],
      ["Mode", p.mode === "shared" ? "shared" : p.slot !== undefined ? `slot ${p.slot}` : null],
      ["Together", besides(p, r.name) ? "all or none" + besides(p, r.name) : null],
      ["Token", p.token],
      ["Wanted", r.waiting && r.kind === "lock" ? "somebody waits for it" : null],
      ["Held for", r.hold ? el("time", { "data-from": r.hold.from, "data-bound": bound(r.hold) }) : null],
      ["Lease", p.lease ? el("span", {}, p.lease, el("span", { "data-lease": p.lease, class: "dim" })) : "none: it stays until somebody deletes it"],
      [r.kind === "election" ? "Session since" : "In the queue since", p.since ? clock(p.since) + ", by its clock" : null],
      ["Value", p.value !== undefined ? visible(p.value) + (p.size > 1024 ? " … (" + p.size + " bytes)" : "") : null],
      ["Key", visible(p.key)],
    ];
    const list = el("dl", { class: "facts" }, facts.filter(([, v]) => v !== null).map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v))));
    const section = el("section", {}, el("h3", {}, r.kind === "election" ? "Leader" : "Holder"));
    if (p.form === "foreign") section.append(el("p", { class: "wrong" }, "This key is not a lock's. Those that wait here wait until somebody deletes it."));
    section.append(list);
    if (this.model.may) {
      section.append(el("div", { class: "buttons" }, this.breaks(p.token, "break")));
    }
    return section;
  }

  // breaks is a button that asks whether to break the holder with a token.
  breaks(token, focus) {
    const button = el("button", { type: "button", class: "danger", "data-focus": focus, "aria-haspopup": "dialog" }, "Break…");
    button.addEventListener("click", () => this.on.break(token));
    return button;
  }

  // holders are those of a name that has several.
  holders(r) {
    const section = el("section", {}, el("h3", {}, "Holders"));
    const slots = r.kind === "semaphore";
    const rows = r.holders.map((p) => {
      const hold = this.model.holdOf(r.id, p.token);
      return el("tr", {},
        slots ? el("td", { class: "number" }, String(p.slot ?? "")) : null,
        el("td", { title: who(p) + besides(p, r.name) + (p.host ? " on " + visible(p.host) + (p.pid ? ", pid " + p.pid : "") : "") + "\n" + visible(p.key) }, el("bdi", {}, who(p)), besides(p, r.name)),
        el("td", { class: "number" }, p.token),
        el("td", { class: "number" }, hold ? el("time", { "data-from": hold.from, "data-bound": bound(hold) }) : "–"),
        this.model.may ? el("td", {}, this.breaks(p.token, "break-" + p.token)) : null);
    });
    const titles = [...(slots ? ["Slot"] : []), "Owner", "Token", "Held", ...(this.model.may ? ["Break"] : [])];
    section.append(table("Who holds it", titles, rows));
    const more = r.queue.holding - r.holders.length;
    if (more > 0) section.append(el("p", { class: "dim" }, `and ${more} more: pawl show shows all`));
    return section;
  }

  // schedule is what is recorded of the name's runs.
  schedule(r) {
    const s = r.schedule;
    if (!s) return [];
    const facts = [
      ["Last run", s.began ? "none since " + clock(s.at) : "that for " + clock(s.at)],
      ["Next run", s.next ? el("span", {}, clock(s.next), el("span", { "data-next": s.next, class: "dim" })) : "not recorded"],
    ];
    return [el("section", {}, el("h3", {}, "Schedule"), el("dl", { class: "facts" }, facts.map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v)))))];
  }

  queue(r) {
    const section = el("section", {}, el("h3", {}, "Queue", el("span", { class: "dim" }, r.waiting ? " " + r.waiting + " waiting" : "")));
    if (!r.waiting) {
      section.append(el("p", { class: "dim" }, "Nobody waits."));
      return section;
    }
    const waiters = r.queue.positions.filter((p) => !p.holds);
    const rows = waiters.map((p, i) => el("tr", {},
      el("td", { class: "number" }, String(i + 1)),
      el("td", { title: who(p) + mode(p) + besides(p, r.name) + (p.host ? " on " + visible(p.host) + (p.pid ? ", pid " + p.pid : "") : "") }, el("bdi", {}, who(p)), mode(p) + besides(p, r.name)),
      el("td", { class: "number" }, r.kind === "semaphore" ? "–" : p.token),
      el("td", { class: "number" }, p.since && r.kind !== "election" ? el("time", { "data-from": p.since }) : "–")));
    section.append(table("Who waits, in order", ["", "Owner", "Token", "Waits"], rows));
    const more = r.waiting - waiters.length;
    if (more > 0) section.append(el("p", { class: "dim" }, `and ${more} more: pawl show shows all`));
    return section;
  }

  history(r) {
    const all = this.model.holdsOf(r.id).filter((h) => h.to).sort((a, b) => b.to - a.to);
    const section = el("section", {}, el("h3", {}, "History", el("span", { class: "dim" }, " since " + clock(this.model.info.since))));
    if (all.length === 0) {
      section.append(el("p", { class: "dim" }, "No hold has ended."));
      return section;
    }
    const rows = all.slice(0, PAST).map((h) => el("tr", { class: "past " + ends(h).mark },
      el("td", {}, el("span", { class: "how" }, icon(ends(h).mark), ends(h).text)),
      el("td", { title: who(h) }, el("bdi", {}, who(h))),
      el("td", { class: "number" }, h.token),
      el("td", { class: "number" }, bound(h) + span(h.to - h.from)),
      el("td", { class: "number" }, clock(h.to))));
    section.append(table("Holds that have ended, the latest first", ["How", "Owner", "Token", "Held", "Until"], rows));
    if (all.length > PAST) section.append(el("p", { class: "dim" }, `and ${all.length - PAST} before`));
    return section;
  }

  // tick brings times up to date.
  tick() {
    const now = this.model.now();
    for (const t of this.aside.querySelectorAll("time[data-from]")) {
      set(t, (t.dataset.bound ?? "") + span(now - Number(t.dataset.from)));
    }
    for (const s of this.aside.querySelectorAll("[data-next]")) {
      const left = Number(s.dataset.next) - now;
      set(s, left > 0 ? ", in " + span(left) : ", due for " + span(-left));
    }
    for (const s of this.aside.querySelectorAll("[data-lease]")) {
      const l = this.leases[s.dataset.lease];
      set(s, !l ? "" : l.gone ? ", gone" : `, ${l.left} s of ${l.ttl} s left`);
    }
  }
}

function table(caption, titles, rows) {
  return el("table", {}, el("caption", { class: "unseen-label" }, caption),
    el("thead", {}, el("tr", {}, titles.map((t) => el("th", { scope: "col" }, t || el("span", { class: "unseen-label" }, "Position"))))),
    el("tbody", {}, rows));
}
