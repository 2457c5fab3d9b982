// Shows times in the reader's time zone, and reloads a page when its content changes. Without
// JavaScript a page is complete, with times in UTC.

const two = { month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" };
const zone = new Intl.DateTimeFormat("en-GB", { ...two, year: "numeric", hourCycle: "h23", timeZoneName: "short" });

// The format is the server's, with the reader's zone instead of UTC.
function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const is = Object.fromEntries(zone.formatToParts(new Date(time.dateTime)).map((x) => [x.type, x.value]));
    time.textContent = `${is.year}-${is.month}-${is.day} ${is.hour}:${is.minute}:${is.second} ${is.timeZoneName}`;
  }
}

// Adds a button to each shortened id that copies the whole id, which is the link's title.
function copyButtons(root) {
  for (const link of navigator.clipboard ? root.querySelectorAll("a[title]") : []) {
    if (link.textContent === link.title) {
      continue;
    }
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.ariaLabel = `Copy ${link.title}`;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(link.title);
      button.textContent = "Copied";
    });
    link.after(" ", button);
  }
}

let heard = Date.now();
let stale = false;
const heardText = document.getElementById("heard");

function showHeard() {
  const seconds = Math.round((Date.now() - heard) / 1000);
  const isStale = seconds > 15;
  if (isStale) {
    heardText.textContent = `Not up to date: last heard ${seconds} s ago`;
  } else if (stale) {
    heardText.textContent = "Up to date";
  }
  heardText.classList.toggle("bad", isStale);
  stale = isStale;
}

// A click needs the same element at press and release, so the page is not replaced meanwhile.
let pressed = false;
addEventListener("pointerdown", () => { pressed = true; });
for (const end of ["pointerup", "pointercancel", "dragend", "blur"]) {
  addEventListener(end, () => setTimeout(() => { pressed = false; reload(); })); // after the click
}

// Reports whether a person presses an element or fills in a form. The page is then not replaced.
function busy() {
  const fields = [...document.querySelectorAll("main input:not([type=hidden]), main textarea")];
  const filled = fields.some((e) => ["radio", "checkbox"].includes(e.type) ? e.checked !== e.defaultChecked : e.value !== e.defaultValue)
    || [...document.querySelectorAll("main option")].some((e) => e.selected !== e.defaultSelected && (e.defaultSelected || e.index > 0));
  return pressed || filled || document.activeElement?.matches("input, select, textarea") || document.querySelector("details[open]:not([data-open])");
}

// Describes what an element does. Buttons with the same text in different forms differ.
function purpose(element) {
  const fields = element.form ? String(new URLSearchParams(new FormData(element.form))) : "";
  return JSON.stringify([element.tagName, element.textContent, element.getAttribute("href"), element.getAttribute("formaction"), element.form?.action, fields]);
}

// Returns the element of the new content that corresponds to the focused element. The address
// of an "Older" link, or the text of a table, may have changed.
function sameElement(focused, content) {
  const alike = (root) => [...root.querySelectorAll(focused.tagName)].filter((e) => e.tabIndex >= 0 && e.className === focused.className);
  const old = alike(document.getElementById("content"));
  const inOrder = (is) => alike(content).filter(is)[old.filter(is).indexOf(focused)];
  const same = inOrder((e) => purpose(e) === purpose(focused));
  if (same || focused.form) {
    return same;
  }
  const isText = (e) => e.textContent === focused.textContent;
  return focused.tagName !== "A" ? inOrder(() => true) : old.filter(isText).length === 1 ? alike(content).find(isText) : undefined;
}

// The page contains the edition of its data, and each message from the server contains the
// current edition. If a message is lost, or arrives while the page loads or a person types, the
// next message leads to the reload.
let loading = false;
let newest = document.getElementById("content").dataset.edition;
let refused; // the edition whose page could not be loaded; it is not requested again

async function reload() {
  const { edition } = document.getElementById("content").dataset;
  const isOld = edition !== "" && newest !== edition && newest !== refused; // the answer to a form has no edition: it cannot be loaded again
  if (!isOld || loading || busy()) {
    return;
  }
  loading = true;
  const asked = newest;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected) {
      location.href = answer.url;
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const content = page.getElementById("content");
    refused = answer.ok && content ? undefined : asked;
    if (answer.ok && content && !busy()) {
      localTimes(content);
      copyButtons(content);
      const old = document.getElementById("content");
      const focus = old.contains(document.activeElement) ? sameElement(document.activeElement, content) : undefined;
      old.replaceWith(content);
      focus?.focus({ preventScroll: true });
      const pages = document.querySelector("nav.sections"); // its counts may have changed
      const newer = page.querySelector("nav.sections");
      if (pages && newer && !pages.contains(document.activeElement)) {
        pages.replaceWith(newer);
      }
      heard = Date.now();
      heardText.textContent = "Up to date";
      heardText.classList.remove("bad");
    }
  } catch {
    // the server does not answer; showHeard says since when
  } finally {
    loading = false;
  }
  if (newest !== asked) {
    reload();
  }
}

function hear(edition) {
  heard = Date.now();
  newest = edition;
  if (!document.hidden) {
    reload();
  }
}

localTimes(document);
copyButtons(document);
const once = document.querySelector("[data-once]"); // the result of a form: never reloaded, and removed when the page is left
addEventListener("pagehide", () => once?.remove());

// A browser opens at most six connections to a server, and an open stream occupies one. Of
// all visible pages, the one that holds a lock has the stream and informs the others.
const others = new BroadcastChannel("perennial changes");
let hide; // closes the stream, or ends the wait for the lock
let leads = false; // this page has the stream and has received a message

others.onmessage = ({ data: edition }) => {
  if (edition !== null) {
    hear(edition);
  } else if (leads) { // a page that has become visible asks for the edition
    others.postMessage(newest);
  }
};

// After an error response, such as one from a reverse proxy while the runner restarts, a browser
// does not reconnect by itself.
function stream(hidden, end) {
  if (hidden.aborted) {
    end();
    return;
  }
  const changes = new EventSource("/changes");
  for (const word of ["hello", "beat", "changed"]) {
    changes.addEventListener(word, ({ data: edition }) => {
      leads = true;
      hear(edition);
      others.postMessage(edition);
    });
  }
  changes.addEventListener("error", () => {
    if (changes.readyState === EventSource.CLOSED) {
      setTimeout(() => stream(hidden, end), 5000);
    }
  });
  hidden.addEventListener("abort", () => {
    leads = false;
    changes.close();
    end();
  });
}

function follow() {
  hide?.();
  hide = undefined;
  if (document.hidden) {
    return;
  }
  const hidden = new AbortController();
  hide = () => hidden.abort();
  const turn = () => new Promise((end) => stream(hidden.signal, end));
  if (navigator.locks) {
    navigator.locks.request("perennial changes", { signal: hidden.signal }, turn).catch(() => {}); // the page was hidden before it got the lock
  } else { // a page over plain HTTP from another host has no locks
    turn();
  }
  others.postMessage(null);
  reload();
}
if (!once) {
  follow();
  document.addEventListener("visibilitychange", follow);
  setInterval(showHeard, 1000);
}

// A form is sent once, because a second click would be refused after the first one's change.
addEventListener("submit", (sent) => {
  if (sent.target.dataset.sent) {
    sent.preventDefault();
  }
  sent.target.dataset.sent = "1";
  setTimeout(() => delete sent.target.dataset.sent, 10000); // the request may have been cancelled
});
addEventListener("pageshow", () => {
  for (const form of document.forms) {
    delete form.dataset.sent;
  }
});
