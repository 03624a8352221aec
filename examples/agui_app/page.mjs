// A front end on the client of AG-UI alone. Build it with `npm run build`.

import { HttpAgent } from "@ag-ui/client";

const isStaff = location.pathname.startsWith("/staff/");
const threadId = location.pathname.split("/").pop();
const agent = new HttpAgent({ url: isStaff ? "/staff/agent/" : "/agent/", threadId });

const byId = (id) => document.getElementById(id);
const element = (tag, className, text = "") => {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
};

let problem = "";
let shown = ""; // an unchanged conversation is not read aloud again

// One turn. An interrupt without an answer is abandoned, which decides nothing: the turn
// ends with it again. So an empty turn also asks whether somebody else has decided.
async function turn(answers = {}) {
  problem = "";
  const resume = agent.pendingInterrupts.map(({ id }) =>
    id in answers
      ? { interruptId: id, status: "resolved", payload: answers[id] }
      : { interruptId: id, status: "cancelled" });
  try {
    await agent.runAgent(resume.length ? { resume } : {}, {
      onMessagesChanged: show,
      onRunErrorEvent: ({ event }) => { problem = event.message; },
    });
  } catch (error) {
    problem = String(error.message ?? error);
  }
  show();
}

// Turns follow each other.
let last = Promise.resolve();
const enqueue = (...given) => (last = last.then(() => turn(...given)));

function show() {
  const scroll = byId("scroll");
  const isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
  const now = JSON.stringify(agent.messages);
  if (now !== shown) byId("log").replaceChildren(...agent.messages.flatMap(rows));
  shown = now;
  showCards();
  byId("status").textContent =
    problem ? problem
    : agent.isRunning && !agent.pendingInterrupts.length ? "Support is writing …"
    : agent.pendingInterrupts.some((each) => !mayAnswer(each)) ? "A colleague is asked"
    : "Online";
  if (isAtEnd) scroll.scrollTop = scroll.scrollHeight;
}

function rows(message) {
  if (message.role === "tool") return [];
  const made = [];
  if (message.content) made.push(element("div", `message ${message.role}`, message.content));
  for (const call of message.toolCalls ?? []) {
    const result = agent.messages.find((each) => each.toolCallId === call.id);
    made.push(element("div", "call", result
      ? `${call.function.name}: ${result.content}` : `${call.function.name} …`));
  }
  return made;
}

// A person answers questions; an approval is for the colleagues that it names.
const mayAnswer = (interrupt) =>
  interrupt.reason === "question" ? !isStaff : isStaff;

// A card that stands there stays: somebody may be writing in it.
function showCards() {
  const cards = byId("cards");
  const open = new Set(agent.pendingInterrupts.map((each) => each.id));
  for (const card of [...cards.children]) if (!open.has(card.id)) card.remove();
  for (const each of agent.pendingInterrupts)
    if (!document.getElementById(each.id)) cards.append(cardOf(each));
}

function cardOf(interrupt) {
  const card = element("form", "card");
  card.id = interrupt.id;
  card.setAttribute("aria-label", "The agent asks");
  card.append(element("strong", "", interrupt.message));
  const answer = (payload) => {
    card.querySelectorAll("button").forEach((each) => { each.disabled = true; });
    enqueue({ [interrupt.id]: payload }).then(() => {
      card.querySelectorAll("button").forEach((each) => { each.disabled = false; });
    });
  };
  const button = (className, label, payload) => {
    const made = element("button", className, label);
    made.type = "button";
    made.onclick = () => answer(payload);
    return made;
  };
  card.onsubmit = (event) => event.preventDefault();
  if (!mayAnswer(interrupt)) {
    card.append(element("p", "", isStaff ? "The customer is asked."
      : "A colleague checks this. You may close the page and come back."));
  } else if (interrupt.reason === "question") {
    const field = element("input", "");
    field.setAttribute("aria-label", "Your answer");
    field.required = true;
    const buttons = element("div", "buttons");
    buttons.append(field, element("button", "", "Answer"));
    card.append(buttons);
    card.onsubmit = (event) => { event.preventDefault(); answer(field.value.trim()); };
  } else {
    const facts = element("dl", "");
    for (const [name, value] of Object.entries(interrupt.metadata.arguments))
      facts.append(element("dt", "", name), element("dd", "", JSON.stringify(value)));
    const buttons = element("div", "buttons");
    buttons.append(button("approve", "Approve", { approved: true }),
      button("deny", "Deny", { approved: false }));
    card.append(facts, buttons);
  }
  return card;
}

byId("form").onsubmit = (event) => {
  event.preventDefault();
  const content = byId("text").value.trim();
  if (!content) return;
  byId("text").value = "";
  last = last.then(() => {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
    show();
    return turn();
  });
};
byId("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId("form").requestSubmit();
  }
};

if (isStaff) document.title = "Support (staff)";
enqueue();
// Another person may decide at any time, or write.
setInterval(() => { if (!agent.isRunning) enqueue(); }, 2000);
