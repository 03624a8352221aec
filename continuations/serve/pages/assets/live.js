"use strict";
// Keeps an open page up to date. Every page works without this file.
(() => {
  const one = (selector, place = document) => place.querySelector(selector);
  const all = (selector, place = document) => [...place.querySelectorAll(selector)];
  const pollSeconds = Number(document.body.dataset.poll);
  const isFocused = element => element.contains(document.activeElement);
  const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

  // `times.js` writes since when the page is not live.
  const showLive = (isLive, since = "") => document.dispatchEvent(new CustomEvent("live", {detail: {isLive, since}}));
  const hideLive = () => { const word = one(".live"); if (word) word.hidden = true; };

  // Calls a function when something has changed: by events, or by asking now and then.
  const listen = (address, events, ask) => {
    if (!pollSeconds) {
      const source = new EventSource(address);
      for (const [name, act] of Object.entries(events)) source.addEventListener(name, act);
      source.addEventListener("open", () => showLive(true));
      source.addEventListener("error", () => showLive(false));
      source.addEventListener("away", event => showLive(!event.data, event.data));
      return () => { source.close(); hideLive(); };
    }
    showLive(true);
    const soon = () => document.hidden || ask();
    const timer = setInterval(soon, pollSeconds * 1000);
    document.addEventListener("visibilitychange", soon);
    return () => { clearInterval(timer); document.removeEventListener("visibilitychange", soon); hideLive(); };
  };
  const isAnswered = reply => [200, 204, 401, 403, 404, 410].includes(reply.status);
  // Runs a function once at a time; a call meanwhile runs it once more. A function that
  // returns false, or fails, runs again after some seconds: no event tells of it again.
  const oneAtATime = act => {
    let isBusy = false, isAgain = false;
    const run = async () => {
      if (isBusy) { isAgain = true; return; }
      isBusy = true;
      let isDone = true;
      try {
        do { isAgain = false; isDone = await act().catch(() => false); } while (isAgain);
      } finally { isBusy = false; }
      // A page that has stopped to follow says nothing any more.
      if (one(".live:not([hidden])")) showLive(isDone !== false);
      if (isDone === false && !pollSeconds) setTimeout(run, 3000);
    };
    return run;
  };

  // `times.js` writes the times of a new page, or of a part of one.
  const tell = detail => document.dispatchEvent(new CustomEvent("fresh", {detail}));

  const parse = async reply => {
    const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
    tell(fresh);
    return fresh;
  };

  // The inbox ---------------------------------------------------------------------
  const rows = one("#live[data-events]");
  if (rows) {
    const refresh = oneAtATime(async () => {
      if (isFocused(rows)) { rows.dataset.stale = "1"; return; }
      const after = pollSeconds ? {"x-live-after": rows.dataset.cursor} : {};
      const reply = await fetch(rows.dataset.rows, {headers: {accept: "text/html", ...after}});
      if (reply.status !== 200) return isAnswered(reply);
      const text = await reply.text();
      if (isFocused(rows)) { rows.dataset.stale = "1"; return; }
      rows.innerHTML = text;
      // The counts above the rows.
      const head = one("#live-head"), open = one(".count"), title = one("#inbox-title");
      document.title = document.title.replace(title.textContent, head.dataset.title);
      title.textContent = head.dataset.title;
      all("b", head).forEach((each, at) => { all(".tabs a")[at].textContent = each.textContent; });
      if (open && head.dataset.open) {
        open.textContent = head.dataset.open;
        open.ariaLabel = `${head.dataset.open} wait for you`;
      }
      again();
      rows.dataset.cursor = reply.headers.get("x-live-cursor") ?? "";
      delete rows.dataset.stale;
      one("#live-news").textContent = `${count(all(".waits li").length, "wait")} shown`;
      tell(rows);
    });
    // The server still reads what the list is made of.
    const again = () => one("[data-reading]", rows) && setTimeout(() => {
      rows.dataset.cursor = "";
      refresh();
    }, 2000);
    again();
    rows.addEventListener("focusout", () => setTimeout(() => rows.dataset.stale && refresh(), 0));
    listen(rows.dataset.events, {waits: refresh}, refresh);
  }

  // A list of runs, also one that is not complete yet -----------------------------------
  const list = one("[data-reads]");
  if (list) {
    let place = list.dataset.cursor ?? "", isStale = false, timer = 0;
    const renew = isAsked => oneAtATime(async () => {
      if (isFocused(list)) { isStale = true; return; }
      const known = pollSeconds ? {"x-live-after": isAsked ? place : ""} : {"x-live-at": place};
      const reply = await fetch(location.href, {headers: {accept: "text/html", ...known}});
      if (reply.status !== 200) return isAnswered(reply);
      const page = await parse(reply), fresh = one("[data-reads]", page);
      if (isFocused(list)) { isStale = true; return; }
      list.replaceChildren(...fresh.childNodes);
      place = fresh.dataset.cursor ?? "";
      isStale = false;
      again();
    });
    const follow = renew(true), read = renew(false);
    const again = () => {
      clearTimeout(timer);
      // A page without a row looks further back by itself.
      const onward = one("[data-continue]", list);
      if (onward) history.replaceState(null, "", onward.href);
      if (onward || one("[data-reading]", list)) timer = setTimeout(read, onward ? 100 : 2000);
    };
    again();
    list.addEventListener("focusout", () => setTimeout(() => isStale && follow(), 0));
    if (list.dataset.reads) listen(list.dataset.reads, {waits: follow}, follow);
  }

  // A run or a thread -------------------------------------------------------------
  const place = one("[data-follow]");
  if (!place) return;
  const form = one("#send[data-live-form]");
  let stop = () => {}, followed = "", told = "", isStale = false;
  let floor = 0, written = {fence: 0, attempt: 0, to: 0, text: ""};

  const draw = () => {
    const element = one("#writing");
    // Words of a version that the page does not show yet wait: its messages come first.
    if (!element || written.fence > parseInt(place.dataset.cursor, 10)) return;
    if (!one(".value", element).textContent && written.text) place.textContent = "1 reply is being written";
    keepAtEnd(() => {
      element.hidden = !written.text && element.dataset.atWork !== "1";
      // A long reply is folded once it is stored. Until then, its end is shown.
      const {length} = written.text, isLong = length > 20000;
      one(".value", element).textContent = isLong ? `… ${written.text.slice(-20000)}` : written.text;
      const words = isLong ? `is writing, ${length.toLocaleString("en")} characters` : "is writing";
      one(".muted", element).textContent = length ? words : "is at work";
    });
  };
  // A higher fence or attempt begins anew. A stored reply replaces every lower fence.
  const hear = event => {
    const words = JSON.parse(event.data);
    const age = words.fence - written.fence || words.attempt - written.attempt;
    if (words.fence < floor || age < 0) return;
    if (words.from && (age || words.from !== written.to)) return;
    written = {...words, text: words.from ? written.text + words.text : words.text};
    draw();
  };
  // A reader at the end of a conversation stays there.
  const toEnd = () => scrollTo(0, document.documentElement.scrollHeight);
  const keepAtEnd = act => {
    const isAtEnd = document.documentElement.scrollHeight - innerHeight - scrollY < 100;
    act();
    if (form && isAtEnd) toEnd();
  };
  // The lines as they came: a reader may have unfolded a part of one.
  const sources = new WeakMap();
  all("[data-live=list] > *").forEach(each => sources.set(each, each.outerHTML));
  const importLine = each => {
    const made = document.importNode(each, true);
    sources.set(made, each.outerHTML);
    return made;
  };
  const patchList = (old, fresh) => {
    let added = 0, next = null;
    // Older lines that the reader has loaded stay above the first line of the new page.
    const first = fresh.firstElementChild && document.getElementById(fresh.firstElementChild.id);
    const earlier = one("#earlier");
    if (!first && earlier) earlier.innerHTML = fresh.ownerDocument.getElementById("earlier").innerHTML;
    const isOlder = each => first && each.compareDocumentPosition(first) & Node.DOCUMENT_POSITION_FOLLOWING;
    for (const each of [...old.children]) {
      if (isOlder(each) || fresh.ownerDocument.getElementById(each.id)) continue;
      isFocused(each) ? isStale = true : each.remove();
    }
    for (const each of [...fresh.children].reverse()) {
      let own = document.getElementById(each.id);
      if (own && own.id !== "writing" && sources.get(own) !== each.outerHTML) {
        if (isFocused(own)) isStale = true;
        else { const made = importLine(each); own.replaceWith(made); own = made; }
      }
      if (!own) { own = importLine(each); old.insertBefore(own, next); added += 1; }
      next = own;
    }
    return added;
  };
  // Some things change by time alone, such as the absence of a worker.
  let again = 0;
  const askAgain = page => {
    clearTimeout(again);
    const seconds = Number(one("[data-again]", page)?.dataset.again ?? 0);
    if (seconds) again = setTimeout(() => { isStale = true; renew(); }, seconds * 1000);
  };
  const apply = fresh => {
    let changes = 0, added = 0;
    isStale = false;
    keepAtEnd(() => {
      for (const old of all("[data-live]")) {
        const now = fresh.getElementById(old.id);
        if (!now || now.innerHTML === old.innerHTML) continue;
        if (old.dataset.live === "list") { added += patchList(old, now); continue; }
        // The part that has the focus is never replaced.
        if (isFocused(old)) { isStale = true; continue; }
        old.innerHTML = now.innerHTML;
        changes += 1;
      }
      floor = Number(one("[data-floor]", fresh)?.dataset.floor ?? 0);
      if (written.fence < floor) written = {...written, to: 0, text: ""};
      const writing = one("#writing");
      if (writing) writing.dataset.atWork = one("#writing", fresh)?.dataset.atWork ?? "0";
    });
    askAgain(fresh);
    const now = one("[data-follow]", fresh);
    place.dataset.cursor = now?.dataset.cursor ?? "";
    draw();
    if (added) place.textContent = count(added, "new message");
    else if (changes) place.textContent = `${count(changes, "part")} of this page changed`;
    follow(now?.dataset.follow ?? "");
  };
  const renew = oneAtATime(async () => {
    const known = pollSeconds ? {"x-live-after": isStale ? "" : place.dataset.cursor} : {"x-live-at": told || place.dataset.cursor};
    const reply = await fetch(location.href, {headers: {accept: "text/html", ...known}});
    if (reply.status === 200) apply(await parse(reply));
    if ([401, 403, 404, 410].includes(reply.status)) follow("");
    return isAnswered(reply);
  });
  const follow = address => {
    const path = address && new URL(address, location.href).searchParams.get("run");
    if (path === followed) return;
    stop();
    followed = path;
    if (!path) return;
    const changed = event => { told = event.lastEventId; renew(); };
    stop = listen(address, {run: changed, words: hear, gone: () => follow("")}, renew);
  };
  document.addEventListener("focusout", () => setTimeout(() => isStale && renew(), 0));
  floor = Number(one("[data-floor]")?.dataset.floor ?? 0);
  follow(place.dataset.follow);
  askAgain(document);

  // The box of a thread -------------------------------------------------------------
  if (!form) return;
  const box = one("textarea", form), problem = one("#send-problem"), own = one("[name=id]", form);
  let isSending = false, failed = "";
  const send = async text => {
    // A repeat has the same id, so the message is posted once. Another text is another message.
    if (failed && failed !== text) own.value += "-2";
    const body = new URLSearchParams(new FormData(form));
    box.value = "";
    const reply = await fetch(form.action, {method: "POST", body, headers: {accept: "text/html"}});
    const fresh = await parse(reply);
    if (!reply.ok) throw new Error(one("h1", fresh)?.textContent ?? String(reply.status));
    if (new URL(reply.url).pathname !== location.pathname) { location.href = reply.url; return; }
    own.value = one("#send [name=id]", fresh)?.value ?? own.value;
    failed = "";
    apply(fresh);
    toEnd();
  };
  form.addEventListener("submit", async event => {
    event.preventDefault();
    box.focus();
    const text = box.value;
    if (isSending || !text.trim()) return;
    isSending = true;
    problem.hidden = true;
    try {
      await send(text);
    } catch (error) {
      failed = text;
      box.value = box.value ? `${text}\n${box.value}` : text;
      problem.textContent = `Not sent, as far as this page knows: ${error.message}. Press Send again.`;
      problem.hidden = false;
    }
    isSending = false;
  });
})();
