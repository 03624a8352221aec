"use strict";
// Writes each time of a page in the zone of its reader. Without this file, they are UTC.
(() => {
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  const left = seconds => {
    if (seconds <= 0) return "the deadline has passed";
    if (seconds < 60) return "in less than a minute";
    const at = units.findIndex(([size]) => seconds >= size);
    const [[big, name], second] = [units[at], units[at + 1]];
    const rest = second ? Math.floor(seconds % big / second[0]) : 0;
    return `in ${Math.floor(seconds / big)} ${name}${rest ? ` ${rest} ${second[1]}` : ""}`;
  };
  const weekdays = "Sun Mon Tue Wed Thu Fri Sat".split(" ");
  const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
  const two = number => String(number).padStart(2, "0");
  const day = at => `${weekdays[at.getDay()]} ${at.getDate()} ${months[at.getMonth()]} ${at.getFullYear()}`;
  const clock = at => `${two(at.getHours())}:${two(at.getMinutes())}`;
  // British English has the short names of Europe, American English those of America.
  const zones = ["en-GB", "en-US"].map(each => new Intl.DateTimeFormat(each, {timeZoneName: "short"}));
  const zone = at => {
    const names = zones.map(each => each.formatToParts(at).find(part => part.type === "timeZoneName").value);
    return (names.find(each => !each.startsWith("GMT")) ?? names[0]).replace("GMT", "UTC");
  };
  const offset = at => {
    const minutes = -at.getTimezoneOffset(), size = Math.abs(minutes);
    return `UTC${minutes < 0 ? "-" : "+"}${Math.floor(size / 60)}${size % 60 ? `:${two(size % 60)}` : ""}`;
  };
  const forms = {
    long: at => `${day(at)}, ${clock(at)} ${zone(at)}`,
    short: at => `${day(at) === day(new Date()) ? "today" : `${day(at)},`} ${clock(at)}`,
    clock,
    second: at => `${clock(at)}:${two(at.getSeconds())}`,
    day,
    left: at => left((at - Date.now()) / 1000),
  };
  const time = element => new Date(element.getAttribute("datetime"));
  const write = element => {
    const words = forms[element.dataset.time](time(element));
    if (element.textContent !== words) element.textContent = words;
  };
  // The lines of a log stand below the days of the reader's zone.
  const writeDays = log => {
    let above = "";
    log.querySelectorAll(".day time").forEach(each => each.closest("li").remove());
    for (const each of log.querySelectorAll("[data-time=second]:not(.substeps *)")) {
      if (day(time(each)) === above) continue;
      above = day(time(each));
      const heading = log.ownerDocument.createElement("li"), own = each.cloneNode();
      heading.className = "day";
      own.dataset.time = "day";
      own.textContent = above;
      heading.append(own);
      each.closest("li").before(heading);
    }
  };
  const writeTimes = root => {
    root.querySelectorAll("[data-time]").forEach(write);
    root.querySelectorAll(".log").forEach(writeDays);
  };
  writeTimes(document);
  setInterval(() => document.querySelectorAll("[data-time=left], [data-time=short]").forEach(write), 30000);
  // Another script has got a new page, or a part of it.
  document.addEventListener("fresh", event => writeTimes(event.detail));
  // A day in the past is said at once, where a person answers with a day.
  document.addEventListener("input", ({target}) => {
    if (target.type !== "date" || target.form?.method !== "post") return;
    const now = new Date(), today = `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
    const note = target.nextElementSibling ?? target.parentElement.appendChild(document.createElement("p"));
    note.className = "hint";
    note.setAttribute("role", "status");
    note.textContent = target.value && target.value < today ? "This day is in the past." : "";
  });
  // Whether the page follows the store now, or since when it does not.
  document.addEventListener("live", ({detail: {isLive, since}}) => {
    const word = document.querySelector(".live");
    if (!word) return;
    word.hidden = false;
    if (isLive) { word.textContent = "Live"; word.classList.remove("away"); return; }
    if (word.classList.contains("away") && !since) return;
    const at = document.createElement("time");
    at.dateTime = since || new Date().toISOString();
    at.dataset.time = "clock";
    write(at);
    const text = document.createElement("span");
    text.append("Not live since ", at);
    word.replaceChildren(text);
    word.classList.add("away");
  });
  const now = new Date(), names = [...new Set([zone(now), offset(now)])].join(", ");
  const zoneLine = document.querySelector("#zone");
  if (zoneLine) {
    const isUtc = names.startsWith("UTC, ");
    zoneLine.textContent = isUtc ? "Times are in UTC." : `Times are in your time zone: ${names}.`;
    zoneLine.hidden = !document.querySelector("[data-time]");
  }
})();
