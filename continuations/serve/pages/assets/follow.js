"use strict";
// Keeps the parts of an open page up to date. Every page works without this file.
(() => {
  const place = document.querySelector("[data-follow]");
  if (!place) return;
  const news = document.querySelector("#news");
  let source, followed = "", timer, isStale = false;
  const follow = address => {
    const path = address.split("?")[0];
    if (path === followed) return;
    source?.close();
    followed = path;
    if (!path) return;
    source = new EventSource(address);
    const soon = () => { clearTimeout(timer); timer = setTimeout(renew, 200); };
    source.onmessage = soon;
    source.addEventListener("waits", soon);
  };
  const renew = async () => {
    const reply = await fetch(location.href, {headers: {accept: "text/html"}});
    if (!reply.ok) return;
    const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
    let changes = 0;
    isStale = false;
    document.querySelectorAll("[data-live]").forEach(old => {
      const now = fresh.getElementById(old.id);
      if (!now || now.innerHTML === old.innerHTML) return;
      // The part that has the focus is never replaced.
      if (old.contains(document.activeElement)) { isStale = true; return; }
      old.innerHTML = now.innerHTML;
      changes += 1;
    });
    if (changes && news) news.textContent = `${changes} parts of this page have changed`;
    follow(fresh.querySelector("[data-follow]")?.dataset.follow ?? "");
  };
  document.addEventListener("focusout", () => setTimeout(() => isStale && renew(), 0));
  follow(place.dataset.follow);
})();
