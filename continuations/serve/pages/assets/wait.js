"use strict";
// Tells the reader of a wait that it has ended. Without script, the post does.
{
  const wait = document.querySelector("#wait-state[data-state]"), ways = document.querySelector("#ways");
  // `times.js` writes since when the page is not live.
  const showLive = (isLive, since = "") => document.dispatchEvent(new CustomEvent("live", {detail: {isLive, since}}));
  const look = async () => {
    const reply = await fetch(wait.dataset.state, {headers: {accept: "text/html"}});
    if (reply.status !== 200) return; // 204: the wait is open
    wait.innerHTML = await reply.text();
    document.dispatchEvent(new CustomEvent("fresh", {detail: wait}));
    for (const each of ways.querySelectorAll("button, input, select, textarea")) each.disabled = true;
    for (const each of ways.querySelectorAll("a[href]")) { each.removeAttribute("href"); each.ariaDisabled = "true"; }
    for (const each of ways.querySelectorAll("details")) each.open = false;
    ways.inert = true;
    const reason = document.createElement("p");
    reason.className = "notice";
    reason.textContent = `Inactive: ${wait.querySelector("b").textContent}`;
    ways.before(reason);
    if (events) events.close();
    clearInterval(timer);
    document.querySelector(".live").hidden = true;
  };
  const poll = Number(document.body.dataset.poll) * 1000;
  const events = wait && !poll && new EventSource(wait.dataset.events);
  if (events) {
    events.addEventListener("waits", look);
    events.addEventListener("open", () => showLive(true));
    events.addEventListener("error", () => showLive(false));
    events.addEventListener("away", event => showLive(!event.data, event.data));
  }
  const timer = wait && poll && setInterval(() => document.hidden || look(), poll);
  if (timer) showLive(true);
}
