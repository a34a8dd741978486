// The queues: a row for each name, of which only those on the screen are there.

import { el, icon, set } from "./dom.js";
import { Lane, drawAxis } from "./lane.js";
import { bound, clock, holding, span, visible } from "./text.js";

const BEYOND = 6; // rows above and below those on the screen

export class Grid {
  constructor(grid, body, axis, model) {
    Object.assign(this, { grid, body, axis, model, rows: [], shown: new Map(), selected: "", at: 0 });
    this.window = 300_000;
    grid.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(grid);
  }

  // show takes other rows, and keeps the selection where it was.
  show(rows) {
    this.rows = rows;
    const at = rows.findIndex((r) => r.id === this.selected);
    if (at >= 0) this.at = at;
    else this.at = Math.min(this.at, Math.max(0, rows.length - 1));
    this.selected = rows[this.at]?.id ?? "";
    this.draw();
  }

  current() {
    return this.rows[this.at] ?? null;
  }

  // move selects another row, and scrolls to it.
  move(to) {
    if (this.rows.length === 0) return;
    this.at = Math.max(0, Math.min(this.rows.length - 1, to));
    this.selected = this.rows[this.at].id;
    const high = this.height();
    const head = this.body.offsetTop;
    const top = this.at * high;
    const inSight = this.grid.clientHeight - head;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + high > this.grid.scrollTop + inSight) this.grid.scrollTop = top + high - inSight;
    this.draw();
  }

  height() {
    return parseFloat(getComputedStyle(this.grid).getPropertyValue("--row")) || 44;
  }

  // page is how many rows are on the screen.
  page() {
    return Math.max(1, Math.floor((this.grid.clientHeight - this.body.offsetTop) / this.height()) - 1);
  }

  draw() {
    const high = this.height();
    const first = Math.max(0, Math.floor(this.grid.scrollTop / high) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil((this.grid.scrollTop + this.grid.clientHeight) / high) + BEYOND);
    this.body.style.height = this.rows.length * high + "px";
    this.grid.setAttribute("aria-rowcount", this.rows.length + 1);
    const wanted = new Map(this.rows.slice(first, last).map((r, i) => [r.id, first + i]));
    for (const [id, row] of this.shown) {
      if (!wanted.has(id)) {
        row.element.remove();
        this.shown.delete(id);
      }
    }
    const to = this.model.now();
    const from = to - this.window;
    const width = this.axis.clientWidth;
    for (const [id, i] of wanted) {
      if (!this.shown.has(id)) this.shown.set(id, new Row(id, this.body));
      this.shown.get(id).draw(this.rows[i], i, high, i === this.at, this.model, from, to, width);
    }
    drawAxis(this.axis, this.grid, from, to, width, this.model.info.since);
    const on = this.shown.get(this.selected);
    if (on) this.grid.setAttribute("aria-activedescendant", on.element.id);
    else this.grid.removeAttribute("aria-activedescendant");
  }
}

let made = 0;

class Row {
  constructor(id, body) {
    const cell = (name) => el("div", { role: "gridcell", class: "c-" + name });
    this.kind = el("span", { class: "kind" });
    this.name = el("bdi", { class: "name" });
    this.tag = el("span", { class: "tag", hidden: true }, "etcd");
    this.who = el("bdi");
    this.cells = { name: cell("name"), who: cell("who"), token: cell("token"), for: cell("for"), waiting: cell("waiting"), lane: cell("lane") };
    this.cells.name.append(this.kind, this.name, this.tag);
    this.cells.who.append(this.who);
    this.lane = new Lane(this.cells.lane);
    this.element = el("div", { role: "row", class: "row", id: "row-" + ++made, "data-id": id }, ...Object.values(this.cells));
    body.append(this.element);
  }

  draw(r, i, high, selected, model, from, to, width) {
    const e = this.element;
    e.style.transform = "translateY(" + i * high + "px)";
    e.setAttribute("aria-rowindex", i + 2);
    e.setAttribute("aria-selected", selected);
    e.classList.toggle("free", !r.holder); // a semaphore may have waiters and no holder
    e.classList.toggle("blocked", r.holder?.form === "foreign");
    if (this.of !== r.kind) {
      this.of = r.kind;
      this.kind.replaceChildren(icon(r.kind), el("span", { class: "unseen-label" }, r.kind + " "));
    }
    set(this.name, visible(r.name));
    this.name.title = visible(r.name);
    this.tag.hidden = r.layout !== "etcd";
    set(this.who, r.queue ? holding(r.queue) : r.schedule?.next ? (r.schedule.next > to ? "next " : "due ") + clock(r.schedule.next) : "free");
    this.cells.who.title = r.holder?.host ? visible(r.holder.host) + (r.holder.pid ? ", pid " + r.holder.pid : "") : "";
    set(this.cells.token, r.holder ? r.holder.token : "");
    set(this.cells.for, r.hold ? bound(r.hold) + span(to - r.hold.from) : "");
    set(this.cells.waiting, r.waiting ? String(r.waiting) : "");
    this.cells.waiting.setAttribute("aria-label", r.waiting ? r.waiting + " waiting" : "nobody waits");
    this.lane.draw(model.holdsOf(r.id), from, to, width);
  }
}
