// What the pages do with JavaScript: instants in the reader's zone, and a page that is
// loaded again when something has changed. Without it a page is whole, in UTC.

const two = { month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" };
const zone = new Intl.DateTimeFormat("en-GB", { ...two, year: "numeric", hourCycle: "h23", timeZoneName: "short" });

// The form is that of the server, with the reader's zone in the place of UTC.
function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const is = Object.fromEntries(zone.formatToParts(new Date(time.dateTime)).map((x) => [x.type, x.value]));
    time.textContent = `${is.year}-${is.month}-${is.day} ${is.hour}:${is.minute}:${is.second} ${is.timeZoneName}`;
  }
}

// An id that is shortened gets a button that copies it whole; its title has it without one.
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

// Between press and release a page keeps its elements: a click belongs to one element.
let pressed = false;
addEventListener("pointerdown", () => { pressed = true; });
for (const end of ["pointerup", "pointercancel", "dragend", "blur"]) {
  addEventListener(end, () => setTimeout(() => { pressed = false; reload(); })); // after the click
}

// A page that somebody presses or fills in is left alone.
function busy() {
  const fields = [...document.querySelectorAll("main input:not([type=hidden]), main textarea")];
  const filled = fields.some((e) => ["radio", "checkbox"].includes(e.type) ? e.checked !== e.defaultChecked : e.value !== e.defaultValue)
    || [...document.querySelectorAll("main option")].some((e) => e.selected !== e.defaultSelected && (e.defaultSelected || e.index > 0));
  return pressed || filled || document.activeElement?.matches("input, select, textarea") || document.querySelector("details[open]:not([data-open])");
}

// The page carries the edition that it is made of, and every word of the server's the one of
// now: a word that is missed, or comes while the page is being loaded or somebody types, is
// made good by the next.
let loading = false;
let newest = document.getElementById("content").dataset.edition;
let refused; // the edition of now when the page could not be loaded: not again until the next

async function reload() {
  const isOld = newest !== document.getElementById("content").dataset.edition && newest !== refused;
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
      document.getElementById("content").replaceWith(content);
      const pages = document.querySelector("nav.sections"); // its number may be another one
      const newer = page.querySelector("nav.sections");
      if (pages && newer && !pages.contains(document.activeElement)) {
        pages.replaceWith(newer);
      }
      heard = Date.now();
      heardText.textContent = "Up to date";
      heardText.classList.remove("bad");
    }
  } catch {
    // the server is away: the page says when it was last heard
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
const once = document.querySelector("[data-once]"); // shown in answer to a form: never loaded again, and gone with the page
addEventListener("pagehide", () => once?.remove());

// A browser has six connections to a server, and a stream takes one for as long as it is
// open. Of the pages that are looked at one has it, by a lock, and tells the others.
const others = new BroadcastChannel("perennial changes");
let hide; // gives up the stream, or the wait for it
let leads = false; // this page has the stream, and has heard a word

others.onmessage = ({ data: edition }) => {
  if (edition !== null) {
    hear(edition);
  } else if (leads) { // a page asks that has just come to be looked at
    others.postMessage(newest);
  }
};

// A browser gives a stream up for good that is answered with an error, as while the runner
// is started again behind a proxy.
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
    navigator.locks.request("perennial changes", { signal: hidden.signal }, turn).catch(() => {}); // hidden before its turn
  } else { // only where a page comes over plain HTTP from elsewhere
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

// A form is sent once: a second click would be answered with what the first has changed.
addEventListener("submit", (sent) => {
  if (sent.target.dataset.sent) {
    sent.preventDefault();
  }
  sent.target.dataset.sent = "1";
  setTimeout(() => delete sent.target.dataset.sent, 10000); // it may have been stopped
});
addEventListener("pageshow", () => {
  for (const form of document.forms) {
    delete form.dataset.sent;
  }
});
