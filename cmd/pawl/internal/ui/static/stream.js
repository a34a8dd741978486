// The stream of changes, held open: when it breaks, another one is asked for what
// came after the last message.

const SILENCE = 25_000; // the server speaks every 10 s
const FIRST = 300;
const LONGEST = 4_000;

export class Stream {
  // on has state(data), change(data), trouble(data), ping(now) and link(word).
  constructor(on) {
    this.on = on;
    this.last = "";
    this.pause = FIRST;
    addEventListener("online", () => this.timer && this.open());
  }

  open() {
    this.close();
    const source = new EventSource("api/events" + (this.last ? "?last=" + encodeURIComponent(this.last) : ""));
    this.source = source;
    this.listen();
    const hear = (kind, f) => source.addEventListener(kind, (m) => {
      if (m.lastEventId) this.last = m.lastEventId;
      this.pause = FIRST;
      this.listen();
      f(JSON.parse(m.data));
      this.on.link("live");
    });
    hear("state", this.on.state);
    hear("change", this.on.change);
    hear("trouble", this.on.trouble);
    hear("ping", this.on.ping);
    source.onerror = () => this.again();
  }

  // listen waits for the next word.
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
