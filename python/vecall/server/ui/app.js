// The page of vecall: it shows and changes memories by the HTTP API, and by nothing else.
//
// A memory may hold anything. Texts enter the page as text nodes alone: `make` and `shown`
// are the only places that write them, and the headers of the page forbid all others.

"use strict";

const BASE = location.pathname.replace(/\/ui$/, "");
const TURNS = 500; // of a session that are put in order together
const UNDO_MS = 60_000;
const LONG = 1_200; // characters of a text that are shown at first
const main = document.getElementById("main");
let bearer = "";
let rights = {};
let views = 0; // counts the views: an answer for an earlier one is dropped

// ---------------------------------------------------------------- elements and texts

const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u{e0000}-\u{e007f}]/gu;

/** A text whose invisible characters can be seen. */
function shown(text) {
  return String(text).replace(CONTROLS, (each) => {
    const code = each.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code >= 0xe0020) return `⟦${String.fromCodePoint(code - 0xe0000)}⟧`;
    return `⟦U+${code.toString(16).toUpperCase().padStart(4, "0")}⟧`;
  });
}

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "rect", "text", "line"]);

/** A new element. Children are elements, texts, or null; a function is a listener. */
function make(name, attributes = {}, ...children) {
  const element = DRAWN.has(name)
    ? document.createElementNS(SVG, name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** What somebody else wrote: isolated, in its own direction. */
const said = (text) => make("bdi", { dir: "auto" }, shown(text));

const count = (number) => Number(number).toLocaleString();
const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

function size(bytes) {
  if (bytes < 1024) return `${count(bytes)} B`;
  const power = Math.min(4, Math.floor(Math.log2(bytes) / 10));
  const scaled = bytes / 1024 ** power;
  return `${scaled.toFixed(scaled < 10 ? 1 : 0)} ${["", "KB", "MB", "GB", "TB"][power]}`;
}

/** A time of the API, in the time zone of this browser. */
function when(seconds, style = { dateStyle: "medium", timeStyle: "short" }) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return make("span", {}, "an unknown time");
  return make("time", { datetime: date.toISOString() }, date.toLocaleString([], style));
}

const dayOf = (seconds) => new Date(seconds * 1000).toLocaleDateString([], { dateStyle: "full" });
const timeOf = (entry) => entry.timestamp ?? entry.created_at ?? 0;
const percent = (share) => `${Math.round(100 * share)}%`;

/** The text of a memory, whose content may have parts. */
function textOf(entry) {
  const content = entry.content;
  if (typeof content === "string") return content;
  const parts = Array.isArray(content?.parts) ? content.parts : [];
  return parts.map((part) => part?.text).filter((text) => typeof text === "string").join("\n");
}

/** A text, of which only the beginning is shown at first if it is long. */
function textBlock(text) {
  const whole = shown(text);
  const block = make("p", { class: "text", dir: "auto" }, whole.slice(0, LONG));
  if (whole.length <= LONG) return block;
  block.append("…");
  const more = make("button", { type: "button", click: () => {
    block.replaceChildren(whole);
    block.tabIndex = 0;
    block.focus();
    more.remove();
  } }, `Show all ${count(whole.length)} characters`);
  return [block, make("p", {}, more)];
}

const button = (label, run, kind = "", about = null) =>
  make("button", {
    type: "button", class: kind, "aria-label": about && `${label}: ${about}`,
    click: (event) => busy(event.currentTarget, run),
  }, label);

/** Run what a button or a form does; its problem is shown beside it. */
async function busy(control, run) {
  if (control.disabled) return;
  control.disabled = true;
  try {
    await run();
  } catch (error) {
    tell(explained(error));
  } finally {
    control.disabled = false;
  }
}

/** A form in a line; `run` gets its values. */
function lineForm(label, fields, submit, run) {
  return make("form", { class: "line", "aria-label": label, submit: (event) => {
    event.preventDefault();
    busy(event.submitter ?? event.target, () => run(new FormData(event.target)));
  } }, fields, make("button", { class: "main" }, submit));
}

const field = (label, name, attributes = {}, kind = "input", ...children) =>
  make("label", { class: attributes.wide ? "wide" : null }, label,
    make(kind, { name, autocomplete: "off", ...attributes, wide: null }, ...children));

// ---------------------------------------------------------------- the HTTP API

class Problem extends Error {
  constructor(status, code, message, request) {
    super(message);
    Object.assign(this, { status, code, request });
  }
}

const explained = (error) => {
  if (!(error instanceof Problem)) return "The server cannot be reached.";
  const known = {
    forbidden: "Your token does not allow this.",
    read_only: "Nothing can be changed here: this is for reading only.",
    not_found: "It is not there any more.",
    conflict: "Somebody else has changed it meanwhile. Load the page again.",
    too_many_requests: "Too many requests; wait a moment.",
  };
  return known[error.code] ?? error.message.replace(/^body\./, "");
};

function segment(name) {
  if (name === "." || name === "..") throw new Problem(0, "name", "An address cannot hold this name.");
  try {
    return encodeURIComponent(name);
  } catch {
    throw new Problem(0, "name", "An address cannot hold this name.");
  }
}

async function ask(method, path, given = {}) {
  const query = Object.entries(given.query ?? {}).filter(([, value]) => value !== undefined && value !== "");
  const headers = { Authorization: `Bearer ${bearer}` };
  if (given.body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(BASE + path + (query.length ? `?${new URLSearchParams(query)}` : ""), {
    method, headers, cache: "no-store", credentials: "omit", redirect: "error", keepalive: method === "DELETE",
    body: given.body === undefined ? undefined : JSON.stringify(given.body),
  });
  const id = answer.headers.get("X-Request-Id");
  if (!answer.ok) {
    const told = await answer.json().then(({ error }) => error, () => ({}));
    if (answer.status === 401) forgetToken();
    throw new Problem(answer.status, told.code, told.message ?? "The server failed.", id);
  }
  if (given.raw) return answer;
  const value = answer.status === 204 ? {} : await answer.json();
  return given.receipt ? { ...value, request: id } : value;
}

/** The operations on one user. */
function userOf(app, user) {
  const root = `/apps/${segment(app)}/users/${segment(user)}`;
  const one = (id) => `${root}/memories/${segment(id)}`;
  return {
    app, user, root,
    list: (body) => ask("POST", `${root}/memories/list`, { body }),
    count: (body) => ask("POST", `${root}/memories/count`, { body }).then(({ count: n }) => n),
    get: (id) => ask("GET", one(id)),
    history: (id) => ask("GET", `${one(id)}/history`),
    figures: () => ask("GET", `${root}/figures`),
    search: (body) => ask("POST", `${root}/memories/search`, { body: { explain: true, ...body } }),
    explain: (id, body) => ask("POST", `${one(id)}/explain`, { body }),
    preload: (body) => ask("POST", `${root}/memories/preload`, { body }),
    sessions: (query) => ask("GET", `${root}/sessions`, { query }),
    change: async (id, body) => {
      const now = await ask("PATCH", one(id), { body });
      versions.set(id, now.updated_at);
      return now;
    },
    archive: (id) => ask("POST", `${one(id)}/archive`),
    restore: (id) => ask("POST", `${one(id)}/restore`),
    release: (entry) => ask("POST", `${one(entry.id)}/release`, { body: { updated_at: entry.updated_at } }),
    remove: (entry) => ask("DELETE", one(entry.id), { query: { if_version: entry.updated_at } }),
    replace: (later, earlier) => ask("POST", `${root}/memories`, { body: { memories: [fieldsOf(later)], supersedes: earlier.id } }),
    duplicates: (query) => ask("GET", `${root}/duplicates`, { query }),
    propose: (query) => ask("POST", `${root}/forget`, { body: { query, k: 20 } }),
    removeSession: (id) => ask("DELETE", `${root}/sessions/${segment(id)}`),
    erase: () => ask("DELETE", `${root}/memories`, { query: { confirm: true, forget: true }, receipt: true }),
    download: () => ask("GET", `${root}/export`, { raw: true }),
  };
}

// ---------------------------------------------------------------- what was done, and undo

const toasts = document.getElementById("toasts");

const pending = new Map(); // what becomes final when the page is left, and what drops it
const versions = new Map(); // of memories that were changed here: their newest version

/**
 * Say what was done, about a memory; with `undo`, offer to undo it for a minute.
 * `end` makes it final: when the minute is over, or when the page or the message is closed.
 */
function tell(text, { undo = null, end = null, about = null } = {}) {
  const toast = make("div", { class: "toast" }, text, about === null ? null : [" ", make("q", {}, said(about))]);
  const gone = () => {
    clearTimeout(timer);
    pending.delete(close);
    toast.remove();
  };
  const close = () => {
    gone();
    return end?.().catch((error) => {
      if (error.status !== 404) tell(`This was not deleted; it is kept, and not found: ${explained(error)}`, { about });
    });
  };
  const timer = setTimeout(close, undo ? UNDO_MS : 8_000);
  if (undo) {
    if (end) pending.set(close, gone);
    toast.append(button("Undo", async () => {
      clearTimeout(timer); // nothing becomes final while it is undone
      await undo();
      gone();
      tell("It is undone.");
      await show();
    }, "", about === null ? text : `${text} ${shown(about)}`));
  }
  toast.append(make("button", { type: "button", "aria-label": "Close this message", click: close }, "✕"));
  const others = [...toasts.children].filter((each) => !each.querySelector("[aria-label^=Undo]"));
  if (others.length > 2) others[0].remove();
  toasts.append(toast);
}

addEventListener("pagehide", () => [...pending.keys()].forEach((close) => close()));

/** The fields by which a memory replaces another one. */
const KEPT = ["id", "content", "author", "timestamp", "session_id", "event_id", "kind", "source", "trust",
  "custom_metadata", "importance", "valid_until", "supersedes"];
const fieldsOf = (entry) =>
  Object.fromEntries(KEPT.filter((name) => entry[name] !== undefined).map((name) => [name, entry[name]]));

/** Ask in a dialog; resolves to the form's values, or to null. It stays open where `run` of them fails. */
function dialog(title, fields, submit, { kind = "main", run = () => null } = {}) {
  return new Promise((resolve) => {
    const problem = make("p", { role: "alert" });
    const send = make("button", { class: kind }, submit);
    const box = make("dialog", { "aria-labelledby": "dialog-title" },
      make("form", { method: "dialog", submit: async (event) => {
        event.preventDefault();
        if (send.disabled) return;
        send.disabled = true;
        const values = new FormData(event.target);
        try {
          await run(values);
        } catch (error) {
          problem.className = "problem";
          problem.textContent = explained(error);
          return;
        } finally {
          send.disabled = false;
        }
        resolve(values);
        box.close();
      } },
      make("h2", { id: "dialog-title" }, title), fields, problem,
      make("div", { class: "buttons" }, send,
        make("button", { type: "button", click: () => box.close() }, "Cancel"))));
    box.addEventListener("close", () => {
      box.remove();
      resolve(null);
    });
    document.body.append(box);
    box.showModal();
  });
}

async function confirmed(title, text, submit, word = null) {
  const fields = [make("p", {}, text)];
  if (word !== null) {
    fields.push(make("label", {}, make("span", {}, "To confirm, write ", make("b", {}, said(word))),
      make("input", { name: "word", autocomplete: "off", required: true })));
  }
  const values = await dialog(title, fields, submit, { kind: "danger" });
  if (values === null) return false;
  if (word === null || values.get("word") === word) return true;
  tell("The name differs; nothing was done.");
  return false;
}

// ---------------------------------------------------------------- one memory

const CHIPS = [
  ["kind", "Kind"], ["author", "By"], ["source", "Source"], ["trust", "Trust"],
];

function chips(whose, entry, inSession = false) {
  const list = CHIPS.filter(([name]) => entry[name] !== undefined)
    .map(([name, label]) => make("li", {}, `${label} `, make("b", {}, said(entry[name]))));
  if (entry.confidence !== undefined) {
    list.unshift(make("li", {}, "Confidence ", make("b", {}, percent(entry.confidence))));
  }
  if (timeOf(entry)) list.push(make("li", {}, when(timeOf(entry))));
  if (entry.importance !== undefined) {
    list.push(make("li", {}, "Importance ", make("b", {}, entry.importance.toFixed(2))));
  }
  if (entry.valid_until !== undefined) {
    const over = entry.valid_until * 1000 < Date.now();
    list.push(make("li", {}, over ? "No longer valid since " : "Valid until ", when(entry.valid_until)));
  }
  if (entry.session_id !== undefined && !inSession) {
    list.push(make("li", {}, make("a", { href: address(whose, "session", entry.session_id) },
      "Session ", said(entry.session_id))));
  }
  if (entry.scope !== undefined && entry.scope !== "user") list.push(make("li", {}, `Scope ${entry.scope}`));
  return make("ul", { class: "chips", "aria-label": "About this memory" }, list);
}

/** A memory with what can be done with it. */
function card(whose, entry, given = {}) {
  const { state = "live", before = null, after = null, turn = null, extra = [] } = given;
  const about = shown(textOf(entry)).slice(0, 60);
  const box = make("li", { class: `card ${turn ?? ""}` });
  const gone = () => {
    if (given.whole) return go(address(whose, "memories"));
    const next = box.nextElementSibling ?? box.previousElementSibling;
    box.remove();
    const all = main.querySelector("[data-all]");
    if (all) all.replaceChildren(plural(all.dataset.all -= 1, "memory", "memories"));
    (next?.querySelector("button, a") ?? main.querySelector("h1"))?.focus();
    return null;
  };
  const buttons = [...extra];
  const own = entry.scope === undefined || entry.scope === "user";
  if (own && !given.plain) {
    const writes = !rights.read_only;
    if (writes && state === "live") {
      buttons.push(button("Correct", () => correct(whose, entry, (now) => (given.whole ? show() : box.replaceWith(card(whose, now, given)))), "", about));
      buttons.push(button("Archive", async () => {
        await whose.archive(entry.id);
        tell("Archived: it is kept, and no longer found.", { undo: () => whose.restore(entry.id), about });
        gone();
      }, "", about));
    }
    if (writes && state === "archived") {
      buttons.push(button("Restore", async () => {
        const { ids } = await whose.restore(entry.id);
        tell(ids.length > 1 ? `${plural(ids.length, "memory", "memories")} restored.` : "Restored: it is found again.",
          { undo: ids.length === 1 ? () => whose.archive(entry.id) : null, about });
        gone();
      }, "main", about));
    }
    if (writes && state === "quarantined") {
      buttons.push(button("Approve", async () => {
        await whose.release(entry);
        tell("Approved: it is found from now on.", { about });
        gone();
      }, "main", about));
      buttons.push(button("Reject", async () => {
        await remove(whose, [entry], "Rejected: it is deleted in a minute.", about);
        gone();
      }, "danger", about));
    }
    if (writes && state !== "quarantined") buttons.push(button("Delete", async () => {
      await remove(whose, [entry], "Deleted.", about);
      gone();
    }, "danger", about));
    if (!given.whole) buttons.push(make("a", { class: "button", href: address(whose, "memory", entry.id), "aria-label": `History: ${about}` }, "History"));
  }
  box.append(...[before, textBlock(textOf(entry)), chips(whose, entry, turn !== null), after].flat().filter(Boolean));
  if (buttons.length) box.append(make("div", { class: "buttons" }, buttons));
  return box;
}

/** A memory as it is stored: a search shows an importance that it derives. */
const stored = (whose, entry) => (entry.score === undefined ? entry : whose.get(entry.id));

const newest = async (whose, id) => (await whose.history(id)).revisions.filter(({ memory }) => memory.id === id).at(-1);

/** Archive memories, and delete them in a minute, so that Undo brings back all that belongs to them. */
async function remove(whose, entries, told, about = null) {
  const found = await Promise.all(entries.map(({ id }) => newest(whose, id)));
  if (found.some(({ memory }, at) => memory.updated_at !== entries[at].updated_at)) throw new Problem(409, "conflict");
  const live = found.filter(({ state }) => state === "live").map(({ memory }) => memory.id);
  for (const id of live) await whose.archive(id);
  const last = await Promise.all(entries.map(({ id }) => newest(whose, id)));
  tell(told, {
    about,
    undo: () => Promise.all(live.map((id) => whose.restore(id))),
    end: () => Promise.all(last.map(({ memory }) => whose.remove(memory))),
  });
}

const localTime = (seconds) => {
  if (seconds === undefined) return "";
  const date = new Date(seconds * 1000);
  return new Date(date - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};

async function correct(whose, found, done) {
  const entry = { ...await stored(whose, found), updated_at: found.updated_at };
  await dialog("Correct this memory", [
    field("Text", "content", { required: true, dir: "auto", rows: 5 }, "textarea", textOf(entry)),
    make("div", { class: "pair" },
      field("Kind", "kind", { value: entry.kind ?? "" }),
      field("By", "author", { value: entry.author ?? "" }),
      field("Importance, 0 to 1", "importance", { value: entry.importance ?? "", type: "number", min: 0, max: 1, step: "any" }),
      field("Valid until", "valid_until", { value: localTime(entry.valid_until), type: "datetime-local" })),
  ], "Save", { run: (values) => save(values) });

  async function save(values) {
    const change = {};
    const before = {};
    const put = (name, value, old) => {
      if (value === (old ?? null)) return;
      change[name] = value;
      before[name] = old ?? null;
    };
    if (values.get("content") !== textOf(entry).replaceAll(/\r\n?/g, "\n")) put("content", values.get("content").replaceAll("\r\n", "\n"), entry.content);
    put("kind", values.get("kind") || null, entry.kind);
    put("author", values.get("author") || null, entry.author);
    put("importance", values.get("importance") === "" ? null : Number(values.get("importance")), entry.importance);
    if (values.get("valid_until") !== localTime(entry.valid_until)) {
      const until = values.get("valid_until");
      put("valid_until", until === "" ? null : new Date(until).getTime() / 1000, entry.valid_until);
    }
    if (!Object.keys(change).length) return;
    const now = await whose.change(entry.id, { ...change, if_version: entry.updated_at });
    tell("Corrected. Its history keeps the former text.", {
      undo: () => whose.change(entry.id, { ...before, if_version: versions.get(entry.id) }),
      about: shown(textOf(now)).slice(0, 60),
    });
    done(now);
  }
}

const PARTS = [["words", "Words"], ["vectors", "Meaning"], ["neighbours", "Neighbours"], ["session", "Same session"]];

/** The parts of a score, as a bar whose whole width is the best score. */
function scoreBar(entry, best) {
  const parts = entry.explanation;
  if (!parts) return null;
  const factor = parts.factor ?? 1;
  const known = PARTS.map(([name, label], at) => [label, (parts[name] ?? 0) * factor, at + 1]).filter(([, value]) => value > 0);
  const words = known.map(([label, value]) => `${label} ${value.toFixed(2)}`).join(", ");
  const bar = make("svg", { class: "score", viewBox: "0 0 1000 12", preserveAspectRatio: "none", role: "img", "aria-label": `Score ${entry.score.toFixed(2)}: ${words}` });
  let left = 0;
  for (const [, value, at] of known) {
    const width = best > 0 ? 1000 * value / best : 0;
    bar.append(make("rect", { x: left, y: 0, width, height: 12, class: `p${at}` }));
    left += width;
  }
  return [bar, make("ul", { class: "legend", "aria-hidden": "true" },
    make("li", {}, `Score ${entry.score.toFixed(2)}`),
    known.map(([label, value, at]) => make("li", {}, make("svg", { viewBox: "0 0 10 10" },
      make("rect", { width: 10, height: 10, class: `p${at}` })), `${label} ${value.toFixed(2)}`)))];
}

/** Bars of counts; each is a pair of a label and a number. */
function chart(title, bars) {
  if (bars.length < 2) return null;
  const most = Math.max(...bars.map(([, value]) => value), 1);
  const step = 1000 / bars.length;
  const drawn = make("svg", { class: "chart", viewBox: "0 0 1000 84", preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${bars.map(([label, value]) => `${label} ${value}`).slice(-60).join(", ")}` },
    bars.map(([, value], at) => {
      const height = value ? Math.max(2, 80 * value / most) : 0;
      return make("rect", { x: at * step + step * 0.1, y: 84 - height, width: step * 0.8, height });
    }));
  return make("figure", {}, make("figcaption", {}, title), drawn,
    make("figcaption", {}, `${bars[0][0]} to ${bars.at(-1)[0]}; at most ${count(most)} in one bar`));
}

const DAY = 86_400;

/** Bars of a number a day; of more days than fit, a number of several days. */
function byDay(title, days) {
  const known = Object.keys(days).map(Number).sort((a, b) => a - b);
  if (!known.length) return null;
  const last = known.at(-1);
  const first = Math.min(known[0], last - 29);
  const each = Math.max(1, Math.ceil((last - first + 1) / 90));
  const bars = [];
  for (let day = first; day <= last; day += each) {
    let sum = 0;
    for (let one = day; one < day + each; one += 1) sum += days[one] ?? 0;
    bars.push([new Date(day * DAY * 1000).toLocaleDateString([], { dateStyle: "medium", timeZone: "UTC" }), sum]);
  }
  return chart(each === 1 ? `${title} by day` : `${title} by ${each} days`, bars);
}

// ---------------------------------------------------------------- views

const address = (whose, ...rest) => {
  try {
    return `#/${[whose.app, whose.user, ...rest].filter((each) => each !== undefined).map(encodeURIComponent).join("/")}`;
  } catch {
    return "#/";
  }
};

const heading = (...words) => make("h1", { tabindex: "-1" }, words);
const empty = (text) => make("p", { class: "empty" }, text);

/** A list that grows by pages; `fetchPage` returns its items and the next cursor. */
async function pages(list, fetchPage, write, none) {
  const more = make("p", {});
  const load = async (cursor) => {
    const { items, next } = await fetchPage(cursor);
    const made = items.map(write).flat().filter(Boolean);
    list.append(...made);
    more.replaceChildren();
    if (next !== undefined) {
      more.append(button("Show more", async () => {
        const [first] = await load(next).catch((error) => {
          if (error.status !== 404) throw error;
          return show().then(() => []); // the last one of the page is gone
        });
        first?.querySelector?.("a, button")?.focus();
      }));
    }
    return made;
  };
  await load(undefined);
  const holder = list.closest("table") ?? list;
  return list.childElementCount ? [holder, more] : empty(none);
}

function table(names, caption) {
  const body = make("tbody", {});
  make("table", { "aria-label": caption }, make("thead", {}, make("tr", {},
    names.map(([label, kind]) => make("th", { scope: "col", class: kind }, label)))), body);
  return body;
}

const prefixForm = (label, prefix) =>
  lineForm(label, field("Name begins with", "prefix", { value: prefix, wide: true }), "Find",
    (values) => go(location.hash.replace(/\?.*/, "") || "#/", { prefix: values.get("prefix") }));

function go(hash, query = {}) {
  const known = Object.entries(query).filter(([, value]) => value);
  const target = hash + (known.length ? `?${new URLSearchParams(known)}` : "");
  if (location.hash === target) return show();
  location.hash = target;
  return null;
}

async function appsView(_, query) {
  const list = table([["App"], ["People", "n"], ["Memories", "n"], ["Size", "n late"], ["Last change", "late"]], "Apps");
  let only = null;
  let all = 0;
  const found = await pages(list, async (after) => {
    const { apps, next } = await ask("GET", "/apps", { query: { prefix: query.prefix, after } });
    all += apps.length;
    only = apps[0]?.app_name;
    return { items: apps, next };
  }, (app) => make("tr", {},
    make("td", {}, make("a", { href: `#/${encodeURIComponent(app.app_name)}` }, said(app.app_name))),
    make("td", { class: "n" }, count(app.users)), make("td", { class: "n" }, count(app.memories)),
    make("td", { class: "n late" }, size(app.text_bytes)), make("td", { class: "late" }, when(app.updated_at))),
  "There is no app with memories yet.");
  if (all === 1 && !query.prefix && !query.all) {
    history.replaceState(null, "", `#/${encodeURIComponent(only)}`);
    return show();
  }
  return [heading("Apps"), prefixForm("Find an app", query.prefix ?? ""), make("div", { class: "scroll" }, found)];
}

async function usersView([app], query) {
  const list = table([["Person"], ["Memories", "n"], ["Sessions", "n"], ["Size", "n late"], ["First", "late"], ["Last change", "late"]], "People");
  const found = await pages(list, async (after) => {
    const { users, next } = await ask("GET", `/apps/${segment(app)}/users`, { query: { prefix: query.prefix, after } });
    return { items: users, next };
  }, (user) => make("tr", {},
    make("td", {}, make("a", { href: address({ app, user: user.user_id }) }, said(user.user_id))),
    make("td", { class: "n" }, count(user.memories)), make("td", { class: "n" }, count(user.sessions)),
    make("td", { class: "n late" }, size(user.text_bytes)),
    make("td", { class: "late" }, when(user.created_at, { dateStyle: "medium" })), make("td", { class: "late" }, when(user.updated_at))),
  query.prefix ? "No name begins like this." : "This app has no memories.");
  return [heading("People of ", said(app)), prefixForm("Find a person", query.prefix ?? ""), make("div", { class: "scroll" }, found)];
}

const TABS = [
  ["memories", "Memories"], ["sessions", "Sessions"], ["search", "Search"], ["agent", "What the agent sees"],
  ["held", "Held"], ["archived", "Archived"], ["duplicates", "Duplicates"], ["person", "This person"],
];

function tabs(whose, current) {
  const hidden = new Set([...(rights.review ? [] : ["held"]), ...(rights.min_trust ? ["duplicates"] : [])]);
  return make("nav", { "aria-label": "Views of this person" }, make("ul", { class: "tabs" },
    TABS.filter(([name]) => !hidden.has(name)).map(([name, label]) => make("li", {},
      make("a", { href: address(whose, name), "aria-current": name === current ? "page" : null }, label)))));
}

async function userView([app, user, tab = "memories", argument], query) {
  const whose = userOf(app, user);
  const view = Object.hasOwn(USER_VIEWS, tab) ? USER_VIEWS[tab] : USER_VIEWS.memories;
  const content = await view(whose, query, argument);
  const named = { memory: "memories", session: "sessions" }[tab] ?? tab;
  return [tabs(whose, named), content];
}

function stateList(whose, state, filter, none) {
  return pages(make("ul", { class: "cards" }), async (cursor) => {
    const body = { state, cursor, ...(Object.keys(filter).length ? { filter } : {}) };
    const { memories, next } = await whose.list(body);
    return { items: memories, next };
  }, (entry) => card(whose, entry, { state }), none);
}

const USER_VIEWS = {
  async memories(whose, query) {
    const filter = Object.fromEntries(["kind", "author"].filter((name) => query[name]).map((name) => [name, query[name]]));
    const asked = Object.keys(filter).length ? { filter } : {};
    const [all, figures, list] = await Promise.all([
      whose.count(asked),
      whose.figures(),
      stateList(whose, "live", filter, query.kind || query.author ? "No memory is like this." : "There are no memories yet."),
    ]);
    return [heading("Memories of ", said(whose.user)), make("p", { class: "soft" }, make("span", { "data-all": all }, plural(all, "memory", "memories")), ", in the order in which they came"),
      byDay("Memories", figures.days), kindLinks(whose, figures.kinds, query),
      list];
  },

  async sessions(whose, query) {
    const list = table([["Session"], ["Memories", "n"], ["First", "late"], ["Last"]], "Sessions");
    const found = await pages(list, async (after) => {
      const { sessions, next } = await whose.sessions({ prefix: query.prefix, after });
      return { items: sessions, next };
    }, (session) => make("tr", {},
      make("td", {}, make("a", { href: address(whose, "session", session.session_id) }, said(session.session_id))),
      make("td", { class: "n" }, count(session.memories)),
      make("td", { class: "late" }, when(session.first_at)), make("td", {}, when(session.last_at))), "There are no sessions.");
    return [heading("Sessions of ", said(whose.user)), prefixForm("Find a session", query.prefix ?? ""), make("div", { class: "scroll" }, found)];
  },

  async session(whose, _, id) {
    let day = "";
    const list = await pages(make("ol", { class: "cards" }), async (cursor) => {
      const items = [];
      let next = cursor;
      do {
        const page = await whose.list({ filter: { session_id: id }, cursor: next });
        items.push(...page.memories);
        next = page.next;
      } while (next !== undefined && items.length < TURNS);
      return { items: items.sort((a, b) => timeOf(a) - timeOf(b)), next };
    }, (entry) => {
      const now = dayOf(timeOf(entry));
      const mark = now === day ? null : make("li", { class: "day" }, now);
      day = now;
      return [mark, card(whose, entry, { turn: entry.author === "user" ? "turn" : "turn other" })];
    }, "This session has no memories.");
    const removal = rights.read_only ? null : make("p", {}, button("Delete this session", async () => {
      if (!await confirmed("Delete this session?", "All its memories are deleted. This cannot be undone.", "Delete the session")) return;
      const { deleted } = await whose.removeSession(id);
      tell(`${plural(deleted, "memory", "memories")} deleted.`);
      go(address(whose, "sessions"));
    }, "danger"));
    return [heading("Session ", said(id)), list, removal];
  },

  async search(whose, query) {
    const form = lineForm("Search the memories", field("What do you look for?", "q", { value: query.q ?? "", wide: true, type: "search" }), "Search",
      (values) => go(address(whose, "search"), { q: values.get("q") }));
    if (!query.q) return [heading("Search"), form, empty("Write a question or some words. Each hit shows why it was found.")];
    const [found, other] = await Promise.all([
      whose.search({ query: query.q, k: 10 }),
      query.why ? whose.explain(query.why, { query: query.q, k: 10 }) : null,
    ]);
    const best = Math.max(0, ...found.memories.map((entry) => entry.score ?? 0));
    const why = lineForm("Why was another memory not found?", field("Why not another memory? Its id", "why", { value: query.why ?? "", wide: true }), "Explain",
      (values) => go(address(whose, "search"), { q: query.q, why: values.get("why") }));
    return [heading("Search"), form, other && explanation(whose, other),
      make("h2", {}, plural(found.memories.length, "hit")),
      found.memories.length ? make("ol", { class: "cards" }, found.memories.map((entry) =>
        card(whose, entry, { after: scoreBar(entry, best) }))) : empty("Nothing was found."), why];
  },

  async agent(whose, query) {
    const form = lineForm("See what an agent gets", field("A message of this person", "q", { value: query.q ?? "", wide: true }), "Show",
      (values) => go(address(whose, "agent"), { q: values.get("q") }));
    const intro = make("p", { class: "soft" }, "Before each turn an agent gets a block of memories. Write a message to see the block for it.");
    if (!query.q) return [heading("What the agent sees"), intro, form];
    const told = await whose.preload({ query: query.q });
    const group = (fate) => told.memories.filter((each) => each.fate === fate).map(({ memory }) => memory);
    const part = (title, text, entries) => entries.length ? [make("h2", {}, `${title} (${entries.length})`), text && make("p", { class: "soft" }, text),
      make("ul", { class: "cards" }, entries.map((entry) => card(whose, entry)))] : null;
    return [heading("What the agent sees"), intro, form,
      make("h2", {}, told.block ? `The block, about ${plural(told.tokens, "token")}` : "The block is empty"),
      told.block ? make("pre", { tabindex: "0", dir: "auto", "aria-label": "The block" }, shown(told.block)) : make("p", {}, "The agent gets no memories with this message."),
      part("In the block", null, group("shown")),
      part("Held back: not sure enough", told.floor === undefined ? null : `Their confidence is below ${percent(told.floor)}.`, group("unsure")),
      part("Left out: no room", "Better ones fill the block.", group("no_room"))];
  },

  async held(whose) {
    return [heading("Held for review"), make("p", { class: "soft" }, "A rule for writes has held these back. Nobody finds them until somebody approves them."),
      await stateList(whose, "quarantined", {}, "Nothing waits for a review.")];
  },

  async archived(whose) {
    return [heading("Archived"), make("p", { class: "soft" }, "These are kept, but not found. A newer memory may have taken their place."),
      await stateList(whose, "archived", {}, "Nothing is archived.")];
  },

  async duplicates(whose, query) {
    const form = lineForm("Find duplicates", field("How alike in meaning, 0.5 to 1; empty: the same words", "similarity", { value: query.similarity ?? "", type: "number", min: 0.5, max: 1, step: "any", wide: true }), "Find",
      (values) => go(address(whose, "duplicates"), { similarity: values.get("similarity") }));
    const { groups, conflicts = [] } = await whose.duplicates(query.similarity ? { similarity: Number(query.similarity) } : {});
    const shownGroups = await Promise.all(groups.slice(0, 20).map(async (group) =>
      [group, await Promise.all([group.kept, ...group.merged].slice(0, 6).map((id) => whose.get(id)))]));
    const none = query.similarity ? "No memories are that alike." : "No two memories say the same in the same words.";
    return [heading("Duplicates"), form, groups.length ? make("p", { class: "soft" }, plural(groups.length, "group"), groups.length > 20 ? ", of which 20 are shown" : "") : empty(none),
      shownGroups.map(([group, entries]) => duplicates(whose, group, entries)),
      conflicts.length ? [make("h2", {}, "May contradict each other"), conflicts.map((pair) => contradiction(whose, pair))] : null];
  },

  async person(whose) {
    return [heading("All about ", said(whose.user)), personView(whose)];
  },

  async memory(whose, _, id) {
    const past = await whose.history(id);
    const own = past.revisions.filter(({ memory }) => memory.id === id).at(-1);
    const state = own?.state ?? "live";
    const entry = state === "live" ? await whose.get(id) : own.memory; // what is not live is in the history alone
    const more = { used: plural(own?.uses ?? 0, "time"), expires_at: own?.expires_at };
    const details = Object.entries({ ...entry, ...more }).filter(([name, value]) => name !== "content" && value !== undefined).map(([name, value]) => [
      make("dt", {}, name.replaceAll("_", " ")),
      make("dd", {}, /_at$|timestamp|valid_until/.test(name) ? when(value)
        : typeof value === "object" ? make("code", { dir: "auto" }, shown(JSON.stringify(value))) : said(value))]);
    const WORDS = { overwritten: "Former text", live: "In use", archived: "Archived", quarantined: "Held" };
    const why = lineForm("Why is this memory found, or not?", field("Would a search find it? A question", "q", { wide: true }), "Explain",
      (values) => go(address(whose, "search"), { q: values.get("q"), why: id }));
    const by = own?.by && make("p", {}, "Replaced by ", make("a", { href: address(whose, "memory", own.by) }, said(own.by)));
    return [heading("Memory"), by, make("ul", { class: "cards" }, card(whose, entry, { state, whole: true })), why,
      make("h2", {}, "History"), make("ol", { class: "cards" }, past.revisions.map((each) => make("li", { class: "card" },
        make("p", { class: "soft small" }, make("b", {}, WORDS[each.state] ?? each.state),
          each.memory.id === id ? null : [" · ", make("a", { href: address(whose, "memory", each.memory.id) }, "another memory, which this one replaced")],
          each.at ? [" · until ", when(each.at)] : null, each.why ? [" · ", each.why === "edit" ? "corrected" : said(each.why)] : null),
        textBlock(textOf(each.memory))))),
      make("h2", {}, "All fields"), make("dl", { class: "card" }, details)];
  },
};

/** Links that show one kind of memories, or those of one author. */
function kindLinks(whose, kinds, query) {
  const link = (label, asked, number = null) => make("li", {}, make("a", {
    href: `${address(whose, "memories")}?${new URLSearchParams(asked)}`,
    "aria-current": (asked.kind ?? "") === (query.kind ?? "") && (asked.author ?? "") === (query.author ?? "") ? "true" : null,
  }, label), number === null ? null : ` ${count(number)}`);
  const known = Object.entries(kinds).slice(0, 12).map(([kind, number]) => link(said(kind), { kind }, number));
  return make("nav", { "aria-label": "Which memories" }, make("ul", { class: "chips" },
    link("All", {}), known, link("By the user", { author: "user" })));
}

const OUTCOMES = {
  found: "It was found.",
  outranked: "Others have a better score and take all places.",
  below_min_confidence: "It is not sure enough.",
  below_min_similarity: "Its meaning is too far from the question.",
  no_candidate: "It has nothing in common with the question, or too many others have more.",
  filtered: "A filter leaves it out.",
  expired: "Its time is over.",
  archived: "It is archived, and archived memories are not found.",
  quarantined: "It is held for review, and held memories are not found.",
};

function explanation(whose, told) {
  const best = Math.max(told.memory.score ?? 0, told.last?.score ?? 0);
  const place = told.rank === undefined ? "" : ` It is number ${count(told.rank)} of ${count(told.candidates)}.`;
  const margin = told.margin === undefined ? "" : ` ${told.margin < 0 ? "It misses" : "It leads"} by ${Math.abs(told.margin).toFixed(3)}.`;
  return make("section", { "aria-label": "Why this memory" }, make("h2", {}, "Why this memory?"),
    make("p", {}, make("b", {}, OUTCOMES[told.outcome] ?? told.outcome), place, margin,
      told.failed?.length ? ` The condition: ${told.failed.join(", ")}.` : ""),
    told.by && make("p", {}, "It was replaced by ", make("a", { href: address(whose, "memory", told.by) }, said(told.by))),
    make("ul", { class: "cards" }, card(whose, told.memory, { plain: true, after: scoreBar(told.memory, best) }),
      told.last && told.outcome === "outranked" ? card(whose, told.last, { plain: true,
        before: make("p", { class: "soft small" }, "The memory in the last place:"), after: scoreBar(told.last, best) }) : null));
}

function duplicates(whose, group, entries) {
  const box = make("section", { class: "card", "aria-label": "Memories that say the same" });
  const extra = (entry) => (rights.read_only ? [] : [keep(entry)]);
  const keep = (entry) => button(`Keep only this, archive ${count(group.merged.length)}`, async () => {
    const others = [group.kept, ...group.merged].filter((id) => id !== entry.id);
    for (const id of others) await whose.archive(id);
    tell(`Kept one, archived ${count(others.length)}.`, { undo: async () => {
      for (const id of others) await whose.restore(id);
    } });
    box.remove();
    main.querySelector("h1")?.focus();
  }, entry.id === group.kept ? "main" : "", shown(textOf(entry)).slice(0, 60));
  const alike = group.similarity === null ? "The same words" : `At least ${percent(group.similarity)} alike`;
  box.append(make("p", { class: "soft small" }, alike), make("ul", { class: "cards side" },
    entries.map((entry) => card(whose, entry, { plain: true, extra: extra(entry) }))),
  entries.length > group.merged.length ? "" : make("p", { class: "soft" }, `And ${count(group.merged.length + 1 - entries.length)} more.`));
  return box;
}

function contradiction(whose, { earlier, later, score }) {
  const box = make("section", { class: "card", "aria-label": "Memories that may contradict each other" });
  const replace = button("The later one replaces the earlier one", async () => {
    await whose.replace(later, earlier);
    tell("Replaced: only the later one is found.", { undo: () => whose.restore(earlier.id) });
    box.remove();
    main.querySelector("h1")?.focus();
  }, "main", shown(textOf(later)).slice(0, 60));
  const side = (label, entry) => card(whose, entry, { plain: true, before: make("p", { class: "soft small" }, label) });
  box.append(make("p", { class: "soft small" }, `${percent(score)} likely to be about the same`), make("ul", { class: "cards side" },
    side("Earlier", earlier), side("Later", later)), rights.read_only ? "" : make("div", { class: "buttons" }, replace));
  return box;
}

function save(name, type, ...pieces) {
  const url = URL.createObjectURL(new Blob(pieces, { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const fileName = (...words) => words.join("-").replaceAll(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 80);

function personView(whose) {
  const sections = rights.min_trust ? [empty("Your token opens only a part of this person's memories, so they cannot be exported here.")] : [make("section", { class: "card" }, make("h2", {}, "Export"),
    make("p", {}, "Saves all memories of this person as a file of JSON lines, which vecall import reads."),
    button("Export this person", async () => {
      const answer = await whose.download();
      save(`${fileName(whose.app, whose.user)}.jsonl`, "application/x-ndjson", await answer.blob());
      tell("The export was saved.");
    }, "main"))];
  if (rights.read_only) return sections;
  const proposal = make("div", {});
  sections.push(make("section", { class: "card" }, make("h2", {}, "Forget something"),
    lineForm("Forget something", field("What should be forgotten?", "q", { wide: true, required: true }), "Look for it", async (values) => {
      proposal.replaceChildren(forgetForm(whose, await whose.propose(values.get("q")), () => proposal.replaceChildren()));
    }), proposal));
  const receipt = make("div", { class: "receipt", "aria-live": "polite" });
  sections.push(make("section", { class: "card problem" }, make("h2", {}, "Erase this person"),
    make("p", {}, "Deletes all memories of this person, their name and their history. This cannot be undone. You get a receipt."),
    button("Erase this person", async () => {
      if (!await confirmed("Erase this person?", "All is deleted, for ever.", "Erase", whose.user)) return;
      for (const drop of [...pending.values()]) drop();
      toasts.replaceChildren(); // no Undo may bring something of theirs back
      const at = new Date();
      const { deleted, request } = await whose.erase();
      const told = { app: whose.app, user: whose.user, memories_deleted: deleted, name_and_tombstones_deleted: true, at: at.toISOString(), server: location.origin, request };
      receipt.replaceChildren(make("h3", {}, "Receipt"), make("dl", {}, Object.entries(told).map(([name, value]) =>
        [make("dt", {}, name.replaceAll("_", " ")), make("dd", {}, said(value))])),
      make("p", {}, "Backups and exports that exist still hold what they held. vecall purge clears the file's free space."),
      button("Save the receipt", () => save(`${fileName("erased", whose.app, at.toISOString())}.json`, "application/json", JSON.stringify(told, null, 2))));
    }, "danger"), receipt));
  return sections;
}

function forgetForm(whose, { memories }, done) {
  if (!memories.length) return empty("Nothing is about that.");
  return make("form", { "aria-label": "Memories to forget", submit: (event) => {
    event.preventDefault();
    busy(event.submitter, async () => {
      const ids = new FormData(event.target).getAll("id");
      if (!ids.length) return tell("Nothing is chosen.");
      await remove(whose, memories.filter(({ id }) => ids.includes(id)), `${plural(ids.length, "memory", "memories")} deleted.`);
      return done();
    });
  } }, make("ul", { class: "cards" }, memories.map((entry) => make("li", { class: "card" },
    make("label", { class: "check" }, make("input", { type: "checkbox", name: "id", value: entry.id, checked: true }), make("span", { dir: "auto" }, shown(textOf(entry)).slice(0, LONG))), chips(whose, entry)))),
  make("div", { class: "buttons" }, make("button", { class: "danger" }, "Delete what is chosen"),
    make("button", { type: "button", click: done }, "Cancel")));
}

// ---------------------------------------------------------------- the token, and the address

const STORED = `vecall token ${BASE}`;
const INVALID = "This token is not valid, or not any more.";

function forgetToken() {
  for (const storage of [sessionStorage, localStorage]) storage.removeItem(STORED);
  bearer = "";
}

function tokenView(problem) {
  return [heading("Open vecall"), problem && make("p", { class: "problem" }, problem),
    make("p", {}, "Give a token. vecall token create makes one; vecall ui opens this page with one."),
    lineForm("Open", field("Token", "token", { type: "password", required: true, wide: true, pattern: "\\s*[\\w.~\\-]+\\s*" }), "Open", async (values) => {
      bearer = values.get("token").trim();
      await begin();
    })];
}

function trail(parts) {
  const [app, user] = parts;
  const steps = [["#/?all=1", "Apps"]];
  if (app !== undefined) steps.push([`#/${encodeURIComponent(app)}`, said(app)]);
  if (user !== undefined) steps.push([address({ app, user }), said(user)]);
  document.getElementById("trail").replaceChildren(make("ol", {}, steps.map(([href, label], at) => make("li", {},
    make("a", { href, "aria-current": at === steps.length - 1 && parts.length < 3 ? "page" : null }, label)))));
}

/** Show what the address names. */
async function show() {
  views += 1;
  const view = views;
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  let parts;
  try {
    parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    parts = [];
  }
  let content;
  if (!bearer) content = tokenView();
  else {
    main.setAttribute("aria-busy", "true");
    try {
      const asked = Object.fromEntries(new URLSearchParams(query));
      content = await (parts.length === 0 ? appsView : parts.length === 1 ? usersView : userView)(parts, asked);
    } catch (error) {
      content = bearer
        ? [parts.length > 2 ? tabs({ app: parts[0], user: parts[1] }, parts[2]) : null, heading("This does not work"),
          make("p", { class: "problem", role: "alert" }, explained(error)), button("Try again", show)]
        : tokenView(INVALID);
    }
  }
  if (view !== views || content === undefined) return;
  main.removeAttribute("aria-busy");
  const sameView = main.dataset.path === path;
  const at = scrollY;
  main.replaceChildren(...[content].flat(Infinity).filter(Boolean));
  main.dataset.path = path;
  if (bearer) trail(parts);
  document.title = `${main.querySelector("h1")?.textContent ?? ""} – vecall`;
  if (sameView) scrollTo(0, at);
  else scrollTo(0, 0);
  if (views > 1) main.querySelector("h1")?.focus({ preventScroll: true });
}

async function begin() {
  try {
    rights = await ask("GET", "/token");
  } catch (error) {
    forgetToken();
    const refused = given?.[1] === "key" ? "This address opens once, and was used. Run vecall ui again." : INVALID;
    main.replaceChildren(...tokenView(error.status === 401 ? refused : explained(error)).filter(Boolean));
    return;
  }
  // The holder of a key may open further tabs; the key ends with `vecall ui`.
  (bearer.includes("~") ? localStorage : sessionStorage).setItem(STORED, bearer);
  document.getElementById("rights").replaceChildren(rights.read_only ? "Only looking" : "", rights.min_trust ? ` · trust from ${rights.min_trust}` : "");
  await show();
}

const GIVEN = /^#(token|key)=([\w.~-]+)$/;
const given = GIVEN.exec(location.hash);
bearer = given?.[2] ?? sessionStorage.getItem(STORED) ?? localStorage.getItem(STORED) ?? "";
if (given?.[1] === "key") bearer += `~${crypto.randomUUID()}`; // the key opens for its first holder alone
if (given) history.replaceState(null, "", `${location.pathname}#/`);
addEventListener("hashchange", () => {
  if (GIVEN.test(location.hash)) location.reload();
  else show();
});
if (bearer) begin();
else show();
