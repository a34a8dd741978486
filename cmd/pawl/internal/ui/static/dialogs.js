// The two dialogs: the list of keys, and the question before a break.

import { ask } from "./ask.js";
import { $, el } from "./dom.js";
import { besides, span, visible, who } from "./text.js";

// The key to break comes after the address' #, which no server and no log gets
// to see, and is kept for this tab alone.
const KEPT = "pawl-break-key";

export function takeKey() {
  const given = /^#key=([A-Za-z0-9]+)$/.exec(location.hash);
  if (!given) return;
  sessionStorage.setItem(KEPT, given[1]);
  history.replaceState(null, "", location.pathname + location.search);
}

// BREAKING is how long an eviction may take, in ms: longer than the server tries.
const BREAKING = 30_000;

// mayBreak asks whether this tab has the key, and gives null if no answer comes. One of an earlier
// pawl ui is forgotten.
export async function mayBreak() {
  const key = sessionStorage.getItem(KEPT);
  if (key === null) return false;
  try {
    const answer = await ask("api/key", { headers: { "Pawl-Break": key } });
    if (answer.status === 403) sessionStorage.removeItem(KEPT);
    return answer.ok;
  } catch {
    return null;
  }
}

export function setUpHelp() {
  const dialog = $("help");
  $("help-button").addEventListener("click", () => dialog.showModal());
  $("help-close").addEventListener("click", () => dialog.close());
}

export class Breaking {
  constructor(model, done) {
    Object.assign(this, { model, done, pending: null });
    $("break-no").addEventListener("click", () => $("break").close());
    $("break-yes").addEventListener("click", () => this.go());
  }

  // confirm asks about the present holder of a queue, and nobody else: of several, the one
  // with a token.
  confirm(id, token) {
    const r = this.model.row(id);
    if (!r?.holder) return "Nobody holds it.";
    if (!this.model.info.breakable) return "This page is read-only: start it with --allow-break to break.";
    if (!this.model.may) return "Here this page is read-only: open the whole address that pawl ui printed, #key=… included.";
    const p = r.holders.length === 1 && !token ? r.holder : r.holders.find((h) => h.token === token);
    if (!p) return "It has several holders: choose one in the details.";
    const hold = this.model.holdOf(id, p.token);
    this.pending = { id, token: p.token, name: r.name, who: who(p) };
    const next = r.queue.positions.find((w) => !w.holds);
    $("break-title").replaceChildren("Break the " + r.kind + " ", el("bdi", {}, visible(r.name)), "?");
    $("break-text").replaceChildren(
      el("p", {}, "This evicts ", el("strong", {}, el("bdi", {}, who(p))), p.host ? " on " + visible(p.host) + (p.pid ? ", pid " + p.pid : "") : "",
        p.slot === undefined ? "" : `, slot ${p.slot}`, `, token ${p.token}`,
        hold ? `, who has held it for ${hold.early ? "more than " : hold.atMost ? "at most " : ""}${span(this.model.now() - hold.from)}.` : ".",
        besides(p, r.name) ? ` It loses all of its names: this one${besides(p, r.name)}.` : ""),
      el("p", {}, next ? `${r.waiting} waiting; next is ` : "Nobody waits.", next ? el("bdi", {}, who(next)) : null, next ? (r.kind === "semaphore" ? "." : `, token ${next.token}.`) : null),
      el("p", { class: "dim" }, "The holder is not stopped. Until it learns of it, only storage that checks the token refuses what it writes."));
    $("break-wrong").hidden = true;
    $("break-yes").disabled = false;
    $("break").showModal();
    $("break-no").focus();
    return "";
  }

  async go() {
    const { id, token, name, who: whom } = this.pending;
    $("break-yes").disabled = true;
    try {
      const answer = await ask("api/break", {
        method: "POST",
        headers: { "Content-Type": "application/json", "Pawl-Break": sessionStorage.getItem(KEPT) },
        body: JSON.stringify({ queue: id, token }),
      }, BREAKING);
      const said = await answer.json();
      if (!answer.ok) return this.wrong(said.error);
    } catch (e) {
      return this.wrong("No answer came: " + e.message + ". See whether it still holds.");
    }
    $("break").close();
    this.done(`${whom} was evicted from ${visible(name)}, token ${token}`);
  }

  wrong(why) {
    $("break-wrong").textContent = why;
    $("break-wrong").hidden = false;
    $("break-no").focus();
  }
}
