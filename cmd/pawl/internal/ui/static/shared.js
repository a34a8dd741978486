// One stream for all tabs: a browser opens six connections to a host, and no more.
//
// The tab that has the browser's lock leads: it reads the stream, and passes each message on to
// the others. When it goes, the lock goes to another tab, which asks for what came after its own last
// message. A tab that is new, or finds a message missing, reads the whole state. Where there are
// no locks, as at an address without TLS that is not loopback, each tab reads a stream
// of its own, and lets it go while it is hidden.

import { ask } from "./ask.js";
import { SILENCE, Stream } from "./stream.js";

const NAME = "pawl:" + location.pathname;

export class Shared {
  // on has state(data), change(data), failure(data), schedules(data), ping(now) and link(word).
  constructor(on) {
    Object.assign(this, { on, wanted: false, isOpen: false, silence: 0, boot: "", number: 0, early: null, stale: false });
    this.stream = new Stream({
      hear: (m) => this.pass(m),
      link: (word) => this.pass({ kind: "link", id: "", data: word }),
      last: () => this.boot && this.boot + "-" + this.number,
    });
    if ("locks" in navigator && "BroadcastChannel" in window) {
      this.channel = new BroadcastChannel(NAME);
      this.channel.onmessage = (e) => this.hear(e.data);
    } else {
      document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.wanted && this.open()));
    }
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", (e) => e.persisted && this.wanted && this.open());
  }

  start() {
    this.wanted = true;
    this.open();
  }

  stop() {
    this.wanted = false;
    this.close();
  }

  open() {
    if (this.isOpen) return;
    this.isOpen = true;
    if (this.channel) this.enter({ ifAvailable: true });
    else this.stream.open();
  }

  close() {
    this.isOpen = false;
    this.deaf();
    this.queueing?.abort();
    this.release?.();
    this.stream.close();
  }

  // enter asks for the lock, to lead with it; without it this tab follows.
  async enter(how) {
    try {
      if (await navigator.locks.request(NAME, how, (lock) => lock && this.lead())) return; // closed
    } catch { // closed while it queued, or another tab has stolen the lock
      if (how.signal?.aborted) return;
      this.stream.close();
    }
    if (this.isOpen) this.follow();
  }

  // lead reads the stream. The lock is kept until what it returns is settled.
  lead() {
    if (!this.isOpen) return true;
    this.deaf();
    this.stream.open();
    return new Promise((done) => (this.release = () => done(true)));
  }

  // follow waits for what the leading tab passes on, and for the lock.
  follow() {
    this.queueing = new AbortController();
    this.enter({ signal: this.queueing.signal });
    this.listen();
    this.catchUp();
  }

  // listen waits for the next message; the lock of a tab that hangs is stolen.
  listen() {
    this.deaf();
    this.silence = setTimeout(() => {
      this.queueing.abort();
      this.enter({ steal: true });
    }, SILENCE);
  }

  deaf() {
    clearTimeout(this.silence);
    this.silence = 0;
  }

  hear(m) {
    if (!this.isOpen) return;
    if (this.silence) this.listen();
    this.take(m);
  }

  pass(m) {
    this.channel?.postMessage(m);
    this.take(m);
  }

  // take takes a message in: each once, in the order of their numbers.
  take(m) {
    if (m.kind === "link") return this.on.link(m.data);
    if (m.kind === "ping") {
      this.on.ping(m.data);
      if (this.stale) this.catchUp();
    } else if (m.kind === "state") {
      this.renew(m);
    } else if (this.early) {
      this.early.push(m);
    } else {
      const [boot, n] = parse(m.id);
      if (boot !== this.boot || n > this.number + 1) return this.catchUp();
      if (n <= this.number) return;
      this.number = n;
      this.on[m.kind](m.data);
    }
    if (!this.stale) this.on.link("live");
  }

  renew(m) {
    const [boot, n] = parse(m.id);
    if (boot !== this.boot || n >= this.number) {
      this.boot = boot;
      this.number = n;
      this.on.state(m.data);
    }
    this.stale = false;
    const early = this.early ?? [];
    this.early = null;
    for (const e of early) this.take(e);
  }

  // catchUp reads the whole state; what comes meanwhile is kept until then.
  async catchUp() {
    if (this.early) return;
    this.early = [];
    this.stale = true;
    try {
      const answer = await ask("api/state");
      const s = await answer.json();
      this.take({ kind: "state", id: s.boot + "-" + s.number, data: s });
    } catch {
      this.early = null; // the next message asks again
      if (this.isOpen) this.on.link("reconnecting");
    }
  }
}

// parse splits the ID of a message.
function parse(id) {
  const [boot, n] = id.split("-");
  return [boot, Number(n)];
}
