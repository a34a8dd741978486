// The stream of changes, held open: when it breaks, another one is opened for what
// came after the last message.

export const SILENCE = 25_000; // the server speaks every 10 s
const FIRST = 300;
const LONGEST = 4_000;

export class Stream {
  // on has hear(message), link(word), and last(), the ID of the last message that was taken.
  constructor(on) {
    this.on = on;
    this.pause = FIRST;
    addEventListener("online", () => this.timer && this.open());
  }

  open() {
    this.close();
    const last = this.on.last();
    const source = new EventSource("api/events" + (last ? "?last=" + encodeURIComponent(last) : ""));
    this.source = source;
    this.listen();
    for (const kind of ["state", "change", "failure", "schedules", "ping"]) {
      source.addEventListener(kind, (m) => {
        this.pause = FIRST;
        this.listen();
        this.on.hear({ kind, id: kind === "ping" ? "" : m.lastEventId, data: JSON.parse(m.data) });
      });
    }
    source.onerror = () => this.again();
  }

  // listen waits for the next message.
  listen() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.again(), SILENCE);
  }

  again() {
    this.close();
    this.on.link("reconnecting");
    this.timer = setTimeout(() => this.open(), this.pause * (0.5 + Math.random() / 2));
    this.pause = Math.min(2 * this.pause, LONGEST);
  }

  close() {
    clearTimeout(this.silence);
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.source) this.source.close();
    this.source = null;
  }
}
