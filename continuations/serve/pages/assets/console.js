"use strict";
// Every page works without this file.
(() => {
  const one = selector => document.querySelector(selector);
  const all = selector => [...document.querySelectorAll(selector)];
  const stored = "keys-off";
  const go = path => { location.href = (one(".brand")?.pathname ?? "/inbox").replace(/\/inbox$/, path); };
  const rows = () => all(".waits h3 a, .lines h2 a");
  const focus = element => element?.focus();
  const move = step => {
    const links = rows(), at = links.indexOf(document.activeElement);
    focus(links[Math.min(Math.max(at + step, 0), links.length - 1)]);
  };
  // No key decides: `a` and `d` only move the focus.
  const keys = {
    j: () => move(1), k: () => move(-1),
    "/": () => focus(one("input[type=search]")),
    "g i": () => go("/inbox"), "g r": () => go("/runs"),
    n: () => one("a[rel=next]")?.click(), p: () => one("a[rel=prev]")?.click(),
    // The first field of a question, or the first button.
    a: () => focus(one("#ways form :is(input:not([type=hidden]), select, textarea:not([name=reason]))") ?? one("#ways button")),
    d: () => focus(one("#deny textarea") ?? one("#deny button")),
    "?": () => go("/keys"),
  };
  let first = "";
  document.addEventListener("keydown", event => {
    const busy = event.target.closest("input, textarea, select");
    if (busy || event.ctrlKey || event.metaKey || event.altKey || localStorage[stored]) return;
    const act = keys[first ? `${first} ${event.key}` : event.key];
    first = event.key === "g" && !first ? "g" : "";
    if (act) { event.preventDefault(); act(); }
  });
  for (const each of all("[data-copy]")) {
    each.hidden = !navigator.clipboard;
    each.addEventListener("click", async () => {
      await navigator.clipboard.writeText(one(`#${each.dataset.copy}`).textContent);
      each.textContent = "Copied";
    });
  }
  // A menu of a filter sends its form by itself.
  document.addEventListener("change", event => event.target.matches("[data-submits]") && event.target.form.requestSubmit());
  // A day of a filter is one of the reader's zone.
  for (const own of all("[data-offset-of]")) {
    all("[data-utc]").forEach(each => each.remove());
    own.form.addEventListener("submit", () => {
      const day = one(`#${own.dataset.offsetOf}`).value;
      own.value = day ? -new Date(`${day}T12:00`).getTimezoneOffset() : "";
    });
  }
  const toggle = one("#keys-off");
  if (toggle) {
    toggle.checked = Boolean(localStorage[stored]);
    toggle.addEventListener("change", () => {
      toggle.checked ? localStorage.setItem(stored, "1") : localStorage.removeItem(stored);
    });
  }
})();
