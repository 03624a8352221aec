"use strict";
// A press decides once, and what it does not do is said. Every page works without this file.
(() => {
  const one = selector => document.querySelector(selector);
  const say = words => {
    const note = one("#pressed") ?? document.body.appendChild(document.createElement("p"));
    Object.assign(note, {id: "pressed", className: "notice", textContent: words});
    note.setAttribute("role", "status");
    clearTimeout(say.timer);
    say.timer = setTimeout(() => note.remove(), 4000);
  };
  // The gesture that recorded a decision presses nothing on the next page within a second,
  // and no decision at its old place before the pointer has left it. A finger may stay, so
  // other pages work there.
  const near = 48, began = performance.now();
  const isEarly = () => performance.now() - began < 1000;
  let held = JSON.parse(sessionStorage.pressed ?? "null"), place = {};
  const isAway = at => !("x" in held) || Math.hypot(at.clientX - held.x, at.clientY - held.y) > near;
  const forget = () => { held = null; sessionStorage.removeItem("pressed"); };
  const release = event => { if (held && !isEarly() && isAway(event)) forget(); };
  // Who fills in a field reads the page, such as that of a refused form.
  document.addEventListener("input", forget, true);
  document.addEventListener("pointerdown", release, true);
  document.addEventListener("pointermove", release, true);
  document.addEventListener("click", event => {
    const isKey = !event.detail;
    place = isKey ? {} : {x: event.clientX, y: event.clientY};
    const pressed = event.target.closest("a, button, summary");
    if (!held || !pressed || !isEarly() && (isKey || !pressed.form?.elements.decision)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    say(isEarly()
      ? "Not pressed: your last press was just recorded. Press again in a second."
      : "Not pressed: this place recorded your last decision. Move the pointer first.");
  }, true);
  document.addEventListener("submit", event => {
    if (event.target.elements.decision) sessionStorage.pressed = JSON.stringify(place);
  });
  // A button that can be pressed after some time; a timer of a browser ends within 24 days.
  for (const each of document.querySelectorAll("[data-opens]")) {
    if (each.dataset.opens < 2e6) setTimeout(() => {
      one(`#${each.getAttribute("aria-describedby")}`)?.remove();
      each.removeAttribute("aria-describedby");
      each.disabled = false;
    }, each.dataset.opens * 1000);
  }
})();
