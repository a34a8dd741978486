// What the server has said, and what of it is shown.

export class Model {
  constructor() {
    this.clear();
    this.offset = 0; // of the server's clock
    this.frozen = 0; // when it was paused; 0: it is not
    this.may = false; // break
  }

  clear() {
    this.info = { namespace: "", prefix: "", cluster: "", breakable: false, maxQueue: 100, since: Date.now() };
    this.revision = "0";
    this.ignored = 0;
    this.fail({ failure: "", since: 0 });
    this.queues = new Map(); // by ID
    this.holds = new Map(); // of a queue, by number, in the order in which they began
    this.home = new Map(); // a hold's queue
    this.plan([]);
    this.version = 0;
  }

  now() {
    return this.frozen || Date.now() + this.offset;
  }

  hear(now) {
    this.offset = now - Date.now();
  }

  state(s) {
    this.clear();
    this.hear(s.now);
    this.info = s;
    this.fail({ failure: s.failure, since: s.failureSince });
    this.plan(s.schedules);
    this.take(s);
  }

  // plan takes in what is recorded of runs.
  plan(schedules) {
    this.schedules = new Map(schedules.map((s) => [s.name, s]));
    this.scheduled = new Map(schedules.map((s) => [s.id, s]));
    this.version++;
  }

  // fail takes in what is wrong with what is shown, and since when; "": nothing.
  fail({ failure, since }) {
    this.failure = failure;
    this.failureSince = since;
  }

  // change takes a change in, and returns the holds that have ended since.
  change(c) {
    this.hear(c.now);
    return this.take(c).filter((h) => h.to);
  }

  take({ revision, ignored, queues = [], gone = [], holds = [], forgot = [] }) {
    this.revision = revision;
    this.ignored = ignored;
    for (const l of queues ?? []) this.queues.set(l.id, l);
    for (const id of gone) this.queues.delete(id);
    for (const h of holds ?? []) {
      if (!this.holds.has(h.queue)) this.holds.set(h.queue, new Map());
      this.holds.get(h.queue).set(h.n, h);
      this.home.set(h.n, h.queue);
    }
    for (const n of forgot) {
      const of = this.holds.get(this.home.get(n));
      of?.delete(n);
      if (of?.size === 0) this.holds.delete(this.home.get(n));
      this.home.delete(n);
    }
    this.version++;
    return holds ?? [];
  }

  holdsOf(id) {
    return [...(this.holds.get(id)?.values() ?? [])];
  }

  lastOf(id) {
    let last = null;
    for (const h of this.holds.get(id)?.values() ?? []) last = h;
    return last;
  }

  // holdOf is the hold that lasts of a holder; null: none was seen.
  holdOf(id, token) {
    for (const h of this.holds.get(id)?.values() ?? []) if (!h.to && h.token === token) return h;
    return null;
  }

  // row is a name, whether anybody holds it now or did.
  row(id) {
    const queue = this.queues.get(id);
    const last = this.lastOf(id);
    const of = queue ?? last ?? this.scheduled.get(id);
    if (!of) return null;
    const kind = of.kind ?? "lock";
    const holders = queue ? queue.positions.filter((p) => p.holds) : [];
    const holder = holders[0] ?? null;
    return {
      id, queue, last, holder, holders, name: of.name, kind, layout: queue?.layout,
      schedule: kind === "lock" ? this.schedules.get(of.name) : undefined,
      waiting: queue ? queue.waiting : 0,
      hold: holder ? this.holdOf(id, holder.token) : null,
      latest: last ? last.to || last.from : 0,
    };
  }

  // planned are the schedules of names that nobody holds, or did.
  planned() {
    const known = new Set([...this.queues.values(), ...[...this.holds.keys()].map((id) => this.lastOf(id))].filter((q) => q.kind === "lock").map((q) => q.name));
    return [...this.schedules.values()].filter((s) => !known.has(s.name));
  }

  // ids are those of all rows.
  ids() {
    return new Set([...this.queues.keys(), ...this.holds.keys(), ...this.planned().map((s) => s.id)]);
  }

  // rows are those that are wanted, in order.
  rows({ words, kind, sort }) {
    const rows = [];
    for (const id of this.ids()) {
      const r = this.row(id);
      if (this.fits(r, words, kind)) rows.push(r);
    }
    const byName = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.id < b.id ? -1 : 1);
    const since = (r) => r.hold?.from ?? Infinity;
    const orders = {
      name: byName,
      waiting: (a, b) => b.waiting - a.waiting || byName(a, b),
      held: (a, b) => (since(a) === since(b) ? byName(a, b) : since(a) - since(b)),
      latest: (a, b) => b.latest - a.latest || byName(a, b),
    };
    return rows.sort(orders[sort]);
  }

  fits(r, words, kind) {
    if (kind === "lock" && r.kind === "election") return false;
    if (kind === "election" && r.kind !== kind) return false;
    if (kind === "waiting" && r.waiting === 0) return false;
    if (kind === "lost" && !this.holdsOf(r.id).some((h) => h.end === "lost")) return false;
    if (words.length === 0) return true;
    const said = [r.name, ...(r.queue ? r.queue.positions : r.last ? [r.last] : []).flatMap((p) => [p.owner ?? "", p.host ?? ""])].join("\n").toLowerCase();
    return words.every((w) => said.includes(w));
  }

  // tally counts what is there.
  tally() {
    const t = { locks: 0, elections: 0, waiting: 0, lost: 0 };
    for (const l of this.queues.values()) {
      t[l.kind === "election" ? "elections" : "locks"]++;
      t.waiting += l.waiting;
    }
    for (const of of this.holds.values()) for (const h of of.values()) if (h.end === "lost") t.lost++;
    return t;
  }
}
