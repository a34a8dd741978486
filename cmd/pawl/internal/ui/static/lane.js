// The timeline: a lane of holds for each name, and the axis above them.

import { el, icon, set } from "./dom.js";
import { bound, clock, ends, span, tick, visible, who } from "./text.js";

const HUES = 7;

// hueOf gives each owner a colour, the same every time.
export function hueOf(owner) {
  let n = 7;
  for (const c of owner ?? "") n = (n * 31 + c.codePointAt(0)) >>> 0;
  return n % HUES;
}

// Lane shows holds between two times.
export class Lane {
  constructor(cell) {
    this.cell = cell;
    this.bars = new Map(); // by a hold's number
  }

  draw(holds, from, to, width) {
    const shown = holds.filter((h) => (h.to || to) > from && h.from < to);
    const kept = new Set(shown.map((h) => h.n));
    for (const [n, bar] of this.bars) {
      if (!kept.has(n)) {
        bar.remove();
        this.bars.delete(n);
      }
    }
    const tracks = stack(shown, to);
    for (const [i, h] of shown.entries()) this.place(h, from, to, width, tracks.of[i], tracks.count);
    const label = describe(shown, to - from);
    if (this.cell.getAttribute("aria-label") !== label) this.cell.setAttribute("aria-label", label);
  }

  place(h, from, to, width, track, tracks) {
    let bar = this.bars.get(h.n);
    if (!bar || bar.hold !== h) {
      bar?.remove();
      bar = makeBar(h);
      this.bars.set(h.n, bar);
      this.cell.append(bar);
    }
    const scale = width / (to - from);
    const left = (Math.max(h.from, from) - from) * scale;
    const right = (Math.min(h.to || to, to) - from) * scale;
    bar.style.left = left.toFixed(1) + "px";
    bar.style.width = Math.max(2, right - left).toFixed(1) + "px";
    bar.style.setProperty("--track", track);
    bar.style.setProperty("--tracks", tracks);
    bar.classList.toggle("low", tracks > 1);
    bar.classList.toggle("narrow", right - left < 44);
    bar.classList.toggle("cut", h.from < from || bound(h) !== "");
  }
}

const TRACKS = 6; // of one lane

// stack puts holds that overlap, of a lock that is shared or a semaphore, one above the
// other, as far as a lane is high enough for it.
function stack(holds, now) {
  const free = []; // when each track is
  const of = holds.map((h) => {
    let track = free.findIndex((at) => at <= h.from);
    if (track < 0) track = Math.min(free.length, TRACKS - 1);
    free[track] = Math.max(free[track] ?? 0, h.to || now + 1);
    return track;
  });
  return { of, count: Math.max(1, free.length) };
}

function makeBar(h) {
  const end = ends(h);
  const bar = el("div", { class: "hold " + end.mark + " hue" + hueOf(h.owner), title: title(h), "data-token": h.token });
  bar.hold = h;
  bar.append(el("span", { class: "label" }, who(h) + " · " + h.token));
  if (end.mark === "lost" || end.mark === "broken" || end.mark === "ended") bar.append(el("span", { class: "cap" }, icon(end.mark)));
  return bar;
}

function title(h) {
  const since = (h.early ? "before " : h.atMost ? "at the earliest " : "") + clock(h.from);
  const until = h.to ? " to " + (h.late ? "before " : "") + clock(h.to) + ", " + span(h.to - h.from) : "";
  const where = h.host ? " on " + visible(h.host) + (h.pid ? ", pid " + h.pid : "") : "";
  return who(h) + where + "\ntoken " + h.token + "\nfrom " + since + until + "\n" + (h.to ? ends(h).text : "still held");
}

// describe says what a lane shows.
function describe(holds, window) {
  if (holds.length === 0) return "nobody in the last " + span(window);
  const of = { held: 0, released: 0, lost: 0, broken: 0, ended: 0 };
  for (const h of holds) of[ends(h).mark]++;
  const parts = Object.entries(of).filter(([, n]) => n > 0).map(([word, n]) => n + " " + word);
  return "last " + span(window) + ": " + parts.join(", ");
}

const STEPS = [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200].map((s) => s * 1000);

// stepOf is how far the axis' ticks are apart: 90 pixels at least.
const stepOf = (window, width) => STEPS.find((s) => (s / window) * width >= 90) ?? STEPS.at(-1);

// drawAxis puts times above the lanes, and lines into them.
export function drawAxis(axis, grid, from, to, width, since) {
  const step = stepOf(to - from, width);
  const zone = new Date(to).getTimezoneOffset() * 60_000;
  const first = Math.ceil((from - zone) / step) * step + zone;
  const scale = width / (to - from);
  const ticks = [];
  for (let t = first; t < to; t += step) ticks.push(t);
  while (axis.children.length > ticks.length) axis.lastChild.remove();
  while (axis.children.length < ticks.length) axis.append(el("span"));
  ticks.forEach((t, i) => {
    const x = (t - from) * scale;
    set(axis.children[i], tick(t, step));
    axis.children[i].style.left = x.toFixed(1) + "px";
    axis.children[i].hidden = x < 24 || x > width - 24;
  });
  grid.style.setProperty("--tick", (step * scale).toFixed(2) + "px");
  grid.style.setProperty("--first", ((first - from) * scale).toFixed(2) + "px");
  grid.style.setProperty("--unseen", Math.max(0, Math.min(width, (since - from) * scale)).toFixed(1) + "px");
}

// drawLegend says what the marks mean.
export function drawLegend(list) {
  const words = { held: "held now", released: "released", lost: "lost", broken: "broken", ended: "either: not known" };
  for (const [mark, word] of Object.entries(words)) {
    const bar = el("span", { class: "hold hue0 sample " + mark, "aria-hidden": "true" });
    if (mark === "lost" || mark === "broken" || mark === "ended") bar.append(el("span", { class: "cap" }, icon(mark)));
    list.append(el("li", {}, bar, word));
  }
  list.append(el("li", {}, el("span", { class: "sample unwatched", "aria-hidden": "true" }), "not watched yet"));
}
