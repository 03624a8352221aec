"use strict";
// Tells the reader of a wait that it has ended. Without script, the post does.
{
  const wait = document.querySelector("#wait-state[data-state]");
  const look = async () => {
    const reply = await fetch(wait.dataset.state, {headers: {accept: "text/html"}});
    if (reply.status !== 200) return; // 204: the wait is open
    wait.innerHTML = await reply.text();
    document.dispatchEvent(new CustomEvent("fresh", {detail: wait}));
    for (const each of document.querySelectorAll("#decide button")) each.disabled = true;
    if (events) events.close();
    clearInterval(timer);
  };
  const poll = Number(document.body.dataset.poll) * 1000;
  const events = wait && !poll && new EventSource(wait.dataset.events);
  if (events) events.addEventListener("waits", look);
  const timer = wait && poll && setInterval(() => document.hidden || look(), poll);
}
