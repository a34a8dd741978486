// Text for people.

// visible is s with what cannot be seen, or would turn its surroundings around,
// written out: spaces too, at an end or beside another.
export function visible(s) {
  return s.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|^\p{Zs}|\p{Zs}$|(?<=\p{Zs})\p{Zs}/gu, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
}

// span is a duration, to two figures.
export function span(ms) {
  const s = Math.max(0, ms) / 1000;
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (s < 1) return Math.round(s * 1000) + "ms";
  if (s < 10) return s.toFixed(1) + "s";
  if (s < 60) return Math.floor(s) + "s";
  if (s < 3600) return Math.floor(s / 60) + "m" + two(s % 60) + "s";
  if (s < 86400) return Math.floor(s / 3600) + "h" + two((s % 3600) / 60) + "m";
  return Math.floor(s / 86400) + "d" + two((s % 86400) / 3600) + "h";
}

const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minutes = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

// clock is a time of day, and the day where it is not today.
export function clock(ms) {
  const t = time.format(ms);
  return day.format(ms) === day.format(Date.now()) ? t : day.format(ms) + " " + t;
}

// tick is a time of day on the axis.
export const tick = (ms, step) => (step < 60_000 ? time : minutes).format(ms);

// bound says what a hold's length is compared with what is known of it: it may have
// begun before it was seen, or after its key was put.
export const bound = (h) => (h.early ? "> " : h.atMost ? "≤ " : "");

// count is a number with its noun.
export const count = (n, one, many) => n.toLocaleString("en") + " " + (n === 1 ? one : many);

// who names a place, or a hold.
export function who(p) {
  if (p.owner) return visible(p.owner);
  if (p.form === "foreign") return "foreign key";
  if (p.value) return visible(p.value);
  return p.lease ? "lease " + p.lease : "unnamed";
}

// holding says who holds a queue: "ann and 2 other readers", "ann and 1 other, 2 of 3 slots".
export function holding(queue) {
  const p = queue.positions[0];
  if (!p?.holds) return "nobody";
  const others = queue.holding - 1;
  if (p.mode === "semaphore") return who(p) + (others ? " and " + count(others, "other", "others") : "") + ", " + slots(queue);
  if (others) return who(p) + " and " + count(others, "other reader", "other readers");
  return who(p) + mode(p) + besides(p, queue.name);
}

// mode marks a reader.
export const mode = (p) => (p.mode === "shared" ? " (reader)" : "");

const slots = (queue) => (queue.limit ? queue.holding + " of " + count(queue.limit, "slot", "slots") : "no slot held");

// besides says which other names a position has, or waits for, together with one.
export function besides(p, name) {
  const others = (p.names ?? []).filter((n) => n !== name).map(visible);
  if (others.length === 0) return "";
  const said = others.slice(0, 3).join(", ");
  return ", with " + said + (others.length > 3 ? ` and ${others.length - 3} more` : "");
}

// ends says how a hold ended: a word for its mark, and a sentence.
export function ends(h) {
  if (!h.to) return { mark: "held", word: "held", text: "held since" };
  if (h.cause === "broken") return { mark: "broken", word: "broken", text: "lost: broken" + (h.by ? " by " + visible(h.by) : "") };
  const why = h.cause ? ": " + h.cause : "";
  if (h.end === "released") return { mark: "released", word: "released", text: "released" + why };
  if (h.end === "lost") return { mark: "lost", word: "lost", text: "lost" + why };
  return { mark: "ended", word: "ended", text: "released or lost" + why };
}
