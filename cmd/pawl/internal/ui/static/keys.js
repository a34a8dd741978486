// The keyboard.

import { $ } from "./dom.js";

const next = (select, by) => {
  const to = select.selectedIndex + by;
  if (to < 0 || to >= select.options.length) return;
  select.selectedIndex = to;
  select.dispatchEvent(new Event("change"));
};

const kinds = ["all", "lock", "election", "waiting", "lost"];

// setUpKeys binds keys to what ui does.
export function setUpKeys(ui) {
  const { grid, details } = ui;
  const anywhere = {
    j: () => ui.select(grid.at + 1),
    k: () => ui.select(grid.at - 1),
    "/": () => $("filter").select(),
    s: () => {
      const sort = $("sort");
      sort.selectedIndex = (sort.selectedIndex + 1) % sort.options.length;
      sort.dispatchEvent(new Event("change"));
    },
    "+": () => next($("window"), -1),
    "=": () => next($("window"), -1),
    "-": () => next($("window"), 1),
    p: () => ui.pause(),
    b: () => ui.break(),
    "?": () => $("help").showModal(),
    Escape: () => (details.open ? ui.closeDetails() : ui.clearFilter()),
  };
  kinds.forEach((kind, i) => {
    anywhere[i + 1] = () => $("kinds").querySelector(`[value="${kind}"]`).click();
  });
  const inGrid = {
    ArrowDown: () => ui.select(grid.at + 1),
    ArrowUp: () => ui.select(grid.at - 1),
    PageDown: () => ui.select(grid.at + grid.page()),
    PageUp: () => ui.select(grid.at - grid.page()),
    Home: () => ui.select(0),
    End: () => ui.select(grid.rows.length - 1),
    Enter: () => ui.openDetails(true),
  };
  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
    const on = document.activeElement;
    if (on === $("filter")) {
      if (e.key === "Escape" || e.key === "Enter" || e.key === "ArrowDown") {
        if (e.key === "Escape") ui.clearFilter();
        grid.grid.focus();
        e.preventDefault();
      }
      return;
    }
    const typing = on?.tagName === "SELECT" || on?.type === "radio";
    const act = on === grid.grid || on === document.body ? inGrid[e.key] ?? anywhere[e.key] : typing && e.key.length > 1 ? null : anywhere[e.key];
    if (!act || (on?.tagName === "SELECT" && e.key !== "/" && e.key !== "?")) return;
    act();
    e.preventDefault();
  });
}
