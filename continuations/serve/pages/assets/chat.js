"use strict";
// A conversation: begins at its end, loads older messages in place, and Enter sends.
// Every page works without this file.
(() => {
  const one = (selector, place = document) => place.querySelector(selector);
  const list = one("#chat"), end = one("#end");
  // The focus of a person must not stand behind the box at the bottom.
  const setPadding = () => {
    document.documentElement.style.scrollPaddingBottom = `${(end?.offsetHeight ?? 0) + 16}px`;
  };
  if (end) { setPadding(); new ResizeObserver(setPadding).observe(end); }
  if (end && one("#send") && !location.hash) scrollTo(0, document.documentElement.scrollHeight);

  // The older messages come above the first one, and the reader stays at the same place.
  const load = async link => {
    const reply = await fetch(link.href, {headers: {accept: "text/html"}});
    if (!reply.ok) throw new Error(String(reply.status));
    const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
    document.dispatchEvent(new CustomEvent("fresh", {detail: fresh}));
    const older = [...one("#chat", fresh).children].filter(each => each.id !== "at-none" && !document.getElementById(each.id));
    const before = list.getBoundingClientRect().height;
    list.prepend(...older.map(each => document.importNode(each, true)));
    scrollBy({top: list.getBoundingClientRect().height - before, behavior: "instant"});
    const next = one("#older", fresh);
    if (next) link.href = next.getAttribute("href"); else link.parentElement.remove();
  };
  document.addEventListener("click", async event => {
    const link = event.target.closest("#older");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.dataset.busy) return;
    link.dataset.busy = "1";
    await load(link).catch(() => { location.href = link.href; });
    delete link.dataset.busy;
  });

  const box = one("#send textarea");
  // The keyboard of a phone has no Shift: there, the button sends.
  if (!box || matchMedia("(pointer: coarse)").matches) return;
  one("#enter")?.removeAttribute("hidden");
  box.addEventListener("keydown", event => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    box.form.requestSubmit();
  });
})();
